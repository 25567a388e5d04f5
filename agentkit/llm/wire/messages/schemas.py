"""How are schemas told: of an answer, that the server makes a grammar of, and of what a tool takes? Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT = frozenset({"$ref", "$defs", "type", "title", "description", "enum", "const", "required"})
_NESTED = {"properties": True, "$defs": True, "items": False, "anyOf": False, "allOf": False}
"""Where schemas stand inside of schemas; true where each has a name."""

_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"),
)
_SILENT = frozenset({"$schema", "$id", "additionalProperties", "discriminator"})


_CHOICES = ("anyOf", "oneOf", "allOf")


def rooted(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The schema of what a tool takes as an object, which it must be at its root, and what cannot be said there."""
    if schema.get("type") == "object" and not any(name in schema for name in _CHOICES):
        return schema, ""
    note = "; ".join(f"{name}: {json.dumps(schema[name])}" for name in _CHOICES if name in schema)
    kept = {name: value for name, value in schema.items() if name not in _CHOICES}
    return {**kept, "type": "object"}, f"(Arguments fit {note})" if note else ""


def constrained(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema in the words that can be enforced. Others are told in its description, for the model to heed.

    Objects are closed. One of free names, which cannot be, is left open for the server to refuse.
    """
    schema = _with_one_type(schema)
    if "$ref" in schema:
        kept = {"$ref": schema["$ref"]}
        return kept | ({"$defs": _named(schema["$defs"])} if "$defs" in schema else {})
    told = {name: value for name, value in schema.items() if name in _KEPT}
    told |= {name: _inner(name, schema[name]) for name in _NESTED if name in schema}
    if schema.get("type") == "object":
        told["additionalProperties"] = schema.get("additionalProperties", False)
    unsaid: dict[str, Any] = {}
    for name, value in schema.items():
        if _is_enforced(name, value):
            told[name] = value
        elif name not in told and name not in _SILENT:
            unsaid[name] = value
    return _with_note(told, unsaid)


def _with_one_type(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with a choice of schemas where it has several types, and with the one word for a choice."""
    plain: dict[str, Any] = {("anyOf" if name == "oneOf" else name): value for name, value in schema.items()}
    types = plain.get("type")
    if not isinstance(types, list):
        return plain
    about: dict[str, Any] = {name: plain.pop(name) for name in ("title", "description") if name in plain}
    return about | {"anyOf": [{**(plain if kind != "null" else {}), "type": kind} for kind in types]}


def _inner(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_either(each) for each in value]
    return _named(value) if _NESTED[name] else _either(value)


def _named(schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _either(each) for name, each in schemas.items()}


def _either(schema: Any) -> Any:
    """The schema so; True, which stands for any value, stays for the server to refuse."""
    return constrained(schema) if isinstance(schema, dict) else schema


def _is_enforced(name: str, value: object) -> bool:
    return (name == "format" and value in _FORMATS) or (name == "minItems" and value in (0, 1))


def _with_note(told: dict[str, Any], unsaid: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with what cannot be enforced in its description, as `minimum: 1, maximum: 10`."""
    if not unsaid:
        return told
    note = ", ".join(f"{name}: {value}" for name, value in unsaid.items())
    before = f"{told['description']} " if told.get("description") else ""
    return {**told, "description": f"{before}({note})"}
