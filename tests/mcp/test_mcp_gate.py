"""Is nobody let in but who shows the token and calls the server by its name?"""

import asyncio

import pytest

from agentkit.errors import ConfigError
from agentkit.mcp.sdk.server import MCPAuth, check_reach

TOKEN = "tulip-tulip-tulip-4711"


@pytest.mark.parametrize(
    ("headers", "is_in"),
    [
        ([(b"authorization", b"Bearer " + TOKEN.encode())], True),
        ([(b"Authorization", b"bearer " + TOKEN.encode())], True),
        ([], False),
        ([(b"authorization", b"Bearer")], False),
        ([(b"authorization", b"Basic " + TOKEN.encode())], False),
        ([(b"authorization", b"Bearer tulip")], False),
        ([(b"authorization", b"Bearer " + TOKEN.encode())] * 2, False),
        ([(b"cookie", b"Bearer " + TOKEN.encode())], False),
    ],
)
def test_the_token(headers, is_in):
    """The token is shown once, in the header for it."""
    assert MCPAuth(TOKEN).lets_in(headers) is is_in


def test_names_of_the_server():
    """A server is called by this machine's names and those that are added, with any port."""
    assert {"localhost", "127.0.0.1:*", "tools.example.com:*"} <= {*MCPAuth(hosts=["Tools.example.com"]).hosts}
    with pytest.raises(ConfigError, match="without scheme"):
        MCPAuth(hosts=["https://tools.example.com"])


def test_the_reach_of_an_address():
    """An address that other machines reach wants a token that somebody has chosen."""
    for host in ("127.0.0.1", "::1", "localhost"):
        check_reach(host, None)
    check_reach("0.0.0.0", TOKEN)
    for host in ("0.0.0.0", "::", "192.0.2.1", "box.example.com"):
        with pytest.raises(ConfigError, match="can be reached by other machines"):
            check_reach(host, None)


@pytest.mark.parametrize(
    ("pieces", "unread"),
    [
        ([], None),
        ([b"{}"], None),
        ([b"x" * 4_000_000] * 2, None),
        ([b"x" * 4_000_000] * 2 + [b"x"], 1),
        ([b"x" * 9_000_000], 1),
        ([b"x" * 1_000_000] * 1_000, 992),
    ],
)
def test_the_length_of_a_request(pieces, unread):
    """A request of more than 8 MB is refused before all of it is read; another arrives whole, in any pieces."""
    left = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    left.append({"type": "http.request"})
    told = answer(left)
    if unread is None:
        assert told == {"status": 200, "body": b"".join(pieces)}
    else:
        assert told["status"] == 413
    assert len(left) == (unread or 0)


def test_a_client_that_is_gone():
    """Who goes away before the request is written is told to the application."""
    assert answer([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]) == {
        "status": 200,
        "body": "http.disconnect",
    }


def answer(entries):
    """What comes of a request whose entries are these: an application behind the gate gives its body back."""
    told = {}

    async def application(scope, receive, send):
        entry = await receive()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": entry.get("body", entry["type"])})

    async def receive():
        return entries.pop(0)

    async def send(entry):
        told.update({key: value for key, value in entry.items() if key in {"status", "body"}})

    scope = {"type": "http", "headers": [(b"authorization", b"Bearer " + TOKEN.encode())]}
    asyncio.run(MCPAuth(TOKEN).before(application)(scope, receive, send))
    return told
