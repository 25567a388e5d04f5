"""Do arguments fit the JSON schema that somebody gave? Everything that is wrong with them, each with its place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from agentkit.errors import BadArguments
from agentkit.tooling import arguments as reading
from agentkit.tooling.arguments import MOST_FAULTS, Fault, Place, Unfit
from agentkit.tooling.given.dialects import is_of
from agentkit.tooling.meaning.reasons import MISSING, UNKNOWN
from agentkit.tooling.strict import Schema, referred

_ELSEWHERE = {"allOf", "anyOf", "oneOf", "$ref", "if", "patternProperties", "dependentSchemas"}
"""Where a schema may name more properties than it lists."""

_CHOSEN = {"enum", "const"}
_COMBINED = {"allOf", "anyOf", "oneOf", "$ref"}
"""Where a value must fit other schemas too."""

_LIMITS: Mapping[str, tuple[type | tuple[type, ...], Callable[[Any, Any], bool], str]] = {
    "minimum": ((int, float), lambda value, limit: value >= limit, "at least {}"),
    "maximum": ((int, float), lambda value, limit: value <= limit, "at most {}"),
    "exclusiveMinimum": ((int, float), lambda value, limit: value > limit, "more than {}"),
    "exclusiveMaximum": ((int, float), lambda value, limit: value < limit, "less than {}"),
    "minLength": (str, lambda value, limit: len(value) >= limit, "text of at least {} characters"),
    "maxLength": (str, lambda value, limit: len(value) <= limit, "text of at most {} characters"),
    "minItems": ((list, tuple), lambda value, limit: len(value) >= limit, "a list of at least {}"),
    "maxItems": ((list, tuple), lambda value, limit: len(value) <= limit, "a list of at most {}"),
}


def checked_against(schema: Schema, arguments: reading.Arguments, tool_name: str) -> dict[str, Any]:
    """The arguments, if they fit a JSON schema.

    Types, choices, limits, and names that are required or unknown are checked to any depth; patterns, formats and
    conditions are not. The names of parameters are all that the schema lists, unless it says that there are more. A
    null for an optional parameter that may not be null counts as not given. Raises BadArguments.
    """
    asked = closed(schema)
    optional = [name for name in asked.get("properties", ()) if name not in asked.get("required", ())]
    given = reading.read_arguments(arguments)
    try:
        return reading.settled(given, functools.partial(_fitting, asked), optional, asked, tool_name)
    except RecursionError:  # definitions may lead to one another, each a level deeper
        raise BadArguments(f"The arguments of {tool_name} cannot be checked: its schema leads too deep.") from None


def closed(schema: Schema) -> Schema:
    """The schema of all arguments: it lists them all, unless it says, or may say elsewhere, that there are more.

    A schema without a list, even an empty one, takes whatever it is given.
    """
    is_whole = "properties" in schema and not schema.keys() & {*_ELSEWHERE, "additionalProperties"}
    return {**schema, "additionalProperties": False} if is_whole else schema


def _fitting(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any] | Unfit:
    """The arguments as they are, if they fit."""
    try:
        faults = _Check(schema).faults(arguments, schema)
    except RecursionError:
        return Unfit([((), "should not be nested so deeply", arguments)])
    return Unfit(faults) if faults else arguments


class _Check:
    """One look at a value: what is known of a part of it and a schema is not found out twice."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._known: dict[tuple[int, int], list[Fault]] = {}

    def faults(self, value: Any, schema: Any) -> list[Fault]:
        """What is wrong with a value, by a part of the schema; nothing as far as that refers to itself."""
        if not isinstance(schema, dict):
            return [((), "should not be given", value)] if schema is False else []
        key = id(value), id(schema)
        if key not in self._known:
            self._known[key] = []
            # each fault once: schemas may refer to one another in many ways, and so double it with every step
            self._known[key] = list({fault[:2]: fault for fault in self._found(value, schema)}.values())
        return self._known[key]

    def _found(self, value: Any, schema: Schema) -> list[Fault]:
        if "default" in schema and value is not None and _is_same(value, schema["default"]):
            return []
        if not is_of(value, _kinds(schema)) or (schema.keys() & _CHOSEN and not _is_choice(value, schema)):
            return [((), f"should be {reading.expected(schema)}", value)]
        found = list(self._others(value, schema)) if schema.keys() & _COMBINED else []
        if isinstance(value, Mapping):
            found += islice(self._values(value, schema), MOST_FAULTS)
        elif isinstance(value, list | tuple):
            found += islice(self._entries(value, schema), MOST_FAULTS)
        return [*_beyond_limits(value, schema), *found] if schema.keys() & _LIMITS.keys() else found

    def _others(self, value: Any, schema: Schema) -> Iterator[Fault]:
        """What is wrong by the schemas that this one refers to, or is a union or the whole of."""
        target = referred(str(schema.get("$ref", "")), self._root)
        for each in (target, *schema.get("allOf", ())):
            yield from self.faults(value, each)
        for union in (schema.get("anyOf"), schema.get("oneOf")):
            tried = [self.faults(value, each) for each in union or ()]
            if tried and all(tried):
                inside = [faults for faults in tried if all(path for path, _, _ in faults)]
                yield from min(inside, key=len) if inside else [((), f"should be {reading.expected(schema)}", value)]

    def _entries(self, value: Sequence[Any], schema: Schema) -> Iterator[Fault]:
        places = schema.get("prefixItems", ())
        for place, entry in enumerate(value):
            asked = places[place] if place < len(places) else schema.get("items", True)
            yield from _under(place, self.faults(entry, asked))

    def _values(self, value: Mapping[str, Any], schema: Schema) -> Iterator[Fault]:
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield (name,), MISSING, value
        others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        for name, inner in value.items():
            if name not in properties and others is False:
                yield (name,), UNKNOWN, inner
            else:
                yield from _under(name, self.faults(inner, properties.get(name, others)))


def _under(step: str | int, faults: list[Fault]) -> Iterator[Fault]:
    for path, what, value in faults:
        place: Place = (step, *path)
        yield place, what, value


def _kinds(schema: Schema) -> list[Any]:
    kinds = schema.get("type", [None])
    return [kinds] if isinstance(kinds, str) else kinds


def _is_choice(value: Any, schema: Schema) -> bool:
    choices = schema["enum"] if "enum" in schema else [schema["const"]]
    return any(_is_same(value, choice) for choice in choices)


def _is_same(value: Any, other: Any) -> bool:
    """Whether two JSON values are the same; true is not 1, though it is in Python."""
    return bool(value == other) and isinstance(value, bool) is isinstance(other, bool)


def _beyond_limits(value: Any, schema: Schema) -> Iterator[Fault]:
    for keyword, (kinds, is_within, words) in _LIMITS.items():
        limit = schema.get(keyword)
        is_limited = isinstance(value, kinds) and not isinstance(value, bool) and is_of(limit, ["number"])
        if is_limited and not is_within(value, limit):
            yield (), f"should be {words.format(limit)}", value
