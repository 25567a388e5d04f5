"""Which shipped tools belong together? A new tool is a function in this folder and its name here.

Tools that only compute stand in `core_tools`; `default_tools` are all that are shipped, in order of harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentkit.tooling.toolset import Toolset
from agentkit.tools.core import calculator_tool, current_datetime_tool, json_parse_tool, string_length_tool

core_tools = Toolset((current_datetime_tool, calculator_tool, string_length_tool, json_parse_tool))
default_tools = core_tools

collections: Mapping[str, Toolset] = {"core": core_tools, "default": default_tools}
"""The collections by the names that the command line knows."""


def named(names: Iterable[str]) -> Toolset:
    """The tools of the named collections and the named tools, each once. Raises UnknownTool."""
    chosen = [tool for name in names for tool in collections.get(name) or (default_tools.find(name),)]
    return Toolset(list(dict.fromkeys(chosen)))
