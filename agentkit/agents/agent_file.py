"""Agents described by plain text files: settings and an instruction, or a manifesto that lists its tools."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NoReturn

from agentkit._dataclass import dataclass
from agentkit.agents.options import validate_optional
from agentkit.decisions import Label, SafetyLevel
from agentkit.errors import ConfigError
from agentkit.event_rendering import escape_invisible, suggestion
from agentkit.messages import AssistantMessage, ToolSpec, arguments_of
from agentkit.text_encoding import split_lines
from agentkit.tooling.arguments import read_arguments
from agentkit.tooling.run_context import RunContext
from agentkit.tooling.schema import Arguments
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import AnyTool, Toolset
from agentkit.tools import catalog
from agentkit.tools.files import read_file_in
from agentkit.tools.human import ask_user_tool, tell_user_tool
from agentkit.tools.web import fetch_url_tool, web_search_tool
from agentkit.usage import Limits
from agentkit.workspace.workspace import Workspace

_ENTRY = re.compile(r"\s*(?P<key>[A-Za-z][A-Za-z _-]{0,30}?)\s*:(?:\s+(?P<value>.*))?\s*")
_BULLET = re.compile(r"\s*[-*•]\s+(?P<value>.*?)\s*")
_LIMIT = re.compile(r"(?P<name>[A-Za-z][A-Za-z _-]*?)\s*[=: ]\s*(?P<value>[\d._]+|refuse|free|none)", re.IGNORECASE)
_RULE = re.compile(r"\s*-{3,}\s*")
_NOTHING = {"none", "no", "off"}
_MAX_FILE_BYTES = 1_000_000
_LOOSE_ENTRY = re.compile(r"\s*(?P<key>[^\W\d_][\w -]{0,30}?)\s*[:\uff1a\ufe55\u2236\ua789].*")
"""A line that looks like a setting to a person, in any letters and with any kind of colon."""

_LOOKALIKES = str.maketrans("аеорсухіѕјһԁԛԝмтнквгпοανερτυικ", "aeopcyxisjhdqwmthkbrnoaveptuik")
"""Cyrillic and Greek letters, mapped to the Latin letters that they look like."""

_JOINERS = dict.fromkeys(map(ord, "\u200c\u200d\ufe0e\ufe0f"))
"""Characters that are not shown and belong to emoji and to Persian words."""


@dataclass(frozen=True, slots=True)
class AgentFile:
    """The settings of an agent file; None or empty for a missing setting.

    `session` is the name under which its runs are saved, None when they are not. `workspace` is a folder.
    """

    name: str
    instruction: str
    tools: Toolset = field(default_factory=Toolset)
    model: str | None = None
    safety: SafetyLevel | None = None
    limits: Limits | None = None
    max_iterations: int | None = None
    session: str | None = None
    workspace: Path | None = None
    description: str | None = None
    tool_calling: Literal["text"] | None = None

    def arguments(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of Agent; `options` override the settings of the file."""
        settings = {each.name: getattr(self, each.name) for each in fields(self)}
        known = {name: value for name, value in settings.items() if value is not None}
        for argument, setting in (("llm", "model"), ("policy", "safety")):
            if argument in options:
                known.pop(setting, None)
        return {**known, **options}


_FORMAT = "An agent file is text: one setting per line, such as tools: core; an empty line; the instruction."


def read_manifesto(path: str | Path, tools: Iterable[Any] = ()) -> AgentFile:
    """Read an agent from a file. Its default name is that of the file; its runs are saved in a session of this file.

    `tools` are custom tools that the file can name in addition to the shipped ones. A workspace is relative to the
    folder of the file. Raises ConfigError with the line if the file cannot be read or parsed.
    """
    path = Path(path)
    if path.suffix == ".py":
        raise ConfigError(
            f"{str(path)!r} is a Python program, not an agent's text file. In Python, import the agent from it. On "
            f"the command line, use --agent {path}:NAME for an agent that it defines, or -t {path} for its functions "
            f"as tools."
        )
    try:
        text = _file_bytes(path).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"The agent file {str(path)!r} cannot be read: {reason}. {_FORMAT}") from error
    return parse_manifesto(text, path, tools)


def _file_bytes(path: Path) -> bytes:
    """The content of a regular file of a bounded size. Raises OSError, and ValueError for any other file."""
    if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe could wait forever
        raise ValueError("it is not a regular file")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # replaced since it was looked at
            raise ValueError("it is not a regular file")
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {_MAX_FILE_BYTES:,} bytes")
    return data


def parse_manifesto(text: str, path: Path | None = None, tools: Iterable[Any] = ()) -> AgentFile:
    """Parse an agent from a text; `path` is its file, if it has one. Raises ConfigError."""
    lines = _Lines(split_lines(text), str(path) if path else "the agent file")
    if "\0" in text:
        raise ConfigError(f"{lines.location} contains a NUL character, so it is not text. {_FORMAT}")
    settings, start = _settings(lines, _SettingsContext(Toolset(tools), path.parent if path else None))
    instruction = "\n".join([settings.pop("instruction", ""), *lines.texts[start:]]).strip()
    if not instruction:
        raise ConfigError(f"{lines.location} has no instruction. Write it after the settings and an empty line.")
    listed = {} if "tools" in settings else find_listed_tools(text)
    if listed:
        settings |= {"tools": _find_listed_tools(lines, listed, Toolset(tools)), "tool_calling": "text"}
        memory = read_memory(path) if path else ""
        instruction = f"{instruction}\n\n{memory}" if memory else instruction
    elif "tools" not in settings:
        _check_for_late_tools(lines, start)
    settings |= settings.pop("limits", {})
    if path:
        settings = {"name": path.stem, "session": session_name(path), **settings}
    return AgentFile(**{"name": "agent", "instruction": instruction, **settings})


def _find_listed_tools(lines: _Lines, listed: Mapping[str, int], own: Toolset) -> Toolset:
    """The tools that a manifesto lists. Raises ConfigError with the line of an unknown one."""
    found: list[AnyTool] = []
    for name, index in listed.items():
        try:
            found.append(get_tool(name, own))
        except ConfigError as error:
            lines.fail(index, str(error))
    return Toolset(found)


def session_name(path: Path) -> str:
    """The session of a file: its name, with a digest of its path that is unique to this file."""
    digest = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:8]
    return f"{path.stem[:100]}-{digest}"


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a text, and the name of the text in errors."""

    texts: Sequence[str]
    location: str

    def fail(self, index: int, problem: str) -> NoReturn:
        """Raise ConfigError for a line."""
        raise ConfigError(f"{self.location}, line {index + 1}: {problem}")


@dataclass(frozen=True, slots=True)
class _SettingsContext:
    """The context for reading settings: the custom tools of the caller, and the folder of the file."""

    tools: Toolset
    folder: Path | None


def _settings(lines: _Lines, context: _SettingsContext) -> tuple[dict[str, Any], int]:
    """Read the settings at the top, which `---` can surround; returns the index of the line after them as well."""
    index, end, is_framed = _find_settings_block(lines)
    first, settings = index, dict[str, Any]()
    while index < end and "instruction" not in settings:
        text = lines.texts[index]
        if not text.strip() or text.startswith("#"):
            index += 1
            continue
        key, value = _entry(lines, index, is_sure=is_framed or bool(settings))
        if not key:
            _refuse_lookalikes(lines, index, end)
            return {}, first
        if key in settings:
            lines.fail(index, f"{key} is set twice.")
        bullets = _bullets(lines.texts[index + 1 : end]) if key in _LISTS else []
        _refuse_invisible(lines, range(index, index + 1 + len(bullets)))
        settings[key] = _read_setting(lines, index, key, ", ".join(filter(None, [value, *bullets])), context)
        index += 1 + len(bullets)
    if not settings:
        return {}, first
    return settings, index + is_framed if index == end else index


def _refuse_invisible(lines: _Lines, indexes: Iterable[int]) -> None:
    """Raise ConfigError for a setting with invisible characters, or with characters that end a line elsewhere."""
    for index in indexes:
        text = lines.texts[index].translate(_JOINERS)
        if escape_invisible(text) != text:
            lines.fail(index, f"It contains invisible characters: {escape_invisible(text):.200} Delete them.")


def _find_settings_block(lines: _Lines) -> tuple[int, int, bool]:
    """The lines at which the settings begin and end, if there are any, and whether `---` surrounds them."""
    texts = lines.texts
    first = next((index for index, text in enumerate(texts) if text.strip()), len(texts))
    is_framed = first < len(texts) and bool(_RULE.fullmatch(texts[first]))
    ends = (index for index, text in enumerate(texts) if index > first and _ends_settings(text, is_framed=is_framed))
    end = next(ends, None)
    if is_framed and end is None:
        lines.fail(first, "The settings begin with a line ---, but no such line ends them.")
    return first + is_framed, len(texts) if end is None else end, is_framed


def _ends_settings(text: str, *, is_framed: bool) -> bool:
    return bool(_RULE.fullmatch(text)) if is_framed else not text.strip()


def _bullets(texts: Sequence[str]) -> list[str]:
    """The entries of a list, one per line, without gaps from the first line on."""
    matches = takewhile(bool, map(_BULLET.fullmatch, texts))
    return [match["value"] for match in matches if match]


def _read_setting(lines: _Lines, index: int, key: str, value: str, context: _SettingsContext) -> Any:
    """The value of a setting. Raises ConfigError."""
    try:
        return _KEYS[key](value, context)
    except (ConfigError, ValueError) as error:
        lines.fail(index, f"{key}: {error}")


def _entry(lines: _Lines, index: int, *, is_sure: bool) -> tuple[str, str]:
    """The name and value of the setting in a line; empty if the instruction begins here."""
    match = _ENTRY.fullmatch(lines.texts[index])
    key = re.sub(r"[ -]", "_", match["key"].lower()) if match else ""
    if match and key in _KEYS:
        return key, _unquote(match["value"] or "")
    hint = suggestion(key, _KEYS, 0.75)
    if is_sure and not match:
        lines.fail(
            index, "This is not a setting (name: value). An empty line separates the settings from the instruction."
        )
    if match and (is_sure or hint):
        known = ", ".join(_KEYS)
        lines.fail(index, f"Unknown setting {match['key']!r}.{hint} The settings are: {known}.")
    return "", ""


def _refuse_lookalikes(lines: _Lines, first: int, end: int) -> None:
    """Raise ConfigError for a line at the top that looks like a setting, and would become part of the instruction.

    That is the first line, and in a block of such lines with an empty line behind it any line.
    """
    block = [_LOOSE_ENTRY.fullmatch(text) for text in lines.texts[first:end]]
    is_header = all(block) and any(text.strip() for text in lines.texts[end:])
    for index, match in enumerate(block if is_header else block[:1], first):
        name = _skeleton(match["key"]) if match else ""
        if match and name in _KEYS:
            lines.fail(
                index, f"{match['key']!r} is not recognised as a setting. Write `{name}: value` in plain letters."
            )
        if match and name in PYTHON_ONLY:
            lines.fail(
                index,
                f"Unknown setting {match['key']!r}.{suggestion(name, _KEYS, 0.5)} The settings are: "
                f"{', '.join(_KEYS)}. In Python it is an argument: Agent.from_file(path, {name}=...). If it belongs to "
                "the instruction, begin with `instruction:`.",
            )


def _skeleton(key: str) -> str:
    """A key without accents and in Latin letters, to compare with the names of settings."""
    letters = unicodedata.normalize("NFKD", key.casefold()).translate(_LOOKALIKES)
    return re.sub(r"[ -]", "_", "".join(each for each in letters if not unicodedata.combining(each)))


def _check_for_late_tools(lines: _Lines, start: int) -> None:
    """Raise ConfigError for a list of tools after the instruction, where it has no effect."""
    for index, text in enumerate(lines.texts[start:], start):
        match = _ENTRY.fullmatch(text.strip("*#_ "))
        if match and match["key"].lower() == "tools":
            following = lines.texts[index + 1] if index + 1 < len(lines.texts) else ""
            names = _parts(match["value"] or "") or _parts(_BULLET.sub(r"\g<value>", following))
            if any(_find_tools(name, Toolset()) for name in names):
                lines.fail(index, "The tools come after the instruction. Put them at the top, before an empty line.")


def _read_tools(value: str, context: _SettingsContext) -> Toolset:
    chosen: list[AnyTool] = []
    for name in _parts(value.strip("[]")):
        found = _find_tools(name, context.tools)
        words = [_find_tools(word, context.tools) for word in name.split()]
        if not found and not all(words):
            raise ConfigError(_no_such_tool(name, context.tools))
        chosen += found or [tool for word in words for tool in word]
    own = {tool.name: tool for tool in context.tools}
    return Toolset(list({tool.name: own.get(tool.name, tool) for tool in chosen}.values()))


def _find_tools(name: str, own: Toolset) -> list[AnyTool]:
    """The tools with a name: a custom tool, a collection, or a shipped tool."""
    normalised = re.sub(r"[ -]", "_", _unquote(name).lower())
    for spelling in (normalised, re.sub(r"_tools?$", "", normalised)):
        matches = [tool for tool in own if tool.name.lower() == spelling]
        if matches or spelling in catalog.collections or spelling in catalog.all_tools.names:
            return matches or list(catalog.named([spelling]))
    return []


def _no_such_tool(name: str, own: Toolset) -> str:
    names = [*own.names, *catalog.collections, *catalog.all_tools.names]
    hint = suggestion(name.lower().replace(" ", "_"), names)
    return (
        f"No tool or collection is named {name!r:.100}.{hint} The collections are: "
        f"{', '.join(catalog.collections)}. The tools are: {', '.join([*own.names, *catalog.all_tools.names])}."
    )


def _parts(value: str) -> list[str]:
    """The entries of a list that is separated by commas or semicolons."""
    entries = (part.strip() for part in re.split(r"[,;]", value))
    return [entry for entry in entries if entry and entry.lower() not in _NOTHING]


def _read_limits(value: str, _: _SettingsContext) -> dict[str, Any]:
    """The arguments of Agent that a list of limits sets: `iterations` is its `max_iterations`."""
    names = ["iterations", *(each.name for each in fields(Limits))]
    limits: dict[str, Any] = {}
    for part in _parts(value):
        match = _LIMIT.fullmatch(_unquote(part))
        if match is None:
            raise ConfigError(f"A limit is a name and a number, such as `cost 0.50`, not {part!r:.100}.")
        name = re.sub(r"[ -]", "_", match["name"].lower())
        if name not in names:
            hint = suggestion(name, names)
            raise ConfigError(f"Unknown limit {match['name']!r}.{hint} The limits are: {', '.join(names)}.")
        limits[name] = _number(match["value"].lower())
    max_iterations = limits.pop("iterations", None)
    return {"limits": Limits(**limits), "max_iterations": validate_optional("max_iterations", max_iterations)}


def _number(text: str) -> Any:
    """Parse a number; the word none becomes None, and other words are returned unchanged."""
    if text[0].isdigit() or text[0] == ".":
        return float(text) if "." in text else int(text)
    return None if text == "none" else text


def _read_text(value: str, _: _SettingsContext) -> str:
    if not value:
        raise ConfigError("Its value is missing.")
    return value


def _read_session(value: str, _: _SettingsContext) -> str | None:
    return None if value.lower() in {"", *_NOTHING} else value


def _read_workspace(value: str, context: _SettingsContext) -> Path:
    folder = Path(_read_text(value, context)).expanduser()
    return context.folder / folder if context.folder else folder


def _unquote(text: str) -> str:
    text = text.strip().strip("`")
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


PYTHON_ONLY = frozenset(
    {
        *("llm", "policy", "rules", "unlabelled", "approve", "window", "handoffs", "guardrails", "dry_run", "context"),
        *("remember", "middleware", "listeners", "output_type", "tool_calling"),
    }
)
"""The arguments of Agent that a file cannot set."""

_LISTS = {"tools", "limits"}
_KEYS: Mapping[str, Callable[[str, _SettingsContext], Any]] = {
    "name": _read_text,
    "description": _read_text,
    "model": _read_text,
    "tools": _read_tools,
    "safety": lambda value, _: SafetyLevel.of(value),
    "limits": _read_limits,
    "session": _read_session,
    "workspace": _read_workspace,
    "instruction": lambda value, _: value,
}
"""The settings of a file, each with the function that reads its value."""


SEPARATOR = "§"
_CALL = re.compile(r"<TOOL:[ \t]*(?P<name>[A-Za-z_][A-Za-z0-9_-]*)[ \t]*>")
_PLACEHOLDERS = frozenset({"NAME", "TOOL_NAME", "TOOL", "NAME_OF_TOOL"})
"""Names that a manifesto uses to explain the form of a call."""

_READMES = ("README.md", "README", "README.txt", "README.rst", "readme.md")
_MEMORIES = ("memory", "memory.md", "memory.txt")
_INPUT = "input"


def find_listed_tools(text: str) -> dict[str, int]:
    """The names of the tools that a text lists, with the index of the line where each is first named."""
    names: dict[str, int] = {}
    for index, line in enumerate(text.split("\n")):
        for match in _CALL.finditer(line):
            if match["name"].upper() not in _PLACEHOLDERS:
                names.setdefault(match["name"], index)
    return names


def get_tool(name: str, own: Toolset) -> AnyTool:
    """The tool that a manifesto lists under a name, offered under this very name. Raises ConfigError."""
    key = name.upper()
    known: dict[str, Callable[[], AnyTool]] = {
        **{tool.name.upper(): partial(_return_tool, tool) for tool in catalog.all_tools},
        **_SPECIAL_TOOLS,
        **{tool.name.upper(): partial(_return_tool, tool) for tool in own},
    }
    if key not in known:
        raise ConfigError(
            f"No tool is named {name!r}.{suggestion(key, known)} Manifestos can list: {', '.join(_SPECIAL_TOOLS)}; "
            f"your own functions, given as tools=[...]; and {', '.join(catalog.all_tools.names)}."
        )
    found = known[key]().renamed(name)
    return JoinedTool.of(found) if len(found.spec.parameters.get("properties", {})) > 1 else found


def _return_tool(tool: AnyTool) -> AnyTool:
    return tool


def read_memory(path: Path) -> str:
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
        joined.__dict__["_within"] = None if within is None else partial(_joined_in_workspace, within)
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
        values = read_arguments(arguments)
        if values.keys() == {_INPUT} and _INPUT not in self._names:
            parts = str(values[_INPUT]).split(SEPARATOR, len(self._names) - 1)
            values = dict(zip(self._names, (part.strip() for part in parts), strict=False))
        return super().check(values)


def _joined_in_workspace(within: Any, workspace: Any) -> AnyTool:
    return JoinedTool.of(within(workspace))


def _end_run() -> AnyTool:
    def end_run(run: RunContext[Any], answer: str = "") -> str:
        """End the run. Use it once, when nothing is left to do."""
        return answer or _last_text(run)

    return Tool(end_run, ends_run=True, level="safe")


def _last_text(run: RunContext[Any]) -> str:
    """The last message to the user in the run: the newest TELL_USER, or the newest text of the model."""
    for message in reversed(run.messages):
        if isinstance(message, AssistantMessage):
            arguments = [arguments_of(call) for call in message.tool_calls if call.name.upper() == "TELL_USER"]
            texts = [str(each.get("message", "")) for each in arguments if isinstance(each, Mapping)]
            text = "\n".join(texts) or message.text
            if text:
                return text
    return ""


def _readme(workspace: Workspace | None = None) -> AnyTool:
    workspace = Workspace.for_direct_calls(Path()) if workspace is None else workspace

    def read_readme() -> str:
        """Read the README of the project."""
        read = read_file_in(workspace)
        results = [read.invoke({"path": name}) for name in _READMES if (Path(workspace.folder) / name).is_file()]
        return next((str(each.value["content"]) for each in results if each.ok), "The project has no README.")

    return Tool(read_readme, level="safe", labels={Label.PRIVATE}, within=_readme)


_SPECIAL_TOOLS: Mapping[str, Callable[[], AnyTool]] = {
    "ASK_USER": ask_user_tool,
    "TELL_USER": tell_user_tool,
    "END_RUN": _end_run,
    "READ_README": _readme,
    "SEARCH": partial(_return_tool, web_search_tool),
    "OPEN_URL": partial(_return_tool, fetch_url_tool),
}
"""The names with a fixed meaning, and the functions that return their tools."""
