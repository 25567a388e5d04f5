"""How is a JSON schema made readable for models, and closed for strict mode? Pure functions from schema to schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

Schema = dict[str, Any]

PYTHON = "agentkit-python"
"""The keyword by which an untidied schema keeps the name and the Python value of each of its choices."""

SUMMED = "agentkit-summed"
"""The keyword by which an untidied schema says that its choices may be added up."""

_NAMED = ("properties", "$defs", "patternProperties")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames")
_REFERENCE = "#/$defs/"
_MOST_INLINED = 500
_MOST_NAMED = 50
_DEEPEST = 10

_SHAPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(_NAMED, dict),
    **dict.fromkeys((*_LISTED, "required", "enum"), list),
    **dict.fromkeys(("description", "pattern", "format", "$ref"), str),
    "type": (str, list),
}
_UNREADABLE = {"title", "discriminator", PYTHON, SUMMED}
_KEPT = {
    *("type", "description", "enum", "properties", "items", "anyOf", "pattern"),
    *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
}
_LEFT_OUT = {"default", "examples", "minLength", "maxLength", "deprecated", "readOnly", "writeOnly", "required"}
_READ_ELSEWHERE = {"format", "const", "oneOf", "additionalProperties", "$defs", "$ref", "$schema"}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


_JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_TYPES = {
    **dict(zip(_JSON_TYPES, _JSON_TYPES, strict=True)),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("list", "tuple"), "array"),
    **dict.fromkeys(("dict", "map"), "object"),
    "str": "string",
    "int": "integer",
    "bool": "boolean",
    "none": "null",
}
"""Types by the names that JSON schema has for them, and by those that other languages have."""


class _NotStrict(Exception):
    """This schema has no strict form."""


def tidied(schema: Schema) -> Schema:
    """The schema without titles, discriminators and numbers that JSON cannot write, definitions put where used.

    Only recursive definitions stay in `$defs`.
    """
    return _inlined(_rebuilt(schema, _without_noise))


def usual(schema: Any) -> Any:
    """A schema from somewhere, with what others write otherwise: `dict` or `OBJECT`, null for nothing, listed items."""
    if isinstance(schema, list):
        return list(map(usual, schema))
    if not isinstance(schema, dict):
        return schema
    new = {key: value for key, value in schema.items() if value is not None or key not in _SHAPES}
    for key in new.keys() & {*_NAMED, "definitions"}:
        if isinstance(new[key], dict):
            new[key] = {name: usual(inner) for name, inner in new[key].items()}
    new.update({key: usual(new[key]) for key in new.keys() & {*_LISTED, *_SINGLE}})
    if isinstance(new.get("items"), list):
        new["prefixItems"] = new.pop("items")
    return _with_usual_type(new)


def _with_usual_type(schema: Schema) -> Schema:
    kind = schema.get("type")
    kinds = [_TYPES.get(each.lower(), each) if isinstance(each, str) else each for each in _listed(kind)]
    if kind == "any":
        return {key: schema[key] for key in schema if key != "type"}
    return {**schema, "type": kinds if isinstance(kind, list) else kinds[0]} if "type" in schema else schema


def _listed(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def refuse_malformed(schema: Any) -> None:
    """Raise TypeError when something in the schema has not the shape that JSON schema gives it."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise TypeError(f"a {type(schema).__name__} stands where a schema should")
    for keyword in schema.keys() & _SHAPES.keys():
        if not isinstance(schema[keyword], _SHAPES[keyword]):
            raise TypeError(f"{keyword!r} must not be a {type(schema[keyword]).__name__}")
    if not all(isinstance(name, str) for name in schema.get("required", ())):
        raise TypeError("'required' must list names")
    for inner in _inner_schemas(schema):
        refuse_malformed(inner)


def strict(schema: Schema, *, nested_nulls: bool = True) -> Schema | None:
    """The schema as strict mode demands it, or None when it has no such form.

    Every object is closed and requires all its properties; a property that was optional may be null instead.
    With `nested_nulls=False` that is done for the outermost object only, and an inner optional property means None.
    """
    try:
        closed = _closed(schema, 0, nested_nulls=nested_nulls)
        definitions = schema.get("$defs", {}).items()
        if definitions:
            closed["$defs"] = {name: _closed(inner, 1, nested_nulls=nested_nulls) for name, inner in definitions}
    except _NotStrict:
        return None
    return closed


def admits_null(schema: object) -> bool:
    """Whether null is a value of the schema, as far as its own keywords say."""
    if not isinstance(schema, dict):
        return schema is True
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    if "enum" in schema or "const" in schema:
        return None in schema.get("enum", [schema.get("const")])
    choices = schema.get("anyOf", schema.get("oneOf"))
    if choices is not None:
        return any(map(admits_null, choices))
    return not schema.keys() & {"type", "$ref", "allOf"}


def has_unions(schema: Any) -> bool:
    """Whether a value may be of several types, other than null, somewhere in the schema."""
    if isinstance(schema, dict):
        types = [each for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())) if each != {"type": "null"}]
        return len(types) > 1 or any(map(has_unions, schema.values()))
    return isinstance(schema, list) and any(map(has_unions, schema))


def _inner_schemas(schema: Schema) -> Iterator[Any]:
    for key in schema.keys() & {*_NAMED}:
        yield from schema[key].values()
    for key in schema.keys() & {*_LISTED}:
        yield from schema[key]
    yield from (schema[key] for key in schema.keys() & {*_SINGLE} if not isinstance(schema[key], list))


def _rebuilt(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    if not isinstance(schema, dict):
        return schema
    new = dict(schema)
    for key in schema.keys() & {*_NAMED}:
        new[key] = {name: _rebuilt(inner, change) for name, inner in schema[key].items()}
    for key in schema.keys() & {*_LISTED}:
        new[key] = [_rebuilt(inner, change) for inner in schema[key]]
    for key in schema.keys() & {*_SINGLE}:
        new[key] = _rebuilt(schema[key], change)
    return change(new)


def _without_noise(schema: Schema) -> Schema:
    kept = {key: value for key, value in schema.items() if key not in _UNREADABLE and _is_writable(value)}
    names = _names_of_choices(schema)
    return {**kept, "description": f"{kept.get('description', '')} {names}".strip()} if names else kept


def _names_of_choices(schema: Schema) -> str:
    """What numbers and the like stand for, when they are the values of an enum, or flags that may be added up."""
    python = schema.get(PYTHON, [])
    if SUMMED in schema:
        return ", ".join(f"{flag.value} = {name}" for name, flag in python[:_MOST_NAMED]) + "; or a sum of these"
    written = schema.get("enum", [schema.get("const")])
    if not python or all(isinstance(each, str) for each in written):
        return ""
    named = [f"{each} = {name}" for each, (name, _) in zip(written, python, strict=True) if name]
    return ", ".join(named[:_MOST_NAMED])


def _is_writable(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_writable, value.values()))
    if isinstance(value, list):
        return all(map(_is_writable, value))
    return not isinstance(value, float) or math.isfinite(value)


def _inlined(schema: Schema) -> Schema:
    definitions = schema.get("$defs")
    if not definitions:
        return schema
    reach = {name: _reachable(name, definitions) for name in definitions}
    recursive = {name for name in definitions if name in reach[name]}
    inlined = 0

    def put_in(node: Schema) -> Schema:
        nonlocal inlined
        name = node.get("$ref", "").removeprefix(_REFERENCE)
        if name not in definitions or name in recursive or inlined >= _MOST_INLINED:
            return node
        inlined += 1
        return {**_rebuilt(definitions[name], put_in), **{key: node[key] for key in node if key != "$ref"}}

    body = _rebuilt({key: value for key, value in schema.items() if key != "$defs"}, put_in)
    if inlined >= _MOST_INLINED:
        return schema
    left = {name: _rebuilt(definitions[name], put_in) for name in definitions if name in recursive}
    return {**body, "$defs": left} if left else body


def _reachable(start: str, definitions: dict[str, Schema]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in _references(definitions.get(waiting.pop(), {})):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_REFERENCE)
        for inner in _inner_schemas(schema):
            yield from _references(inner)


def _closed(schema: Any, depth: int, *, nested_nulls: bool) -> Schema:
    if not isinstance(schema, dict) or depth > _DEEPEST or schema.keys() - _KEPT - _LEFT_OUT - _READ_ELSEWHERE:
        raise _NotStrict
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    new = {key: value for key, value in schema.items() if key in _KEPT}
    new.update(_choices(schema))
    if "(?" in new.get("pattern", ""):
        del new["pattern"]
    if schema.get("format", "date") not in _FORMATS or not new.keys() & {"type", "anyOf"}:
        raise _NotStrict
    if "format" in schema:
        new["format"] = schema["format"]
    if "anyOf" in new:
        new["anyOf"] = [_closed(choice, depth, nested_nulls=nested_nulls) for choice in new["anyOf"]]
    if _is(schema, "array"):
        new["items"] = _closed(schema.get("items"), depth + 1, nested_nulls=nested_nulls)
    return _closed_object(schema, new, depth, nested_nulls=nested_nulls) if _is(schema, "object") else new


def _closed_object(schema: Schema, new: Schema, depth: int, *, nested_nulls: bool) -> Schema:
    properties = schema.get("properties", {})
    open_ended = schema.get("additionalProperties", not properties)
    optional = properties.keys() - {*schema.get("required", ())}
    if open_ended not in (False, None) or (depth and optional and not nested_nulls):
        raise _NotStrict
    new["properties"] = {}
    for name, inner in properties.items():
        closed = _closed(inner, depth + 1, nested_nulls=nested_nulls)
        new["properties"][name] = _nullable(closed) if name in optional else closed
    return {**new, "required": list(properties), "additionalProperties": False}


def _choices(schema: Schema) -> Schema:
    if "const" in schema:
        return {"enum": [schema["const"]]}
    return {"anyOf": schema["oneOf"]} if "oneOf" in schema else {}


def _is(schema: Schema, kind: str) -> bool:
    return kind in (schema.get("type"), *(schema["type"] if isinstance(schema.get("type"), list) else ()))


def _nullable(schema: Schema) -> Schema:
    if admits_null(schema):
        return schema
    inner = {key: value for key, value in schema.items() if key != "description"}
    outer = {"description": schema["description"]} if "description" in schema else {}
    return {"anyOf": [inner, {"type": "null"}], **outer}
