"""Tests for the callback server of a login, which accepts one answer."""

import asyncio
import socket

import httpx2
import pytest

from agentkit.errors import ToolError
from agentkit.mcp.callback_server import CallbackServer, authorization_code, parse_redirect, refusal_reason

STATE = "state-4711"


def send_callbacks(*targets, headers=()):
    """Send these requests in order; return their pages and the accepted answer."""

    async def call():
        async with CallbackServer() as landing:
            landing.expect(STATE)
            async with httpx2.AsyncClient(trust_env=False) as web:
                origin = landing.address.removesuffix("/callback")
                pages = [await web.get(f"{origin}{target}", headers=dict(headers)) for target in targets]
            return pages, await asyncio.wait_for(landing.answer(), 0.1)

    return asyncio.run(call())


def test_callback_page():
    """The final page says that the login is done and does not contain the code."""
    [page], answer = send_callbacks(f"/callback?code=tulip&state={STATE}&iss=https%3A%2F%2Fa.example")
    assert answer == {"code": "tulip", "state": STATE, "iss": "https://a.example"}
    assert (page.status_code, "close this page" in page.text) == (200, True)
    assert "tulip" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["cache-control"] == "no-store"


def test_requests_without_the_state_are_rejected():
    """Requests without the state get a 404, and only the first valid answer is accepted."""
    good = f"/callback?code=tulip&state={STATE}"
    strange = ["/", "/callback", "/callback?code=a", "/callback?code=a&state=b", f"/callback?state={STATE}"]
    pages, answer = send_callbacks(*strange, good, f"/callback?code=rose&state={STATE}")
    assert [page.status_code for page in pages] == [404] * 5 + [200, 404]
    assert answer["code"] == "tulip"


def test_foreign_host_header_is_rejected():
    """A request with a foreign Host header is rejected."""
    with pytest.raises(TimeoutError):
        send_callbacks(f"/callback?code=tulip&state={STATE}", headers={"Host": "evil.example"}.items())


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n\r\n",
        b"POST /callback HTTP/1.1\r\n\r\n",
        b"GET " + b"a" * 100_000,
        b"GET http://[ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        b"GET /callback?code=%ff&state=\xff HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    ],
)
def test_invalid_requests_are_ignored(sent):
    """Invalid requests neither end the server nor cause an unhandled exception."""
    faults = []

    async def call():
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        async with CallbackServer() as landing:
            landing.expect(STATE)
            port = landing.address.split(":")[2].split("/")[0]
            _, writing = await asyncio.open_connection("127.0.0.1", int(port))
            writing.write(sent.replace(b"PORT", port.encode()))
            writing.close()
            async with httpx2.AsyncClient(trust_env=False) as web:
                await web.get(f"{landing.address}?error=access_denied&state={STATE}")
            return await landing.answer()

    assert asyncio.run(call())["error"] == "access_denied"
    assert faults == []


def test_many_idle_connections():
    """Many idle connections do not block the browser's request."""

    async def call():
        async with CallbackServer() as landing:
            landing.expect(STATE)
            port = int(landing.address.split(":")[2].split("/")[0])
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
            async with httpx2.AsyncClient(trust_env=False) as web:
                page = await web.get(f"{landing.address}?code=tulip&state={STATE}")
            let_go = [await reading.read() for reading, _ in silent[:100]]
            for _, writing in silent:
                writing.close()
            return page.status_code, {*let_go}, await landing.answer()

    status, let_go, answer = asyncio.run(call())
    assert (status, let_go, answer["code"]) == (200, {b""}, "tulip")


def test_port_is_closed_after_a_login():
    """The port is closed after a login."""

    async def call():
        async with CallbackServer() as landing:
            return int(landing.address.split(":")[2].split("/")[0])

    port = asyncio.run(call())
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


@pytest.mark.for_each(
    ("address", "answer"),
    [
        (f"http://127.0.0.1:1/callback?code=a&state={STATE}", {"code": "a", "state": STATE}),
        (f"  https://app.example/back?code=a&state={STATE}\n", {"code": "a", "state": STATE}),
        (f"?error=no&state={STATE}", {"error": "no", "state": STATE}),
        (f"?code=a&code=b&state={STATE}", None),
        (f"?code=a&state={STATE}&state={STATE}", None),
        ("?code=a&state=", None),
        ("?code=a", None),
        ("?" + "&".join(["code=a"] * 60), None),
        ("http://[", None),
        ("tulip", None),
    ],
)
def test_valid_answers(address, answer):
    """An address is an answer if it has its state once, and a code or an error once."""
    assert parse_redirect(address, STATE) == answer


def test_callback_without_expected_state():
    """A callback is not accepted before a state is expected."""
    assert parse_redirect("?code=a&state=", "") is None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"error": "access_denied"}, "access_denied"),
        ({"error": "a", "error_description": "b\n\tc."}, "a: b c"),
        ({"error": "a\u202eb\x1b[2J"}, r"a\u{202e}b\u{1b}[2J"),
        ({"error": "x" * 1_000}, "x" * 200),
        ({"error": 3}, "no reason was given"),
        ({}, "no reason was given"),
    ],
)
def test_refusal_reason(message, text):
    """The reason of a refusal is shortened to one line with control characters escaped."""
    assert refusal_reason(message) == text


def test_refusal_with_a_code():
    """A refusal raises an error even if it contains a code."""
    with pytest.raises(ToolError, match="was refused: no"):
        authorization_code({"error": "no", "code": "tulip"})
    assert authorization_code({"code": "tulip"}) == "tulip"
