"""Tests for the requests parsed by the fake server."""

import io

import pytest

from agentkit.testing import RecordedRequest
from agentkit.testing.fake_responses import read_request


def _read(data):
    return read_request(io.BytesIO(data))


def test_request_is_recorded_in_full():
    """Method, path, query, headers and JSON body are recorded, header names in lower case."""
    body = b'{"model": "gpt"}'
    request = _read(b"POST /v1/a%20b?x=1&y= HTTP/1.1\r\nAPI-Key: secret\r\nContent-Length: 16\r\n\r\n" + body + b"GET")
    assert (request.method, request.path, request.query) == ("POST", "/v1/a b", {"x": "1", "y": ""})
    assert request.headers == {"api-key": "secret", "content-length": "16"}
    assert (request.body, request.json, request.model) == (body, {"model": "gpt"}, "gpt")
    assert request.keeps_alive


def test_repr_contains_no_key():
    """The repr of a request does not contain its key."""
    assert "secret" not in repr(_read(b"POST / HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n"))


@pytest.mark.parametrize("data", [b"", b"\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{}"])
def test_incomplete_request_is_not_recorded(data):
    """A connection that closes before or within a request is not recorded."""
    assert _read(data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\n",
        b"hello\r\n\r\n",
        b"GET / SPDY/3\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    ],
)
def test_invalid_http_request_is_rejected(data):
    """Another protocol or an invalid content length raises an error."""
    with pytest.raises(ValueError, match=r"Not an HTTP/1\.1 request|Content-Length"):
        _read(data)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"model=gpt"])
def test_non_json_body_is_recorded_as_bytes(body):
    """A body that is not JSON is recorded as bytes only."""
    request = _read(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    assert (request.body, request.json, request.model) == (body, None, "")


@pytest.mark.parametrize(
    ("start", "header", "keeps"),
    [("HTTP/1.1", "", True), ("HTTP/1.1", "Connection: Close\r\n", False), ("HTTP/1.0", "", False)],
)
def test_connection_is_kept_alive(start, header, keeps):
    """A connection stays open unless the client requests closing it or uses HTTP/1.0."""
    assert _read(f"GET / {start}\r\n{header}\r\n".encode()).keeps_alive is keeps


@pytest.mark.parametrize(
    ("path", "json", "model", "is_azure"),
    [
        ("/v1/chat/completions", {"model": "gpt"}, "gpt", False),
        ("/openai/deployments/mini/chat/completions", {}, "mini", True),
        ("/openai/deployments/mini/chat/completions", {"model": "gpt"}, "gpt", True),
        ("/openai/v1/responses", {"model": "gpt"}, "gpt", False),
        ("/v1/responses", [], "", False),
    ],
)
def test_model_of_a_request(path, json, model, is_azure):
    """The model is that of the body, or else the deployment in an Azure path."""
    request = RecordedRequest("POST", path, json=json)
    assert (request.model, request.is_azure) == (model, is_azure)


@pytest.mark.parametrize(
    ("json", "shown"),
    [
        ({"messages": [{"content": "a"}, {"content": "đ"}]}, '{"content": "đ"}'),
        ({"input": "Hi"}, '"Hi"'),
        ({}, '""'),
        (None, '""'),
    ],
)
def test_question_shows_the_last_message(json, shown):
    """The question of a request contains its path and last message."""
    assert RecordedRequest("POST", "/x", json=json).question == f"POST /x {shown}"
