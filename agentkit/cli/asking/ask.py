"""`agentkit "question"`: the answer on stdout, the tool calls that led to it on stderr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentkit.cli.completing import session_names, tool_names

_FILE = click.Path(path_type=Path)
_EXAMPLES = """\b
Examples:
  agentkit "How much is 1250 * 0.17?"
  git diff | agentkit "Write a commit message."
  agentkit "What is in this picture?" @photo.png
  agentkit -c "And in words?"                 go on with the last session
  agentkit -t core,web --limit cost=0.10 "Who won, and by how much?"

\b
Exit codes: 0 answered, 1 failed, 2 usage or configuration, 3 a limit,
            4 every tool call was refused, 130 interrupted.
"""


@click.command(short_help="Ask a question (this is the default).", epilog=_EXAMPLES)
@click.argument("question", nargs=-1, metavar="[QUESTION | @FILE | -]...")
@click.option("-m", "--model", metavar="NAME", help="The model, such as gpt-5.4-mini or ollama:qwen3.")
@click.option("--offline", is_flag=True, help="Ask the model in the offline extra: no key, no network.")
@click.option("-s", "--system", metavar="TEXT", help="The instruction the model is given.")
@click.option(
    "-t",
    "--tools",
    multiple=True,
    metavar="NAME,...",
    shell_complete=tool_names,
    help="Tools or collections (core, web, system, files, default), with commas or repeated; the twelve by default.",
)
@click.option("--no-tools", is_flag=True, help="Give the model no tools.")
@click.option("--safety", metavar="LEVEL", help="What runs unasked: safe, network (default), system.")
@click.option("-y", "--yes", is_flag=True, help="Approve all that would be asked about. What is denied stays denied.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and show what would be changed.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=NUMBER",
    help="What the run may take at most: cost (US dollars), seconds, iterations, tool_calls, input_tokens, "
    "output_tokens, total_tokens, repeated_calls. Repeatable; none is no limit.",
)
@click.option("-c", "--continue", "go_on", is_flag=True, help="Go on with the last session.")
@click.option("--session", metavar="NAME", shell_complete=session_names, help="Ask in the session of that name.")
@click.option("--no-session", is_flag=True, help="Keep nothing of this conversation.")
@click.option("--place", metavar="FILE|URL", help="Where sessions are kept: a file, or the URL of a database.")
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="Write the answer into a file.")
@click.option("--record", type=_FILE, metavar="FILE", help="Record the run in a cassette, to show or replay it.")
@click.option("--no-stream", is_flag=True, help="Show the answer when it is whole.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with answer, tool calls and usage.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help="Print what happens as it happens, a JSON object a line.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show tool calls.")
@click.option("-v", "--verbose", is_flag=True, help="Close with a line of tokens, money and seconds.")
def ask(**options: Any) -> int:
    """Answer QUESTION.

    Piped text is appended to it, or stands where - stands; @FILE is the text or image in a file. At a terminal, what
    must be asked for is asked there. The conversation is kept, so that -c can go on with it; without a question, -c
    goes on with a run that was left.
    """
    from agentkit.cli.asking.order import Order

    order = Order(**options)

    from agentkit.cli.asking.answering import answer

    return answer(order)
