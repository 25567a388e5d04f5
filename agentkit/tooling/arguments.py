"""Validation and repair of tool arguments."""

from __future__ import annotations

import copy
import functools
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

from agentkit._dataclass import dataclass
from agentkit.errors import BadArguments
from agentkit.event_rendering import truncate
from agentkit.tooling import coercion
from agentkit.tooling.coercion import KEY, MISSING, UNKNOWN, joined, read_json, regrouped
from agentkit.tooling.strict_schema import Schema, admits_null, tidied

_MAX_TEXT = 1_000
_MAX_SENTENCES = 5
_MAX_SHOWN = 80
_MAX_REPAIRS = 10
"""Maximum number of repair passes: nested faults show up only after the outer value is fixed."""

MAX_FAULTS = 1_000
"""Maximum number of faults examined in one check: a model can send tens of thousands in one call."""

_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = _MAX_SHOWN

T = TypeVar("T")

Arguments = str | Mapping[str, Any] | None

Place = tuple[str | int, ...]
Fault = tuple[Place, str, Any]
"""The path in the arguments, the problem, and the value that was given."""


@dataclass(frozen=True, slots=True)
class ArgumentErrors:
    """The validation errors of a tool's arguments."""

    faults: Sequence[Fault]


def settled(
    given: dict[str, Any],
    validated: Callable[[dict[str, Any]], T | ArgumentErrors],
    optional: Sequence[str],
    schema: Schema,
    tool_name: str,
) -> T:
    """Validate the arguments, repairing them where they do not fit.

    `optional` names the top-level arguments that can be omitted. Raises BadArguments with all remaining errors.
    """
    repairs = 0
    while isinstance(made := validated(given), ArgumentErrors):
        repairs += 1
        faults = made.faults[:MAX_FAULTS]
        new = repaired(given, faults, optional, schema) if repairs < _MAX_REPAIRS else None
        if new is None:
            is_cut = len(faults) == MAX_FAULTS
            raise complaint(_sentences(faults, schema, tool_name), is_cut=is_cut)
        given = new
    return made


def _sentences(faults: Iterable[Fault], schema: Schema, tool_name: str) -> Iterator[str]:
    """Yield one error sentence per path."""
    grouped: dict[Place, list[Fault]] = {}
    for fault in faults:
        grouped.setdefault(fault[0], []).append(fault)
    readable = tidied(schema)
    for path, same_place in grouped.items():
        yield _sentence(path, same_place, readable, tool_name)


def _sentence(path: Place, faults: Sequence[Fault], schema: Schema, tool_name: str) -> str:
    reasons = list(dict.fromkeys(what for _, what, _ in faults))
    properties = schema.get("properties", {})
    if reasons == [MISSING]:
        return missing(path, properties.get(path[0]) if len(path) == 1 else None)
    if reasons == [UNKNOWN] and len(path) == 1:
        return unknown(str(path[0]), tool_name, list(properties))
    return wrong(path, joined(reasons), faults[0][2])


def read_arguments(arguments: Arguments, *, has_parameters: bool = True) -> dict[str, Any]:
    """Parse the arguments into a new dictionary.

    They can be JSON text (also double-encoded), a mapping, or empty; for a tool without parameters, also an empty list.
    Raises BadArguments.
    """
    given: Any = arguments
    for _ in range(3):
        if not isinstance(given, str):
            break
        given = _parsed(given)
    if given is None or (given == [] and not has_parameters):
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BadArguments(f"The arguments must be a JSON object of names and values; got {shown(given)}.")
    return dict(given)


def complaint(sentences: Iterable[str], *, is_cut: bool = False) -> BadArguments:
    """Build the error from the first few sentences, length-limited; `is_cut` marks an incomplete list of faults."""
    distinct = list(dict.fromkeys(sentences))
    more = len(distinct) - _MAX_SENTENCES
    rest = [f"And {'at least ' if is_cut else ''}{more:,} more."] if more > 0 else []
    return BadArguments(truncate(" ".join([*distinct[:_MAX_SENTENCES], *rest]), _MAX_TEXT))


def missing(path: Sequence[str | int], schema: object = None) -> str:
    """Return the error sentence for a missing required argument, including the expected type."""
    wanted = f"; it should be {expected(schema)}" if schema else ""
    return f"Argument {dotted(path)!r} is missing{wanted}."


def unknown(name: str, tool_name: str, names: Sequence[str]) -> str:
    """Return the error sentence for an argument that the tool does not have."""
    real = f"its parameters are {', '.join(names)}" if names else "it takes no arguments"
    return f"{tool_name} has no parameter {truncate(name, _MAX_SHOWN)!r}; {real}."


def wrong(path: Sequence[str | int], what: str, value: object) -> str:
    """Return the error sentence for an invalid value."""
    where = f"Argument {dotted(path)!r}" if path else "The arguments"
    return f"{where} {what}; got {shown(value)}."


def dotted(path: Sequence[str | int]) -> str:
    """Format a path in the arguments: `items[2].price`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def shown(value: object) -> str:
    """Format a value in a few characters, as JSON if it is short."""
    if isinstance(value, str):
        return json.dumps(truncate(value, _MAX_SHOWN), ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    try:
        return truncate(_SHOWN.repr(value), _MAX_SHOWN)
    except ValueError:  # a number with more digits than Python converts
        return f"a huge {type(value).__name__}"


def expected(schema: object) -> str:
    """Describe the type a JSON schema expects, in a few words."""
    if not isinstance(schema, dict):
        return "any value"
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return " or ".join(shown(choice) for choice in choices[:20])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(expected, schema["anyOf"])))
    if "$ref" in schema:
        return _KINDS["object"]
    return " or ".join(_KINDS.get(kind, kind) for kind in _kinds(schema)) or "any value"


def repaired(
    arguments: dict[str, Any], faults: Iterable[Fault], optional: Sequence[str], schema: Schema | None = None
) -> dict[str, Any] | None:
    """Repair common mistakes of models in the arguments, or return None if nothing could be repaired.

    At each fault, null is treated as "not given" and a list or object encoded as text is parsed. If the schema is
    known, a value or name is replaced by the one it unambiguously matches. Top-level arguments are dropped only if they
    are in `optional`.
    """
    changes: dict[Place, Any] = {}
    reasons: dict[Place, list[str]] = {}
    for path, what, _ in faults:
        if path:
            reasons.setdefault(path, []).append(what)
    is_misnamed = any(len(path) == 1 and whats in ([MISSING], [UNKNOWN]) for path, whats in reasons.items())
    whole = regrouped(arguments, schema) if is_misnamed and schema else None
    if whole is not None:
        return whole
    names = functools.cache(lambda around: _Names.at(arguments, around, schema or {}))
    for path, whats in reasons.items():
        if whats in ([MISSING], [UNKNOWN]):
            changes.update(names(path[:-1]).renamed(path))
        else:
            changes.update(_repairs(arguments, path, whats, optional, schema or {}))
    return _changed(arguments, changes) if changes else None


def _repairs(
    arguments: dict[str, Any], path: Place, whats: Sequence[str], optional: Sequence[str], schema: Schema
) -> dict[Place, Any]:
    """Return the changes, by path, that repair one fault."""
    value: Any = functools.reduce(_inside, path, cast("Any", arguments))
    around, last = path[:-1], path[-1]
    if any(what.startswith(KEY) for what in whats):
        return _with_key_meant(arguments, path, schema)
    if value is None and isinstance(last, str) and (around or last in optional):
        return {path: _DROPPED}
    if value is _ABSENT:
        return {}
    may_drop = last in optional or (bool(around) and _is_optional(path, schema))
    new = _meant(value, whats, path, schema, may_drop=may_drop)
    return {} if new is coercion.UNCLEAR else {path: new}


@dataclass(frozen=True, slots=True)
class _Names:
    """The names in one object of the arguments, indexed by their letters.

    `unknown` are names missing from the schema, `unused` are names of the schema that were not given. The index is
    built once per object, because a model can send thousands of unknown names.
    """

    container: Any
    unknown: Mapping[str, Sequence[str]]
    unused: Mapping[str, Sequence[str]]

    @classmethod
    def at(cls, arguments: Mapping[str, Any], around: Place, schema: Schema) -> Self:
        """Index the names of the object at a path in the arguments."""
        container = functools.reduce(_inside, around, cast("Any", arguments))
        given: Mapping[str, Any] = container if isinstance(container, Mapping) else {}
        known = dict.fromkeys(coercion.names_in(coercion.nodes_at(schema, around)))
        unknown = coercion.by_letters(name for name in given if name not in known)
        return cls(container, unknown, coercion.by_letters(name for name in known if name not in given))

    def renamed(self, path: Place) -> dict[Place, Any]:
        """Rename an unknown argument to the missing one if they match by letters; drop a null."""
        *around, last = path
        if not isinstance(self.container, Mapping) or not isinstance(last, str):
            return {}
        if self.container.get(last, _ABSENT) is None:
            return {path: _DROPPED}
        letters = coercion.letters(last)
        unknown = self.unknown.get(letters, ())
        wanted = [last] if last not in self.container else self.unused.get(letters, ())
        if len(unknown) != 1 or len(wanted) != 1:
            return {}
        (old,), (new,) = unknown, wanted
        return {(*around, old): _DROPPED, (*around, new): self.container[old]}


def _with_key_meant(arguments: dict[str, Any], path: Place, schema: Schema) -> dict[Place, Any]:
    """Replace an invalid key of an object by the allowed key that it matches."""
    *around, last = path
    container = functools.reduce(_inside, around, cast("Any", arguments))
    new = coercion.key_meant(str(last), coercion.nodes_at(schema, around), schema)
    return {} if new is None or new in container else {path: _DROPPED, (*around, new): container[last]}


def _is_optional(path: Place, schema: Schema) -> bool:
    *around, last = path
    return isinstance(last, str) and coercion.is_optional(last, coercion.nodes_at(schema, around))


def _meant(value: Any, whats: Sequence[str], path: Place, schema: Schema, *, may_drop: bool) -> Any:
    """Return the replacement for an invalid value.

    A text such as "null" becomes null, or is dropped, if the schema does not expect a string.
    """
    nodes = coercion.nodes_at(schema, path)
    if isinstance(value, str) and coercion.is_null(value) and all(what.startswith("should be ") for what in whats):
        if any(map(admits_null, nodes)):
            return None
        if may_drop:
            return _DROPPED
    return coercion.meant(value, nodes, schema)


def copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the arguments as deeply as possible, for readers that must not change the originals."""
    return {name: _copied(value) for name, value in arguments.items()}


def walk(arguments: Any, steps: Iterable[str | int]) -> tuple[str | int, ...]:
    """Return the steps that exist in the arguments; the others are branch names added by a validator."""
    path: list[str | int] = []
    for step in steps:
        inside = _inside(arguments, step)
        if inside is not _ABSENT:
            arguments = inside
            path.append(step)
    return tuple(path)


def _parsed(text: str) -> Any:
    if not text.strip():
        return None
    try:
        return read_json(text)
    except json.JSONDecodeError as error:
        where = text[max(error.pos - 20, 0) : error.pos + 20]
        raise BadArguments(
            f"The arguments are not valid JSON: {error.msg} at character {error.pos}, near {shown(where)}."
        ) from None
    except RecursionError:
        raise BadArguments("The arguments cannot be read as JSON: they are nested too deeply.") from None
    except ValueError:
        raise BadArguments("The arguments cannot be read as JSON: a number in them has too many digits.") from None


_UNCHANGING = frozenset({str, int, float, bool, type(None), bytes, object})
"""Types whose values need no copy; a bare object is a sentinel, compared by identity."""


def _copied(value: Any) -> Any:
    if type(value) in _UNCHANGING:
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - any class can refuse to be copied, a lock for example
        return value


_ABSENT = object()
_DROPPED = object()


def _inside(container: Any, step: str | int) -> Any:
    if isinstance(container, Mapping):
        return container.get(step, _ABSENT)
    if isinstance(container, list | tuple) and isinstance(step, int) and step < len(container):
        return container[step]
    return _ABSENT


def _changed(arguments: dict[str, Any], changes: Mapping[tuple[str | int, ...], Any]) -> dict[str, Any]:
    """Apply changes at paths, none of which contains another; containers are copied once, on demand."""
    whole = dict(arguments)
    copies = {id(whole)}
    for (*outer, last), new in changes.items():
        container: Any = whole
        for step in outer:
            inner = container[step]
            if id(inner) not in copies:
                inner = container[step] = dict(inner) if isinstance(inner, Mapping) else list(inner)
                copies.add(id(inner))
            container = inner
        if new is _DROPPED:
            del container[last]
        else:
            container[last] = new
    return whole


_KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _kinds(schema: Schema) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else [kind for kind in kinds if isinstance(kind, str)]
