"""JSON schemas of simple annotations, without pydantic."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from agentkit._dataclass import dataclass
from agentkit.tooling.schema_references import Schema
from agentkit.tooling.signature import REQUIRED, Parameter

_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_PLAIN_DEFAULTS = (str, int, float, bool, types.NoneType)


@dataclass(frozen=True, slots=True)
class PlainType:
    """A plain annotation: its JSON schema, which values need no coercion, and whether it is nullable."""

    schema: dict[str, Any]
    accepts: Callable[[Any], bool]
    nullable: bool = False


def plain(hint: Any) -> PlainType | None:
    """Return the plain form of an annotation, or None if it needs pydantic.

    Plain annotations are `str`, `int`, `float`, `bool`, `Any`, string literals and enums, `X | None`, lists, and
    dictionaries with string keys, all of plain annotations. The text of an enum member needs coercion.
    """
    if hint is Any:
        return PlainType({}, lambda _: True, nullable=True)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    kind = hint if isinstance(hint, type) else get_origin(hint)
    if kind in _SCALARS:
        return PlainType({"type": _SCALARS[kind]}, lambda value: type(value) is kind)
    reader = _READERS.get(kind)
    return reader(get_args(hint)) if reader else None


def is_plain_default(value: object, hint: Any = None) -> bool:
    """Whether a default can be used in a JSON schema, directly or by value as a member of the enum `hint`."""
    return type(value) in _PLAIN_DEFAULTS or (isinstance(value, Enum) and type(value) is hint)


def _enum(kind: type[Enum]) -> PlainType | None:
    """Describe an enum the way pydantic does.

    Enums with aliases or a custom pydantic schema are left to pydantic.
    """
    choices = [member.value for member in kind]
    is_own = hasattr(kind, "__get_pydantic_core_schema__") or hasattr(kind, "__get_pydantic_json_schema__")
    if is_own or not choices or len(kind.__members__) > len(choices) or any(type(each) is not str for each in choices):
        return None
    described = {"description": inspect.cleandoc(kind.__doc__)} if kind.__doc__ else {}
    return PlainType({**described, "enum": choices, "type": "string"}, lambda value: type(value) is kind)


def _annotated(args: tuple[Any, ...]) -> PlainType | None:
    inner = plain(args[0]) if all(isinstance(extra, str) for extra in args[1:]) else None
    return replace(inner, schema={**inner.schema, "description": args[1]}) if inner and args[1] else inner


def _literal(choices: tuple[Any, ...]) -> PlainType | None:
    if not choices or any(type(choice) is not str for choice in choices):
        return None
    schema = {"const": choices[0]} if len(choices) == 1 else {"enum": list(choices)}
    return PlainType({**schema, "type": "string"}, lambda value: type(value) is str and value in choices)


def _optional(args: tuple[Any, ...]) -> PlainType | None:
    others = [arg for arg in args if arg is not types.NoneType]
    inner = plain(others[0]) if len(others) == 1 else None
    if inner is None or inner.nullable:
        return None
    accepts = inner.accepts
    schema = {"anyOf": [inner.schema, {"type": "null"}]}
    return PlainType(schema, lambda value: value is None or accepts(value), nullable=True)


def _list(args: tuple[Any, ...]) -> PlainType | None:
    item = plain(args[0] if args else Any)
    if item is None or len(args) > 1:
        return None
    accepts = item.accepts
    schema = {"items": item.schema, "type": "array"}
    return PlainType(schema, lambda value: type(value) is list and all(map(accepts, value)))


def _dict(args: tuple[Any, ...]) -> PlainType | None:
    key, content = args if len(args) == 2 else (str if not args else None, Any)
    item = plain(content)
    if item is None or key is not str:
        return None
    accepts = item.accepts
    schema = {"additionalProperties": item.schema or True, "type": "object"}
    return PlainType(
        schema,
        lambda value: (
            type(value) is dict and all(type(name) is str for name in value) and all(map(accepts, value.values()))
        ),
    )


_READERS: dict[Any, Callable[[tuple[Any, ...]], PlainType | None]] = {
    Annotated: _annotated,
    Literal: _literal,
    Union: _optional,
    types.UnionType: _optional,
    list: _list,
    dict: _dict,
}


def plain_forms(parameters: Sequence[Parameter]) -> tuple[PlainType, ...] | None:
    """Return the plain forms of all parameters, or None if one of them is not plain."""
    forms = []
    for parameter in parameters:
        form = plain(parameter.hint)
        if form is None or not (parameter.required or is_plain_default(parameter.default, parameter.hint)):
            return None
        forms.append(form)
    return tuple(forms)


def plain_schema(parameters: Sequence[Parameter], forms: Sequence[PlainType]) -> Schema:
    """Build the JSON schema of plain parameters."""
    properties = {
        parameter.name: form.schema if parameter.required else {"default": _written(parameter.default), **form.schema}
        for parameter, form in zip(parameters, forms, strict=True)
    }
    required = [parameter.name for parameter in parameters if parameter.required]
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _written(default: Any) -> Any:
    """Return a default as written in a schema."""
    return default.value if isinstance(default, Enum) else default


def exact(parameters: Sequence[Parameter], forms: Sequence[PlainType], given: dict[str, Any]) -> dict[str, Any] | None:
    """Return the keyword arguments if all values have their exact types, or None if they need coercion."""
    checked = {}
    for parameter, form in zip(parameters, forms, strict=True):
        value = given.get(parameter.name, REQUIRED)
        if value is REQUIRED or (value is None and not form.nullable):
            if parameter.required:
                return None
            value = parameter.default
        elif not form.accepts(value):
            return None
        checked[parameter.name] = value
    return checked if given.keys() <= checked.keys() else None
