"""Access control and connection limits of the HTTP servers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
import socket
from typing import TYPE_CHECKING, Any

from agentkit.errors import ConfigError

if TYPE_CHECKING:
    import uvicorn


_FEWEST_CHARS = 16
_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}", re.IGNORECASE)


def checked_token(token: str | None) -> str:
    """What clients must show, a random one for None. Raises ConfigError for one that is too short to be one."""
    if token is None:
        return secrets.token_urlsafe(32)
    if not isinstance(token, str) or len(token) < _FEWEST_CHARS or not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"A token is at least {_FEWEST_CHARS} letters, digits and signs without blanks. "
            "Leave it out for a random one."
        )
    return token


def shows(authorization: str, token: str) -> bool:
    """Whether what a client says as `Authorization` shows the token."""
    scheme, _, shown = authorization.partition(" ")
    return scheme.lower() == "bearer" and is_same(shown.strip(), token)


def is_same(one: str, other: str) -> bool:
    """Whether two texts are the same; how long that takes to find out tells nothing of either."""
    return hmac.compare_digest(_digest(one), _digest(other))


def checked_host(host: str) -> str:
    """The name of a host, in small letters. Raises ConfigError for what is none."""
    if not _NAME.fullmatch(host):
        raise ConfigError(f"A host is a name such as agent.example.com, without scheme and port. Got {host!r:.200}.")
    return host.lower()


def is_local(host: str) -> bool:
    """Whether a host is this machine itself, by its address or the one name that is never looked up elsewhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening(host: str, port: int) -> socket.socket:
    """An open socket; port 0 is one that is free. Raises ConfigError when the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = f"{error.strerror}".partition(" (while ")[0]  # behind it the address is told once more
        raise ConfigError(
            f"Nothing can listen on {host}, port {port}: {why}. Choose another port, or 0 for one that is free."
        ) from None


def origin_of(listener: socket.socket) -> str:
    """The beginning of the addresses under which a socket is reached: scheme, host and port."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:  # which can be listened on, and not be opened
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


_MOST_CONNECTIONS = 256
_GRACE_SECONDS = 1
_HEAD_SECONDS = 10.0
"""How long the head of a request may take; a connection that says nothing else would keep its place for ever."""


def server_of(application: Any, head_seconds: float = _HEAD_SECONDS) -> uvicorn.Server:
    """A server that logs no request and trusts no header of a proxy. Raises ModuleNotFoundError without uvicorn."""
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            application,
            loop="asyncio",
            http=_connections(head_seconds),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )


def _connections(head_seconds: float) -> type[asyncio.Protocol]:
    """What uvicorn takes as `http`: its own protocol, which closes a connection whose request's head does not come."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._patience = _HeaderTimeout(head_seconds)
            self._patience.look(self)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._patience.look(self)

        def connection_lost(self, exc: Exception | None) -> None:
            self._patience.end()
            super().connection_lost(exc)

    return Impatient


class _HeaderTimeout:
    """Gives the head of a request its time, from the connection's or its own first byte on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._late: asyncio.TimerHandle | None = None

    def look(self, connection: Any) -> None:
        """Begin to wait, unless a request is there that is being answered."""
        if connection.cycle is not None and not connection.cycle.response_complete:
            self.end()
        elif self._late is None:
            self._late = connection.loop.call_later(self._seconds, connection.transport.close)

    def end(self) -> None:
        """Wait no longer."""
        if self._late is not None:
            self._late.cancel()
            self._late = None
