"""How is a server started? The agent that is meant, its token, a socket, and what is told of them."""

from __future__ import annotations

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
from agentkit.doors.patience import server_of
from agentkit.errors import MissingExtra
from agentkit.serve import app
from agentkit.slotted import dataclass

if TYPE_CHECKING:
    from starlette.applications import Starlette

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
    """What serves the application. Raises MissingExtra."""
    try:
        return server_of(application)
    except ModuleNotFoundError as error:
        raise MissingExtra("serve", "agentkit serve") from error


def _tell_address(listener: socket.socket, application: Starlette, agent: Agent[str], *, is_own: bool) -> None:
    """Tell where the page and the endpoint are; a random token is told in the page's address, and only there."""
    origin = origin_of(listener)
    click.echo(f"{origin}/" if is_own else f"{origin}/#token={application.state.token}")
    key = "your token" if is_own else "what stands behind #token="
    tell(
        f"Open this address in a browser. For a client of OpenAI: base URL {origin}/v1, model {agent.name}, key {key}."
    )
    tell("Stop it with Ctrl-C.", faint=True)
