"""Loading of cases from JSON lines and CSV files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from agentkit.content import File, Image
from agentkit.errors import ConfigError
from agentkit.evals.case import Case
from agentkit.evals.simulated_user import SimulatedUser
from agentkit.event_rendering import is_shallow
from agentkit.lines import split_lines

FIELDS = ("prompt", "expected", "tool_calls", "tags", "id", "workspace", "prompts", "arguments")
_OF_A_PROMPT = ("prompt", "expected", "tool_calls")
_MOST_BYTES = 200_000_000
_MOST_SHOWN = 5

_Row = tuple[int, Any]


def read_cases(path: str | PathLike[str]) -> list[Case]:
    """Load the cases of a `.jsonl` or `.csv` file. Raises ConfigError with the line number of each invalid row."""
    place = Path(path)
    read = _READERS.get(place.suffix.lower())
    if read is None:
        raise ConfigError(f"Cases are read from .jsonl and .csv files, not from {str(place)!r}. Give it such a name.")
    cases, faults = [], []
    for line, row in read(_text(place)):
        try:
            cases.append(_within(case_from(row), place.parent))
        except ConfigError as error:
            faults.append(f"{place}, line {line}: {error}")
    if faults:
        more = f"\n… and {len(faults) - _MOST_SHOWN} more" if len(faults) > _MOST_SHOWN else ""
        raise ConfigError("\n".join(faults[:_MOST_SHOWN]) + more)
    return cases


def case_from(row: Any) -> Case:
    """Build a case from a row of a file. Raises ConfigError if the row is invalid."""
    if isinstance(row, ConfigError):
        raise row
    if not isinstance(row, Mapping):
        raise ConfigError(f"a case is an object with a prompt, and not {row!r:.100}.")
    given = _fields(row, FIELDS)
    if not any(given.get(name) for name in ("prompt", "prompts")) and "arguments" not in given:
        raise ConfigError("the prompt is missing.")
    if isinstance(given.get("prompts"), Mapping):
        given["prompts"] = SimulatedUser.from_data(given["prompts"])
    elif isinstance(given.get("prompts"), list):
        given["prompts"] = [_prompt_from(each) for each in given["prompts"]]
    return Case(**given)


def _fields(row: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Validate the fields of a row, and parse the parts of its prompt. Raises ConfigError for an unknown field."""
    unknown = [name for name in row if name not in known]
    if unknown:
        raise ConfigError(f"a case has no field {unknown[0]!r:.100}; its fields are {', '.join(known)}.")
    given = {name: value for name, value in row.items() if value is not None}
    if isinstance(given.get("prompt"), list):
        given["prompt"] = [_part(part) for part in given["prompt"]]
    return given


def _prompt_from(said: Any) -> Any:
    """Parse one prompt of a conversation: a text, a list of parts, or an object with its expectations."""
    if isinstance(said, Mapping) and "prompt" in said:
        return Case(**_fields(said, _OF_A_PROMPT))
    return [_part(part) for part in said] if isinstance(said, list) else _part(said)


def _part(part: Any) -> Any:
    """Parse a part of a prompt: text, or an object with the URL of an `image` or `file`."""
    try:
        if isinstance(part, Mapping) and isinstance(part.get("image"), str) and part.keys() <= {"image", "detail"}:
            return Image(part["image"], part.get("detail"))
        if isinstance(part, Mapping) and isinstance(part.get("file"), str) and part.keys() <= {"file", "name"}:
            return File(part["file"], part.get("name") or "")
    except (TypeError, ValueError) as error:
        raise ConfigError(f"a part of the prompt cannot be used: {error}") from None
    return part


def _within(case: Case, folder: Path) -> Case:
    """Resolve the case's workspace relative to the folder of the file.

    Raises ConfigError if it lies outside that folder: case files can come from others, and the agent reads the
    workspace.
    """
    if case.workspace is None:
        return case
    place = folder / case.workspace
    if not _lies_in(place, folder):
        raise ConfigError(f"the workspace {str(case.workspace)!r:.200} is not in the folder of the file of cases.")
    return replace(case, workspace=str(place))


def _lies_in(place: Path, folder: Path) -> bool:
    """Whether a path is inside a folder after resolving links; False for an invalid path."""
    try:
        return place.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        return False


def _text(place: Path) -> str:
    try:
        if place.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{place} has more than {_MOST_BYTES // 1_000_000} MB, too many for cases.")
        return place.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        fault = error.strerror if isinstance(error, OSError) else "it is not UTF-8. Save it as UTF-8"
        raise ConfigError(f"The cases in {place} cannot be read: {fault}.") from error


def _json_rows(text: str) -> Iterator[_Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _loaded(line)


def _loaded(line: str) -> Any:
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
        row["tool_calls"] = _loaded(calls) if calls.startswith("[") else calls.replace(",", " ").split()
    row |= {name: _loaded(row[name]) for name in ("prompts", "arguments") if name in row}
    return next((value for value in row.values() if isinstance(value, ConfigError)), row)


_READERS: Mapping[str, Callable[[str], Iterator[_Row]]] = {".jsonl": _json_rows, ".csv": _csv_rows}
