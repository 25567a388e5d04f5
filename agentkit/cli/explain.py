"""`agentkit explain`: what would be said of a tool call, without running anything."""

from __future__ import annotations

import click

from agentkit.cli.exit_codes import ANSWERED, REFUSED

_EXAMPLES = """\b
Examples:
  agentkit explain run_shell 'find . -delete'
  agentkit explain write_file notes.txt content=hello
"""


@click.command(epilog=_EXAMPLES)
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[VALUE | KEY=VALUE]...")
@click.option("--safety", default="network", metavar="LEVEL", help="The agent's safety level (network).")
@click.option("--json", "as_json", is_flag=True, help="Print the decision as one JSON document.")
def explain(*, name: str, arguments: tuple[str, ...], safety: str, as_json: bool) -> int:
    """Say whether the tool NAME may be called like this, and why. Nothing is run."""
    from agentkit.cli.arguments import named_arguments
    from agentkit.cli.display import SCHEMA_VERSION, clean, json_text
    from agentkit.levels import SafetyLevel
    from agentkit.safety.policy import Policy
    from agentkit.tools.catalog import find

    tool = find(name)
    checked, own = tool.decide(named_arguments(tool, arguments))
    decision = Policy(SafetyLevel.of(safety)).judge(
        tool.name, tool.level, own, checked, tool.canonical(checked) if checked else None
    )
    if as_json:
        document = {"schema_version": SCHEMA_VERSION, "tool": tool.name, "arguments": checked, **decision.to_dict()}
        click.echo(json_text(document))
    else:
        lines = [("", f"{decision.verdict}: {decision.reason}"), ("rule", decision.rule)]
        lines += [("evidence", decision.evidence), ("instead", decision.remedy)]
        click.echo("\n".join(clean(f"{word + ':':<10}{text}" if word else text) for word, text in lines if text))
    return REFUSED if decision.denied else ANSWERED
