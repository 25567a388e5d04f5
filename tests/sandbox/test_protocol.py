"""Encoding and parsing of frames."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.sandbox import protocol

TEXTS = st.dictionaries(
    st.text(st.characters(codec="utf-8")).filter(str.isidentifier), st.text(st.characters(codec="utf-8"))
)


@given(TEXTS)
def test_frame_round_trip(texts):
    """An encoded frame decodes to the same strings."""
    assert protocol.split(protocol.encode(**texts)) == [texts]


@given(st.binary())
def test_anything_may_be_received(data):
    """Bytes that are not a frame are skipped without an error."""
    assert isinstance(protocol.split(data), list)


@given(st.binary(max_size=40))
def test_what_follows_a_frame_does_not_spoil_it(data):
    """A whole frame counts, whatever follows it."""
    assert protocol.split(protocol.encode(a="b") + data)[0] == {"a": "b"}


@pytest.mark.parametrize(
    "body", [b"\0\0\0\x05ab", b"\0\0\0\x01a", b"\xff\xff\xff\xff", b"\0", b"\0\0\0\x01a\0\0\0\x01b\0\0\0\x01c"]
)
def test_a_broken_frame_is_refused(body):
    """A truncated frame, or one with a name without text, is invalid."""
    with pytest.raises(ValueError, match="frame"):
        protocol.decode(body)
    assert protocol.split(len(body).to_bytes(4, "big") + body) == []


def received(data):
    """Return what is received from a pipe that contains this data."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as end:
        os.write(writing, data)
        os.close(writing)
        return protocol.receive(end.fileno())


def test_a_frame_is_received_whole():
    """Receiving a frame waits until it is complete."""
    assert received(protocol.encode(code="x" * 30_000)) == {"code": "x" * 30_000}


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0"])
def test_end_of_input_is_not_a_frame(data):
    """A side that closes says nothing more."""
    assert received(data) is None


def test_a_frame_without_end_is_refused():
    """A frame that claims to be huge is not waited for."""
    with pytest.raises(ValueError, match="too long"):
        received(b"\xff\xff\xff\xff")


def test_all_data_is_sent():
    """All data is sent, even when this takes several writes."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as end:
        protocol.send(writing, b"abc")
        os.close(writing)
        assert end.read() == b"abc"
