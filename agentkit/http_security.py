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


_MIN_CHARS = 16
_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}", re.IGNORECASE)


def validate_token(token: str | None) -> str:
    """Validate the token that clients must send, or generate a random one for None.

    Raises ConfigError if it is too short.
    """
    if token is None:
        return secrets.token_urlsafe(32)
    if not isinstance(token, str) or len(token) < _MIN_CHARS or not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"A token is at least {_MIN_CHARS} letters, digits and signs without blanks. Leave it out for a random one."
        )
    return token


def has_token(authorization: str, token: str) -> bool:
    """Whether the value of an `Authorization` header contains the token."""
    scheme, _, credentials = authorization.partition(" ")
    return scheme.lower() == "bearer" and constant_time_equal(credentials.strip(), token)


def constant_time_equal(one: str, other: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(_digest(one), _digest(other))


def validate_host(host: str) -> str:
    """Validate a host name and return it in lower case. Raises ConfigError if it is invalid."""
    if not _NAME.fullmatch(host):
        raise ConfigError(f"A host is a name such as agent.example.com, without scheme and port. Got {host!r:.200}.")
    return host.lower()


def is_local(host: str) -> bool:
    """Whether a host is this machine: a loopback address or `localhost`, which is never resolved elsewhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 selects a free port. Raises ConfigError if the address is not available."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = f"{error.strerror}".partition(" (while ")[0]  # the rest repeats the address
        raise ConfigError(
            f"Nothing can listen on {host}, port {port}: {why}. Choose another port, or 0 for one that is free."
        ) from None


def origin_of(listener: socket.socket) -> str:
    """The origin (scheme, host and port) at which a socket is reachable."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:  # a server can listen on it, but clients cannot connect to it
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


_MAX_CONNECTIONS = 256
_GRACE_SECONDS = 1
_HEAD_SECONDS = 10.0
"""Timeout in seconds for the head of a request; without it, idle connections would never be closed."""


def create_server(application: Any, head_seconds: float = _HEAD_SECONDS) -> uvicorn.Server:
    """Create a server without access log that ignores proxy headers. Raises ModuleNotFoundError without uvicorn."""
    import uvicorn

    class Server(uvicorn.Server):
        """Ends the runs before the connections, so that streams end with their last events."""

        async def shutdown(self, sockets: Any = None) -> None:
            """Close the application, and then the connections."""
            state = getattr(application, "state", None)
            close = getattr(state, "close", None)
            if close is not None:
                await close()
            await super().shutdown(sockets)

    return Server(
        uvicorn.Config(
            application,
            loop="asyncio",
            http=_connections(head_seconds),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )


def _connections(head_seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol class, extended to close connections that do not send a request head in time."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class TimeoutProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._timeout = _HeaderTimeout(head_seconds)
            self._timeout.update(self)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._timeout.update(self)

        def connection_lost(self, exc: Exception | None) -> None:
            self._timeout.cancel()
            super().connection_lost(exc)

    return TimeoutProtocol


class _HeaderTimeout:
    """Timeout for the head of a request, measured from the connection's start or the request's first byte."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def update(self, connection: Any) -> None:
        """Start the timer unless a request is being answered."""
        if connection.cycle is not None and not connection.cycle.response_complete:
            self.cancel()
        elif self._timer is None:
            self._timer = connection.loop.call_later(self._seconds, connection.transport.close)

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
