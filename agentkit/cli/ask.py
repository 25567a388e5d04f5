"""`agentkit "question"`: the answer on stdout, the tool calls that led to it on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from agentkit.errors import ConfigError

if TYPE_CHECKING:
    from agentkit.agents.agent import Agent


@click.command()
@click.argument("question", nargs=-1)
@click.option("--offline", is_flag=True, help="Ask the model in the offline extra: no key, no network.")
@click.option("-m", "--model", metavar="NAME", help="The model, such as gpt-5.4-mini or ollama:qwen3.")
@click.option("-s", "--system", metavar="TEXT", help="The instruction the model is given.")
@click.option(
    "-t",
    "--tools",
    "names",
    multiple=True,
    metavar="NAME,...",
    help="Tools or collections (core, default), with commas or repeated; all when not given.",
)
@click.option("--no-tools", is_flag=True, help="Give the model no tools.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with answer, tool calls and usage.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show tool calls.")
def ask(
    *,
    question: tuple[str, ...],
    offline: bool,
    model: str | None,
    system: str | None,
    names: tuple[str, ...],
    no_tools: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Answer QUESTION. Piped text is appended to it."""
    from agentkit.cli.display import json_text, run_document

    prompt = _prompt(question)
    agent = _agent(offline=offline, model=model, names=names, no_tools=no_tools)
    if system:
        agent.instruction = system
    if as_json:
        result = agent.run(prompt)
        click.echo(json_text(run_document(result)))
        result.raise_for_status()
    else:
        _show(agent, prompt, quiet=quiet)


def _agent(*, offline: bool, model: str | None, names: tuple[str, ...], no_tools: bool) -> Agent:
    from agentkit.agents.agent import Agent
    from agentkit.llm.client import LLM
    from agentkit.tools import catalog

    if offline and model:
        raise ConfigError("Use --offline or --model, not both: the offline model is a model of its own.")
    if no_tools and names:
        raise ConfigError("Use --tools or --no-tools, not both.")
    chosen = [name.strip() for given in names or ("default",) for name in given.split(",") if not no_tools]
    return Agent("agentkit", catalog.named(chosen), llm=LLM(provider="offline" if offline else None, model=model))


def _prompt(question: tuple[str, ...]) -> str:
    """The words of the question, followed by what is piped in."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    prompt = "\n\n".join(part for part in (" ".join(question), piped.strip()) if part.strip())
    if not prompt:
        raise click.UsageError('There is no question. Ask one: agentkit "How much is 17% of 2400?"')
    return prompt


def _show(agent: Agent, prompt: str, *, quiet: bool) -> None:
    """Print the answer as it is written and each tool call as it ends. Raises the run's error."""
    from agentkit.agents.result import RunFinished
    from agentkit.cli.display import call_line, clean
    from agentkit.events import TextDelta, ToolCallFinished

    at_line_start = True
    for event in agent.stream(prompt):
        if isinstance(event, TextDelta):
            text = clean(event.text)
            click.echo(text, nl=False)
            at_line_start = text.endswith("\n") if text else at_line_start
        elif isinstance(event, ToolCallFinished) and not quiet:
            at_line_start = _end_line(at_line_start=at_line_start)
            click.echo(f"  {call_line(event)}", err=True)
        elif isinstance(event, RunFinished):
            _end_line(at_line_start=at_line_start)
            event.result.raise_for_status()


def _end_line(*, at_line_start: bool) -> bool:
    if not at_line_start:
        click.echo()
    return True
