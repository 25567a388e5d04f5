"""What reaches a program of what a function returns? Its annotation as JSON schema, as values are rendered (pure)."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import inspect
import numbers
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agentkit.parts import File, Image
from agentkit.tooling.functions.signature import UNRESOLVABLE, innermost, names_around
from agentkit.tooling.tool import Tool

Schema = dict[str, Any]

_UNKNOWN: Schema = {}
_TEXTS = (str, bytes, bytearray, PurePath, Image, File, datetime.date, datetime.time, datetime.timedelta, BaseException)
_PLAIN: tuple[tuple[tuple[type, ...], str], ...] = (
    ((types.NoneType,), "null"),
    ((bool,), "boolean"),
    (_TEXTS, "string"),
    ((numbers.Integral,), "integer"),
    ((numbers.Real,), "number"),
)


def schema_returned(tool: Tool[..., Any]) -> Schema:
    """What a program gets of a call, as far as the function's annotation tells; empty where it tells nothing."""
    function = innermost(tool.function)
    try:
        annotation = inspect.signature(function).return_annotation
    except (ValueError, TypeError):
        return _UNKNOWN
    if annotation is inspect.Signature.empty:
        return _UNKNOWN
    return _schema(_hints({"return": annotation}, function).get("return", Any), ())


def _hints(annotations: Mapping[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """These annotations as types; none of them where a name is not known."""
    holder = types.SimpleNamespace(__annotations__=dict(annotations))
    try:
        return get_type_hints(holder, names_around(inspect.unwrap(function)))
    except UNRESOLVABLE:
        return {}


def _schema(hint: Any, within: tuple[type, ...]) -> Schema:
    """What a value of this type becomes; `within` are the classes in whose fields it stands."""
    hint = getattr(hint, "__value__", getattr(hint, "__supertype__", hint))  # of an alias, and of a NewType
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(each, within) for each in arguments]}
    if origin is Literal:
        return {"enum": [_plain_value(each) for each in arguments]}
    kind = origin or hint
    if not isinstance(kind, type):
        return _UNKNOWN
    return _of_generic(kind, arguments, within) if arguments else _of_class(kind, within)


def _of_generic(kind: type, arguments: tuple[Any, ...], within: tuple[type, ...]) -> Schema:
    """A class with what stands in its brackets."""
    if issubclass(kind, Awaitable):
        return _schema(arguments[-1], within)
    if issubclass(kind, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[-1], within)}
    if issubclass(kind, tuple) and Ellipsis not in arguments:
        return {"type": "array", "prefixItems": [_schema(each, within) for each in arguments]}
    if issubclass(kind, Iterable | AsyncIterator):
        return {"type": "array", "items": _schema(arguments[0], within)}
    return _of_class(kind, within)


def _of_class(kind: type, within: tuple[type, ...]) -> Schema:
    if issubclass(kind, enum.Enum):
        return {"enum": [_plain_value(member) for member in kind]}
    for classes, word in _PLAIN:
        if issubclass(kind, classes):
            return {"type": word}
    if kind in within:  # a tree, whose branches are trees
        return {"type": "object"}
    fields = _fields(kind)
    if fields:
        required = list(getattr(kind, "__required_keys__", fields))
        properties = {name: _schema(hint, (*within, kind)) for name, hint in fields.items()}
        is_root = hasattr(kind, "model_fields") and "root" in fields  # which no other model of pydantic can have
        return properties["root"] if is_root else {"type": "object", "properties": properties, "required": required}
    if issubclass(kind, Mapping):
        return {"type": "object"}
    return {"type": "array"} if issubclass(kind, Sequence | Set | Iterator) else _as_text(kind)


def _fields(kind: type) -> dict[str, Any]:
    """The keys of what becomes a dictionary of certain keys, with the types of their values."""
    if dataclasses.is_dataclass(kind):
        names: Iterable[str] = [field.name for field in dataclasses.fields(kind)]
    elif hasattr(kind, "__required_keys__"):
        names = kind.__annotations__
    elif hasattr(kind, "model_fields"):
        return {name: field.annotation for name, field in kind.model_fields.items() if not field.exclude}
    else:
        names = getattr(kind, "_fields", ())
    try:
        hints = get_type_hints(kind)
    except UNRESOLVABLE:
        hints = {}
    return {name: hints.get(name, Any) for name in names}


def _as_text(kind: type) -> Schema:
    """A class of which only its own text is told, such as Decimal and UUID; any other may be anything."""
    has_text = any("__str__" in vars(each) or "__repr__" in vars(each) for each in kind.__mro__[:-1])
    return {"type": "string"} if has_text and not inspect.isabstract(kind) else _UNKNOWN


def _plain_value(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value
