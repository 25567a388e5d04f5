"""Errors of typed output, worded for the model that has to fix them (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.tooling import arguments as reading
from agentkit.tooling.coercion import MISSING, joined, written_at
from agentkit.tooling.strict_schema import Schema

Path = tuple[str | int, ...]
Branch = tuple[Path, str | int]
"""Where in a value a union stands, and which of its types was tried."""


@dataclass(frozen=True, slots=True)
class OutputError:
    """One thing that is wrong: where, what, the value that was given, and as which types of unions it was read."""

    path: Path
    what: str
    value: Any
    branches: tuple[Branch, ...] = ()


class OutputMismatch(Exception):
    """A JSON value is not of the type."""

    def __init__(self, faults: Sequence[OutputError]) -> None:
        super().__init__(faults)
        self.faults = faults


def placed(value: Any, location: Iterable[str | int], *, is_missing: bool) -> tuple[Path, tuple[Branch, ...]]:
    """A validator's location as the path through the value, and the branches of unions on the way.

    Steps that lead nowhere in the value are a validator's names for its branches. What is missing is named last.
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
    """A sentence for each place that is wrong in the given value: where, what is expected, what was given.

    `under` is the field that the value stands in, if any.
    """
    grouped: dict[Path, list[OutputError]] = {}
    for fault in _nearest(list(faults)):
        grouped.setdefault(fault.path, []).append(fault)
    return [
        f"{_named((under, *path) if under else path)} {_rest(path, same_place, schema, given)}"
        for path, same_place in grouped.items()
    ]


def _nearest(faults: Sequence[OutputError], level: int = 0) -> list[OutputError]:
    """The faults without those of a union's other types: the one counts whose inside was right but for the fewest."""
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
    """The sentence about a place without the name of the place."""
    reasons = list(dict.fromkeys(fault.what for fault in faults))
    if reasons == [MISSING]:
        wanted = _expected(schema, path)
        was_null = len(reading.walk(given, path)) == len(path)
        return f"should be {wanted}; got null." if was_null else f"is missing; it should be {wanted}."
    return f"{joined(reasons)}; got {reading.shown(faults[0].value)}."


def _expected(schema: Schema, path: Path) -> str:
    """What the schema asks for at a place, in a few words."""
    return " or ".join(dict.fromkeys(map(_asked, written_at(schema, path)))) or "any value"


def _asked(node: Schema) -> str:
    wanted = reading.expected(node)
    return f"{wanted} in the form {node['format']}" if "format" in node else wanted
