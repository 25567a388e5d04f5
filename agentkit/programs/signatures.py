"""How does a program name a tool and its parameters? As functions of Python, from their JSON schemas (pure)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from textwrap import indent
from typing import Any

from agentkit.errors import ConfigError
from agentkit.programs.returns import schema_returned
from agentkit.sandbox.calling.guest import spelled
from agentkit.tooling.functions.sections import returned
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_TYPES |= {"object": "dict", "array": "list"}
_DEEPEST, _MOST_PARTS = 4, 100


def functions_of(tools: Toolset) -> dict[str, Tool[..., Any]]:
    """The tools by the names that a program calls them by. Raises ConfigError where two come to one name."""
    named: dict[str, Tool[..., Any]] = {}
    for tool in tools:
        name = spelled(tool.name)
        if name in named:
            raise ConfigError(
                f"In a program {tool.name!r} and {named[name].name!r} would both be called {name}: rename one."
            )
        named[name] = tool
    return named


def described(name: str, tool: Tool[..., Any]) -> str:
    """A tool as a function: its signature, and below it what it does and what its parameters are."""
    schema = tool.parameters
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    order = sorted(properties, key=lambda each: each not in required)
    types = _Types({**schema.get("definitions", {}), **schema.get("$defs", {})})
    signature = ", ".join(_parameter(each, properties[each], types, is_required=each in required) for each in order)
    told = (f"{spelled(each)}: {properties[each].get('description', '')}" for each in order)
    returns = returned(inspect.getdoc(tool.function) or "")
    lines = [tool.description, *(line for line in told if not line.endswith(": "))]
    about = "\n".join([*lines, f"Returns: {returns}"] if returns else lines)
    return f"{name}({signature}){_gives(tool)}\n{indent(about.strip(), '    ')}"


def _gives(tool: Tool[..., Any]) -> str:
    """The annotation of what a program gets, where it says something."""
    text = _Types({}).of(schema_returned(tool))
    return "" if text == "object" else f" -> {text}"


def parameters_of(tool: Tool[..., Any]) -> list[str]:
    """The names of the parameters, those that must be given first."""
    schema = tool.parameters
    return sorted(schema.get("properties", {}), key=lambda each: each not in schema.get("required", ()))


def _parameter(name: str, schema: Mapping[str, Any], types: _Types, *, is_required: bool) -> str:
    default = f" = {schema['default']!r}" if "default" in schema else " = ..."
    return f"{spelled(name)}: {types.of(schema)}{'' if is_required else default}"


class _Types:
    """JSON schemas as the annotations that come nearest to them; of what is nested deep, and of very much, the outside.

    A dictionary of certain keys is told as `{'name': str, 'count'?: int}`, with a mark at those that may be left out.
    """

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._parts_left = _MOST_PARTS
        self._open: set[str] = set()

    def of(self, schema: Any, depth: int = _DEEPEST) -> str:
        """What stands behind the colon."""
        if not isinstance(schema, Mapping):
            return "object"
        reference = str(schema.get("$ref", ""))
        if reference in self._open:  # a tree, whose branches are trees
            return "dict"
        if not reference:
            return self._of(schema, depth)
        self._open.add(reference)
        text = self.of(self._definitions.get(reference.rpartition("/")[2]), depth)
        self._open.discard(reference)
        return text

    def _of(self, schema: Mapping[str, Any], depth: int) -> str:
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
