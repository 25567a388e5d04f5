"""Plugins: installed packages that offer tools, providers and commands by entry points.

A plugin is loaded only when it is named. Its tools have the level SYSTEM, and their results count as untrusted and
private, unless the user sets another level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from agentkit._dataclass import dataclass
from agentkit.decisions import Label, SafetyLevel
from agentkit.errors import ConfigError
from agentkit.tooling.toolset import Toolset

Kind = Literal["tools", "providers", "commands"]

KINDS: tuple[Kind, ...] = ("tools", "providers", "commands")
"""The kinds of plugins; the entry points of a kind are in the group `agentkit.KIND`."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """An installed plugin: kind, name, the object that is loaded, and the package with its version."""

    kind: Kind
    name: str
    value: str
    package: str
    version: str
    load: Callable[[], Any]


def installed(kind: Kind) -> dict[str, Plugin]:
    """The installed plugins of a kind by name. Nothing is imported."""
    from importlib.metadata import entry_points

    found = {}
    for point in entry_points(group=f"agentkit.{kind}"):
        package = (point.dist.name, point.dist.version) if point.dist is not None else ("unknown", "")
        found[point.name] = Plugin(kind, point.name, point.value, *package, point.load)
    return found


def load(plugin: Plugin) -> Any:
    """Import a plugin and return its object. Raises ConfigError naming the package if that fails."""
    try:
        return plugin.load()
    except Exception as error:
        raise ConfigError(
            f"The plugin {plugin.name!r} of the package {plugin.package} failed: {type(error).__name__}: {error}. "
            "Update or remove the package."
        ) from error


def plugin_tools(name: str, level: SafetyLevel | str | None = None) -> Toolset:
    """The tools of a plugin, such as those of an entry point `weather` in the group `agentkit.tools`.

    The entry point is a tool, a function, or a list of them. Without `level`, calls have the level SYSTEM, and results
    count as untrusted and private; with it, the labels are those that the tools declare. Raises ConfigError if there is
    no such plugin, or if it fails.
    """
    known = installed("tools")
    if name not in known:
        from agentkit.event_rendering import suggestion

        listed = f"Installed: {', '.join(known)}." if known else "No package with tools is installed."
        raise ConfigError(f"No plugin with tools is named {name!r}.{suggestion(name, known)} {listed}")
    loaded = load(known[name])
    items = list(loaded) if isinstance(loaded, list | tuple | Toolset) else [loaded]
    chosen = SafetyLevel.SYSTEM if level is None else SafetyLevel.of(level)
    labels = frozenset(Label) if level is None else None
    return Toolset([tool.of_plugin(name, chosen, labels) for tool in Toolset(items)])
