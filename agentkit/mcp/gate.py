"""Who may call our tools over HTTP? Who shows the token, and calls the server by a name that it has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from agentkit.doors import checked_host, checked_token, is_local, shows
from agentkit.errors import ConfigError

PATH = "/mcp"
"""Where the protocol is spoken."""

_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_STRANGER = b'{"error": "Show the token that this server was started with: Authorization: Bearer TOKEN."}'
_TOO_LONG = b'{"error": "A request has at most 8 MB. Write large values to a file, and pass its path."}'

MOST_BYTES = 8_000_000
"""What a request may hold. It is read into memory as a whole."""

Entry = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Entry]]
Send = Callable[[Entry], Awaitable[None]]
Application = Callable[[Entry, Receive, Send], Awaitable[None]]
"""An ASGI application."""


class Gate:
    """Lets in who shows the token. `hosts` are the names, with any port, that requests and their pages may come by.

    Raises ConfigError for a token that is too short to be one, and for what is no host's name.
    """

    def __init__(self, token: str | None = None, hosts: Iterable[str] = ()) -> None:
        self.token = checked_token(token)
        names = [*_LOCAL, *map(checked_host, hosts)]
        self.hosts = tuple(name for host in names for name in (host, f"{host}:*"))

    def before(self, application: Application) -> Application:
        """The application behind the gate."""

        async def gated(scope: Entry, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan":
                await application(scope, receive, send)
            elif scope["type"] != "http" or not self.lets_in(scope["headers"]):
                await _refuse(send, 401, _STRANGER, (b"www-authenticate", b"Bearer"))
            elif (first := await _body(receive)) is None:
                await _refuse(send, 413, _TOO_LONG, (b"connection", b"close"))
            else:
                await application(scope, _followed(first, receive), send)

        return gated

    def lets_in(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether these headers show the token, once."""
        shown = [value for name, value in headers if name.lower() == b"authorization"]
        return len(shown) == 1 and shows(shown[0].decode("latin-1"), self.token)


async def _refuse(send: Send, status: int, body: bytes, header: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"application/json"), header]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _body(receive: Receive) -> Entry | None:
    """The whole body of a request as one entry, or the word that the client is gone; None when it is too long."""
    body = bytearray()
    while len(body) <= MOST_BYTES:
        entry = await receive()
        if entry["type"] != "http.request":
            return entry
        body += entry.get("body", b"")
        if not entry.get("more_body", False) and len(body) <= MOST_BYTES:
            return {"type": "http.request", "body": bytes(body)}
    return None


def _followed(first: Entry, receive: Receive) -> Receive:
    """What gives the first entry, and then what comes after it."""
    waiting = [first]

    async def received() -> Entry:
        return waiting.pop() if waiting else await receive()

    return received


def check_reach(host: str, token: str | None) -> None:
    """Raise ConfigError for an address that other machines can reach, when nobody has chosen what they must show."""
    if not is_local(host) and token is None:
        raise ConfigError(f"{host} lets other machines in; choose the token that they must show.")
