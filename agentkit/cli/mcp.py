"""`agentkit mcp`: serve tools to MCP clients, inspect servers, log in and out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from agentkit.cli.options import COLLECTIONS, WholeNumber, safety_levels, tool_names
from agentkit.cli.terminal import ANSWERED, REFUSED, USAGE, json_text, print_error, print_note
from agentkit.errors import ConfigError
from agentkit.settings import environment

if TYPE_CHECKING:
    from agentkit.mcp import MCPServer


_DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
"""Environment variables, one of which is set where a browser can be opened."""


@click.command("login", short_help="Log in at a server, in your browser.")
@click.argument("url")
@click.option("--scope", metavar="TEXT", help="The scopes to request; by default those that the server names.")
@click.option("--client-id", metavar="TEXT", help="The client ID; by default agentkit registers a client.")
@click.option("--issuer", metavar="URL", help="The authorization server; no other is accepted.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="A host that the login may contact. Repeatable."
)
@click.option(
    "--port", type=WholeNumber(0, 65_535), default=0, help="The local port of the redirect URL; by default a free one."
)
@click.option(
    "--paste", is_flag=True, help="Ask for the final address of the browser, for a browser on another machine."
)
def login(*, url: str, paste: bool, hosts: tuple[str, ...], **options: Any) -> int:
    """Log in at the server at URL, in your browser, and store the login in the state folder.

    All your programs on this machine use the login for that address, until `agentkit mcp logout`. The client secret for
    --client-id is read from AGENTKIT_MCP_CLIENT_SECRET.
    """
    from agentkit.mcp import Login, MCPServer

    if "://" not in url:
        raise click.UsageError(f"{url!r} is not a URL. Pass one such as https://mcp.example.com/mcp")
    secret = environment().get("AGENTKIT_MCP_CLIENT_SECRET") if options["client_id"] else None
    login_options = Login(
        _ask_for_redirect if paste else _open_in_browser, hosts=hosts, client_secret=secret, **options
    )
    with MCPServer(url, login=login_options) as server:
        server.login()
    print_note(f"Logged in. To log out: agentkit mcp logout {url.partition('?')[0]}")
    return ANSWERED


@click.command("logout", short_help="Delete the login at a server.")
@click.argument("url")
def logout(*, url: str) -> int:
    """Delete the login at the server at URL, and revoke it at the authorization server if that supports revocation."""
    from agentkit.mcp import MCPServer

    with MCPServer(url) as server:
        result = server.logout()
    if not result:
        print_note("No login is stored.")
    else:
        print_note(
            f"The login was deleted here. {result.problem}"
            if result.problem
            else "Logged out: the login was deleted here and revoked at the server."
        )
    return ANSWERED


def _open_in_browser(address: str) -> None:
    """Print the address, and open it if a browser is available."""
    import webbrowser

    _show_address(address)
    if sys.platform == "darwin" or not environment().keys().isdisjoint(_DISPLAYS):
        webbrowser.open(address)


def _ask_for_redirect(address: str) -> str:
    """Print the address, and ask for the address that the browser is redirected to."""
    _show_address(address)
    return str(click.prompt("The final address in the browser, even if the page does not load", err=True))


def _show_address(address: str) -> None:
    click.echo(f"Open this address to log in:\n{address}", err=True)


_EXAMPLES = """\b
Examples:
  agentkit mcp serve --tools core,web  for a client that starts it
  agentkit mcp serve --tools core,web --http
      for clients that send the printed token
  agentkit mcp tools "uvx mcp-server-time"
      list the tools of a server, and their changes
  agentkit mcp tools "uvx mcp-server-time" --accept
  agentkit mcp tools --config mcp.json
      the same for all servers that a file lists
  agentkit mcp login https://mcp.example.com/mcp
"""


@click.group(short_help="Offer tools to MCP clients, and inspect MCP servers.", epilog=_EXAMPLES)
def mcp() -> None:
    """Offer tools over the Model Context Protocol, and inspect the tools of its servers."""


mcp.add_command(login)
mcp.add_command(logout)


@mcp.command("serve", short_help="Offer tools to MCP clients, until Ctrl-C.")
@click.option(
    "-t",
    "--tools",
    multiple=True,
    required=True,
    metavar="NAME,...",
    shell_complete=tool_names,
    help=f"Tools, collections ({COLLECTIONS}), FILE.py, or a file of MCP servers. Repeatable.",
)
@click.option(
    "--safety",
    metavar="LEVEL",
    default="network",
    show_default=True,
    shell_complete=safety_levels,
    help="What runs without approval.",
)
@click.option(
    "--ask-client", is_flag=True, help="Ask the person at the client to approve calls; otherwise they are denied."
)
@click.option("--files", is_flag=True, help="Offer the files of the current folder as resources.")
@click.option("--sessions", is_flag=True, help="Offer the transcripts of your sessions as resources.")
@click.option("--prompts", multiple=True, metavar="NAME,...", help="Templates to offer as prompts. Repeatable.")
@click.option("--http", is_flag=True, help="Serve streamable HTTP, and print URL and token.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", type=WholeNumber(0, 65_535), default=8000, show_default=True, help="0 for a free port.")
@click.option(
    "--token", metavar="TEXT", help="The token that clients must send; also AGENTKIT_TOKEN. Random by default."
)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host name of this server. Repeatable.")
def serve_tools(
    *,
    tools: tuple[str, ...],
    safety: str,
    ask_client: bool,
    files: bool,
    sessions: bool,
    prompts: tuple[str, ...],
    http: bool,
    **address: Any,
) -> int:
    """Offer tools to an MCP client until it closes the input, or over HTTP until Ctrl-C.

    Calls are judged like those of a model. File tools and shell work in the current folder, and `agentkit undo` undoes
    their changes.
    """
    from agentkit.cli.loaders import load_tools
    from agentkit.cli.settings import split_names
    from agentkit.mcp import serve
    from agentkit.workspace.journal import Journal
    from agentkit.workspace.workspace import Workspace

    chosen = load_tools(split_names(tools))
    workspace = Workspace(journal=Journal.of_this_machine()).for_run(label="mcp serve")
    approve: Any = "client" if ask_client else None
    resources: dict[str, Any] = {"files": files, "sessions": sessions, "prompts": map(_prompt, split_names(prompts))}
    where = _address(**address) if http else None
    try:
        serve(chosen, http=where, safety=safety, approve=approve, workspace=workspace, **resources)
    except KeyboardInterrupt:  # Ctrl-C stops the server
        return ANSWERED
    return ANSWERED


def _prompt(name: str) -> Any:
    """The template with this name as a prompt, whose arguments are its parameters and the input."""
    from agentkit import Tool
    from agentkit.cli.config import find_template

    template = find_template(name)
    names = [*template.parameters, "input"]
    required = [each for each in template.parameters if each not in template.defaults]
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in names}, "required": required}
    description = template.description or f"The template {name}."
    return Tool.from_schema(
        name, description, schema, lambda **arguments: template.render(arguments.pop("input", ""), arguments)
    )


def _address(*, token: str | None, **options: Any) -> Any:
    from agentkit.mcp import Address

    token = token or environment().get("AGENTKIT_TOKEN")
    return Address(token=token, when_ready=_print_url_and_token if token is None else _print_url, **options)


def _print_url(url: str, _token: str) -> None:
    click.echo(url)


def _print_url_and_token(url: str, token: str) -> None:
    click.echo(f"{url}\nAuthorization: Bearer {token}")


@mcp.command("tools", short_help="List the tools of SERVER, and their changes.")
@click.argument("server", required=False)
@click.option("--config", type=click.Path(), metavar="FILE", help="The file that lists SERVER, or all servers.")
@click.option("--accept", is_flag=True, help="Accept the server's current definitions.")
@click.option(
    "--environment", multiple=True, metavar="NAME", help="An environment variable to pass to the server. Repeatable."
)
@click.option("--token", metavar="TEXT", help="The token for a URL; also AGENTKIT_MCP_TOKEN.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: each tool as the server describes it, and changes.")
def show_tools(
    *, server: str | None, config: str | None, environment: tuple[str, ...], token: str | None, **flags: bool
) -> int:
    """Show the tools that SERVER, a command or a URL, offers, and how they differ from the accepted ones.

    The tools of a new server are accepted when they are shown. The exit code is 4 when a definition has changed and is
    not accepted, else 2 when a server cannot be used; the others are shown. FILE has the format of Claude, Cursor and
    VS Code; with it, SERVER is the name of a server in the file.
    """
    credentials: dict[str, Any] = {"environment": environment, "token": token}
    found = (
        _configured_servers(config, server, **credentials) if config is not None else [_server(server, **credentials)]
    )
    codes, documents = [], []
    for each in found:
        try:
            with each:
                code, document = _print_tools(each, heading=f"{each.name}:\n" if len(found) > 1 else "", **flags)
        except ConfigError as error:
            if len(found) == 1:
                raise
            print_error(error)
            code, document = USAGE, {"server": each.name, "error": str(error)}
        codes.append(code)
        documents.append(document)
    if flags["as_json"]:
        click.echo(json_text(documents if config is not None else documents[0]))
    return max(codes, default=ANSWERED)


def _print_tools(server: MCPServer, *, heading: str, accept: bool, as_json: bool) -> tuple[int, dict[str, Any]]:
    """Print the tools of a server, or return them as a document, and report changes. Raises ConfigError."""
    changes = server.changes
    if accept:
        server.accept()
    document = _document(server)
    if not as_json:
        click.echo(heading + _lines(server))
    _report_changes(server, changes, accept=accept)
    return REFUSED if changes and not accept else ANSWERED, document


def _server(server: str | None, *, environment: tuple[str, ...], token: str | None) -> MCPServer:
    """The server given as a command or URL."""
    from agentkit.mcp import MCPServer
    from agentkit.settings import environment as host

    if server is None:
        raise click.UsageError("Name a server, or a file that lists some: --config mcp.json.")
    bearer = token or (host().get("AGENTKIT_MCP_TOKEN") if "://" in server else None)
    return MCPServer(server, environment=environment, token=bearer)


def _configured_servers(
    config: str, server: str | None, *, environment: tuple[str, ...], token: str | None
) -> list[MCPServer]:
    """The servers listed in a file, or the one with that name."""
    from agentkit.event_rendering import escape_invisible
    from agentkit.mcp import read_servers

    if environment or token:
        raise click.UsageError(
            "--config defines the environment and token of each server; it cannot be combined with "
            "--environment and --token."
        )
    try:
        found = read_servers(config, only=None if server is None else [server])
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    for sentence in found.left_out:
        click.echo(escape_invisible(f"Left out: {sentence}"), err=True)
    return [*found.servers.values()]


def _report_changes(server: MCPServer, changes: Sequence[object], *, accept: bool) -> None:
    """Report on stderr which tools are left out, and which have changed."""
    from agentkit.event_rendering import escape_invisible

    for reason in server.unusable.values():
        click.echo(escape_invisible(f"Left out: {reason}"), err=True)
    for change in changes:
        click.echo(escape_invisible(f"Accepted: {change}" if accept else f"Changed: {change}"), err=True)


def _document(server: MCPServer) -> dict[str, Any]:
    tools = [{**each.to_dict(), "sha256": each.digest} for each in server.definitions]
    changes = [{"tool": change.name, "change": str(change)} for change in server.changes]
    return {"server": server.name, "tools": tools, "changes": changes, "unusable": server.unusable}


def _lines(server: MCPServer) -> str:
    """Render one line per tool: name, digest, description and the server's hints."""
    from agentkit.event_rendering import escape_invisible

    rows = [(each.name, each.digest[:8], each.hints_text(), each.description) for each in server.definitions]
    width = max((len(name) for name, *_ in rows), default=0)
    lines = []
    for name, digest, hints, text in rows:
        first = text.strip().partition("\n")[0]
        lines.append(
            escape_invisible(f"{name:<{width}}  {digest}  {first}" + (f" (it says: {hints})" if hints else ""))
        )
    return "\n".join(lines)
