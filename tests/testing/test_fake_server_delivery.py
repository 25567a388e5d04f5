"""Tests for the bytes that a fake server sends for a reply."""

import json

import pytest

from agentkit.testing import RecordedRequest, cut, drop, fail, filtered, raw, slow
from agentkit.testing.fake_responses import to_reply
from agentkit.testing.fake_server import deliver, request_error

_CHAT, _RESPONSES = "/v1/chat/completions", "/v1/responses"

both_protocols = pytest.mark.parametrize("path", [_CHAT, _RESPONSES])


def _request(path=_CHAT, **body):
    return RecordedRequest("POST", path, json={"model": "gpt", **body})


def _deliver(line, request, number=1):
    return deliver(to_reply(line), request, number)


def _body(delivery):
    return b"".join(delivery.chunks[1:])


def test_json_answer_has_a_length():
    """A complete answer has a content length, and its connection can be reused."""
    delivery = _deliver("Hi", _request(), 3)
    head = delivery.chunks[0].decode()
    assert head.startswith("HTTP/1.1 200 OK\r\nX-Request-Id: req_3\r\nContent-Type: application/json\r\n")
    assert head.endswith(f"Content-Length: {len(_body(delivery))}\r\n\r\n")
    assert json.loads(_body(delivery))["object"] == "chat.completion"
    assert delivery.is_complete


def test_chat_stream_ends_with_done():
    """A Chat Completions stream is sent in chunks, has no event names and ends with [DONE]."""
    head, *chunks = _deliver("Hi", _request(stream=True)).chunks
    assert b"Transfer-Encoding: chunked" in head
    assert b"text/event-stream" in head
    assert chunks[0].partition(b"\r\n")[2].startswith(b"data: {")
    assert chunks[-2:] == [b"e\r\ndata: [DONE]\n\n\r\n", b"0\r\n\r\n"]


def test_responses_stream_names_its_events():
    """A Responses stream names each event and ends with the last of them."""
    _, *chunks, end = _deliver("Hi", _request(_RESPONSES, stream=True)).chunks
    lines = [chunk.split(b"\r\n")[1].split(b"\n") for chunk in chunks]
    assert [line[0] for line in lines[:2]] == [b"event: response.created", b"event: response.in_progress"]
    assert lines[-1][0] == b"event: response.completed"
    assert all(json.loads(data[6:])["type"] == name[7:].decode() for name, data, *_ in lines)
    assert end == b"0\r\n\r\n"


@both_protocols
@pytest.mark.parametrize(("after", "expected"), [(0, 0), (1, 1), (2, 2), (None, 3), (9, 3)])
def test_stream_is_truncated_after_some_deltas(path, after, expected):
    """A truncated stream has the requested number of deltas, no end marker, and valid framing."""
    delivery = _deliver(cut("one two three", after=after), _request(path, stream=True))
    body = _body(delivery)
    assert sum(body.count(word) for word in (b"one ", b"two ", b"three")) == expected
    assert b"[DONE]" not in body
    assert b"completed" not in body
    assert b'"finish_reason":"stop"' not in body
    assert body.endswith(b"0\r\n\r\n")
    assert delivery.is_complete


@both_protocols
def test_stream_without_deltas_is_cut_after_its_first_event(path):
    """A stream without deltas is truncated after its first event."""
    assert len(_deliver(cut(filtered()), _request(path, stream=True)).chunks) == 3


@both_protocols
def test_cut_answer_is_incomplete_json(path):
    """A cut answer that is not streamed is incomplete JSON with a matching content length."""
    delivery = _deliver(cut("Hi"), _request(path))
    assert f"Content-Length: {len(_body(delivery))}".encode() in delivery.chunks[0]
    assert _body(delivery).startswith(b'{"id":')
    with pytest.raises(ValueError, match=r"delimiter|Expecting|Unterminated"):
        json.loads(_body(delivery))
    assert _body(_deliver(cut("Hi", after=0), _request(path))) == b""


@both_protocols
def test_dropped_stream_has_no_end(path):
    """A dropped stream stops in the middle, and its connection cannot be used again."""
    delivery = _deliver(drop("one two", after=1), _request(path, stream=True))
    assert b"one " in delivery.chunks[-1]
    assert not delivery.is_complete


def test_dropped_json_answer_is_incomplete():
    """A dropped answer states its whole length and has half of its bytes."""
    complete, dropped = _deliver("Hi", _request()), _deliver(drop("Hi"), _request())
    assert dropped.chunks == complete.chunks[:2]
    assert not dropped.is_complete


def test_silent_drop_sends_nothing():
    """`drop()` sends nothing, not even a status line."""
    delivery = _deliver(slow(drop(), before_seconds=2), _request())
    assert (delivery.chunks, delivery.delay_seconds, delivery.is_complete) == ((), 2, False)


@both_protocols
def test_raw_bytes_are_sent_in_any_protocol(path):
    """Raw bytes are sent unchanged, whatever was requested."""
    pieces = _deliver(raw(b"data: {}\r\n\r\n", b"", ": comment\n"), _request(path)).chunks
    assert pieces[1:] == (b"c\r\ndata: {}\r\n\r\n\r\n", b"a\r\n: comment\n\r\n", b"0\r\n\r\n")
    head, body = _deliver(raw("<html>", content_type="text/html", status=299), _request(path)).chunks
    assert head.startswith(b"HTTP/1.1 299 \r\n")
    assert (b"Content-Length: 6" in head, body) == (True, b"<html>")


def test_delays_are_part_of_a_delivery():
    """The delay is part of a delivery."""
    delivery = _deliver(slow("Hi", before_seconds=1, between_seconds=2), _request())
    assert (delivery.delay_seconds, delivery.pause_seconds) == (1, 2)


def test_headers_of_an_error_are_sent():
    """The headers of an error are sent."""
    head, _ = _deliver(fail(429, headers={"Retry-After": "7"}), _request()).chunks
    assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert b"\r\nRetry-After: 7\r\n" in head


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (RecordedRequest("GET", _CHAT), 404),
        (RecordedRequest("POST", "/v1/models", json={}), 404),
        (RecordedRequest("POST", _CHAT), 400),
        (RecordedRequest("POST", _RESPONSES, json=[]), 400),
    ],
)
def test_invalid_request_returns_an_error_status(request_, status):
    """An unknown method or path returns status 404, and a body that is not a JSON object 400."""
    assert request_error(request_).content.status == status


@pytest.mark.parametrize(
    "path", [_CHAT, _RESPONSES, "/chat/completions", "/openai/deployments/m/chat/completions", "/openai/v1/responses"]
)
def test_base_paths_are_ignored(path):
    """A model request is recognised by the end of its path."""
    assert request_error(_request(path)) is None
