"""`agentkit tools` and `agentkit explain`: list, describe, judge and call tools without a model."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from agentkit.cli.options import DefaultGroup, safety_levels, tool_names
from agentkit.cli.terminal import (
    ANSWERED,
    FAILED,
    REFUSED,
    USAGE,
    clean,
    document_text,
    for_shell,
    json_text,
    print_error,
    wrap_lines,
)
from agentkit.text_encoding import split_lines

if TYPE_CHECKING:
    from agentkit.messages import ToolResult
    from agentkit.tooling.toolset import AnyTool


_EXAMPLES = """\b
Examples:
  agentkit tools list core,tools.py
  agentkit tools run calculator expression="2+2"
  agentkit tools run tools.py:price thing=lamp
"""


@click.group(cls=DefaultGroup, epilog=_EXAMPLES, short_help="List the tools, and run one without a model.")
def tools() -> None:
    """List the tools, and run one without a model."""


@tools.command("list", short_help="List every tool with its safety level.")
@click.argument("names", nargs=-1, metavar="[NAME,...]...", shell_complete=tool_names)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: name, level, description, parameters.")
def list_tools(*, names: tuple[str, ...], as_json: bool) -> None:
    """List every tool with its safety level, or those of the collections and files NAME: core, web, FILE.py."""
    from agentkit.cli.loaders import load_tools
    from agentkit.cli.settings import split_names
    from agentkit.tools.catalog import all_tools

    known = load_tools(split_names(names)) if names else all_tools
    if as_json:
        entries = [
            {
                "name": tool.name,
                "level": tool.level.name,
                "description": tool.description,
                "parameters": tool.parameters,
            }
            for tool in known
        ]
        click.echo(json_text(entries))
        return
    width = max(len(name) for name in known.names)
    for tool in known:
        text = f"{tool.name:<{width}}  {tool.level.name:<7}  {split_lines(_description(tool))[0]}"
        click.echo(wrap_lines(clean(text), sys.stdout, width + 11))


@tools.command("show")
@click.argument("name", shell_complete=tool_names)
def show_tool(name: str) -> None:
    """Show the description of the tool NAME that a model receives."""
    from agentkit.cli.loaders import load_tool

    tool = load_tool(name)
    click.echo(clean(f"{tool.name}  {tool.level.name}\n\n{_description(tool)}\n"))
    click.echo(json_text(tool.parameters))


def _description(tool: AnyTool) -> str:
    """The description of a tool, or a note that it is missing: a model then has only the name."""
    return tool.description or "(no description: the tool has no docstring)"


@tools.command("run")
@click.argument("name", shell_complete=tool_names)
@click.argument("arguments", nargs=-1, metavar="[VALUE | KEY=VALUE]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with result, status and decision.")
@click.option("--confirm", is_flag=True, help="Allow this call to delete or overwrite permanently, as rm -rf does.")
def run_tool(*, name: str, arguments: tuple[str, ...], as_json: bool, confirm: bool) -> int:
    """Run the tool NAME. No approval is needed, because you call it; calls that its judge denies stay denied."""
    from agentkit.cli.display import result_fields, value_text
    from agentkit.errors import AgentKitError

    tool = _load_tool(name)
    result = tool.invoke(named_arguments(tool, arguments), confirm=confirm)
    if as_json:
        click.echo(document_text(**result_fields(result)))
    elif result.ok:
        click.echo(value_text(result))
    else:
        print_error(AgentKitError(f"{result.error}"), _advice(result, name))
    return exit_code(result)


def _load_tool(name: str) -> AnyTool:
    """The tool, in a workspace with a journal; `core` tools change no files and need no workspace.

    Importing files, web and sandbox would take a third of the time of `tools run calculator`. Raises UnknownTool.
    """
    from agentkit.tools.core import core_tools

    if name in core_tools.names:
        return core_tools.find(name)
    from agentkit.cli.loaders import load_tool
    from agentkit.workspace.journal import Journal
    from agentkit.workspace.workspace import Workspace

    workspace = Workspace(journal=Journal.of_this_machine()).for_run(label=f"tools run {name}")
    return load_tool(name).within(workspace)


def _advice(result: ToolResult, name: str) -> str:
    """Advice for a failed call of the tool `name`."""
    from agentkit.tooling.tool import UNCONFIRMED

    if exit_code(result) == USAGE:
        return f"To see its parameters: agentkit tools show {name}"
    if result.decision is not None and result.decision.rule == UNCONFIRMED:
        return "On the command line, add the option --confirm."
    remedy = result.decision.remedy if result.decision is not None else ""
    return remedy if remedy not in f"{result.error}" else ""


def exit_code(result: ToolResult) -> int:
    """The exit code for the result of a tool."""
    from agentkit.cli.display import was_refused
    from agentkit.tooling.results import BAD_ARGUMENTS

    if result.decision is not None and result.decision.rule == BAD_ARGUMENTS:
        return USAGE
    if was_refused(result):
        return REFUSED
    return ANSWERED if result.ok else FAILED


_EXPLAIN_EXAMPLES = """\b
Examples:
  agentkit explain run_shell 'find . -delete'
  agentkit explain write_file notes.txt content=hello
"""


@click.command(epilog=_EXPLAIN_EXAMPLES, short_help="Show whether a tool call is allowed, and why.")
@click.argument("name", shell_complete=tool_names)
@click.argument("arguments", nargs=-1, metavar="[VALUE | KEY=VALUE]...")
@click.option(
    "--safety",
    metavar="LEVEL",
    shell_complete=safety_levels,
    help="The agent's safety level: safe, network (default), system.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the decision as one JSON document.")
def explain(*, name: str, arguments: tuple[str, ...], safety: str | None, as_json: bool) -> int:
    """Show whether this call of the tool NAME is allowed, and why. Nothing is run."""
    from agentkit.cli.loaders import load_tool
    from agentkit.cli.settings import load_settings
    from agentkit.decisions import SafetyLevel
    from agentkit.safety.policy import Policy

    tool = load_tool(name)
    checked, own = tool.decide(named_arguments(tool, arguments))
    level = SafetyLevel.of(safety) if safety is not None else load_settings().of("safety")
    decision = Policy(level).judge(tool.name, tool.level, own, checked, tool.canonical(checked) if checked else None)
    if as_json:
        click.echo(document_text(tool=tool.name, arguments=checked, **decision.to_dict()))
    else:
        lines = [("", f"{decision.verdict}: {decision.reason}"), ("rule", decision.rule)]
        evidence = decision.evidence if len(decision.evidence) > 1 and checked else ""
        lines += [("evidence", evidence), ("instead", for_shell(decision.remedy))]
        click.echo("\n".join(clean(f"{word + ':':<10}{text}" if word else text) for word, text in lines if text))
    return REFUSED if decision.denied else ANSWERED


_MISSPELT = re.compile(r"[a-z][a-z0-9_]*=(?!=)")
"""Matches a mistyped parameter name, but not a variable before a command, `LANG=C sort`, or a comparison, `a==b`."""


def named_arguments(tool: AnyTool, words: tuple[str, ...]) -> dict[str, str]:
    """Parse arguments: KEY=VALUE if KEY is a parameter, other words for the next parameter without a value.

    Raises UsageError for an unknown parameter name, for a parameter given twice, and for more values than parameters.
    """
    names = list(tool.parameters["properties"])
    named: dict[str, str] = {}
    values = []
    for word in words:
        key, equals, value = word.partition("=")
        if key not in names and _MISSPELT.match(word):
            known_names = ", ".join(names) or "none"
            raise click.UsageError(f"{tool.name} has no parameter {key!r}; its parameters are: {known_names}.")
        if not equals or key not in names:
            values.append(word)
        elif key in named:
            raise click.UsageError(f"{key!r} is given twice; pass each argument once.")
        else:
            named[key] = value
    remaining = [name for name in names if name not in named]
    if len(values) > len(remaining):
        expectation = f"takes {', '.join(names)}" if names else "takes no arguments"
        raise click.UsageError(f"{tool.name} {expectation}; {values[len(remaining)]!r} is unexpected.")
    return {**dict(zip(remaining, values, strict=False)), **named}
