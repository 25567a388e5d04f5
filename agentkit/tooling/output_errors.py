"""Error messages for typed output, written for the model that has to fix it (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.tooling import arguments as reading
from agentkit.tooling.coercion import MISSING, joined, written_at
from agentkit.tooling.schema_references import Schema

Path = tuple[str | int, ...]
Branch = tuple[Path, str | int]
"""The path of a union in a value, and the member type that was tried."""


@dataclass(frozen=True, slots=True)
class OutputError:
    """One validation error: path, message, the value given, and the union members it was parsed as."""

    path: Path
    what: str
    value: Any
    branches: tuple[Branch, ...] = ()


class OutputMismatch(Exception):
    """Raised if a JSON value does not match the output type."""

    def __init__(self, faults: Sequence[OutputError]) -> None:
        super().__init__(faults)
        self.faults = faults


def placed(value: Any, location: Iterable[str | int], *, is_missing: bool) -> tuple[Path, tuple[Branch, ...]]:
    """Split a validator's location into the path through the value and the union branches on the way.

    Steps that do not exist in the value are the validator's branch names. A missing field comes last in the path.
    """
    steps = list(location)
    absent = [steps.pop()] if is_missing else []
    path: list[str | int] = []
    branches: list[Branch] = []
    for step in steps:
        if reading.walk(value, [step]):
            value = value[step]
            path.append(step)
        else:
            branches.append((tuple(path), step))
    return (*path, *absent), tuple(branches)


def sentences(faults: Iterable[OutputError], schema: Schema, given: Any, under: str = "") -> list[str]:
    """Return one sentence for each invalid path, with the expected and the given value.

    `under` is the field that contains the value, if any.
    """
    grouped: dict[Path, list[OutputError]] = {}
    for fault in _nearest(list(faults)):
        grouped.setdefault(fault.path, []).append(fault)
    return [
        f"{_named((under, *path) if under else path)} {_rest(path, same_place, schema, given)}"
        for path, same_place in grouped.items()
    ]


def _nearest(faults: Sequence[OutputError], level: int = 0) -> list[OutputError]:
    """Keep the faults of the closest union member: the one with only nested faults, and the fewest of them."""
    found: list[OutputError] = [fault for fault in faults if len(fault.branches) <= level]
    unions: dict[Path, dict[str | int, list[OutputError]]] = {}
    for fault in faults:
        if len(fault.branches) > level:
            point, name = fault.branches[level]
            unions.setdefault(point, {}).setdefault(name, []).append(fault)
    for point, types in unions.items():
        inside = [each for each in types.values() if all(len(fault.path) > len(point) for fault in each)]
        for chosen in [min(inside, key=len)] if inside else types.values():
            found.extend(_nearest(chosen, level + 1))
    return found


def _named(path: Path) -> str:
    return repr(reading.dotted(path)) if path else "The answer"


def _rest(path: Path, faults: Sequence[OutputError], schema: Schema, given: Any) -> str:
    """Return the sentence about a path without its subject."""
    reasons = list(dict.fromkeys(fault.what for fault in faults))
    if reasons == [MISSING]:
        wanted = _expected(schema, path)
        was_null = len(reading.walk(given, path)) == len(path)
        return f"should be {wanted}; got null." if was_null else f"is missing; it should be {wanted}."
    return f"{joined(reasons)}; got {reading.shown(faults[0].value)}."


def _expected(schema: Schema, path: Path) -> str:
    """Describe the type expected at a path, in a few words."""
    return " or ".join(dict.fromkeys(map(_asked, written_at(schema, path)))) or "any value"


def _asked(node: Schema) -> str:
    wanted = reading.expected(node)
    return f"{wanted} in the form {node['format']}" if "format" in node else wanted
