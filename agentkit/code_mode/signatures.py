"""Tools as Python functions for programs, generated from their JSON schemas (pure)."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import inspect
import numbers
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import PurePath
from textwrap import indent
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agentkit.content import File, Image
from agentkit.errors import ConfigError
from agentkit.sandbox.rpc_guest import python_name
from agentkit.tooling.docstrings import returns_section
from agentkit.tooling.signature import UNRESOLVABLE, innermost, names_in_scope
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset

Schema = dict[str, Any]

_UNKNOWN: Schema = {}
_TEXTS = (str, bytes, bytearray, PurePath, Image, File, datetime.date, datetime.time, datetime.timedelta, BaseException)
_JSON_TYPES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((types.NoneType,), "null"),
    ((bool,), "boolean"),
    (_TEXTS, "string"),
    ((numbers.Integral,), "integer"),
    ((numbers.Real,), "number"),
)


def return_schema(tool: Tool[..., Any]) -> Schema:
    """The JSON schema of a call's value from the function's return annotation; empty if unknown."""
    function = innermost(tool.function)
    try:
        annotation = inspect.signature(function).return_annotation
    except (ValueError, TypeError):
        return _UNKNOWN
    if annotation is inspect.Signature.empty:
        return _UNKNOWN
    return _schema(_hints({"return": annotation}, function).get("return", Any), ())


def _hints(annotations: Mapping[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """The resolved annotations; empty if a name cannot be resolved."""
    holder = types.SimpleNamespace(__annotations__=dict(annotations))
    try:
        return get_type_hints(holder, names_in_scope(inspect.unwrap(function)))
    except UNRESOLVABLE:
        return {}


def _schema(hint: Any, enclosing: tuple[type, ...]) -> Schema:
    """The schema of a value of this type after serialisation; `enclosing` are the enclosing classes."""
    hint = getattr(hint, "__value__", getattr(hint, "__supertype__", hint))  # type alias, NewType
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(each, enclosing) for each in arguments]}
    if origin is Literal:
        return {"enum": [_plain_value(each) for each in arguments]}
    kind = origin or hint
    if not isinstance(kind, type):
        return _UNKNOWN
    return _generic_schema(kind, arguments, enclosing) if arguments else _class_schema(kind, enclosing)


def _generic_schema(kind: type, arguments: tuple[Any, ...], enclosing: tuple[type, ...]) -> Schema:
    """The schema of a generic class with type arguments."""
    if issubclass(kind, Awaitable):
        return _schema(arguments[-1], enclosing)
    if issubclass(kind, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[-1], enclosing)}
    if issubclass(kind, tuple) and Ellipsis not in arguments:
        return {"type": "array", "prefixItems": [_schema(each, enclosing) for each in arguments]}
    if issubclass(kind, Iterable | AsyncIterator):
        return {"type": "array", "items": _schema(arguments[0], enclosing)}
    return _class_schema(kind, enclosing)


def _class_schema(kind: type, enclosing: tuple[type, ...]) -> Schema:
    if issubclass(kind, enum.Enum):
        return {"enum": [_plain_value(member) for member in kind]}
    for classes, word in _JSON_TYPES:
        if issubclass(kind, classes):
            return {"type": word}
    if kind in enclosing:  # recursive type
        return {"type": "object"}
    fields = _fields(kind)
    if fields:
        required = list(getattr(kind, "__required_keys__", fields))
        properties = {name: _schema(hint, (*enclosing, kind)) for name, hint in fields.items()}
        is_root = hasattr(kind, "model_fields") and "root" in fields  # only a RootModel has a field of this name
        return properties["root"] if is_root else {"type": "object", "properties": properties, "required": required}
    if issubclass(kind, Mapping):
        return {"type": "object"}
    return {"type": "array"} if issubclass(kind, Sequence | Set | Iterator) else _text_schema(kind)


def _fields(kind: type) -> dict[str, Any]:
    """The fields of a class that is serialised as an object, with their types."""
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


def _text_schema(kind: type) -> Schema:
    """The schema of a class serialised as its text, such as Decimal and UUID; empty for any other class."""
    has_text = any("__str__" in vars(each) or "__repr__" in vars(each) for each in kind.__mro__[:-1])
    return {"type": "string"} if has_text and not inspect.isabstract(kind) else _UNKNOWN


def _plain_value(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_TYPES |= {"object": "dict", "array": "list"}
_MAX_DEPTH, _MAX_PARTS = 4, 100


def tool_functions(tools: Toolset) -> dict[str, Tool[..., Any]]:
    """The tools by their function name in a program. Raises ConfigError if two have the same name."""
    functions: dict[str, Tool[..., Any]] = {}
    for tool in tools:
        name = python_name(tool.name)
        if name in functions:
            raise ConfigError(
                f"In a program {tool.name!r} and {functions[name].name!r} would both be called {name}: rename one."
            )
        functions[name] = tool
    return functions


def describe_function(name: str, tool: Tool[..., Any]) -> str:
    """A tool as a function: its signature, description and parameters."""
    schema = tool.parameters
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    order = sorted(properties, key=lambda each: each not in required)
    types = _AnnotationWriter({**schema.get("definitions", {}), **schema.get("$defs", {})})
    signature = ", ".join(_parameter(each, properties[each], types, is_required=each in required) for each in order)
    lines_of_parameters = (f"{python_name(each)}: {properties[each].get('description', '')}" for each in order)
    returns = returns_section(inspect.getdoc(tool.function) or "")
    lines = [tool.description, *(line for line in lines_of_parameters if not line.endswith(": "))]
    documentation = "\n".join([*lines, f"Returns: {returns}"] if returns else lines)
    return f"{name}({signature}){_return_annotation(tool)}\n{indent(documentation.strip(), '    ')}"


def _return_annotation(tool: Tool[..., Any]) -> str:
    """The return annotation, if it is known."""
    text = _AnnotationWriter({}).of(return_schema(tool))
    return "" if text == "object" else f" -> {text}"


def parameter_names(tool: Tool[..., Any]) -> list[str]:
    """The names of the parameters, required ones first."""
    schema = tool.parameters
    return sorted(schema.get("properties", {}), key=lambda each: each not in schema.get("required", ()))


def _parameter(name: str, schema: Mapping[str, Any], types: _AnnotationWriter, *, is_required: bool) -> str:
    default = f" = {schema['default']!r}" if "default" in schema else " = ..."
    return f"{python_name(name)}: {types.of(schema)}{'' if is_required else default}"


class _AnnotationWriter:
    """Converts JSON schemas to the closest annotations; cuts deep and very large schemas.

    An object with known keys is rendered as `{'name': str, 'count'?: int}`, with a mark at optional keys.
    """

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._parts_left = _MAX_PARTS
        self._open: set[str] = set()

    def of(self, schema: Any, depth: int = _MAX_DEPTH) -> str:
        """The annotation of a schema."""
        if not isinstance(schema, Mapping):
            return "object"
        reference = str(schema.get("$ref", ""))
        if reference in self._open:  # recursive type
            return "dict"
        if not reference:
            return self._annotation(schema, depth)
        self._open.add(reference)
        text = self.of(self._definitions.get(reference.rpartition("/")[2]), depth)
        self._open.discard(reference)
        return text

    def _annotation(self, schema: Mapping[str, Any], depth: int) -> str:
        self._parts_left -= 1
        choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if choices is not None:
            return f"Literal[{', '.join(map(repr, choices))}]"
        several, kind = schema.get("anyOf") or schema.get("oneOf"), schema.get("type")
        if isinstance(kind, list):
            several = several or [{**schema, "type": each} for each in kind]
        if several:
            parts = (self.of(part, depth) for part in several)
            return " | ".join(dict.fromkeys(parts)) if self._parts_left > 0 else "object"
        plain = _TYPES.get(kind or "", "object")
        if depth == 0 or self._parts_left <= 0 or plain not in {"list", "dict"}:
            return plain
        return self._list(schema, depth - 1) if plain == "list" else self._dict(schema, depth - 1)

    def _list(self, schema: Mapping[str, Any], depth: int) -> str:
        members = schema.get("prefixItems") or [schema.get("items")]
        return f"list[{', '.join(self.of(each, depth) for each in members)}]"

    def _dict(self, schema: Mapping[str, Any], depth: int) -> str:
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if not properties:
            return f"dict[str, {self.of(others, depth)}]" if isinstance(others, Mapping) and others else "dict"
        required = schema.get("required", ())
        parts = (f"{key!r}{'' if key in required else '?'}: {self.of(properties[key], depth)}" for key in properties)
        return f"{{{', '.join(parts)}}}"
