"""The collections of built-in tools.

`default_tools` contains the twelve default tools, in order of their safety level; `file_tools` has two more, for agents
that work on files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentkit.tooling.toolset import AnyTool, Toolset
from agentkit.tools.core import core_tools
from agentkit.tools.files import file_tools, list_directory_tool, read_file_tool, write_file_tool
from agentkit.tools.system import python_tool, shell_tool
from agentkit.tools.web import fetch_url_tool, web_search_tool, wikipedia_tool

web_tools = Toolset((web_search_tool, fetch_url_tool, wikipedia_tool))
system_tools = Toolset((read_file_tool, write_file_tool, list_directory_tool, shell_tool, python_tool))
default_tools = core_tools + web_tools + system_tools

collections: Mapping[str, Toolset] = {
    "core": core_tools,
    "web": web_tools,
    "system": system_tools,
    "files": file_tools,
    "default": default_tools,
}
"""The collections by their names on the command line."""

all_tools = Toolset(list(dict.fromkeys(tool for each in collections.values() for tool in each)))


def find(name: str) -> AnyTool:
    """Return the built-in tool with that name. Raises UnknownTool."""
    return all_tools.find(name)


def named(names: Iterable[str]) -> Toolset:
    """Return the tools of the named collections and the named tools, without duplicates. Raises UnknownTool."""
    chosen = [tool for name in names for tool in collections.get(name) or (find(name),)]
    return Toolset(list(dict.fromkeys(chosen)))
