"""How do others write a JSON schema? What can mean only one thing is put as JSON schema says it today."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentkit.tooling.meaning.numbers import number, whole
from agentkit.tooling.strict import JSON_TYPES, LISTED, NAMED, SHAPES, SINGLE, Schema

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
"""Types by the names that JSON schema has for them, and by those that other languages have, in small letters."""

_DEFINED = {"parameters", "inputSchema", "input_schema"}
"""Where the definition of a tool holds its schema."""

_WITH_SCHEMAS = {*NAMED, *LISTED, *SINGLE, "definitions", "default", "const", "if", "then", "else"}
_ELSEWHERE = "#/components/"
"""How references begin that mean a whole OpenAPI document, and not the schema that was copied out of it."""

_UNSAID = ("any", "")
_NOT_KEPT = {"nullable", "optional"}
_TRUTHS = {"true": True, "false": False}


def usual(schema: Any) -> Any:
    """A schema from somewhere, with what others write otherwise put as it is written today.

    Types by other names such as `dict`, `OBJECT` or `ArrayList`; null for nothing; listed items; the choices of the
    entries of a list beside it; choices of another type than the one that is named; `nullable`; whether a property is
    required, said by itself; limits that exclude themselves.
    """
    if isinstance(schema, list):
        return list(map(usual, schema))
    if not isinstance(schema, dict):
        return schema
    new = {key: value for key, value in schema.items() if value is not None or key not in SHAPES}
    if isinstance(new.get("items"), list):
        new["prefixItems"] = new.pop("items")
    for change in (_with_usual_type, _with_null, _with_usual_limits, _with_choices_of_entries, _with_usual_choices):
        new = change(new)
    new = _with_required_listed(new)
    for key in new.keys() & {*NAMED, "definitions"}:
        if isinstance(new[key], dict):
            new[key] = {name: usual(inner) for name, inner in new[key].items()}
    new.update({key: usual(new[key]) for key in new.keys() & {*LISTED, *SINGLE}})
    return {key: value for key, value in new.items() if key not in _NOT_KEPT or not isinstance(value, bool)}


def refuse_what_is_around(schema: Any) -> None:
    """Raise TypeError for what is no schema of an object, but the definition that it stands in, or its properties only.

    No model would be asked for any of them. A schema that refers to what it was taken out of is refused likewise: no
    provider would take it.
    """
    if not isinstance(schema, dict):
        return
    if "properties" not in schema and (isinstance(schema.get("parameters"), list) or "requestBody" in schema):
        raise TypeError("it is an operation of an API: give the schema of its body, or a property for each parameter")
    _refuse_lost(schema, schema)
    whole = schema.get("function", schema)
    inside = _DEFINED & whole.keys() if isinstance(whole, dict) and isinstance(whole.get("name"), str) else ()
    for name in inside:
        raise TypeError(f"it is the definition of a tool: give what stands under {name!r}")
    bare = [name for name, inner in schema.items() if name not in _WITH_SCHEMAS and _is_described(inner)]
    if bare and "properties" not in schema:
        raise TypeError(f"{bare[0]!r} stands where a keyword should: write {{'properties': {{{bare[0]!r}: ...}}}}")


def _refuse_lost(schema: Any, root: Schema) -> None:
    """Raise TypeError for a reference to the OpenAPI document that the root was copied out of."""
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if isinstance(reference, str) and reference.startswith(_ELSEWHERE) and "components" not in root:
        own = f"#/$defs/{reference.rpartition('/')[2]}"
        raise TypeError(f"it refers to {reference!r}, which is not in it: put that under '$defs', and {own!r} here")
    for inner in _inside(schema):
        _refuse_lost(inner, root)


def _inside(schema: Any) -> Iterator[Any]:
    """The schemas that one is made of."""
    if isinstance(schema, dict):
        named = (schema[key] for key in schema.keys() & {*NAMED, "definitions"} if isinstance(schema[key], dict))
        listed = (schema[key] for key in schema.keys() & {*LISTED, *SINGLE})
        yield from (inner for group in named for inner in group.values())
        yield from (inner for each in listed for inner in (each if isinstance(each, list) else [each]))


def _is_described(inner: Any) -> bool:
    return isinstance(inner, dict) and bool(inner.keys() & {"type", "description", "enum"})


def _with_usual_type(schema: Schema) -> Schema:
    kind = schema.get("type")
    kinds = [_usual_type(each) for each in _listed(kind)]
    if "type" in schema and any(each in _UNSAID for each in kinds):
        return {key: schema[key] for key in schema if key != "type"}
    return {**schema, "type": kinds if isinstance(kind, list) else kinds[0]} if "type" in schema else schema


def _usual_type(kind: Any) -> Any:
    if not isinstance(kind, str):
        return kind
    word = kind.strip().lower()
    return word if word in _UNSAID else _TYPES.get(word, kind)


def _listed(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def _with_null(schema: Schema) -> Schema:
    return _widened(schema, ["null"]) if schema.get("nullable") is True and "type" in schema else schema


def _with_usual_limits(schema: Schema) -> Schema:
    """`exclusiveMinimum: true` beside `minimum` is how older drafts write `exclusiveMinimum`."""
    new = dict(schema)
    for limit, excluded in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(new.get(excluded), bool) and new.pop(excluded) and limit in new:
            new[excluded] = new.pop(limit)
    return new


def _with_choices_of_entries(schema: Schema) -> Schema:
    """No list is one of its own entries: choices that are no lists are those of the entries."""
    choices, entries = schema.get("enum"), schema.get("items", {})
    if schema.get("type") != "array" or not isinstance(choices, list) or not isinstance(entries, dict):
        return schema
    if any(isinstance(each, list) or each is None for each in choices) or "enum" in entries:
        return schema
    others = {key: value for key, value in schema.items() if key != "enum"}
    return {**others, "items": {**entries, "enum": choices}}


def _with_usual_choices(schema: Schema) -> Schema:
    """Choices of the type that is named, where they spell one; of the type of the others too."""
    choices, kinds = schema.get("enum"), schema.get("type")
    if not isinstance(choices, list) or not isinstance(kinds, str | list):
        return schema
    if not choices:
        return {key: value for key, value in schema.items() if key != "enum"}
    spelled = [_spelled(each, _listed(kinds)) for each in choices]
    new = list({(type(each), json.dumps(each, sort_keys=True)): each for each in spelled}.values())
    others = [kind_of(each) for each in new if not is_of(each, _listed(kinds))]
    return {**_widened(schema, others), "enum": new}


def _widened(schema: Schema, kinds: list[str]) -> Schema:
    """The schema for values of these types too."""
    every = list(dict.fromkeys([*_listed(schema["type"]), *kinds]))
    return {**schema, "type": schema["type"] if len(every) == 1 else every} if kinds else schema


def _spelled(choice: Any, kinds: list[Any]) -> Any:
    """The value of one of the types that a choice spells, or the choice as it is."""
    if is_of(choice, kinds):
        return choice
    if not isinstance(choice, str):
        return str(choice) if kinds == ["string"] and is_of(choice, ["number"]) else choice
    found = (reader(choice.strip()) for kind, reader in _READERS.items() if kind in kinds)
    return next((each for each in found if each is not None), choice)


def _whole(text: str) -> int | None:
    written = number(text, is_whole=True)
    return None if written is None else whole(written)


def _number(text: str) -> float | None:
    written = number(text)
    return None if written is None else float(written)


_READERS: Mapping[str, Callable[[str], Any]] = {
    "boolean": lambda text: _TRUTHS.get(text.lower()),
    "integer": _whole,
    "number": _number,
}


def _with_required_listed(schema: Schema) -> Schema:
    """What is required by the list of its names, where the properties say it of themselves."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    said = [name for name, inner in properties.items() if _says_required(inner)]
    if not said:
        return schema
    bare = {
        name: {key: value for key, value in inner.items() if key != "required"} if _says_required(inner) else inner
        for name, inner in properties.items()
    }
    listed = schema.get("required", [])
    required = [*listed, *(name for name in said if properties[name]["required"] and name not in listed)]
    return {**schema, "properties": bare, "required": required}


def _says_required(inner: Any) -> bool:
    return isinstance(inner, dict) and isinstance(inner.get("required"), bool)


def kind_of(value: Any) -> str:
    """The type of a JSON value, by the name that JSON schema has for it."""
    return next(kind for kind in _IS if is_of(value, [kind]))


def is_of(value: Any, kinds: list[Any]) -> bool:
    """Whether a value is of one of these types; a true value is no number, and a number without fraction is whole."""
    return any(kind not in _IS or _IS[kind](value) for kind in kinds)


def _is_finite(value: Any) -> bool:
    """Whether it is a float that JSON can write: what it cannot would be sent as null, or not be read."""
    return isinstance(value, float) and math.isfinite(value)


_IS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: (isinstance(value, int) and not isinstance(value, bool)) or _is_finite(value),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
    "null": lambda value: value is None,
}
