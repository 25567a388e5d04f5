"""Normalisation of JSON schemas from external sources, and validation of values against them."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

from agentkit.errors import BadArguments
from agentkit.tooling import arguments as reading
from agentkit.tooling.arguments import MAX_PROBLEMS, ArgumentErrors, ValidationProblem, ValuePath
from agentkit.tooling.coercion import MISSING, UNKNOWN, normalise_number, to_integer
from agentkit.tooling.strict_schema import (
    JSON_TYPES,
    KEYWORD_TYPES,
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    SCHEMA_KEYWORDS,
    Schema,
    resolve_reference,
)

ProblemFinder = Callable[[Any, Any], list[ValidationProblem]]

CONDITION_KEYWORDS = frozenset({"not", "if", "dependentSchemas", "pattern"})
"""Keywords of `conditional_problems`."""

ARRAY_KEYWORDS = frozenset({"uniqueItems", "contains"})
"""Keywords of `array_problems`."""

OBJECT_KEYWORDS = frozenset({"patternProperties", "propertyNames", "dependentRequired"})
"""Keywords of `object_problems`."""

_MAX_SHOWN_CHARS = 200


def conditional_problems(value: Any, schema: Mapping[str, Any], problems: ProblemFinder) -> Iterator[ValidationProblem]:
    """Yield the problems under `not`, `if`, `dependentSchemas` and `pattern`."""
    if "not" in schema and not problems(value, schema["not"]):
        yield (), f"should not fit {_format_schema(schema['not'])}", value
    if "if" in schema:
        branch = "else" if problems(value, schema["if"]) else "then"
        yield from problems(value, schema.get(branch, True))
    for name, inner in _mapping(schema, "dependentSchemas").items():
        if isinstance(value, Mapping) and name in value:
            yield from problems(value, inner)
    pattern = schema.get("pattern")
    if isinstance(value, str) and isinstance(pattern, str) and not matches(pattern, value):
        yield (), f"should match the pattern {pattern}", value


def array_problems(
    value: Sequence[Any], schema: Mapping[str, Any], problems: ProblemFinder
) -> Iterator[ValidationProblem]:
    """Yield the problems under `uniqueItems` and `contains`."""
    if schema.get("uniqueItems") is True and len(set(map(_canonical, value))) < len(value):
        yield (), "should be a list without duplicates", value
    if "contains" not in schema:
        return
    count = sum(not problems(entry, schema["contains"]) for entry in value)
    minimum, maximum = schema.get("minContains", 1), schema.get("maxContains", len(value))
    if not minimum <= count <= maximum:
        limits = f"at least {minimum}" if count < minimum else f"at most {maximum}"
        yield (), f"should contain {limits} that fit {_format_schema(schema['contains'])}", value


def object_problems(
    value: Mapping[str, Any], schema: Mapping[str, Any], problems: ProblemFinder
) -> Iterator[ValidationProblem]:
    """Yield the problems under `patternProperties`, `propertyNames` and `dependentRequired`."""
    for name, inner in value.items():
        for pattern, inner_schema in _mapping(schema, "patternProperties").items():
            if matches(pattern, name):
                yield from (
                    ((name, *path), what, fault_value) for path, what, fault_value in problems(inner, inner_schema)
                )
        if problems(name, schema.get("propertyNames", True)):
            yield (name,), f"should have a name that fits {_format_schema(schema['propertyNames'])}", inner
    for name, required in _mapping(schema, "dependentRequired").items():
        for other in required if name in value and isinstance(required, list) else ():
            if other not in value:
                yield (other,), f"is required with {name}", value


def is_matched(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a property is described under `patternProperties`."""
    return any(matches(pattern, name) for pattern in _mapping(schema, "patternProperties"))


def is_multiple(value: float, factor: float) -> bool:
    """Whether a number is a multiple of another, in decimal arithmetic: 0.3 is a multiple of 0.1."""
    try:
        return not factor or Decimal(str(value)) % Decimal(str(factor)) == 0
    except InvalidOperation:  # more digits than decimal arithmetic has
        return True


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text; true for a pattern that cannot be checked."""
    return _matcher(pattern)(text)


@functools.lru_cache(256)
def _matcher(pattern: str) -> Callable[[str], bool]:
    from pydantic_core import SchemaError, SchemaValidator, ValidationError

    try:
        validator = SchemaValidator({"type": "str", "pattern": pattern})
    except SchemaError:
        return lambda _: True

    def found(text: str) -> bool:
        try:
            validator.validate_python(text)
        except ValidationError:
            return False
        return True

    return found


def _mapping(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    value = schema.get(keyword)
    return value if isinstance(value, Mapping) else {}


def _canonical(value: Any) -> str:
    """The same text for equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    return json.dumps(_with_whole_numbers(value), sort_keys=True)


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _with_whole_numbers(inner) for name, inner in value.items()}
    return [_with_whole_numbers(each) for each in value] if isinstance(value, list | tuple) else value


def _format_schema(schema: Any) -> str:
    text = json.dumps(schema, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"


_TYPES = {
    **dict(zip(JSON_TYPES, JSON_TYPES, strict=True)),
    **dict.fromkeys(("str", "char", "text"), "string"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("int", "long", "short", "byte", "bigint"), "integer"),
    **dict.fromkeys(("list", "tuple", "set", "arraylist", "queue", "stack"), "array"),
    **dict.fromkeys(("dict", "dictionary", "map", "hashmap", "hashtable"), "object"),
    **dict.fromkeys(("none", "nonetype"), "null"),
    "bool": "boolean",
}
"""JSON schema types by their own names and by those of other languages, in lower case."""

_DEFINED = {"parameters", "inputSchema", "input_schema"}
"""Keys under which a tool definition stores its schema."""

_WITH_SCHEMAS = {
    *MAP_KEYWORDS,
    *LIST_KEYWORDS,
    *SCHEMA_KEYWORDS,
    "definitions",
    "default",
    "const",
    "if",
    "then",
    "else",
}
_OPENAPI_PREFIX = "#/components/"
"""Prefix of references into an OpenAPI document, which break when a schema is copied out of it."""

_ANY_TYPE_NAMES = ("any", "")
_NOT_KEPT = {"nullable", "optional"}
_TRUTHS = {"true": True, "false": False}


def normalise_schema(schema: Any) -> Any:
    """Normalise a schema from an external source to current JSON schema.

    Handles types such as `dict`, `OBJECT` or `ArrayList`, null keywords, a list under `items`, choices of the entries
    next to the list, choices whose type differs from the stated one, `nullable`, `required` inside a property, and
    boolean exclusive limits.
    """
    if isinstance(schema, list):
        return list(map(normalise_schema, schema))
    if not isinstance(schema, dict):
        return schema
    new = {key: value for key, value in schema.items() if value is not None or key not in KEYWORD_TYPES}
    if isinstance(new.get("items"), list):
        new["prefixItems"] = new.pop("items")
    for change in (_normalise_type, _with_null, _normalise_limits, _move_choices_to_items, _normalise_choices):
        new = change(new)
    new = _collect_required(new)
    for key in new.keys() & {*MAP_KEYWORDS, "definitions"}:
        if isinstance(new[key], dict):
            new[key] = {name: normalise_schema(inner) for name, inner in new[key].items()}
    new.update({key: normalise_schema(new[key]) for key in new.keys() & {*LIST_KEYWORDS, *SCHEMA_KEYWORDS}})
    return {key: value for key, value in new.items() if key not in _NOT_KEPT or not isinstance(value, bool)}


def reject_wrapper(schema: Any) -> None:
    """Raise TypeError for a tool definition, an API operation or bare properties in place of an object schema.

    The model would be offered no arguments for any of them. Also rejects references into the document the schema was
    taken from, which providers reject.
    """
    if not isinstance(schema, dict):
        return
    if "properties" not in schema and (isinstance(schema.get("parameters"), list) or "requestBody" in schema):
        raise TypeError("it is an operation of an API: give the schema of its body, or a property for each parameter")
    _reject_missing_references(schema, schema)
    function = schema.get("function", schema)
    inside = _DEFINED & function.keys() if isinstance(function, dict) and isinstance(function.get("name"), str) else ()
    for name in inside:
        raise TypeError(f"it is a tool definition: pass its {name!r}")
    bare = [name for name, inner in schema.items() if name not in _WITH_SCHEMAS and _is_described(inner)]
    if bare and "properties" not in schema:
        raise TypeError(f"{bare[0]!r} is not a keyword of JSON Schema: write {{'properties': {{{bare[0]!r}: ...}}}}")


def _reject_missing_references(schema: Any, root: Schema) -> None:
    """Raise TypeError for a reference into the OpenAPI document that the root was copied from."""
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if isinstance(reference, str) and reference.startswith(_OPENAPI_PREFIX) and "components" not in root:
        own = f"#/$defs/{reference.rpartition('/')[2]}"
        raise TypeError(
            f"it refers to {reference!r}, which it does not contain: add the schema under '$defs', and "
            f"refer to it as {own!r}"
        )
    for inner in _subschemas(schema):
        _reject_missing_references(inner, root)


def _subschemas(schema: Any) -> Iterator[Any]:
    """Yield the direct subschemas."""
    if isinstance(schema, dict):
        named = (schema[key] for key in schema.keys() & {*MAP_KEYWORDS, "definitions"} if isinstance(schema[key], dict))
        listed = (schema[key] for key in schema.keys() & {*LIST_KEYWORDS, *SCHEMA_KEYWORDS})
        yield from (inner for group in named for inner in group.values())
        yield from (inner for each in listed for inner in (each if isinstance(each, list) else [each]))


def _is_described(inner: Any) -> bool:
    return isinstance(inner, dict) and bool(inner.keys() & {"type", "description", "enum"})


def _normalise_type(schema: Schema) -> Schema:
    kind = schema.get("type")
    kinds = [_type_name(each) for each in _as_list(kind)]
    if "type" in schema and any(each in _ANY_TYPE_NAMES for each in kinds):
        return {key: schema[key] for key in schema if key != "type"}
    return {**schema, "type": kinds if isinstance(kind, list) else kinds[0]} if "type" in schema else schema


def _type_name(kind: Any) -> Any:
    if not isinstance(kind, str):
        return kind
    word = kind.strip().lower()
    return word if word in _ANY_TYPE_NAMES else _TYPES.get(word, kind)


def _as_list(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def _with_null(schema: Schema) -> Schema:
    return _widen(schema, ["null"]) if schema.get("nullable") is True and "type" in schema else schema


def _normalise_limits(schema: Schema) -> Schema:
    """Convert a boolean `exclusiveMinimum` with `minimum`, as in older drafts, to a number."""
    new = dict(schema)
    for limit, excluded in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(new.get(excluded), bool) and new.pop(excluded) and limit in new:
            new[excluded] = new.pop(limit)
    return new


def _move_choices_to_items(schema: Schema) -> Schema:
    """Move choices that are not lists to the entries: a list cannot be equal to one of its entries."""
    choices, entries = schema.get("enum"), schema.get("items", {})
    if schema.get("type") != "array" or not isinstance(choices, list) or not isinstance(entries, dict):
        return schema
    if any(isinstance(each, list) or each is None for each in choices) or "enum" in entries:
        return schema
    others = {key: value for key, value in schema.items() if key != "enum"}
    return {**others, "items": {**entries, "enum": choices}}


def _normalise_choices(schema: Schema) -> Schema:
    """Convert choices to the stated type if they parse as it; otherwise widen the type."""
    choices, kinds = schema.get("enum"), schema.get("type")
    if not isinstance(choices, list) or not isinstance(kinds, str | list):
        return schema
    if not choices:
        return {key: value for key, value in schema.items() if key != "enum"}
    parsed = [_parse_choice(each, _as_list(kinds)) for each in choices]
    new = list({(type(each), json.dumps(each, sort_keys=True)): each for each in parsed}.values())
    others = [kind_of(each) for each in new if not has_type(each, _as_list(kinds))]
    return {**_widen(schema, others), "enum": new}


def _widen(schema: Schema, kinds: list[str]) -> Schema:
    """Add types to the schema."""
    types = list(dict.fromkeys([*_as_list(schema["type"]), *kinds]))
    return {**schema, "type": schema["type"] if len(types) == 1 else types} if kinds else schema


def _parse_choice(choice: Any, kinds: list[Any]) -> Any:
    """Parse a choice as one of the types; unchanged if it does not parse."""
    if has_type(choice, kinds):
        return choice
    if not isinstance(choice, str):
        return str(choice) if kinds == ["string"] and has_type(choice, ["number"]) else choice
    parsed = (parser(choice.strip()) for kind, parser in _PARSERS.items() if kind in kinds)
    return next((each for each in parsed if each is not None), choice)


def _parse_integer(text: str) -> int | None:
    normalised = normalise_number(text, is_whole=True)
    return None if normalised is None else to_integer(normalised)


def _parse_number(text: str) -> float | None:
    normalised = normalise_number(text)
    return None if normalised is None else float(normalised)


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "boolean": lambda text: _TRUTHS.get(text.lower()),
    "integer": _parse_integer,
    "number": _parse_number,
}


def _collect_required(schema: Schema) -> Schema:
    """Collect boolean `required` of the properties in the `required` list of the object."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    stated = [name for name, inner in properties.items() if _has_boolean_required(inner)]
    if not stated:
        return schema
    without_flags = {
        name: {key: value for key, value in inner.items() if key != "required"}
        if _has_boolean_required(inner)
        else inner
        for name, inner in properties.items()
    }
    listed = schema.get("required", [])
    required = [*listed, *(name for name in stated if properties[name]["required"] and name not in listed)]
    return {**schema, "properties": without_flags, "required": required}


def _has_boolean_required(inner: Any) -> bool:
    return isinstance(inner, dict) and isinstance(inner.get("required"), bool)


def kind_of(value: Any) -> str:
    """Return the JSON schema type of a JSON value."""
    return next(kind for kind in _TYPE_CHECKS if has_type(value, [kind]))


def has_type(value: Any, kinds: list[Any]) -> bool:
    """Whether a value has one of these types; booleans are not numbers, and integers are numbers."""
    return any(kind not in _TYPE_CHECKS or _TYPE_CHECKS[kind](value) for kind in kinds)


def _is_finite(value: Any) -> bool:
    """Whether the value is a finite float: JSON cannot represent others, they would be sent as null or rejected."""
    return isinstance(value, float) and math.isfinite(value)


_TYPE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: (isinstance(value, int) and not isinstance(value, bool)) or _is_finite(value),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
    "null": lambda value: value is None,
}


_MAY_ADD_PROPERTIES = {"allOf", "anyOf", "oneOf", "$ref", "if", "patternProperties", "dependentSchemas"}
"""Keywords under which a schema can define further properties."""

_CHOICE_KEYWORDS = {"enum", "const"}
_COMBINING_KEYWORDS = {"allOf", "anyOf", "oneOf", "$ref"}
"""Keywords under which a value must match other schemas, too."""

_LIMITS: Mapping[str, tuple[type | tuple[type, ...], Callable[[Any, Any], bool], str]] = {
    "minimum": ((int, float), lambda value, limit: value >= limit, "at least {}"),
    "maximum": ((int, float), lambda value, limit: value <= limit, "at most {}"),
    "exclusiveMinimum": ((int, float), lambda value, limit: value > limit, "more than {}"),
    "exclusiveMaximum": ((int, float), lambda value, limit: value < limit, "less than {}"),
    "minLength": (str, lambda value, limit: len(value) >= limit, "text of at least {} characters"),
    "maxLength": (str, lambda value, limit: len(value) <= limit, "text of at most {} characters"),
    "minItems": ((list, tuple), lambda value, limit: len(value) >= limit, "a list of at least {}"),
    "maxItems": ((list, tuple), lambda value, limit: len(value) <= limit, "a list of at most {}"),
    "minProperties": (Mapping, lambda value, limit: len(value) >= limit, "an object of at least {}"),
    "maxProperties": (Mapping, lambda value, limit: len(value) <= limit, "an object of at most {}"),
    "multipleOf": ((int, float), is_multiple, "a multiple of {}"),
}


def validate_against(schema: Schema, arguments: reading.Arguments, tool_name: str) -> dict[str, Any]:
    """Validate arguments against a JSON schema.

    Checks every keyword at any depth, except formats, `unevaluatedProperties` and `unevaluatedItems`; `oneOf` counts as
    `anyOf`. Parameters not listed in the schema are rejected, unless the schema allows more. A null for an optional
    parameter that is not nullable counts as not given. Raises BadArguments.
    """
    closed = close_schema(schema)
    optional = [name for name in closed.get("properties", ()) if name not in closed.get("required", ())]
    given = reading.read_arguments(arguments, has_parameters=bool(closed.get("properties")))
    try:
        return reading.validate_or_repair(given, functools.partial(_validate, closed), optional, closed, tool_name)
    except RecursionError:  # definitions that refer to one another, each a level deeper
        raise BadArguments(f"The arguments of {tool_name} cannot be checked: its schema nests too deeply.") from None


def close_schema(schema: Schema) -> Schema:
    """Close the top-level schema against unknown properties, unless it allows more here or elsewhere.

    A schema without `properties`, even an empty one, accepts any arguments.
    """
    can_close = "properties" in schema and not schema.keys() & {*_MAY_ADD_PROPERTIES, "additionalProperties"}
    return {**schema, "additionalProperties": False} if can_close else schema


def _validate(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any] | ArgumentErrors:
    """Return the arguments unchanged if they are valid."""
    try:
        problems = _Check(schema).problems(arguments, schema)
    except RecursionError:
        return ArgumentErrors([((), "should not be nested so deeply", arguments)])
    return ArgumentErrors(problems) if problems else arguments


class _Check:
    """One validation pass, with results cached by value and schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._cache: dict[tuple[int, int], list[ValidationProblem]] = {}

    def problems(self, value: Any, schema: Any) -> list[ValidationProblem]:
        """Return the problems of a value under a subschema; empty while the subschema is being checked recursively."""
        if not isinstance(schema, dict):
            return [((), "should not be given", value)] if schema is False else []
        key = id(value), id(schema)
        if key not in self._cache:
            self._cache[key] = []
            # deduplicated: schemas that refer to one another in several ways would double the problems at each step
            self._cache[key] = list({problem[:2]: problem for problem in self._find_problems(value, schema)}.values())
        return self._cache[key]

    def _find_problems(self, value: Any, schema: Schema) -> list[ValidationProblem]:
        if "default" in schema and value is not None and _is_equal(value, schema["default"]):
            return []
        if not has_type(value, _kinds(schema)) or (schema.keys() & _CHOICE_KEYWORDS and not _is_choice(value, schema)):
            return [((), f"should be {reading.describe_type(schema)}", value)]
        problems = list(self._combined_problems(value, schema)) if schema.keys() & _COMBINING_KEYWORDS else []
        if schema.keys() & CONDITION_KEYWORDS:
            problems += conditional_problems(value, schema, self.problems)
        if isinstance(value, Mapping):
            problems += islice(self._property_problems(value, schema), MAX_PROBLEMS)
        elif isinstance(value, list | tuple):
            problems += islice(self._item_problems(value, schema), MAX_PROBLEMS)
        return [*_limit_problems(value, schema), *problems] if schema.keys() & _LIMITS.keys() else problems

    def _combined_problems(self, value: Any, schema: Schema) -> Iterator[ValidationProblem]:
        """Yield the problems under `$ref`, `allOf`, `anyOf` and `oneOf`."""
        target = resolve_reference(str(schema.get("$ref", "")), self._root)
        for each in (target, *schema.get("allOf", ())):
            yield from self.problems(value, each)
        for union in (schema.get("anyOf"), schema.get("oneOf")):
            attempts = [self.problems(value, each) for each in union or ()]
            if attempts and all(attempts):
                nested = [problems for problems in attempts if all(path for path, _, _ in problems)]
                yield from (
                    min(nested, key=len) if nested else [((), f"should be {reading.describe_type(schema)}", value)]
                )

    def _item_problems(self, value: Sequence[Any], schema: Schema) -> Iterator[ValidationProblem]:
        item_schemas = schema.get("prefixItems", ())
        for index, entry in enumerate(value):
            item_schema = item_schemas[index] if index < len(item_schemas) else schema.get("items", True)
            yield from _prefix_paths(index, self.problems(entry, item_schema))
        if schema.keys() & ARRAY_KEYWORDS:
            yield from array_problems(value, schema, self.problems)

    def _property_problems(self, value: Mapping[str, Any], schema: Schema) -> Iterator[ValidationProblem]:
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield (name,), MISSING, value
        others = schema.get("additionalProperties", True)
        for name, inner in value.items():
            property_schema = properties.get(name, True if is_matched(name, schema) else others)
            if property_schema is False and name not in properties:
                yield (name,), UNKNOWN, inner
            else:
                yield from _prefix_paths(name, self.problems(inner, property_schema))
        if schema.keys() & OBJECT_KEYWORDS:
            yield from object_problems(value, schema, self.problems)


def _prefix_paths(step: str | int, problems: list[ValidationProblem]) -> Iterator[ValidationProblem]:
    for path, what, value in problems:
        place: ValuePath = (step, *path)
        yield place, what, value


def _kinds(schema: Schema) -> list[Any]:
    kinds = schema.get("type", [None])
    return [kinds] if isinstance(kinds, str) else kinds


def _is_choice(value: Any, schema: Schema) -> bool:
    choices = schema["enum"] if "enum" in schema else [schema["const"]]
    return any(_is_equal(value, choice) for choice in choices)


def _is_equal(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal; unlike in Python, true is not 1."""
    return bool(value == other) and isinstance(value, bool) is isinstance(other, bool)


def _limit_problems(value: Any, schema: Schema) -> Iterator[ValidationProblem]:
    for keyword, (kinds, is_within, phrase) in _LIMITS.items():
        limit = schema.get(keyword)
        is_limited = isinstance(value, kinds) and not isinstance(value, bool) and has_type(limit, ["number"])
        if is_limited and not is_within(value, limit):
            yield (), f"should be {phrase.format(limit)}", value
