"""Tests for the encoding and parsing of frames."""

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
def test_data_after_a_frame_is_ignored(data):
    """A complete frame is valid, whatever follows it."""
    assert protocol.split(protocol.encode(a="b") + data)[0] == {"a": "b"}


@pytest.mark.parametrize(
    "body", [b"\0\0\0\x05ab", b"\0\0\0\x01a", b"\xff\xff\xff\xff", b"\0", b"\0\0\0\x01a\0\0\0\x01b\0\0\0\x01c"]
)
def test_invalid_frame_is_rejected(body):
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


def test_frame_is_received_whole():
    """Receiving a frame waits until it is complete."""
    assert received(protocol.encode(code="x" * 30_000)) == {"code": "x" * 30_000}


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0"])
def test_end_of_input_returns_no_frame(data):
    """A closed pipe returns no frame."""
    assert received(data) is None


def test_oversized_frame_is_rejected():
    """A frame with a huge length is rejected without waiting for it."""
    with pytest.raises(ValueError, match="too long"):
        received(b"\xff\xff\xff\xff")


def test_all_data_is_sent():
    """All data is sent, even when this takes several writes."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as end:
        protocol.send(writing, b"abc")
        os.close(writing)
        assert end.read() == b"abc"
