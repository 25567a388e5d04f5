"""`agentkit chat`: talk with a model that has tools, prompt by prompt."""

from __future__ import annotations

from typing import Any

import click

from agentkit.cli.asking.options import RECORD, conversing

_EXAMPLES = """\b
Examples:
  agentkit chat
  agentkit chat -c                            go on with the last session
  agentkit chat -m ollama:qwen3 -t core,files --limit cost=0.10
  printf 'What is 6*7?\\nAnd in words?\\n' | agentkit chat

\b
Exit codes: 0 answered, or left by a person; else as `agentkit ask --help` says, for prompts that are piped in.
"""


@click.command(short_help="Talk, prompt by prompt, at a terminal or through a pipe.", epilog=_EXAMPLES)
@conversing
@RECORD
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document a line for each prompt.")
def chat(**options: Any) -> int:
    """Talk with a model that has tools: /help says what can be said beside prompts.

    What must be asked for is asked in place. The conversation is kept, so that -c can go on with it. What is piped in
    is a prompt a line, and the answers are plain text on stdout.
    """
    from agentkit.cli.asking.order import Order

    order = Order(**options)

    from agentkit.cli.chat.talk import talk

    return talk(order)
