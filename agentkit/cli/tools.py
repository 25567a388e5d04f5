"""`agentkit tools`: see the tools, and use one without a model."""

from __future__ import annotations

import json

import click

from agentkit.cli.exit_codes import ANSWERED, FAILED, REFUSED


@click.group()
def tools() -> None:
    """See the tools, and use one without a model."""


@tools.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: name, level, description, parameters.")
def list_tools(*, as_json: bool) -> None:
    """List every tool with its safety level."""
    from agentkit.tools.catalog import default_tools as known

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
        click.echo(json.dumps(entries, ensure_ascii=False, indent=2))
        return
    width = max(len(name) for name in known.names)
    for tool in known:
        click.echo(f"{tool.name:<{width}}  {tool.level.name:<7}  {tool.description.splitlines()[0]}")


@tools.command("show")
@click.argument("name")
def show_tool(name: str) -> None:
    """Show what a model is told of the tool NAME."""
    from agentkit.tools.catalog import default_tools

    tool = default_tools.find(name)
    click.echo(f"{tool.name}  {tool.level.name}\n\n{tool.description}\n")
    click.echo(json.dumps(tool.parameters, ensure_ascii=False, indent=2))


@tools.command("run")
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with result, status and decision.")
def run_tool(*, name: str, arguments: tuple[str, ...], as_json: bool) -> int:
    """Run the tool NAME with KEY=VALUE arguments."""
    from agentkit.cli.display import result_document, value_text, was_refused
    from agentkit.tools.catalog import default_tools

    tool = default_tools.find(name)
    result = tool.invoke(dict(_pair(argument) for argument in arguments))
    if as_json:
        click.echo(json.dumps(result_document(result), ensure_ascii=False, indent=2))
    elif result.ok:
        click.echo(value_text(result))
    else:
        click.echo(f"Error: {result.error}", err=True)
    if was_refused(result):
        return REFUSED
    return ANSWERED if result.ok else FAILED


def _pair(argument: str) -> tuple[str, str]:
    key, equals, value = argument.partition("=")
    if not equals or not key:
        raise click.UsageError(f'{argument!r} is no KEY=VALUE; write it as in expression="2+2".')
    return key, value
