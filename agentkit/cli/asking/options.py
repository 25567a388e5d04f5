"""Which flags do `ask`, `chat` and `serve` have in common? Who answers, with what, how far, and where it is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import click

from agentkit.cli.completing import COLLECTIONS, PLACE, limits_option, safety_levels, session_names, tool_names

FILE = click.Path(path_type=Path)
Command = Callable[..., Any]

_ANSWERING = (
    click.option("-m", "--model", metavar="NAME", help="The model, such as gpt-5.4-mini or ollama:qwen3."),
    click.option("--offline", is_flag=True, help="Ask the model in the offline extra: no key, no network."),
    click.option(
        "--agent",
        type=FILE,
        metavar="FILE",
        help="The agent that a text file describes, or that FILE.py or FILE.py:NAME makes; flags say otherwise.",
    ),
    click.option("-s", "--system", metavar="TEXT", help="The instruction the model is given."),
    click.option(
        "-t",
        "--tools",
        multiple=True,
        metavar="NAME,...",
        shell_complete=tool_names,
        help=f"Tools, collections ({COLLECTIONS}), FILE.py, or a file of MCP servers, with "
        "commas or repeated; the twelve by default.",
    ),
    click.option("--no-tools", is_flag=True, help="Give the model no tools."),
    click.option(
        "--safety",
        metavar="LEVEL",
        shell_complete=safety_levels,
        help="What runs unasked: safe, network (default), system.",
    ),
    limits_option(
        "What a run may take at most: cost (US dollars), seconds, iterations, tool_calls, calls_per_response, "
        "input_tokens, output_tokens, total_tokens, repeated_calls. Repeatable; none is no limit."
    ),
)

_CONVERSING = (
    click.option(
        "-y", "--yes", is_flag=True, help="Approve all that would be asked about. What is denied stays denied."
    ),
    click.option("--dry-run", is_flag=True, help="Change nothing, and show what would be changed."),
    click.option("-c", "--continue", "go_on", is_flag=True, help="Go on with the last session."),
    click.option("--session", metavar="NAME", shell_complete=session_names, help="Talk in the session of that name."),
    click.option("--no-session", is_flag=True, help="Keep nothing of this conversation."),
    click.option("--trace", metavar="FILE", help="Write what runs do into a file, a line each, without what was said."),
    PLACE,
)

RECORD = click.option(
    "--record", type=FILE, metavar="FILE", help="Record what happens in a cassette, to show or replay it."
)


def answering(command: Command) -> Command:
    """Give a command the flags that say which model is asked, with which tools, and how far it may go."""
    return _with(_ANSWERING, command)


def conversing(command: Command) -> Command:
    """The same, and those that say what is approved, in which session it is asked, and what is written down."""
    return _with((*_ANSWERING, *_CONVERSING), command)


def _with(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    return reduce(lambda done, option: option(done), reversed(options), command)
