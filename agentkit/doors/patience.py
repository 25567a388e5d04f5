"""How many may stand in the door, and for how long? A connection is closed whose request's head does not come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import uvicorn

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
            self._patience = _Patience(head_seconds)
            self._patience.look(self)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._patience.look(self)

        def connection_lost(self, exc: Exception | None) -> None:
            self._patience.end()
            super().connection_lost(exc)

    return Impatient


class _Patience:
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
