"""`agentkit plugins`, and the commands and providers of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agentkit.errors import ConfigError
from agentkit.tools.plugins import KINDS, Plugin, installed, load

if TYPE_CHECKING:
    from agentkit.llm.client import LLM

_USES = {"tools": "-t {}", "providers": "-m {}:MODEL", "commands": "agentkit {}"}


def plugin_command(name: str) -> click.Command | None:
    """The command of a plugin; None if no plugin has a command of that name. Raises ConfigError."""
    plugin = installed("commands").get(name)
    if plugin is None:
        return None
    command = load(plugin)
    if not isinstance(command, click.Command):
        raise _wrong(plugin, "a click command", command)
    return command


def plugin_llm(model: str) -> LLM | None:
    """The client for `PLUGIN:MODEL`; None if no plugin provides it. Raises ConfigError."""
    name, colon, rest = model.partition(":")
    plugin = installed("providers").get(name) if colon else None
    if plugin is None:
        return None
    from agentkit.llm.client import LLM

    made = load(plugin)(rest)
    if not isinstance(made, LLM):
        raise _wrong(plugin, "a function from a model's name to an LLM", made)
    return made


def _wrong(plugin: Plugin, wanted: str, found: Any) -> ConfigError:
    kind = type(found).__name__
    return ConfigError(f"The plugin {plugin.name!r} of the package {plugin.package} gave {kind} instead of {wanted}.")


@click.group(invoke_without_command=True, short_help="List the installed plugins.")
@click.pass_context
def plugins(context: click.Context) -> None:
    """List the installed plugins: packages that offer tools, providers and commands.

    A plugin is active only where it is named. Its tools have the level SYSTEM; to set another one:
    agentkit config set plugins.NAME network
    """
    if context.invoked_subcommand is None:
        context.invoke(list_plugins, as_json=False)


@plugins.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def list_plugins(*, as_json: bool) -> None:
    """List the installed plugins: kind, name, package and use. Nothing of them is imported."""
    from agentkit.cli.display import clean, document_text

    found = [plugin for kind in KINDS for plugin in installed(kind).values()]
    if as_json:
        names = ("kind", "name", "value", "package", "version")
        click.echo(document_text(plugins=[{name: getattr(each, name) for name in names} for each in found]))
        return
    for each in found:
        use = _USES[each.kind].format(each.name)
        click.echo(clean(f"{each.kind:<9}  {each.name:<16}  {each.package} {each.version}  use: {use}"))
    if not found:
        click.echo("No plugin is installed.", err=True)
