"""Tests for request retries: which responses are retried, and the wait between attempts."""

import time

import httpx2
import pytest

from agentkit.errors import RateLimited, Unreachable
from agentkit.llm.client import LLM
from agentkit.llm.http.retry import Retries
from agentkit.llm.protocols.error_mapping import error_from_body
from agentkit.llm.protocols.parsing import json_or_text
from agentkit.testing import FakeServer, fail


def refused(status, headers=None, text=""):
    """Return a response with an error status, and the error that it is mapped to."""
    response = httpx2.Response(status, headers=headers, text=text)
    return response, error_from_body(json_or_text(text), status=status)


@pytest.mark.for_each("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_temporary_errors_are_retried(status):
    """A request to a busy or failing server is retried up to the limit."""
    pauses = Retries(2)
    assert [pauses.after_error_response(*refused(status)) is None for _ in range(3)] == [False, False, True]


@pytest.mark.for_each("status", [300, 307, 400, 401, 403, 404, 413, 422])
def test_permanent_status_is_not_retried(status):
    """A refusal caused by the request or the account is not retried."""
    assert Retries(2).after_error_response(*refused(status)) is None


@pytest.mark.for_each(
    ("error", "is_tried_again"),
    [
        (httpx2.ConnectError, True),
        (httpx2.ConnectTimeout, True),
        (httpx2.ReadTimeout, True),
        (httpx2.ReadError, True),
        (httpx2.RemoteProtocolError, True),
        (httpx2.DecodingError, True),
        (httpx2.ProxyError, True),
        (httpx2.LocalProtocolError, False),
        (httpx2.UnsupportedProtocol, False),
        (ValueError, False),
    ],
)
def test_connection_errors_are_retried(error, is_tried_again):
    """Connection errors are retried, and errors in the request are not."""
    assert (Retries(1).after_error(error("no")) is not None) == is_tried_again


def test_pauses_double_up_to_eight_seconds():
    """Each pause is up to twice as long as the one before, and never longer than eight seconds."""
    pauses = Retries(7)
    seconds = [pauses.after_error(httpx2.ReadError("")) for _ in range(7)]
    for pause, longest in zip(seconds, [0.5, 1, 2, 4, 8, 8, 8], strict=True):
        assert longest * 0.75 <= pause <= longest


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After-Ms": "30", "Retry-After": "7"}, 0.03),
        ({"Retry-After": "120"}, 120.0),
        ({"Retry-After": "121"}, None),
        ({"Retry-After": "86400", "x-should-retry": "true"}, None),
        ({"x-should-retry": "false"}, None),
    ],
)
def test_retry_headers_are_respected(headers, seconds):
    """A server's retry headers are respected, and delays above two minutes are not waited for."""
    assert Retries(1).after_error_response(*refused(503, headers)) == seconds


@pytest.mark.parametrize("retry_after", ["0", "-3", "soon", "nan"])
def test_invalid_retry_after_uses_default_delay(retry_after):
    """An invalid Retry-After header falls back to the default delay."""
    assert 0.3 < Retries(1).after_error_response(*refused(429, {"Retry-After": retry_after})) <= 0.5


@pytest.mark.parametrize(("retry_after", "seconds"), [("8", 8.0), ("9", None), ("120", None)])
def test_retry_after_is_limited_with_a_fallback(retry_after, seconds):
    """A Retry-After above eight seconds is not waited for if another model is available."""
    assert Retries(1, has_fallback=True).after_error_response(*refused(429, {"Retry-After": retry_after})) == seconds


@pytest.mark.parametrize(
    ("error", "is_tried_again"),
    [
        (httpx2.ReadTimeout, False),
        (httpx2.ConnectTimeout, False),
        (httpx2.ConnectError, True),
        (httpx2.ReadError, True),
    ],
)
def test_fallback_reduces_retries(error, is_tried_again):
    """With a fallback, a lost connection is retried, and a timeout is not."""
    assert (Retries(1, has_fallback=True).after_error(error("gone")) is not None) is is_tried_again


def test_server_can_request_a_retry():
    """A response is retried if a header of the server requests it, except for an exhausted quota."""
    assert Retries(1).after_error_response(*refused(400, {"x-should-retry": "true"})) is not None
    spent = refused(429, {"x-should-retry": "true"}, '{"error": {"code": "insufficient_quota"}}')
    assert Retries(1).after_error_response(*spent) is None


def test_long_retry_after_is_raised(ask):
    """A long Retry-After is not waited for; the error contains the delay."""
    with FakeServer(fail(429, headers={"Retry-After": "3600"})) as server:
        started = time.monotonic()
        with pytest.raises(RateLimited) as caught:
            ask(LLM(base_url=server.base_url, model="m", max_retries=3))
        assert time.monotonic() - started < 20
        assert (caught.value.retry_after_seconds, len(server.requests)) == (3600, 1)


def test_max_retries_is_respected(ask):
    """`max_retries` is the number of retries after the first attempt."""
    with FakeServer(fail(500, headers={"Retry-After-Ms": "1"}), repeat=True) as server:
        with pytest.raises(Unreachable):
            ask(LLM(base_url=server.base_url, model="m", max_retries=3))
        assert len(server.requests) == 4
