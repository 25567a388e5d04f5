"""Tests for searches with a SearXNG server."""

import json

import pytest

from agentkit.errors import ConfigError
from agentkit.tools.web.connection import WebFailure
from agentkit.tools.web.search import Searxng


def found(count):
    """Return the rows of a response, one of which has no valid URL."""
    rows = [{"title": f"T{n}", "url": f"https://example.com/{n}", "content": f"S{n}"} for n in range(count)]
    return [{"title": "bad", "url": "javascript:x"}, *rows]


def test_results_are_parsed(serve, answered):
    """The title, URL and snippet of each result are read from JSON, and other URL schemes are skipped."""
    server = serve(answered(json.dumps({"results": found(5)}).encode()))
    results = Searxng(f"{server.url}/searx/").search("a b&c", 2)
    assert results[0] == {"title": "T0", "url": "https://example.com/0", "snippet": "S0"}
    assert len(results) == 2
    assert server.requests[0].startswith("GET /searx/search?q=a+b%26c&format=json ")


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b'{"results": []}', b"200 OK", []),
        (b'{"results": [], "unresponsive_engines": [["google", "CAPTCHA"]]}', b"200 OK", "blocked"),
        (b"<html>", b"200 OK", "failed"),
        (b"[]", b"200 OK", "failed"),
        (b'{"results": [1]}', b"200 OK", "failed"),
        (b"[" * 100_000, b"200 OK", "failed"),
        (b"", b"403 Forbidden", "blocked"),
        (b"", b"429 Slow down", "rate_limited"),
        (b"", b"500 Oops", "failed"),
    ],
)
def test_failure_is_distinguished_from_no_results(body, status, expected, serve, answered):
    """An empty list means that nothing was found, and other outcomes return a failure."""
    outcome = Searxng(serve(answered(body, status)).url).search("x", 5)
    assert (outcome.status if isinstance(outcome, WebFailure) else outcome) == expected


def test_unreachable_server_is_a_failure(serve):
    """A server that does not answer is a failure."""
    server = serve(b"")
    server.close()
    assert Searxng(server.url).search("x", 5).status == "failed"


@pytest.mark.parametrize("url", ["", "localhost:8888", "ftp://localhost/", "http://a b/"])
def test_invalid_url_is_rejected(url):
    """An invalid URL raises an error when the client is created."""
    with pytest.raises(ConfigError, match="searxng="):
        Searxng(url)


def test_ipv6_address_is_accepted():
    """The URL of the server may contain an IPv6 address."""
    assert isinstance(Searxng("http://[::1]:1/").search("x", 5), WebFailure)
