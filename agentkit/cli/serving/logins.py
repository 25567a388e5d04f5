"""`agentkit mcp login` and `logout`: a person's login at an MCP server, kept for whatever runs on this machine."""

from __future__ import annotations

import sys
from typing import Any

import click

from agentkit.cli.arguments import WholeNumber
from agentkit.cli.exit_codes import ANSWERED
from agentkit.cli.terminal import tell
from agentkit.config import environment

_DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
"""The variables of which one is set where a browser can be opened."""


@click.command("login", short_help="Log in at a server, in your browser.")
@click.argument("url")
@click.option("--scope", metavar="TEXT", help="The rights that are asked for; by default those that the server names.")
@click.option("--client-id", metavar="TEXT", help="What we are known by there; by default we register.")
@click.option("--issuer", metavar="URL", help="The authorization server that is meant; no other is taken.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host that may take part. Repeatable.")
@click.option("--port", type=WholeNumber(0, 65_535), default=0, help="Where the browser is led back to; any free.")
@click.option("--paste", is_flag=True, help="Ask for the address that the browser ends at, when it runs elsewhere.")
def login(*, url: str, paste: bool, hosts: tuple[str, ...], **terms: Any) -> int:
    """Log in at the server at URL, in your browser, and keep the login in the state folder.

    It holds for that address, for you on this machine, in all programs, until `agentkit mcp logout`. A secret that goes
    with --client-id is read from AGENTKIT_MCP_CLIENT_SECRET.
    """
    from agentkit.mcp import Login, MCPServer

    secret = environment().get("AGENTKIT_MCP_CLIENT_SECRET") if terms["client_id"] else None
    asking = Login(_pasted if paste else _opened, hosts=hosts, client_secret=secret, **terms)
    with MCPServer(url, login=asking) as server:
        server.login()
    tell(f"Logged in. To forget it: agentkit mcp logout {url.partition('?')[0]}")
    return ANSWERED


@click.command("logout", short_help="Forget the login at a server.")
@click.argument("url")
def logout(*, url: str) -> int:
    """Forget the login at the server at URL, and have it taken back where it was given, if that is offered there."""
    from agentkit.mcp import MCPServer

    with MCPServer(url) as server:
        done = server.logout()
    if not done:
        tell("There was no login.")
    else:
        tell(f"Forgotten here. {done.trouble}" if done.trouble else "Forgotten, here and where it was given.")
    return ANSWERED


def _opened(address: str) -> None:
    """Show the address, and open it where there is a browser for that."""
    import webbrowser

    _show(address)
    if sys.platform == "darwin" or not environment().keys().isdisjoint(_DISPLAYS):
        webbrowser.open(address)


def _pasted(address: str) -> str:
    """Show the address, and ask for the one that it leads to."""
    _show(address)
    return str(click.prompt("The address that the browser ends at, whether it shows a page or not", err=True))


def _show(address: str) -> None:
    click.echo(f"Open this address to log in:\n{address}", err=True)
