"""Tests for the parsing of event streams."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import BadResponse
from agentkit.llm.protocols.sse import EventStream

OBJECTS = st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=8), max_size=3), max_size=5)


def read(*pieces):
    """Return the objects in a stream that arrives in these pieces, and whether it was closed."""
    stream = EventStream()
    found = [found for piece in pieces for found in stream.feed(piece)]
    return [*found, *stream.flush()], stream.closed


@given(OBJECTS, st.data())
def test_objects_are_parsed_at_any_split(objects, data):
    """Objects are parsed correctly wherever the bytes are split and whatever line endings are used."""
    end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    events = (b"data: " + json.dumps(value, ensure_ascii=False).encode() + end * 2 for value in objects)
    written = b": hello" + end + b"".join(events) + b"data: [DONE]" + end
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=10)))
    pieces = [written[start:stop] for start, stop in zip([0, *cuts], [*cuts, None], strict=True)]
    assert read(*pieces) == (objects, True)


def test_objects_are_emitted_at_the_end_of_their_line():
    """An object is emitted before the empty line after it."""
    assert list(EventStream().feed(b'data: {"a": 1}\n')) == [{"a": 1}]


@pytest.mark.for_each(
    ("data", "objects"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b"data:\n\n", []),
        (b'data: {"a": "\xff"}\n\n', [{"a": "\ufffd"}]),
        (b'event: error\ndata: {"error": "Boom"}\n\n', [{"error": "Boom"}]),
        (b'event: error\ndata: {"message": "Boom"}\n\ndata: {}\n\n', [{"error": {"message": "Boom"}}, {}]),
        (b"event: error\ndata: Boom\n\n", [{"error": "Boom"}]),
        (b'event: message\ndata: {"a": 1}\n\n', [{"a": 1}]),
        (b'event: a_b\ndata: {"a": 1}\n\ndata: {}\n\n', [{"type": "a_b", "a": 1}, {}]),
        (b'event: a.b\ndata: {"type": "c"}\n\n', [{"type": "c"}]),
        (b" \n\n \n", []),
        (b"data: null\n\ndata: []\n\n", []),
        (b'data: [{"a": NaN}]\n\n', [{"a": None}]),
        (b"event: ping\ndata: ping\n\ndata: {}\n\n", [{}]),
        (b"error: Boom\n\n", [{"error": "Boom"}]),
        (b': hi\n{"error": "Boom"}\n\n', [{"error": "Boom"}]),
        (b'data: {"a":\n1}\n\n', [{"a": 1}]),
        (b'data: {}\n\n<html>\n"a"\n', [{}]),
    ],
)
def test_events_of_a_stream(data, objects):
    """Empty events are skipped, invalid bytes are replaced, and error events are marked as errors."""
    assert read(data)[0] == objects


@pytest.mark.parametrize("data", [b"<html>", b"Hello: you\n", b"data: {\n\n", b"data: [1]\n", b"data: 1e999999\n"])
def test_invalid_event_stream_raises_bad_response(data):
    """Data that is not an event stream of JSON objects raises BadResponse."""
    with pytest.raises(BadResponse):
        read(data)


def test_data_after_the_end_is_ignored():
    """Anything after [DONE] is ignored."""
    assert read(b"data: [DONE]\n\n<html>\ndata: {}\n\n") == ([], True)


def test_line_in_many_pieces_takes_linear_time():
    """A long line that arrives byte by byte is assembled in linear time."""
    line = b'data: "%b"\n' % (b"x" * 200_000)
    with pytest.raises(BadResponse, match="not a JSON object"):
        read(*(line[at : at + 1] for at in range(len(line))))


def test_object_may_span_very_many_lines():
    """An object in thousands of data lines is parsed at the end of its event."""
    lines = b"".join(b"data: 1,\n" for _ in range(5_000))
    assert read(b'data: {"a": [\n' + lines + b"data: 1]}\n\n")[0] == [{"a": [1] * 5_001}]


def test_errors_do_not_quote_secrets():
    """A quoted stream is redacted before it is truncated."""
    stream = EventStream(lambda text: text.replace("secret" * 30, "***"))
    with pytest.raises(BadResponse, match=r"\*\*\*") as caught:
        list(stream.feed(b"data: {" + b"secret" * 30 + b"\n\n"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("start", [b"foo: bar\n", b"foo\n\nx-request-id: 1\r\n\r\n", b"Foo-Bar:\n: comment\n"])
def test_unknown_fields_at_the_start_are_ignored(start):
    """Unknown fields of event streams are ignored, also before the first data."""
    stream = EventStream()
    assert [*stream.feed(start + b'data: {"a": 1}\n\n'), *stream.flush()] == [{"a": 1}]


def test_stream_of_unknown_fields_raises_bad_response():
    """A stream with only unknown fields raises an error that quotes its beginning."""
    stream = EventStream()
    with pytest.raises(BadResponse, match="Forbidden: by proxy"):
        list(stream.feed(b"Forbidden: by proxy\n")) + list(stream.flush())
