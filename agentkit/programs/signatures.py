"""How does a program name a tool and its parameters? As functions of Python, from their JSON schemas (pure)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from textwrap import indent
from typing import Any

from agentkit.errors import ConfigError
from agentkit.sandbox.calling.guest import spelled
from agentkit.tooling.functions.sections import returned
from agentkit.tooling.functions.signature import innermost
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset

_TELLING = re.compile(r"(?!Any$)(?:\b(?:str|int|float|bool|None|list|dict|date|datetime|Any)\b|[][, |])+")
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict"}


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
    signature = ", ".join(_parameter(each, properties[each], is_required=each in required) for each in order)
    told = (f"{spelled(each)}: {properties[each].get('description', '')}" for each in order)
    returns = returned(inspect.getdoc(tool.function) or "")
    lines = [tool.description, *(line for line in told if not line.endswith(": "))]
    about = "\n".join([*lines, f"Returns: {returns}"] if returns else lines)
    return f"{name}({signature}){_gives(tool)}\n{indent(about.strip(), '    ')}"


def _gives(tool: Tool[..., Any]) -> str:
    """The annotation of what the function returns, where it says something."""
    annotations = getattr(inspect.unwrap(innermost(tool.function)), "__annotations__", {})
    returns = annotations.get("return", "")
    text = (returns if isinstance(returns, str) else inspect.formatannotation(returns)).replace("typing.", "")
    return f" -> {text}" if _TELLING.fullmatch(text) else ""


def parameters_of(tool: Tool[..., Any]) -> list[str]:
    """The names of the parameters, those that must be given first."""
    schema = tool.parameters
    return sorted(schema.get("properties", {}), key=lambda each: each not in schema.get("required", ()))


def _parameter(name: str, schema: Mapping[str, Any], *, is_required: bool) -> str:
    default = "" if is_required else f" = {schema.get('default')!r}"
    return f"{spelled(name)}: {_type(schema)}{default}"


def _type(schema: Any) -> str:
    """A JSON schema as the annotation that comes nearest to it."""
    if not isinstance(schema, Mapping):
        return "object"
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    several = schema.get("anyOf") or schema.get("oneOf")
    kind = schema.get("type")
    if several or isinstance(kind, list):
        parts = map(_type, several) if several else (_TYPES.get(each, "list") for each in kind or ())
        return " | ".join(dict.fromkeys(parts))
    if kind == "array":
        return f"list[{_type(schema.get('items', {}))}]"
    return _TYPES.get(kind or "", "object")
