"""`agentkit serve` and `agentkit acp`: an agent for programs, pages, other agents and editors."""

from __future__ import annotations

import ipaddress
import socket
import stat
from dataclasses import field
from typing import TYPE_CHECKING, Any

import click

from agentkit._dataclass import dataclass
from agentkit.agents.agent import Agent
from agentkit.cli.ask_options import AskOptions, model_options
from agentkit.cli.options import STORE, WholeNumber, session_names
from agentkit.cli.terminal import ANSWERED, print_note, stdin_mode
from agentkit.errors import MissingExtra
from agentkit.http_security import create_server, is_local, open_listener, origin_of
from agentkit.server import app
from agentkit.settings import environment

if TYPE_CHECKING:
    from starlette.applications import Starlette


_EXAMPLES = """\b
Examples:
  agentkit serve  open the printed address in a browser
  agentkit serve -t core,files --safety safe
      with other tools and a stricter level
  agentkit serve --agent clerk.txt --port 9000
  agentkit serve --agent bot.py:clerk
  AGENTKIT_TOKEN=... agentkit serve --host 0.0.0.0 --allow-host example.com

\b
For OpenAI clients: base URL http://127.0.0.1:8080/v1, model agentkit,
and the token as API key. Calls that need approval are asked about on the
page, and denied to other clients.
"""


@click.command(short_help="Serve an OpenAI-compatible endpoint and a chat page.", epilog=_EXAMPLES)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", type=WholeNumber(0, 65_535), default=8080, show_default=True, help="0 for a free port.")
@click.option(
    "--token", metavar="TEXT", help="The token that clients must send; also AGENTKIT_TOKEN. Random by default."
)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host name of this server. Repeatable.")
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="The origin of a page that may call it. Repeatable.",
)
@model_options
@click.option("--session", metavar="NAME", shell_complete=session_names, help="The conversation that the page opens.")
@STORE
@click.option(
    "--runs", type=WholeNumber(1, 1_000), default=8, show_default=True, help="Maximum number of concurrent runs."
)
def serve(**options: Any) -> int:
    """Serve the agent until Ctrl-C.

    Other programs use it under /v1 like the API of OpenAI; / is a page with the stored conversations. Without --host,
    only programs on this machine can connect; every client needs the token.
    """
    from agentkit.cli.ask_options import AskOptions

    address = {name: options.pop(name) for name in ("host", "port", "token", "hosts", "origins", "runs")}
    return start(ServeOptions(**address, agent_options=AskOptions(**options)))


_UNENCRYPTED = (
    "Warning: other machines can reach this port, and all traffic, including the token, is unencrypted. Put a TLS "
    "proxy in front of it."
)


_ACP_EXAMPLES = """\b
Example, in the settings of an editor:
  "agent_servers": {
    "agentkit": {"command": "agentkit", "args": ["acp", "-t", "core,files"]}
  }
"""


@click.command(short_help="Serve an editor over standard input and output.", epilog=_ACP_EXAMPLES)
@model_options
@STORE
def acp(**options: Any) -> int:
    """Serve an editor that starts this command and speaks the Agent Client Protocol.

    Files and commands are those of the editor's folder. The editor asks for approvals and shows diffs.
    """
    import asyncio

    from agentkit.cli.ask_options import AskOptions
    from agentkit.server.acp import serve_editor
    from agentkit.sessions.stores import store_at

    if not any(is_connected(stdin_mode()) for is_connected in (stat.S_ISFIFO, stat.S_ISSOCK)):
        raise click.UsageError(
            "An editor starts this command, and standard input is not connected to one. Add the command to the "
            "editor's settings, as shown by: agentkit acp --help"
        )
    order = AskOptions(**options)
    for note in order.settings.notes:
        print_note(note, "yellow")
    agent = order.settings.agent()
    _ = agent.llm  # fail at startup if no model is configured
    asyncio.run(serve_editor(agent, store_at(order.store)))
    return ANSWERED


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `serve`: address, token, allowed hosts and origins, and the options of the agent."""

    host: str
    port: int
    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    runs: int = 8
    agent_options: AskOptions = field(default_factory=AskOptions)


def start(options: ServeOptions) -> int:
    """Serve until Ctrl-C; return the exit code. Raises UsageError, ConfigError, MissingExtra and NoProvider."""
    token = options.token or environment().get("AGENTKIT_TOKEN")
    if not is_local(options.host) and token is None:
        raise click.UsageError(
            f"--host {options.host} accepts connections from other machines. Choose the token that they must send: "
            "AGENTKIT_TOKEN=... agentkit serve ..., or --token TEXT."
        )
    settings = options.agent_options.settings
    for note in settings.notes:
        print_note(note, "yellow")
    agent, session = settings.agent(), settings.of("session") or ""
    hosts = (*options.hosts, *_host_names(options.host))
    application = app(
        agent,
        token=token,
        hosts=hosts,
        origins=options.origins,
        sessions=options.agent_options.store,
        session=session,
        max_runs=options.runs,
    )
    server = _server(application)
    with open_listener(options.host, options.port) as listener:
        _print_address(listener, application, agent, is_own=token is not None)
        if not is_local(options.host):
            print_note(_UNENCRYPTED, "yellow")
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:  # the server raises it again after shutdown
            print_note("Stopped.")
    return ANSWERED


def _host_names(host: str) -> tuple[str, ...]:
    """The listening host if it is a name, which is then allowed as the host of requests."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return (host,)
    return ()


def _server(application: Starlette) -> Any:
    """The HTTP server for the application. Raises MissingExtra."""
    try:
        return create_server(application)
    except ModuleNotFoundError as error:
        raise MissingExtra("serve", "agentkit serve") from error


def _print_address(listener: socket.socket, application: Starlette, agent: Agent[str], *, is_own: bool) -> None:
    """Print the addresses of the page and the endpoint; a random token is printed only in the page's address."""
    origin = origin_of(listener)
    click.echo(f"{origin}/" if is_own else f"{origin}/#token={application.state.token}")
    key = "your token" if is_own else "the text after #token="
    print_note(
        f"Open this address in a browser. For OpenAI clients: base URL {origin}/v1, model {agent.name}, key {key}."
    )
    print_note("Stop it with Ctrl-C.", faint=True)
