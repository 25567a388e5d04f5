"""Tests for connections of the web tools: checked addresses, redirects, TLS, and limits."""

import asyncio
import socket
import time

import httpx2
import pytest

from agentkit.safety.urls import AddressRules, read_url
from agentkit.tools.web.connection import (
    MAX_DECODED_BYTES,
    MAX_RAW_BYTES,
    MAX_REDIRECTS,
    WebConnection,
    WebFailure,
    WebResponse,
    resolve,
    status_failure,
)

PUBLIC, OTHER = "93.184.215.14", "198.41.0.4"


def local(server, **settings):
    """A connection that may connect to a server on this machine."""
    return WebConnection(AddressRules([f"127.0.0.1:{server.port}"]), **settings)


def answers(*rounds):
    """A resolver that returns its answers in order and records the requested names."""

    def look_up(host, port):
        look_up.asked.append((host, port))
        return rounds[min(len(look_up.asked), len(rounds)) - 1]

    look_up.asked = []
    return look_up


def failing(number):
    """Return a resolver that raises `gaierror` with the given number."""

    def look_up(host, port):
        raise socket.gaierror(number, "no")

    return look_up


def test_reply_has_status_headers_and_body(serve, answered):
    """A response has the final URL, the HTTP status, lowercase headers and the whole body."""
    server = serve(answered(b"hello", content_type=b"text/plain"))
    reply = local(server).get(f"{server.url}/a?b=c#d")
    assert (str(reply.url), reply.http_status, reply.body, reply.cut) == (f"{server.url}/a?b=c", 200, b"hello", "")
    assert reply.headers["content-type"] == "text/plain"


def test_request_carries_no_secrets(serve, answered, monkeypatch, tmp_path):
    """No cookie, credential or referrer is sent, whatever the environment and ~/.netrc contain."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n", "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    server = serve(answered(b"x", set_cookie=b"a=b"))
    connection = local(server)
    connection.get(f"{server.url}/1")
    connection.get(f"{server.url}/2")
    names = {line.split(":")[0].lower() for text in server.requests for line in text.split("\r\n")[1:] if line}
    assert names == {"host", "user-agent", "accept", "accept-encoding", "connection"}
    assert "agentkit/" in server.requests[0]
    assert "https://" in server.requests[0]


def test_proxies_of_the_environment_are_ignored(serve, answered, monkeypatch):
    """Proxies of the environment are not used."""
    proxy, server = serve(answered(b"proxy")), serve(answered(b"server"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    assert local(server).get(server.url).body == b"server"
    assert proxy.requests == []


def test_explicit_proxy_receives_the_checked_address(serve, answered):
    """An explicit proxy receives the checked address instead of a name."""
    proxy = serve(answered(b"proxy"))
    connection = WebConnection(resolver=answers([PUBLIC]), proxy=proxy.url)
    assert connection.get("http://good.example.org/x").body == b"proxy"
    assert proxy.requests[0].startswith(f"GET http://{PUBLIC}/x ")
    assert "Host: good.example.org\r\n" in proxy.requests[0]


def test_name_is_resolved_once_and_pinned(serve, answered, rerouted):
    """A name that resolves differently at a second lookup is connected to at the first, checked address."""
    server = serve(answered(b"ok"))
    transport, resolver = rerouted(server), answers([PUBLIC], ["127.0.0.1"])
    assert WebConnection(resolver=resolver, transport=transport).get("http://flip.example.org/").body == b"ok"
    assert (transport.targets, resolver.asked) == ([PUBLIC], [("flip.example.org", 80)])
    assert "Host: flip.example.org\r\n" in server.requests[0]


def test_rebinding_between_redirects_is_rejected(serve, redirected, rerouted):
    """A redirect to the same host is resolved and checked again."""
    transport = rerouted(serve(redirected("/again")))
    connection = WebConnection(resolver=answers([PUBLIC], ["127.0.0.1"]), transport=transport)
    failure = connection.get("http://flip.example.org/")
    assert (failure.status, failure.decision.rule) == ("denied", "url.private-address")
    assert transport.targets == [PUBLIC]


@pytest.mark.for_each(
    "found",
    [
        ["127.0.0.1"],
        ["0.0.0.0"],
        ["::1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["::ffff:10.0.0.1"],
        [PUBLIC, "192.168.0.5"],
        ["fe80::1%eth0"],
        ["not an address"],
    ],
    ids=str,
)
def test_every_address_of_a_host_is_judged(found):
    """A host with at least one private address is denied, and no connection is opened."""
    failure = WebConnection(resolver=answers(found)).get("http://name.example.org/")
    assert (failure.status, failure.decision.rule) == ("denied", "url.private-address")
    assert "name.example.org" in failure.error


def test_resolver_may_be_async():
    """A resolver may be a coroutine function."""

    async def look_up(host, port):
        return ["10.0.0.1"]

    assert WebConnection(resolver=look_up).get("http://name.example.org/").status == "denied"


@pytest.mark.parametrize(
    ("number", "hosts_exist", "status"),
    [(socket.EAI_NONAME, False, "failed"), (socket.EAI_NONAME, True, "offline"), (socket.EAI_AGAIN, False, "offline")],
)
def test_failed_lookup_is_reported(number, hosts_exist, status):
    """An unknown host is distinguished from a missing network connection."""
    connection = WebConnection(resolver=failing(number), hosts_exist=hosts_exist)
    assert connection.get("http://name.example.org/").status == status


@pytest.mark.parametrize(("reference", "status"), [("localhost", "failed"), ("no-such-host.invalid", "offline")])
def test_unknown_host_without_network_is_offline(reference, status):
    """An unknown host is reported as offline if the reference host is unknown as well."""
    connection = WebConnection(reference_host=reference)
    assert connection.get("https://no-such-host.example.net/").status == status


def test_name_without_address_fails():
    """A name that resolves to no address is a failure."""
    assert "no address" in WebConnection(resolver=answers([])).get("http://name.example.org/").error


def test_slow_lookup_fails():
    """A lookup that takes longer than five seconds fails."""

    def look_up(host, port):
        time.sleep(12)

    started = time.monotonic()
    failure = WebConnection(resolver=look_up).get("http://name.example.org/")
    assert (failure.status, time.monotonic() - started < 11) == ("timed_out", True)


def test_default_resolver():
    """The default resolver uses the system and returns each address once."""
    assert "127.0.0.1" in resolve("localhost", 80)
    assert len(resolve("127.0.0.1", 80)) == 1


def test_next_address_is_tried(serve, answered):
    """If the first address accepts no connection, the next one is tried."""
    server = serve(answered(b"ok"))
    rules = AddressRules([f"name.example.org:{server.port}"])
    connection = WebConnection(rules, resolver=answers(["127.0.0.2", "127.0.0.1"]))
    assert connection.get(f"http://name.example.org:{server.port}/").body == b"ok"


def test_refused_connection_is_reported(serve):
    """A port without a listener returns an error about a refused connection."""
    server = serve(b"")
    server.close()
    failure = local(server).get(server.url)
    assert failure.status == "failed"
    assert "connection was refused" in failure.error


@pytest.mark.parametrize(
    ("cause", "status"),
    [(OSError(101, "Network is unreachable"), "offline"), (OSError(110, "timed out"), "timed_out"), (None, "failed")],
    ids=str,
)
def test_network_errors_are_distinguished(cause, status):
    """Missing network, timeouts and other connection errors have different statuses."""

    class Broken(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request):
            raise httpx2.ConnectError("no", request=request) from cause

    assert WebConnection(transport=Broken()).get("http://8.8.8.8/").status == status


def test_connect_timeout():
    """A host that does not accept the connection in time returns a timeout."""

    class Silent(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request):
            assert request.extensions["timeout"]["connect"] <= 5
            raise httpx2.ConnectTimeout("")

    assert WebConnection(transport=Silent()).get("http://8.8.8.8/").status == "timed_out"


def test_certificate_is_checked_against_the_name(serve, answered, certified, trusting):
    """The TLS certificate is verified against the name in the URL at the checked address."""
    server = serve(answered(b"safe"), certified("good.example.org"))
    names = AddressRules([f"{name}.example.org:{server.port}" for name in ("good", "evil")])
    connection = WebConnection(names, resolver=answers(["127.0.0.1"]), tls=trusting)
    reply = connection.get(f"https://good.example.org:{server.port}/")
    assert (reply.body, server.hosts) == (b"safe", ["good.example.org"])
    failure = connection.get(f"https://evil.example.org:{server.port}/")
    assert (failure.status, "certificate" in failure.error.lower()) == ("failed", True)


def test_unknown_certificate_authority_is_rejected(serve, answered, certified):
    """A certificate from an unknown authority is rejected."""
    server = serve(answered(b"safe"), certified("good.example.org"))
    connection = WebConnection(AddressRules([f"good.example.org:{server.port}"]), resolver=answers(["127.0.0.1"]))
    assert "certificate" in connection.get(f"https://good.example.org:{server.port}/").error.lower()


def test_redirects_are_followed(serve, answered, redirected):
    """Up to five redirects are followed, including relative ones, and the final URL is returned."""
    server = serve(lambda path: redirected(f"{int(path[1:]) + 1}") if path < "/5" else answered(b"end"))
    reply = local(server).get(f"{server.url}/{5 - MAX_REDIRECTS}")
    assert (reply.body, str(reply.url)) == (b"end", f"{server.url}/5")


def test_number_of_redirects_is_limited(serve, redirected):
    """A sixth redirect fails, also in a loop."""
    server = serve(redirected("/loop"))
    failure = local(server).get(server.url)
    assert (failure.status, len(server.requests)) == ("failed", MAX_REDIRECTS + 1)


def test_redirect_without_location_is_an_answer(serve, answered):
    """A redirect without a location is returned as the response."""
    server = serve(answered(b"x", b"302 Found"))
    assert local(server).get(server.url).http_status == 302


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "//10.0.0.1/",
        "file:///etc/passwd",
        "gopher://10.0.0.1/",
        "javascript:alert(1)",
        "http://localhost:22/",
        "http://evil.example.org/",
        "http://user:password@other.example.net/",
        "http:\\\\127.0.0.1\\",
        "http://127.1/",
        "http://other.example.net:6379/",
        "/\t/127.0.0.1",
        "http://[",
    ],
)
def test_redirects_are_judged_like_the_first_request(location, serve, redirected, rerouted):
    """The target of a redirect is judged like the first URL."""
    names = {"good.example.org": PUBLIC, "other.example.net": OTHER, "evil.example.org": "10.0.0.5"}
    transport = rerouted(serve(redirected(location)))
    failure = WebConnection(resolver=lambda host, _: [names[host]], transport=transport).get("http://good.example.org/")
    assert (failure.status, transport.targets) == ("denied", [PUBLIC])


def test_https_to_http_redirect_is_rejected(serve, redirected, rerouted):
    """A redirect from HTTPS to HTTP is rejected with the start of its URL as evidence."""
    address = f"http://good.example.org/{'p' * 300}"
    transport = rerouted(serve(redirected(address)))
    failure = WebConnection(resolver=answers([PUBLIC]), transport=transport).get("https://good.example.org/s")
    assert (failure.decision.rule, failure.decision.evidence) == ("url.downgrade", address[:200])


def test_upgrade_is_followed(serve, answered, redirected, rerouted):
    """A redirect from http to https, and to another host, is followed."""
    server = serve(lambda path: answered(b"ok") if path == "/p" else redirected("https://other.example.net/p"))
    transport = rerouted(server)
    connection = WebConnection(resolver=lambda host, _: [OTHER if "other" in host else PUBLIC], transport=transport)
    assert str(connection.get("http://good.example.org/s").url) == "https://other.example.net/p"
    assert transport.targets == [PUBLIC, OTHER]


def drip(start, piece, pause=0.2):
    """Yield the beginning of an endless response."""

    def answer(path):
        yield start
        while True:
            yield piece
            yield pause

    return answer


@pytest.mark.parametrize(
    ("start", "piece"), [(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"), (b"", b""), (b"HTTP/1.1 200 OK\r\n\r\n", b"")]
)
def test_deadline_covers_everything(start, piece, serve):
    """Slow headers and silence end at the deadline."""
    server = serve(drip(start, piece))
    started = time.monotonic()
    failure = local(server, deadline_seconds=1).get(server.url)
    assert isinstance(failure, WebFailure)
    assert failure.status == "timed_out"
    assert time.monotonic() - started < 10


def test_slow_body_is_truncated_at_the_deadline(serve):
    """A slow body is truncated at the deadline, and the part received so far is returned."""
    server = serve(drip(b"HTTP/1.1 200 OK\r\n\r\nfirst", b"."))
    reply = local(server, deadline_seconds=1).get(server.url)
    assert reply.body.startswith(b"first.")
    assert "in time" in reply.cut


def test_endless_body_is_truncated(serve):
    """An endless body is read up to 2,000,000 bytes."""
    server = serve(drip(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000, pause=0))
    reply = local(server).get(server.url)
    assert (len(reply.body), "2,000,000" in reply.cut) == (MAX_RAW_BYTES, True)


@pytest.mark.parametrize("line", [b"X: " + b"y" * 70_000 + b"\r\n", b"X: y\r\n" * 20_000, b"X: " + b"y" * 10_000_000])
def test_headers_are_bounded(line, serve):
    """More than 64,000 bytes of headers are a failure."""
    server = serve(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\nx")
    assert local(server).get(server.url).status == "failed"


@pytest.mark.parametrize("encoding", [b"gzip, gzip, gzip", b"br", b"deflate", b"zstd", b"gzip, identity"])
def test_unsupported_encoding_is_rejected(encoding, serve, answered):
    """An unsupported content encoding is rejected before the body is read."""
    server = serve(answered(b"x", content_encoding=encoding))
    failure = local(server).get(server.url)
    assert (failure.status, encoding.decode() in failure.error) == ("failed", True)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", b"abc"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"abc"),
    ],
)
def test_partial_body_is_returned_after_a_disconnect(answer, body, serve):
    """If the server closes the connection early, the partial body is returned with a note."""
    reply = local(server := serve(answer)).get(server.url)
    assert isinstance(reply, WebResponse)
    assert (reply.body, "closed the connection early" in reply.cut) == (body, True)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
def test_invalid_http_response_fails(answer, serve):
    """An invalid HTTP response fails with an error that does not quote the server."""
    failure = local(server := serve(answer)).get(server.url)
    assert (failure.status, bool(failure.error), "SSH" in failure.error) == ("failed", True, False)


def test_event_loop_is_not_blocked(serve):
    """An awaited request to a slow server does not block the event loop."""
    server = serve(drip(b"HTTP/1.1 200 OK\r\n\r\nx", b"."))

    async def both():
        slow = asyncio.create_task(local(server, deadline_seconds=1).aget(server.url))
        ticks = 0
        while not slow.done():
            await asyncio.sleep(0.05)
            ticks += 1
        return ticks

    assert asyncio.run(both()) > 3


def test_documented_limits():
    """The limits are 2 MB compressed, 5 MB decompressed, and five redirects."""
    assert (MAX_RAW_BYTES, MAX_DECODED_BYTES, MAX_REDIRECTS) == (2_000_000, 5_000_000, 5)


def test_is_direct():
    """A connection is direct unless it uses a proxy, a custom transport or a custom resolver."""
    assert WebConnection(AddressRules(("localhost",))).is_direct
    others = [{"proxy": "http://127.0.0.1:3128"}, {"transport": httpx2.HTTPTransport()}]
    assert not any(WebConnection(**each).is_direct for each in [*others, {"resolver": lambda _host, _port: []}])


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        (199, "failed", "site.example answered 199 (no standard status)."),
        (200, None, ""),
        (299, None, ""),
        (300, "failed", "site.example answered 300 (Multiple Choices)."),
        (403, "blocked", "site.example answered 403 (Forbidden)."),
        (429, "rate_limited", "site.example answered 429 (Too Many Requests)."),
    ],
)
def test_only_2xx_statuses_are_success(code, status, error):
    """Every other status is a failure with its name and, if any, the requested delay."""
    failure = status_failure(WebResponse(read_url("https://site.example/"), code, {"retry-after": "7"}, b""))
    if status is None:
        assert failure is None
    else:
        assert (failure.status, failure.error, failure.retry_after_seconds) == (status, error, 7)
