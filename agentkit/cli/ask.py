"""`agentkit "question"`: the answer on stdout, the tool calls that led to it on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from agentkit.errors import ConfigError

if TYPE_CHECKING:
    from agentkit.agents.agent import Agent
    from agentkit.tooling.toolset import Toolset


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
    help="Tools or collections (core, web, system, files, default), with commas or repeated; the twelve by default.",
)
@click.option("--no-tools", is_flag=True, help="Give the model no tools.")
@click.option(
    "--safety", default="network", metavar="LEVEL", help="What runs unasked: safe, network (default), system."
)
@click.option("--dry-run", is_flag=True, help="Change nothing, and show what would be changed.")
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
    safety: str,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Answer QUESTION. Piped text is appended to it. At a terminal, what must be asked for is asked there."""
    from agentkit.cli.display import json_text, run_document

    prompt = _prompt(question)
    agent = _agent(offline=offline, model=model, tools=_tools(names, no_tools=no_tools), safety=safety, dry_run=dry_run)
    if system:
        agent.instruction = system
    if as_json:
        result = agent.run(prompt)
        click.echo(json_text(run_document(result)))
        result.raise_for_status()
    else:
        _show(agent, prompt, quiet=quiet)


def _agent(*, offline: bool, model: str | None, tools: Toolset, safety: str, dry_run: bool) -> Agent[str]:
    from agentkit.agents.agent import Agent
    from agentkit.llm.client import LLM
    from agentkit.safety.terminal import TerminalApprover

    if offline and model:
        raise ConfigError("Use --offline or --model, not both: the offline model is a model of its own.")
    llm = LLM(provider="offline" if offline else None, model=model)
    approve = TerminalApprover() if sys.stdin is not None and sys.stdin.isatty() else None
    return Agent("agentkit", tools, llm=llm, safety=safety, dry_run=dry_run, approve=approve)


def _tools(names: tuple[str, ...], *, no_tools: bool) -> Toolset:
    from agentkit.tools import catalog

    if no_tools and names:
        raise ConfigError("Use --tools or --no-tools, not both.")
    return catalog.named(name.strip() for given in names or ("default",) for name in given.split(",") if not no_tools)


def _prompt(question: tuple[str, ...]) -> str:
    """The words of the question, followed by what is piped in."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    prompt = "\n\n".join(part for part in (" ".join(question), piped.strip()) if part.strip())
    if not prompt:
        raise click.UsageError('There is no question. Ask one: agentkit "How much is 17% of 2400?"')
    return prompt


def _show(agent: Agent[str], prompt: str, *, quiet: bool) -> None:
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
            if event.result.changes and not quiet:
                click.echo(clean(event.result.changes), err=True)
            event.result.raise_for_status()


def _end_line(*, at_line_start: bool) -> bool:
    if not at_line_start:
        click.echo()
    return True
