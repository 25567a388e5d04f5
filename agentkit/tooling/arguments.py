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
from agentkit.tooling.coercion import KEY, MISSING, UNKNOWN, decode_json, join_reasons, nest_or_unwrap, read_json
from agentkit.tooling.strict_schema import Schema, admits_null, tidy

_MAX_TEXT = 1_000
_MAX_SENTENCES = 5
_MAX_SHOWN = 80
_MAX_REPAIRS = 10
"""Maximum number of repair passes: nested problems show up only after the outer value is fixed."""

MAX_PROBLEMS = 1_000
"""Maximum number of problems examined in one check: a model can send tens of thousands in one call."""

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = _MAX_SHOWN

T = TypeVar("T")

Arguments = str | Mapping[str, Any] | None

ValuePath = tuple[str | int, ...]
ValidationProblem = tuple[ValuePath, str, Any]
"""The path in the arguments, the problem, and the value that was given."""


@dataclass(frozen=True, slots=True)
class ArgumentErrors:
    """The validation errors of a tool's arguments."""

    problems: Sequence[ValidationProblem]


def validate_or_repair(
    arguments: dict[str, Any],
    validate: Callable[[dict[str, Any]], T | ArgumentErrors],
    optional: Sequence[str],
    schema: Schema,
    tool_name: str,
) -> T:
    """Validate the arguments, repairing them where they do not fit.

    `optional` names the top-level arguments that can be omitted. Raises BadArguments with all remaining errors.
    """
    repairs = 0
    while isinstance(result := validate(arguments), ArgumentErrors):
        repairs += 1
        problems = result.problems[:MAX_PROBLEMS]
        new = repair(arguments, problems, optional, schema) if repairs < _MAX_REPAIRS else None
        if new is None:
            is_cut = len(problems) == MAX_PROBLEMS
            raise arguments_error(_sentences(problems, schema, tool_name), is_cut=is_cut)
        arguments = new
    return result


def _sentences(problems: Iterable[ValidationProblem], schema: Schema, tool_name: str) -> Iterator[str]:
    """Yield one error sentence per path."""
    grouped: dict[ValuePath, list[ValidationProblem]] = {}
    for problem in problems:
        grouped.setdefault(problem[0], []).append(problem)
    schema_text = tidy(schema)
    for path, same_path in grouped.items():
        yield _sentence(path, same_path, schema_text, tool_name)


def _sentence(path: ValuePath, problems: Sequence[ValidationProblem], schema: Schema, tool_name: str) -> str:
    reasons = list(dict.fromkeys(reason for _, reason, _ in problems))
    properties = schema.get("properties", {})
    if reasons == [MISSING]:
        return missing_sentence(path, properties.get(path[0]) if len(path) == 1 else None)
    if reasons == [UNKNOWN] and len(path) == 1:
        return unknown_sentence(str(path[0]), tool_name, list(properties))
    return invalid_sentence(path, join_reasons(reasons), problems[0][2])


def read_arguments(arguments: Arguments, *, has_parameters: bool = True) -> dict[str, Any]:
    """Parse the arguments into a new dictionary.

    They can be JSON text (also double-encoded), a mapping, or empty; for a tool without parameters, also an empty list.
    Raises BadArguments.
    """
    value: Any = arguments
    for _ in range(3):
        if not isinstance(value, str):
            break
        try:
            value = decode_json(value)
        except (ValueError, RecursionError):
            value = _repair_json(value)
    if value is None or (value == [] and not has_parameters):
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise BadArguments(f"The arguments must be a JSON object of names and values; got {format_value(value)}.")
    return dict(value)


def arguments_error(sentences: Iterable[str], *, is_cut: bool = False) -> BadArguments:
    """Build the error from the first few sentences, length-limited; `is_cut` marks an incomplete list of problems."""
    distinct = list(dict.fromkeys(sentences))
    more = len(distinct) - _MAX_SENTENCES
    rest = [f"And {'at least ' if is_cut else ''}{more:,} more."] if more > 0 else []
    return BadArguments(truncate(" ".join([*distinct[:_MAX_SENTENCES], *rest]), _MAX_TEXT))


def missing_sentence(path: Sequence[str | int], schema: object = None) -> str:
    """Return the error sentence for a missing required argument, including the expected type."""
    hint = f"; it should be {describe_type(schema)}" if schema else ""
    return f"Argument {format_path(path)!r} is missing{hint}."


def unknown_sentence(name: str, tool_name: str, names: Sequence[str]) -> str:
    """Return the error sentence for an argument that the tool does not have."""
    accepted = f"its parameters are {', '.join(names)}" if names else "it takes no arguments"
    return f"{tool_name} has no parameter {truncate(name, _MAX_SHOWN)!r}; {accepted}."


def invalid_sentence(path: Sequence[str | int], reason: str, value: object) -> str:
    """Return the error sentence for an invalid value."""
    subject = f"Argument {format_path(path)!r}" if path else "The arguments"
    return f"{subject} {reason}; got {format_value(value)}."


def format_path(path: Sequence[str | int]) -> str:
    """Format a path in the arguments: `items[2].price`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def format_value(value: object) -> str:
    """Format a value in a few characters, as JSON if it is short."""
    if isinstance(value, str):
        return json.dumps(truncate(value, _MAX_SHOWN), ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    try:
        return truncate(_REPR.repr(value), _MAX_SHOWN)
    except ValueError:  # a number with more digits than Python converts
        return f"a huge {type(value).__name__}"


def describe_type(schema: object) -> str:
    """Describe the type a JSON schema expects, in a few words."""
    if not isinstance(schema, dict):
        return "any value"
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return " or ".join(format_value(choice) for choice in choices[:20])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(describe_type, schema["anyOf"])))
    if "$ref" in schema:
        return _KINDS["object"]
    return " or ".join(_KINDS.get(kind, kind) for kind in _kinds(schema)) or "any value"


def repair(
    arguments: dict[str, Any],
    issues: Iterable[ValidationProblem],
    optional: Sequence[str],
    schema: Schema | None = None,
) -> dict[str, Any] | None:
    """Repair common mistakes of models in the arguments, or return None if nothing could be repaired.

    At each problem, null is treated as "not given" and a list or object encoded as text is parsed. If the schema is
    known, a value or name is replaced by the one it unambiguously matches. Top-level arguments are dropped only if they
    are in `optional`.
    """
    changes: dict[ValuePath, Any] = {}
    reasons: dict[ValuePath, list[str]] = {}
    for path, reason, _ in issues:
        if path:
            reasons.setdefault(path, []).append(reason)
    is_misnamed = any(len(path) == 1 and problems in ([MISSING], [UNKNOWN]) for path, problems in reasons.items())
    restructured = nest_or_unwrap(arguments, schema) if is_misnamed and schema else None
    if restructured is not None:
        return restructured
    names = functools.cache(lambda parent: _Names.at(arguments, parent, schema or {}))
    for path, problems in reasons.items():
        if problems in ([MISSING], [UNKNOWN]):
            changes.update(names(path[:-1]).rename(path))
        else:
            changes.update(_repairs(arguments, path, problems, optional, schema or {}))
    return _apply_changes(arguments, changes) if changes else None


def _repairs(
    arguments: dict[str, Any], path: ValuePath, problems: Sequence[str], optional: Sequence[str], schema: Schema
) -> dict[ValuePath, Any]:
    """Return the changes, by path, that repair one problem."""
    value: Any = functools.reduce(_child, path, cast("Any", arguments))
    parent, last = path[:-1], path[-1]
    if any(reason.startswith(KEY) for reason in problems):
        return _replace_key(arguments, path, schema)
    if value is None and isinstance(last, str) and (parent or last in optional):
        return {path: _DROPPED}
    if value is _ABSENT:
        return {}
    may_drop = last in optional or (bool(parent) and _is_optional(path, schema))
    new = _replacement(value, problems, path, schema, may_drop=may_drop)
    return {} if new is coercion.AMBIGUOUS else {path: new}


@dataclass(frozen=True, slots=True)
class _Names:
    """The names in one object of the arguments, indexed by their letters.

    `unknown` are names missing from the schema, `unused` are names of the schema that were not given. The
    index is built once per object, because a model can send thousands of unknown names.
    """

    container: Any
    unknown: Mapping[str, Sequence[str]]
    unused: Mapping[str, Sequence[str]]

    @classmethod
    def at(cls, arguments: Mapping[str, Any], parent: ValuePath, schema: Schema) -> Self:
        """Index the names of the object at a path in the arguments."""
        container = functools.reduce(_child, parent, cast("Any", arguments))
        present: Mapping[str, Any] = container if isinstance(container, Mapping) else {}
        known = dict.fromkeys(coercion.names_in(coercion.nodes_at(schema, parent)))
        unknown = coercion.group_by_letters(name for name in present if name not in known)
        return cls(container, unknown, coercion.group_by_letters(name for name in known if name not in present))

    def rename(self, path: ValuePath) -> dict[ValuePath, Any]:
        """Rename an unknown argument to the missing one if they match by letters; drop a null."""
        *parent, last = path
        if not isinstance(self.container, Mapping) or not isinstance(last, str):
            return {}
        if self.container.get(last, _ABSENT) is None:
            return {path: _DROPPED}
        letters = coercion.normalise_letters(last)
        unknown = self.unknown.get(letters, ())
        candidates = [last] if last not in self.container else self.unused.get(letters, ())
        if len(unknown) != 1 or len(candidates) != 1:
            return {}
        (old,), (new,) = unknown, candidates
        return {(*parent, old): _DROPPED, (*parent, new): self.container[old]}


def _replace_key(arguments: dict[str, Any], path: ValuePath, schema: Schema) -> dict[ValuePath, Any]:
    """Replace an invalid key of an object by the allowed key that it matches."""
    *parent, last = path
    container = functools.reduce(_child, parent, cast("Any", arguments))
    new = coercion.matching_key(str(last), coercion.nodes_at(schema, parent), schema)
    return {} if new is None or new in container else {path: _DROPPED, (*parent, new): container[last]}


def _is_optional(path: ValuePath, schema: Schema) -> bool:
    *parent, last = path
    return isinstance(last, str) and coercion.is_optional(last, coercion.nodes_at(schema, parent))


def _replacement(value: Any, problems: Sequence[str], path: ValuePath, schema: Schema, *, may_drop: bool) -> Any:
    """Return the replacement for an invalid value.

    A text such as "null" becomes null, or is dropped, if the schema does not expect a string.
    """
    nodes = coercion.nodes_at(schema, path)
    if (
        isinstance(value, str)
        and coercion.is_null(value)
        and all(reason.startswith("should be ") for reason in problems)
    ):
        if any(map(admits_null, nodes)):
            return None
        if may_drop:
            return _DROPPED
    return coercion.coerce(value, nodes, schema)


def copy_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the arguments as deeply as possible, for readers that must not change the originals."""
    return {name: _copy(value) for name, value in arguments.items()}


def existing_steps(arguments: Any, steps: Iterable[str | int]) -> tuple[str | int, ...]:
    """Return the steps that exist in the arguments; the others are branch names added by a validator."""
    path: list[str | int] = []
    for step in steps:
        inner = _child(arguments, step)
        if inner is not _ABSENT:
            arguments = inner
            path.append(step)
    return tuple(path)


def _repair_json(text: str) -> Any:
    """Parse text that is not exact JSON. Raises BadArguments."""
    if not text.strip():
        return None
    try:
        return read_json(text)
    except json.JSONDecodeError as error:
        context = text[max(error.pos - 20, 0) : error.pos + 20]
        raise BadArguments(
            f"The arguments are not valid JSON: {error.msg} at character {error.pos}, near {format_value(context)}."
        ) from None
    except RecursionError:
        raise BadArguments("The arguments cannot be read as JSON: they are nested too deeply.") from None
    except ValueError:
        raise BadArguments("The arguments cannot be read as JSON: a number in them has too many digits.") from None


_IMMUTABLE = frozenset({str, int, float, bool, type(None), bytes, object})
"""Types whose values need no copy; a bare object is a sentinel, compared by identity."""


def _copy(value: Any) -> Any:
    if type(value) in _IMMUTABLE:
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - any class can refuse to be copied, a lock for example
        return value


_ABSENT = object()
_DROPPED = object()


def _child(container: Any, step: str | int) -> Any:
    if isinstance(container, Mapping):
        return container.get(step, _ABSENT)
    if isinstance(container, list | tuple) and isinstance(step, int) and step < len(container):
        return container[step]
    return _ABSENT


def _apply_changes(arguments: dict[str, Any], changes: Mapping[tuple[str | int, ...], Any]) -> dict[str, Any]:
    """Apply changes at paths, none of which contains another; containers are copied once, on demand."""
    result = dict(arguments)
    copies = {id(result)}
    for (*outer, last), new in changes.items():
        container: Any = result
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
    return result


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
