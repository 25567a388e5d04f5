"""`agentkit run`: ask the agent that a Python file defines, or that a text file describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentkit.cli.ask import answer, output_options
from agentkit.cli.ask_options import AskOptions, conversing

_EXAMPLES = """\b
Examples:
  agentkit run agent.py "Which invoices are due?"
  agentkit run agent.py:clerk "Have you any Borges?"
"""


@click.command(epilog=_EXAMPLES, short_help="Ask the agent in a Python or text file.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE[:NAME]")
@click.argument("question", nargs=-1, metavar="[QUESTION | @FILE | -]...")
@conversing
@output_options
def run(*, file: Path, **options: Any) -> int:
    """Ask the agent in FILE: the one that a Python file defines, or that a text file describes.

    The same as: agentkit ask --agent FILE QUESTION.
    """
    if options["agent"] is not None:
        raise click.UsageError("The agent is the first argument. Leave out --agent.")
    return answer(AskOptions(**{**options, "agent": file}))
