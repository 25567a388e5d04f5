"""How is a server started? The agent that is meant, its token, a socket, and what is told of them."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import field
from typing import TYPE_CHECKING, Any

import click

from agentkit.agents.agent import Agent
from agentkit.cli.asking.order import Order
from agentkit.cli.exit_codes import ANSWERED
from agentkit.cli.terminal import tell
from agentkit.config import environment
from agentkit.doors import is_local, listening, origin_of
from agentkit.errors import MissingExtra
from agentkit.serve import app
from agentkit.slotted import dataclass

if TYPE_CHECKING:
    from starlette.applications import Starlette

_MOST_CONNECTIONS = 256
_GRACE_SECONDS = 1
_HEAD_SECONDS = 10.0
"""How long the head of a request may take; a connection that says nothing else would keep its place for ever."""

_UNENCRYPTED = (
    "Warning: other machines can reach this port, and all of it, the token too, travels unencrypted. "
    "Put a server that speaks TLS in front of it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of `serve`: where it is reached and by whom, and the order of what answers."""

    host: str
    port: int
    token: str | None = None
    hosts: tuple[str, ...] = ()
    runs: int = 8
    order: Order = field(default_factory=Order)


def start(wanted: Wanted) -> int:
    """Serve until Ctrl-C; the exit code. Raises UsageError, ConfigError, MissingExtra and NoProvider."""
    token = wanted.token or environment().get("AGENTKIT_TOKEN")
    if not is_local(wanted.host) and token is None:
        raise click.UsageError(
            f"--host {wanted.host} lets other machines in. Choose the token that they must show: "
            "AGENTKIT_TOKEN=... agentkit serve ..., or --token TEXT."
        )
    settings = wanted.order.settings
    for note in settings.notes:
        tell(note, "yellow")
    agent, session = settings.agent(), settings.of("session") or ""
    hosts = (*wanted.hosts, *_named(wanted.host))
    application = app(
        agent, token=token, hosts=hosts, sessions=wanted.order.place, session=session, most_runs=wanted.runs
    )
    server = _server(application)
    with listening(wanted.host, wanted.port) as listener:
        _tell_address(listener, application, agent, is_own=token is not None)
        if not is_local(wanted.host):
            tell(_UNENCRYPTED, "yellow")
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:  # which the server raises again when it has ended
            tell("Stopped.")
    return ANSWERED


def _named(host: str) -> tuple[str, ...]:
    """The host to listen on when it is a name: it may then be asked for under it."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return (host,)
    return ()


def _server(application: Starlette) -> Any:
    """A server that logs no request and trusts no header of a proxy. Raises MissingExtra."""
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingExtra("serve", "agentkit serve") from error
    return uvicorn.Server(
        uvicorn.Config(
            application,
            loop="asyncio",
            http=connections(),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )


def connections(head_seconds: float = _HEAD_SECONDS) -> type[asyncio.Protocol]:
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


def _tell_address(listener: socket.socket, application: Starlette, agent: Agent[str], *, is_own: bool) -> None:
    """Tell where the page and the endpoint are; a random token is told in the page's address, and only there."""
    origin = origin_of(listener)
    click.echo(f"{origin}/" if is_own else f"{origin}/#token={application.state.token}")
    key = "your token" if is_own else "what stands behind #token="
    tell(
        f"Open this address in a browser. For a client of OpenAI: base URL {origin}/v1, model {agent.name}, key {key}."
    )
    tell("Stop it with Ctrl-C.", faint=True)
