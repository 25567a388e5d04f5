"""Tests for the parsing of HTTP requests, and for error replies in OpenAI's format."""

import asyncio
import json

import pytest

from agentkit.server.http_types import HTTPError, HTTPRequest, json_bytes, json_response


def document(*pieces, content_type="application/json", max_bytes=100):
    """Return the document parsed from the chunks of a body."""

    async def come():
        for piece in pieces:
            yield piece

    return asyncio.run(HTTPRequest(come(), content_type).document(max_bytes))


def test_body_is_parsed_as_a_json_object():
    """A body is parsed as JSON from any number of chunks, with or without a charset."""
    assert document(b'{"a":', b" 1}") == {"a": 1}
    assert document(b"{}", content_type="Application/JSON; charset=utf-8") == {}


@pytest.mark.for_each(
    ("body", "content_type", "status"),
    [
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b"[1]", "application/json", 400),
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b'{"a": NaN}', "application/json", 400),
        (b'{"a": [-Infinity]}', "application/json", 400),
        (b'{"a": ' + b"9" * 5_000 + b"}", "application/json", 400),
        (b'{"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"{" + b" " * 200_000 + b"}", "application/json", 413),
    ],
)
def test_invalid_body_is_rejected(body, content_type, status):
    """An unsupported type, invalid or deeply nested JSON and a long body are rejected with a status."""
    with pytest.raises(HTTPError) as refused:
        document(body, content_type=content_type, max_bytes=150_000)
    assert refused.value.status == status


def test_slow_body_is_rejected():
    """A body that is sent too slowly is rejected."""

    async def come():
        await asyncio.Event().wait()
        yield b"{}"

    with pytest.raises(HTTPError, match=r"within 0\.01 seconds") as refused:
        asyncio.run(HTTPRequest(come(), "application/json").document(seconds=0.01))
    assert refused.value.status == 408


def test_refusal_is_an_openai_error():
    """An error reply has message, type, param and code, and tells the client not to retry."""
    reply = HTTPError(400, "No.", code="invalid_value", parameter="n").reply
    error = {"message": "No.", "type": "invalid_request_error", "param": "n", "code": "invalid_value"}
    assert json.loads(reply.body) == {"error": error}
    assert reply.headers["x-should-retry"] == "false"


def test_retryable_error_has_no_should_retry_header():
    """A 429 error has a `retry-after` header and no `x-should-retry` header."""
    reply = HTTPError(429, "Wait.", code="too_many_runs", headers={"retry-after": "1"}).reply
    assert "x-should-retry" not in reply.headers
    assert reply.headers["retry-after"] == "1"
    assert json.loads(reply.body)["error"]["type"] == "rate_limit_error"
    assert HTTPError(503, "No.", code="x").document["error"]["type"] == "server_error"


def test_replies_are_not_stored():
    """Replies have `cache-control: no-store`, and lone surrogates are replaced in JSON."""
    assert json_response({}).headers == {"cache-control": "no-store"}
    assert json_bytes({"a": "\ud800é"}) == '{"a":"?é"}'.encode()
