"""Tests for searches with DuckDuckGo: results, refusals, rate limits, and failures."""

import socket
import threading
from contextlib import closing, suppress

import pytest

from agentkit.tools.web.connection import WebFailure
from agentkit.tools.web.search import search_duckduckgo

BROKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx"
RESULT = """<div class="result results_links"><div class="links_main body"><h2 class="result__title">
<a class="result__a" href="{url}">Title {n}</a></h2><a class="result__snippet" href="{url}">Snippet <b>{n}</b></a>
</div></div>"""


def results(*urls):
    """Return a page of results in the format of the service."""
    rows = "".join(RESULT.format(url=url, n=n) for n, url in enumerate(urls, 1))
    return f"<html><body><div id='links' class='results'>{rows}</div></body></html>".encode()


def pump(source, target):
    """Copy bytes from one socket to another until either ends."""
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def tunnel():
    """Return a function that starts a proxy which connects every CONNECT to one local port, and returns its URL."""
    listeners = []

    def carry(client, port):
        with closing(client), suppress(OSError), socket.create_connection(("127.0.0.1", port)) as server:
            client.recv(65_536)
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=pump, args=[server, client], daemon=True)
            back.start()
            pump(client, server)
            back.join(10)

    def accept(listener, port):
        with suppress(OSError):
            while True:
                threading.Thread(target=carry, args=[listener.accept()[0], port], daemon=True).start()

    def start(port):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=accept, args=[listener, port], daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()


@pytest.fixture
def search(serve, answered, certified, tunnel, authority, tmp_path):
    """Return a function that searches with a local server in place of DuckDuckGo."""
    ca_file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(ca_file)

    def run(body, status=b"200 OK", max_results=8):
        reply = body if body == BROKEN else answered(body, status, content_type=b"text/html")
        run.server = serve(reply, certified("html.duckduckgo.com"))
        return search_duckduckgo("what is it", max_results, proxy=tunnel(run.server.port), ca_file=str(ca_file))

    return run


def test_results_are_parsed(search):
    """The title, URL and snippet of each result are read, and other URL schemes are skipped."""
    rows = search(results("https://example.com/1", "javascript:x", "https://example.com/3"), max_results=2)
    assert rows == [
        {"title": "Title 1", "url": "https://example.com/1", "snippet": "Snippet 1"},
        {"title": "Title 3", "url": "https://example.com/3", "snippet": "Snippet 3"},
    ]
    assert "what+is+it" in search.server.requests[0]


@pytest.mark.parametrize("body", [results(), b"<html><div class='no-results'>No results.</div></html>"])
def test_no_results_are_an_empty_list(body, search):
    """A page without results returns an empty list."""
    assert search(body) == []


@pytest.mark.parametrize(
    "body", [b" ", b"plain", b"<div id='links'><article><a href='https://example.com/'>New markup</a></article></div>"]
)
def test_unparsable_page_is_a_failure(body, search):
    """A page whose results cannot be parsed is a failure, and not an empty list."""
    failure = search(body)
    assert (failure.status, "cannot be read" in failure.error) == ("failed", True)


@pytest.mark.parametrize(
    ("body", "answer", "status"),
    [
        (b"", b"202 Accepted", "blocked"),
        (results("https://example.com/"), b"202 Accepted", "blocked"),
        (b"<form id='challenge-form' class='anomaly-modal'>", b"200 OK", "blocked"),
        (b"", b"403 Forbidden", "blocked"),
        (b"", b"418 Teapot", "blocked"),
        (b"", b"429 Too Many Requests", "rate_limited"),
        (b"", b"500 Oops", "failed"),
    ],
)
def test_refused_search_is_not_empty(body, answer, status, search):
    """A refused search fails with an error that suggests another server."""
    failure = search(body, answer)
    assert isinstance(failure, WebFailure)
    assert (failure.status, failure.http_status) == (status, int(answer[:3]))
    assert "AGENTKIT_SEARXNG_URL" in failure.error


def test_unreachable_service_is_offline():
    """If the service cannot be reached, the search has the status offline."""
    failure = search_duckduckgo("x", 5, proxy="http://127.0.0.1:1")
    assert failure.status == "offline"


def test_broken_connection_is_reported(search):
    """A broken connection returns a failure instead of raising an exception."""
    failure = search(BROKEN)
    assert (failure.status, "failed" in failure.error) == ("failed", True)


def test_proxies_of_the_environment_are_ignored(serve, answered, authority, tmp_path, monkeypatch):
    """Proxies of the environment are not used."""
    ca_file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(ca_file)
    proxy = serve(answered(b"proxy"))
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    search_duckduckgo("x", 5, ca_file=str(ca_file))
    assert proxy.requests == []
