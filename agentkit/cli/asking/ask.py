"""`agentkit "question"`: the answer on stdout, the tool calls that led to it on stderr."""

from __future__ import annotations

from typing import Any

import click

from agentkit.cli.asking.options import FILE, RECORD, conversing

_EXAMPLES = """\b
Examples:
  agentkit "How much is 1250 * 0.17?"
  git diff | agentkit "Write a commit message."
  agentkit "What is in this picture?" @photo.png
  agentkit --schema "shop, total number, day date" @receipt.png
  agentkit -c "And in words?"                 go on with the last session
  agentkit -t core,web --limit cost=0.10 "Who won, and by how much?"

\b
Exit codes: 0 answered, 1 failed, 2 usage or configuration, 3 a limit,
            4 every tool call was refused, 130 interrupted.
"""


@click.command(short_help="Ask a question (this is the default).", epilog=_EXAMPLES)
@click.argument("question", nargs=-1, metavar="[QUESTION | @FILE | -]...")
@conversing
@click.option(
    "--schema", metavar="FIELDS", help="Answer with JSON of these fields, 'name, age int', or of FILE.py:CLASS."
)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Write the answer into a file.")
@RECORD
@click.option("--no-stream", is_flag=True, help="Show the answer when it is whole.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with answer, tool calls and usage.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help="Print what happens as it happens, a JSON object a line.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show tool calls.")
@click.option("-v", "--verbose", is_flag=True, help="Close with a line of tokens, money and seconds.")
def ask(**options: Any) -> int:
    """Answer QUESTION.

    Piped text is appended to it, or stands where - stands; @FILE is the text, image, PDF or recording in a file. At
    a terminal, what must be asked for is asked there. The conversation is kept, so that -c can go on with it;
    without a question, -c goes on with a run that was left.
    """
    from agentkit.cli.asking.order import Order

    order = Order(**options)

    from agentkit.cli.asking.answering import answer

    return answer(order)
