"""`agentkit explain`: what would be said of a tool call, without running anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentkit.cli.exit_codes import ANSWERED, REFUSED

if TYPE_CHECKING:
    from agentkit.tooling.toolset import AnyTool


@click.command()
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[VALUE | KEY=VALUE]...")
@click.option("--safety", default="network", metavar="LEVEL", help="The agent's safety level (network).")
@click.option("--json", "as_json", is_flag=True, help="Print the decision as one JSON document.")
def explain(*, name: str, arguments: tuple[str, ...], safety: str, as_json: bool) -> int:
    r"""Say whether the tool NAME may be called like this, and why. Nothing is run.

    \b
    Examples:
      agentkit explain run_shell 'find . -delete'
      agentkit explain write_file notes.txt content=hello
    """
    from agentkit.cli.display import SCHEMA_VERSION, clean, json_text
    from agentkit.levels import SafetyLevel
    from agentkit.safety.policy import Policy
    from agentkit.tools.catalog import find

    tool = find(name)
    checked, own = tool.decide(_assigned(tool, arguments))
    decision = Policy(SafetyLevel.of(safety)).judge(tool.name, tool.level, own, checked)
    if as_json:
        document = {"schema_version": SCHEMA_VERSION, "tool": tool.name, "arguments": checked, **decision.to_dict()}
        click.echo(json_text(document))
    else:
        lines = [("", f"{decision.verdict}: {decision.reason}"), ("rule", decision.rule)]
        lines += [("evidence", decision.evidence), ("instead", decision.remedy)]
        click.echo("\n".join(clean(f"{word + ':':<10}{text}" if word else text) for word, text in lines if text))
    return REFUSED if decision.denied else ANSWERED


def _assigned(tool: AnyTool, arguments: tuple[str, ...]) -> dict[str, str]:
    """The arguments by name: KEY=VALUE where KEY is a parameter, anything else for the next parameter without one.

    Raises UsageError when there are more values than parameters.
    """
    names = list(tool.parameters["properties"])
    named: dict[str, str] = {}
    values = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if equals and key in names and key not in named:
            named[key] = value
        else:
            values.append(argument)
    free = [name for name in names if name not in named]
    if len(values) > len(free):
        raise click.UsageError(
            f"{tool.name} takes {', '.join(names) or 'no arguments'}; {values[-1]!r} is one too many."
        )
    return {**dict(zip(free, values, strict=False)), **named}
