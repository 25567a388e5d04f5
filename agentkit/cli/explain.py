"""`agentkit explain`: what would be said of a tool call, without running anything."""

from __future__ import annotations

import click

from agentkit.cli.completing import safety_levels, tool_names
from agentkit.cli.exit_codes import ANSWERED, REFUSED

_EXAMPLES = """\b
Examples:
  agentkit explain run_shell 'find . -delete'
  agentkit explain write_file notes.txt content=hello
"""


@click.command(epilog=_EXAMPLES, short_help="Say whether a tool call would be allowed, and why.")
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
    """Say whether the tool NAME may be called like this, and why. Nothing is run."""
    from agentkit.cli.arguments import named_arguments
    from agentkit.cli.display import clean, document_text
    from agentkit.cli.loading.tools import tool_named
    from agentkit.cli.settings.layers import settings_here
    from agentkit.levels import SafetyLevel
    from agentkit.safety.policy import Policy

    tool = tool_named(name)
    checked, own = tool.decide(named_arguments(tool, arguments))
    level = SafetyLevel.of(safety) if safety is not None else settings_here().of("safety")
    decision = Policy(level).judge(tool.name, tool.level, own, checked, tool.canonical(checked) if checked else None)
    if as_json:
        click.echo(document_text(tool=tool.name, arguments=checked, **decision.to_dict()))
    else:
        lines = [("", f"{decision.verdict}: {decision.reason}"), ("rule", decision.rule)]
        lines += [("evidence", decision.evidence), ("instead", decision.remedy)]
        click.echo("\n".join(clean(f"{word + ':':<10}{text}" if word else text) for word, text in lines if text))
    return REFUSED if decision.denied else ANSWERED
