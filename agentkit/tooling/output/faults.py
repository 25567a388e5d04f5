"""What is wrong with an answer, in the words that a model needs to mend it?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentkit.slotted import dataclass
from agentkit.tooling import arguments as reading
from agentkit.tooling.meaning.reasons import MISSING
from agentkit.tooling.strict import Schema

_MOST_CHOICES = 100

Path = tuple[str | int, ...]
Branch = tuple[Path, str | int]
"""Where in a value a union stands, and which of its types was tried."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: where, what, the value that was given, and as which types of unions it was read."""

    path: Path
    what: str
    value: Any
    branches: tuple[Branch, ...] = ()


class Misfit(Exception):
    """A JSON value is not of the type."""

    def __init__(self, faults: Sequence[Fault]) -> None:
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


def discriminated(path: Path, branches: tuple[Branch, ...], context: Mapping[str, Any], value: Any) -> Fault:
    """The fault of an object whose field that tells its type is missing or wrong."""
    name = str(context["discriminator"]).strip("'")
    if "expected_tags" not in context:
        return Fault((*path, name), MISSING, value, branches)
    return Fault((*path, name), f"should be one of {context['expected_tags']}", context["tag"], branches)


def sentences(faults: Iterable[Fault], schema: Schema, given: Any, under: str = "") -> list[str]:
    """A sentence for each place that is wrong in the given value: where, what is expected, what was given.

    `under` is the field that the value stands in, if any.
    """
    grouped: dict[Path, list[Fault]] = {}
    for fault in _nearest(list(faults)):
        grouped.setdefault(fault.path, []).append(fault)
    return [
        f"{_named((under, *path) if under else path)} {_rest(path, same_place, schema, given)}"
        for path, same_place in grouped.items()
    ]


def _nearest(faults: Sequence[Fault], level: int = 0) -> list[Fault]:
    """The faults without those of a union's other types: the one counts whose inside was right but for the fewest."""
    found: list[Fault] = [fault for fault in faults if len(fault.branches) <= level]
    unions: dict[Path, dict[str | int, list[Fault]]] = {}
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


def _rest(path: Path, faults: Sequence[Fault], schema: Schema, given: Any) -> str:
    """The sentence about a place without the name of the place."""
    reasons = list(dict.fromkeys(fault.what for fault in faults))
    if reasons == [MISSING]:
        wanted = _expected(schema, path)
        was_null = len(reading.walk(given, path)) == len(path)
        return f"should be {wanted}; got null." if was_null else f"is missing; it should be {wanted}."
    if len(reasons) > 1:
        short = [reason.split(",")[0] for reason in reasons]
        reasons = [short[0], *(reason.removeprefix("should be ") for reason in short[1:])]
    return f"{' or '.join(dict.fromkeys(reasons))}; got {reading.shown(faults[0].value)}."


def _expected(schema: Schema, path: Path) -> str:
    """What the schema asks for at a place, in a few words."""
    nodes: list[Any] = [schema]
    for step in path:
        nodes = [inner for node in _choices(nodes, schema) if (inner := _inside(node, step)) is not None]
    return " or ".join(dict.fromkeys(map(_asked, nodes))) or "any value"


def _asked(node: Any) -> str:
    wanted = reading.expected(node)
    return f"{wanted} in the form {node['format']}" if isinstance(node, dict) and "format" in node else wanted


def _choices(nodes: Iterable[Any], root: Schema) -> list[Schema]:
    """The schemas that may hold at these nodes: references followed, unions parted."""
    waiting: list[Any] = list(nodes)
    found: list[Schema] = []
    while waiting and len(found) < _MOST_CHOICES:
        each = waiting.pop(0)
        if isinstance(each, dict):
            found.append(each)
            waiting += [*each.get("anyOf", ()), *each.get("oneOf", ())]
            waiting.append(root.get("$defs", {}).get(str(each.get("$ref", "")).removeprefix("#/$defs/")))
    return found


def _inside(schema: Schema, step: str | int) -> Any:
    if isinstance(step, str):
        return schema.get("properties", {}).get(step)
    places = schema.get("prefixItems", ())
    return places[step] if step < len(places) else schema.get("items")
