"""Manifestos: agent files whose text lists tools as `<TOOL: NAME>input</TOOL>`.

Each tool takes one string and returns one string; several values are separated by `§`. The names ASK_USER, TELL_USER,
END_RUN, READ_README, SEARCH and OPEN_URL have a fixed meaning; other names are those of the program's own tools and of
the shipped ones, in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentkit.decisions import Label
from agentkit.errors import ConfigError
from agentkit.event_rendering import suggestion
from agentkit.messages import AssistantMessage, ToolSpec, arguments_of
from agentkit.tooling.arguments import read_arguments
from agentkit.tooling.run_context import RunContext
from agentkit.tooling.schema import Arguments
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import AnyTool, Toolset
from agentkit.tools import catalog
from agentkit.tools.files import read_file_in
from agentkit.tools.human import ask_user_tool, tell_user_tool
from agentkit.tools.web import fetch_url_tool, web_search_tool
from agentkit.workspace.workspace import Workspace

SEPARATOR = "§"
_CALL = re.compile(r"<TOOL:[ \t]*(?P<name>[A-Za-z_][A-Za-z0-9_-]*)[ \t]*>")
_PLACEHOLDERS = frozenset({"NAME", "TOOL_NAME", "TOOL", "NAME_OF_TOOL"})
"""Names that a manifesto uses to explain the form of a call."""

_READMES = ("README.md", "README", "README.txt", "README.rst", "readme.md")
_MEMORIES = ("memory", "memory.md", "memory.txt")
_INPUT = "input"


def tools_listed_in(text: str) -> dict[str, int]:
    """The names of the tools that a text lists, with the index of the line where each is first named."""
    names: dict[str, int] = {}
    for index, line in enumerate(text.split("\n")):
        for match in _CALL.finditer(line):
            if match["name"].upper() not in _PLACEHOLDERS:
                names.setdefault(match["name"], index)
    return names


def tool_named(name: str, own: Toolset) -> AnyTool:
    """The tool that a manifesto lists under a name, offered under this very name. Raises ConfigError."""
    key = name.upper()
    known: dict[str, Callable[[], AnyTool]] = {
        **{tool.name.upper(): partial(_same, tool) for tool in catalog.all_tools},
        **_MEANINGS,
        **{tool.name.upper(): partial(_same, tool) for tool in own},
    }
    if key not in known:
        raise ConfigError(
            f"No tool is named {name!r}.{suggestion(key, known)} Manifestos can list: {', '.join(_MEANINGS)}; your own "
            f"functions, given as tools=[...]; and {', '.join(catalog.all_tools.names)}."
        )
    found = known[key]().renamed(name)
    return JoinedTool.of(found) if len(found.spec.parameters.get("properties", {})) > 1 else found


def _same(tool: AnyTool) -> AnyTool:
    return tool


def memory_beside(path: Path) -> str:
    """The text of the `memory` file in the folder of a manifesto; empty without one. Raises ConfigError."""
    file = next((path.parent / name for name in _MEMORIES if (path.parent / name).is_file()), None)
    if file is None:
        return ""
    try:
        return file.read_text("utf-8-sig").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"The memory file {str(file)!r} cannot be read: {error}.") from error


class JoinedTool(Tool[..., Any]):
    """A tool whose arguments a model writes as one string, separated by `§`."""

    @classmethod
    def of(cls, tool: AnyTool) -> JoinedTool:
        """The same tool, with one string as its input."""
        joined = cls.__new__(cls)
        joined.__dict__.update({name: value for name, value in tool.__dict__.items() if name != "spec"})
        within = joined.__dict__["_within"]
        joined.__dict__["_within"] = None if within is None else partial(_joined_within, within)
        return joined

    @property
    def spec(self) -> ToolSpec:
        """The tool definition sent to the model: one string."""
        about = f"{SEPARATOR.join(self._names)}, separated by {SEPARATOR}"
        properties = {_INPUT: {"type": "string", "description": about}}
        schema = {"type": "object", "properties": properties, "required": [_INPUT], "additionalProperties": False}
        return ToolSpec(self.name, self.description, schema, schema)

    @property
    def _names(self) -> Sequence[str]:
        return list(self._parameters.json_schema.get("properties", {}))

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Validate arguments, given as one string or by name. Raises BadArguments."""
        given = read_arguments(arguments)
        if given.keys() == {_INPUT} and _INPUT not in self._names:
            parts = str(given[_INPUT]).split(SEPARATOR, len(self._names) - 1)
            given = dict(zip(self._names, (part.strip() for part in parts), strict=False))
        return super().check(given)


def _joined_within(within: Any, workspace: Any) -> AnyTool:
    return JoinedTool.of(within(workspace))


def _end_run() -> AnyTool:
    def end_run(run: RunContext[Any], answer: str = "") -> str:
        """End the run. Use it once, when nothing is left to do."""
        return answer or _last_told(run)

    return Tool(end_run, ends_run=True, level="safe")


def _last_told(run: RunContext[Any]) -> str:
    """What the person was told last in the run: the newest TELL_USER, or the newest text of the model."""
    for message in reversed(run.messages):
        if isinstance(message, AssistantMessage):
            told = [arguments_of(call) for call in message.tool_calls if call.name.upper() == "TELL_USER"]
            texts = [str(each.get("message", "")) for each in told if isinstance(each, Mapping)]
            text = "\n".join(texts) or message.text
            if text:
                return text
    return ""


def _readme(workspace: Workspace | None = None) -> AnyTool:
    given = Workspace.for_direct_calls(Path()) if workspace is None else workspace

    def read_readme() -> str:
        """Read the README of the project."""
        read = read_file_in(given)
        results = [read.invoke({"path": name}) for name in _READMES if (Path(given.folder) / name).is_file()]
        return next((str(each.value["content"]) for each in results if each.ok), "The project has no README.")

    return Tool(read_readme, level="safe", labels={Label.PRIVATE}, within=_readme)


_MEANINGS: Mapping[str, Callable[[], AnyTool]] = {
    "ASK_USER": ask_user_tool,
    "TELL_USER": tell_user_tool,
    "END_RUN": _end_run,
    "READ_README": _readme,
    "SEARCH": partial(_same, web_search_tool),
    "OPEN_URL": partial(_same, fetch_url_tool),
}
"""The names with a fixed meaning, and the functions that return their tools."""
