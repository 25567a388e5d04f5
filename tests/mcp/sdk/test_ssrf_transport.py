"""Tests that the requests of a login connect to the address that was checked."""

import asyncio

import httpx2
import pytest

from agentkit.errors import ToolError
from agentkit.mcp.login_store import AllowedHosts
from agentkit.mcp.sdk.ssrf_transport import JudgedTransport, send_request
from agentkit.testing import FakeServer, raw

NAMED = "http://127.0.0.1/mcp"


def asked(server, url, resolver):
    """Return the response to a request for a URL whose host resolves to these addresses."""

    async def ask():
        async with httpx2.AsyncClient(transport=JudgedTransport(AllowedHosts(server, ("auth.test",)), resolver)) as web:
            return await web.post(url, json={"code": "tulip"})

    return asyncio.run(ask())


def test_request_is_sent_to_the_checked_address():
    """The name is resolved once, and the request is sent to that address with the name as its host."""
    looked_up = []

    def resolver(host, port):
        looked_up.append(host)
        return ["127.0.0.1"]

    with FakeServer(raw(b"{}", content_type="application/json")) as server:
        port = httpx2.URL(server.base_url).port
        answer = asked(NAMED, f"http://localhost:{port}/chat/completions", resolver)
        assert (answer.status_code, looked_up) == (200, ["localhost"])
        assert server.requests[0].headers["host"] == f"localhost:{port}"


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        (["10.0.0.1"], "which is a private network"),
        (["127.0.0.1", "10.0.0.1"], "which is a private network"),
        (["169.254.169.254"], "hands out credentials"),
    ],
)
def test_names_with_a_forbidden_address_are_rejected(addresses, message):
    """A name with one forbidden address is not connected to."""
    with pytest.raises(ToolError, match=message):
        asked(NAMED, "https://login.example.org/token", lambda *_: addresses)


def test_unresolvable_host():
    """A host name that cannot be resolved raises a ToolError."""

    def resolver(host, port):
        raise OSError("nobody knows it")

    with pytest.raises(ToolError, match=r"login\.example\.org, to which the login leads, cannot be resolved"):
        asked(NAMED, "https://login.example.org/token", resolver)


def redirected(location, *others, **options):
    """Return the status of a redirected request, and the number of requests."""
    answer = raw(b"", status=307, headers={"Location": location}, content_type="text/plain")
    with FakeServer(answer, *others, **options) as server:
        request = httpx2.Request("POST", f"{server.base_url}/chat/completions", json={"code": "tulip"})
        status = asyncio.run(send_request(request, AllowedHosts(NAMED))).status_code
        assert {each.headers["accept-encoding"] for each in server.requests} == {"identity"}
        return status, len(server.requests)


def test_redirects_within():
    """A redirect is followed within its origin."""
    assert redirected("/v1/chat/completions", raw(b"{}", content_type="application/json")) == (200, 2)


@pytest.mark.parametrize("location", ["http://localhost/b", "http://169.254.169.254/", "//example.com/b"])
def test_redirects_elsewhere(location):
    """A redirect to another origin is not followed."""
    assert redirected(location) == (307, 1)


def test_endless_redirects_are_limited():
    """Following an endless chain of redirects stops after six requests."""
    assert redirected("/v1/chat/completions", repeat=True) == (307, 6)


def test_slow_server_raises_an_error():
    """A server that does not answer in time raises a ToolError."""

    async def listen(reading, writing):
        await reading.read()
        writing.close()
        await writing.wait_closed()

    async def ask():
        silent = await asyncio.start_server(listen, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        async with silent:
            try:
                await send_request(httpx2.Request("GET", f"http://127.0.0.1:{port}/"), AllowedHosts(NAMED), seconds=0.2)
            finally:
                await asyncio.sleep(0.1)  # by then the connection is closed on this side as well

    with pytest.raises(ToolError, match=r"did not answer within 0\.2 seconds"):
        asyncio.run(ask())
