"""`agentkit serve`: the agent as an OpenAI-compatible endpoint, and as a page to chat on."""

from __future__ import annotations

from typing import Any

import click

from agentkit.cli.arguments import WholeNumber
from agentkit.cli.asking.options import answering
from agentkit.cli.completing import PLACE, session_names

_EXAMPLES = """\b
Examples:
  agentkit serve                               open the address that it prints
  agentkit serve -t core,files --safety safe   with other tools, and less unasked
  agentkit serve --agent clerk.txt --port 9000
  agentkit serve --agent bot.py:clerk
  AGENTKIT_TOKEN=... agentkit serve --host 0.0.0.0 --allow-host box.example.com

\b
For a client of OpenAI: base URL http://127.0.0.1:8080/v1, model agentkit,
and the token as API key. What must be asked for is asked on the page, and
denied to other clients.
"""


@click.command(short_help="Serve an OpenAI-compatible endpoint and a page to chat on.", epilog=_EXAMPLES)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", type=WholeNumber(0, 65_535), default=8080, show_default=True, help="0 for one that is free.")
@click.option(
    "--token", metavar="TEXT", help="What clients must show; AGENTKIT_TOKEN says the same. A random one else."
)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name it is reached under. Repeatable.")
@answering
@click.option("--session", metavar="NAME", shell_complete=session_names, help="The conversation that the page opens.")
@PLACE
@click.option("--runs", type=WholeNumber(1, 1_000), default=8, show_default=True, help="Runs at the same time.")
def serve(**options: Any) -> int:
    """Serve the agent until Ctrl-C.

    Other programs reach it under /v1 as they reach OpenAI; at / is a page with the conversations that are kept. Without
    --host nobody else can reach this machine's port, and nobody gets in without the token.
    """
    from agentkit.cli.asking.order import Order
    from agentkit.cli.serving.starting import Wanted, start

    address = {name: options.pop(name) for name in ("host", "port", "token", "hosts", "runs")}
    return start(Wanted(**address, order=Order(**options)))
