"""Test cases and their files: prompts, expected outcomes, and the scores of their answers."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.options import Prompt, content_from
from agentkit.content import File, Image, part_text
from agentkit.errors import ConfigError
from agentkit.evals.simulated_user import SimulatedUser
from agentkit.event_rendering import is_shallow, value_text
from agentkit.messages import Content, ToolCall
from agentkit.suggestions import check_unknown_arguments
from agentkit.text_encoding import split_lines
from agentkit.usage import Usage

_SLUG_CHARS, _DIGEST_CHARS = 32, 6
_MEMORY_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""The memory address in a repr, which differs between processes."""


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """An expected tool call: the tool's name, and the arguments that must be among those of the call.

    Without `arguments`, any match. An argument can be a predicate, called with the actual value.
    """

    tool: str
    arguments: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, value: object) -> ExpectedCall:
        """Convert a name, a pair of name and arguments, a dictionary or a ToolCall.

        Raises ConfigError for anything else.
        """
        if isinstance(value, Mapping) and value.keys() <= {"tool", "arguments"}:
            value = (value.get("tool"), value.get("arguments"))
        match value:
            case ExpectedCall():
                return value
            case str(name) | (str(name), None):
                return cls(name)
            case (str(name), Mapping() as arguments):
                return cls(name, dict(arguments))
            case ToolCall():
                return cls(value.name, _arguments(value))
        raise ConfigError(
            'An expected tool call is a name, or a name and arguments: ("calculator", {"expression": "2+2"}). '
            f"Got {value!r:.200}."
        )

    def to_data(self) -> dict[str, Any]:
        """Encode the call as JSON-compatible data; a predicate is reduced to its name."""
        if self.arguments is None:
            return {"tool": self.tool}
        return {"tool": self.tool, "arguments": {name: plain(value) for name, value in self.arguments.items()}}


@dataclass(frozen=True, slots=True)
class Case:
    """A test case: the prompt for an agent or a function, and the expected outcome.

    Args:
        prompt: Text, an Image, a File, the Path of one, or a list of these.
        expected: The answer that the scorers compare with: text, a number, or any JSON value; None for no expectation.
        tool_calls: The expected tool calls, in order: names, pairs of name and arguments, or ToolCalls. An empty list
            means that no call is expected, None that calls are not checked.
        tags: Words to group cases by.
        id: The case's id; by default it is derived from the content, so that it is stable.
        scorers: Scorers of this case, in place of the suite's.
        workspace: A folder copied for each trial, in place of the suite's.
        prompts: In place of `prompt`, the prompts of one conversation: a list of prompts, in which a Case can have its
            own expectations, or a SimulatedUser. The expectations of this case apply to the last answer and to all tool
            calls.
        arguments: In place of `prompt`, the keyword arguments of a function.

    Raises:
        ConfigError: An argument is invalid.
    """

    prompt: Prompt | None = None
    expected: Any = None
    tool_calls: Iterable[Any] | None = None
    tags: Iterable[str] = ()
    id: str = ""
    scorers: Iterable[Callable[..., Any]] = ()
    workspace: str | PathLike[str] | None = None
    prompts: Iterable[Prompt | Case] | SimulatedUser | None = None
    arguments: Mapping[str, Any] | None = None

    def _refuse_unknown(self, given: Iterable[str]) -> None:
        check_unknown_arguments(Case, given)

    def __post_init__(self) -> None:
        _check(self)
        set_field = object.__setattr__
        if self.prompt is not None:
            set_field(self, "prompt", content_from(self.prompt))
        if self.prompts is not None and not isinstance(self.prompts, SimulatedUser):
            set_field(self, "prompts", tuple(each if isinstance(each, Case) else Case(each) for each in self.prompts))
            # Raise ConfigError for a conversation without prompts, or for a nested one
            if not self.turns:
                raise ConfigError("Case(prompts=) takes at least one prompt.")
            if any(each.prompt is None or each.workspace is not None for each in self.turns):
                raise ConfigError("Each of Case(prompts=) is one prompt, or a Case of one prompt without a workspace.")
        if self.arguments is not None:
            set_field(self, "arguments", dict(self.arguments))
        if self.tool_calls is not None:
            set_field(self, "tool_calls", tuple(map(ExpectedCall.of, self.tool_calls)))
        set_field(self, "tags", tuple(self.tags))
        set_field(self, "scorers", tuple(self.scorers))
        set_field(self, "workspace", None if self.workspace is None else fspath(self.workspace))
        set_field(self, "id", self.id or self._default_id())

    @property
    def content(self) -> Content:
        """The prompt as message content: text, or a tuple of texts, images and files.

        For a conversation, the first prompt; for a simulated user, the goal; for a function's arguments, their JSON.
        """
        if self.arguments is not None:
            return json.dumps(plain(self.arguments), ensure_ascii=False)
        if self.user is not None:
            return self.user.goal
        return self.turns[0].content if self.prompt is None else content_from(self.prompt)

    @property
    def user(self) -> SimulatedUser | None:
        """The simulated user, if the prompts are not predefined."""
        return self.prompts if isinstance(self.prompts, SimulatedUser) else None

    @property
    def turns(self) -> tuple[Case, ...]:
        """The predefined prompts, each as a case with its own expectations; for a single prompt, this case."""
        if self.prompts is None:
            return (self,)
        if isinstance(self.prompts, SimulatedUser):
            return ()
        return tuple(each for each in self.prompts if isinstance(each, Case))

    @property
    def is_conversation(self) -> bool:
        """Whether the case can have several prompts."""
        return self.prompts is not None

    @property
    def text(self) -> str:
        """The prompt as text, with placeholders such as `[image]` or `[file report.pdf]`.

        A conversation joins all prompts.
        """
        if self.is_conversation and self.user is None:
            return " / ".join(each.text for each in self.turns)
        return self.content if isinstance(self.content, str) else " ".join(map(part_text, self.content))

    @property
    def expected_calls(self) -> tuple[ExpectedCall, ...] | None:
        """The expected tool calls; None if calls are not checked."""
        return None if self.tool_calls is None else tuple(map(ExpectedCall.of, self.tool_calls))

    @property
    def digest(self) -> str:
        """A hash of the case's content: the prompt and the expectations."""
        return hashlib.sha256(json.dumps(self._content_data(), sort_keys=True).encode("utf-8", "replace")).hexdigest()

    def to_data(self) -> dict[str, Any]:
        """Encode the case as in a JSON-lines file; its scorers are omitted."""
        data = {"id": self.id, **self._content_data(), "tags": list(self.tags), "workspace": self.workspace}
        return {name: value for name, value in data.items() if value is not None and (value or name != "tags")}

    def _content_data(self) -> dict[str, Any]:
        data = self._prompt_data()
        if self.expected is not None:
            data["expected"] = plain(self.expected)
        if self.expected_calls is not None:
            data["tool_calls"] = [call.to_data() for call in self.expected_calls]
        return data

    def _prompt_data(self) -> dict[str, Any]:
        if self.arguments is not None:
            return {"arguments": plain(self.arguments)}
        if self.user is not None:
            return {"prompts": self.user.to_data()}
        if self.is_conversation:
            parts = ("prompt", "expected", "tool_calls")
            return {"prompts": [{n: v for n, v in each.to_data().items() if n in parts} for each in self.turns]}
        content = self.content
        return {"prompt": content if isinstance(content, str) else [*map(_part, content)]}

    def _default_id(self) -> str:
        words = re.sub(r"[^a-z0-9]+", "-", self.text.lower()).strip("-")[:_SLUG_CHARS].strip("-")
        return f"{words or 'case'}-{self.digest[:_DIGEST_CHARS]}"


def plain(value: Any) -> Any:
    """Convert a value to JSON-compatible data; other objects become text, functions their name."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset) and value:
        return f"{{{', '.join(sorted(map(repr, value)))}}}"  # the order of a set differs between processes
    return getattr(value, "__name__", None) or _MEMORY_ADDRESS.sub("", repr(value))


def expected_text(case: Case) -> str:
    """Describe the expected outcome; empty if only a scorer defines it."""
    parts = [] if case.expected is None else [value_text(plain(case.expected))]
    if case.expected_calls is not None:
        calls = ", ".join(value_text(call.to_data()) for call in case.expected_calls)
        parts.append(f"tool calls {calls or 'none'}")
    return "; ".join(parts)


def _check(case: Case) -> None:
    """Validate the arguments. Raises ConfigError that names the argument."""
    _check_prompt(case)
    rows = {
        "tool_calls": () if case.tool_calls is None else case.tool_calls,
        "tags": case.tags,
        "scorers": case.scorers,
    }
    for name, row in rows.items():
        if isinstance(row, str | Mapping) or not isinstance(row, Iterable):
            raise ConfigError(f"Case({name}=) takes a list. Got {row!r:.200}.")
    if not isinstance(case.workspace, str | PathLike | None):
        raise ConfigError(f"Case(workspace=) takes the path of a folder. Got {case.workspace!r:.200}.")
    if not isinstance(case.id, str):
        raise ConfigError(f"Case(id=) takes a string. Got {case.id!r:.200}.")
    if not all(isinstance(tag, str) for tag in case.tags):
        raise ConfigError(f"Case(tags=) takes a list of words. Got {case.tags!r:.200}.")
    if not all(map(callable, case.scorers)):
        raise ConfigError(f"Case(scorers=) takes functions of a case and a result. Got {case.scorers!r:.200}.")


def _check_prompt(case: Case) -> None:
    """Raise ConfigError unless exactly one of prompt, prompts and arguments is given and valid."""
    if sum(each is not None for each in (case.prompt, case.prompts, case.arguments)) != 1:
        raise ConfigError("A case has a prompt, or prompts=[...], or arguments={...}: Case('2+2?', expected=4).")
    if isinstance(case.prompts, str | Mapping) or not isinstance(case.prompts, Iterable | SimulatedUser | None):
        raise ConfigError(f"Case(prompts=) takes a list of prompts, or a SimulatedUser. Got {case.prompts!r:.200}.")
    if not isinstance(case.arguments, Mapping | None) or not all(
        isinstance(name, str) for name in case.arguments or ()
    ):
        raise ConfigError(f"Case(arguments=) takes a dictionary by names of parameters. Got {case.arguments!r:.200}.")


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise ConfigError(f"The arguments of an expected call must be a JSON object. Got {call.arguments!r:.200}.")
    return arguments


def _part(part: str | Image | File) -> Any:
    if isinstance(part, str):
        return part
    if isinstance(part, File):
        return {"file": part.url, **({"name": part.name} if part.name else {})}
    return {"image": part.url, **({"detail": part.detail} if part.detail else {})}


PASSES_AT = 0.5
"""The default threshold from which a score passes."""


@dataclass(frozen=True, slots=True)
class Score:
    """The verdict of one scorer on one trial: a value from 0 to 1, whether that passes, and the reason.

    By default a value of at least 0.5 passes. `usage` is the usage of the scorer. Raises ConfigError if the value is
    not a number from 0 to 1.
    """

    name: str
    value: float
    reason: str = ""
    passed: bool | None = None
    usage: Usage = field(default_factory=Usage, compare=False)

    def __post_init__(self) -> None:
        value = self.value
        if not isinstance(value, int | float) or math.isnan(value) or not 0 <= value <= 1:
            raise ConfigError(f"The score {self.name!r} must be a number from 0 to 1. Got {value!r:.200}.")
        object.__setattr__(self, "value", float(value))
        if self.passed is None:
            object.__setattr__(self, "passed", value >= PASSES_AT)


FIELDS = ("prompt", "expected", "tool_calls", "tags", "id", "workspace", "prompts", "arguments")
_PROMPT_FIELDS = ("prompt", "expected", "tool_calls")
_MAX_BYTES = 200_000_000
_MAX_SHOWN = 5

_Row = tuple[int, Any]


def read_cases(path: str | PathLike[str]) -> list[Case]:
    """Load the cases of a `.jsonl` or `.csv` file. Raises ConfigError with the line number of each invalid row."""
    file = Path(path)
    read = _READERS.get(file.suffix.lower())
    if read is None:
        raise ConfigError(f"Cases are read from .jsonl and .csv files, not from {str(file)!r}. Rename the file.")
    cases, problems = [], []
    for line, row in read(_file_text(file)):
        try:
            cases.append(_resolve_workspace(case_from(row), file.parent))
        except ConfigError as error:
            problems.append(f"{file}, line {line}: {error}")
    if problems:
        more = f"\n… and {len(problems) - _MAX_SHOWN} more" if len(problems) > _MAX_SHOWN else ""
        raise ConfigError("\n".join(problems[:_MAX_SHOWN]) + more)
    return cases


def case_from(row: Any) -> Case:
    """Build a case from a row of a file. Raises ConfigError if the row is invalid."""
    if isinstance(row, ConfigError):
        raise row
    if not isinstance(row, Mapping):
        raise ConfigError(f"a case must be an object with a prompt. Got {row!r:.100}.")
    fields = _fields(row, FIELDS)
    if not any(fields.get(name) for name in ("prompt", "prompts")) and "arguments" not in fields:
        raise ConfigError("the prompt is missing.")
    if isinstance(fields.get("prompts"), Mapping):
        fields["prompts"] = SimulatedUser.from_data(fields["prompts"])
    elif isinstance(fields.get("prompts"), list):
        fields["prompts"] = [_prompt_from(each) for each in fields["prompts"]]
    return Case(**fields)


def _fields(row: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Validate the fields of a row, and parse the parts of its prompt. Raises ConfigError for an unknown field."""
    unknown = [name for name in row if name not in known]
    if unknown:
        raise ConfigError(f"a case has no field {unknown[0]!r:.100}; its fields are {', '.join(known)}.")
    fields = {name: value for name, value in row.items() if value is not None}
    if isinstance(fields.get("prompt"), list):
        fields["prompt"] = [_part_from(part) for part in fields["prompt"]]
    return fields


def _prompt_from(value: Any) -> Any:
    """Parse one prompt of a conversation: a text, a list of parts, or an object with its expectations."""
    if isinstance(value, Mapping) and "prompt" in value:
        return Case(**_fields(value, _PROMPT_FIELDS))
    return [_part_from(part) for part in value] if isinstance(value, list) else _part_from(value)


def _part_from(part: Any) -> Any:
    """Parse a part of a prompt: text, or an object with the URL of an `image` or `file`."""
    try:
        if isinstance(part, Mapping) and isinstance(part.get("image"), str) and part.keys() <= {"image", "detail"}:
            return Image(part["image"], part.get("detail"))
        if isinstance(part, Mapping) and isinstance(part.get("file"), str) and part.keys() <= {"file", "name"}:
            return File(part["file"], part.get("name") or "")
    except (TypeError, ValueError) as error:
        raise ConfigError(f"a part of the prompt cannot be used: {error}") from None
    return part


def _resolve_workspace(case: Case, folder: Path) -> Case:
    """Resolve the case's workspace relative to the folder of the file.

    Raises ConfigError if it lies outside that folder: case files can come from others, and the agent reads the
    workspace.
    """
    if case.workspace is None:
        return case
    path = folder / case.workspace
    if not _is_inside(path, folder):
        raise ConfigError(f"the workspace {str(case.workspace)!r:.200} is not in the folder of the file of cases.")
    return replace(case, workspace=str(path))


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a path is inside a folder after resolving links; False for an invalid path."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        return False


def _file_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path} has more than {_MAX_BYTES // 1_000_000} MB, too many for cases.")
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not UTF-8; save it as UTF-8"
        raise ConfigError(f"The cases in {path} cannot be read: {problem}.") from error


def _json_rows(text: str) -> Iterator[_Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _parse_json(line)


def _parse_json(line: str) -> Any:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return ConfigError(f"this is not JSON: {error}")
    return row if is_shallow(row) else ConfigError("the row nests more than 50 levels.")


def _csv_rows(text: str) -> Iterator[_Row]:
    """Parse CSV rows: `tags` are words, `expected` is text, `tool_calls` are names or JSON.

    `prompts` and `arguments` are JSON. Cells are separated by commas, semicolons or tabs, and stripped.
    """
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)  # spreadsheets of many countries write semicolons
    rows = csv.reader(split_lines(text, keepends=True), strict=True, delimiter=separator)
    head: list[str] | None = None
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            yield line, ConfigError(f"this is not a row of comma-separated values: {error}")
            return
        if cells is None:
            return
        if head is None:
            head = [cell.strip().lower() for cell in cells]
        elif any(cell.strip() for cell in cells):
            yield line, _csv_row(head, cells)


def _csv_row(head: list[str], cells: list[str]) -> Any:
    if len(cells) != len(head):
        return ConfigError(f"the row has {len(cells)} values, and the first line names {len(head)}.")
    row: dict[str, Any] = {name: cell.strip() for name, cell in zip(head, cells, strict=True) if cell.strip()}
    if "tags" in row:
        row["tags"] = row["tags"].replace(",", " ").split()
    if "tool_calls" in row:
        calls = row["tool_calls"].strip()
        row["tool_calls"] = _parse_json(calls) if calls.startswith("[") else calls.replace(",", " ").split()
    row |= {name: _parse_json(row[name]) for name in ("prompts", "arguments") if name in row}
    return next((value for value in row.values() if isinstance(value, ConfigError)), row)


_READERS: Mapping[str, Callable[[str], Iterator[_Row]]] = {".jsonl": _json_rows, ".csv": _csv_rows}
