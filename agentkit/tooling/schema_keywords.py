"""Validation of the less common keywords of JSON schema: conditions, patterns, and rules for whole objects and lists.

`faults` is the function that validates a value against a subschema. A pattern is searched by the engine that pydantic
uses, whose time is linear in the length of the text; a pattern that it does not know is not checked.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentkit.tooling.arguments import Fault

Schema = Mapping[str, Any]
_Faults = Callable[[Any, Any], list["Fault"]]

CONDITIONS = frozenset({"not", "if", "dependentSchemas", "pattern"})
"""Keywords of `conditional`."""

OF_LISTS = frozenset({"uniqueItems", "contains"})
"""Keywords of `of_list`."""

OF_OBJECTS = frozenset({"patternProperties", "propertyNames", "dependentRequired"})
"""Keywords of `of_object`."""

_MAX_SHOWN_CHARS = 200


def conditional(value: Any, schema: Schema, faults: _Faults) -> Iterator[Fault]:
    """Yield the faults under `not`, `if`, `dependentSchemas` and `pattern`."""
    if "not" in schema and not faults(value, schema["not"]):
        yield (), f"should not fit {_shown(schema['not'])}", value
    if "if" in schema:
        branch = "else" if faults(value, schema["if"]) else "then"
        yield from faults(value, schema.get(branch, True))
    for name, inner in _mapping(schema, "dependentSchemas").items():
        if isinstance(value, Mapping) and name in value:
            yield from faults(value, inner)
    pattern = schema.get("pattern")
    if isinstance(value, str) and isinstance(pattern, str) and not matches(pattern, value):
        yield (), f"should match the pattern {pattern}", value


def of_list(value: Sequence[Any], schema: Schema, faults: _Faults) -> Iterator[Fault]:
    """Yield the faults under `uniqueItems` and `contains`."""
    if schema.get("uniqueItems") is True and len(set(map(_canonical, value))) < len(value):
        yield (), "should be a list without duplicates", value
    if "contains" not in schema:
        return
    count = sum(not faults(entry, schema["contains"]) for entry in value)
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
    if not least <= count <= most:
        limits = f"at least {least}" if count < least else f"at most {most}"
        yield (), f"should contain {limits} that fit {_shown(schema['contains'])}", value


def of_object(value: Mapping[str, Any], schema: Schema, faults: _Faults) -> Iterator[Fault]:
    """Yield the faults under `patternProperties`, `propertyNames` and `dependentRequired`."""
    for name, inner in value.items():
        for pattern, asked in _mapping(schema, "patternProperties").items():
            if matches(pattern, name):
                yield from (((name, *path), what, given) for path, what, given in faults(inner, asked))
        if faults(name, schema.get("propertyNames", True)):
            yield (name,), f"should have a name that fits {_shown(schema['propertyNames'])}", inner
    for name, needed in _mapping(schema, "dependentRequired").items():
        for other in needed if name in value and isinstance(needed, list) else ():
            if other not in value:
                yield (other,), f"is required with {name}", value


def is_matched(name: str, schema: Schema) -> bool:
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


def _mapping(schema: Schema, keyword: str) -> Mapping[str, Any]:
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


def _shown(schema: Any) -> str:
    text = json.dumps(schema, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"
