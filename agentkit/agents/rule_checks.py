"""Detection of rules that can never match a tool of an agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from agentkit.errors import ConfigError
from agentkit.event_rendering import suggestion
from agentkit.messages import READ_MORE
from agentkit.safety.policy import Policy
from agentkit.safety.rules import Rule, plain, rules_from
from agentkit.suggestions import closest
from agentkit.tooling.json_schema import closed
from agentkit.tooling.tool import Tool, names_in_use
from agentkit.tooling.toolset import AnyTool, Toolset

_ALIKE = 0.85
"""Similarity from which a tool name counts as a misspelling of another; `read_mail` and `read_file` are below it."""


def check_rules(policy: Policy, tools: Iterable[AnyTool]) -> None:
    """Raise ConfigError for a rule whose tool or argument name is a misspelling of one of the agent's tools.

    An unknown name that is not a misspelling is accepted, because several agents can share one policy. The name of any
    tool in this process and of any shipped tool is accepted as well.
    """
    rules = rules_from(policy.rules)
    if not rules:
        return
    own = {tool.name: tool for tool in _with_inner(tools)}
    for rule in rules:
        _check_name(rule, own)
        _check_arguments(rule, own)


def _with_inner(tools: Iterable[AnyTool]) -> Iterable[AnyTool]:
    """The tools, including those that the programs of a tool can call."""
    for tool in tools:
        yield tool
        inner = getattr(tool, "tools", None)
        if isinstance(inner, Toolset):
            yield from inner


def _check_name(rule: Rule, own: Mapping[str, AnyTool]) -> None:
    if rule.is_pattern or rule.tool in own:
        return
    shipped = _shipped()
    if rule.tool in shipped or rule.tool in names_in_use() or rule.tool == READ_MORE:
        return
    meant = _meant(rule.tool, [*own, *shipped], own) or _exports().get(rule.tool, "")
    if meant:
        raise ConfigError(
            f"The rule {rule.label!r} would apply to nothing. No tool is named {rule.tool!r}. Did you mean {meant!r}?"
        )


def _meant(name: str, known: Iterable[str], own: Iterable[str]) -> str:
    """The probable intended name: the same words, a close match, or a name of the agent that contains the words."""
    same = next((each for each in known if _words(each) == _words(name)), "")
    longer = next((each for each in own if _words(name) and _words(name) < _words(each)), "")
    return same or closest(name.lower(), known, _ALIKE) or longer


def _words(name: str) -> frozenset[str]:
    """The words of a name in lower case: `WriteFile` and `write_file` have the same words."""
    return frozenset(re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))


def _check_arguments(rule: Rule, own: Mapping[str, AnyTool]) -> None:
    """Raise ConfigError for a rule about an argument that none of the matching tools has."""
    about = [tool for name, tool in own.items() if rule.is_about(name)]
    about = about or [tool for name, tool in _shipped().items() if name == rule.tool]
    if not about or any(map(_is_open, about)):
        return
    names = list(dict.fromkeys(name for tool in about for name in tool.spec.parameters.get("properties", {})))
    unknown = next((name for name in rule.where if name not in names), None)
    if unknown is not None:
        told = f"its arguments are {', '.join(names)}" if names else "it takes no arguments"
        raise ConfigError(
            f"The rule {rule.label!r} would apply to nothing. {about[0].name} has no argument {unknown!r}; {told}."
            f"{suggestion(unknown, names)}"
        )
    _check_types(rule, about)


_WANTED_TYPES: Mapping[str, tuple[str, frozenset[str]]] = {
    **dict.fromkeys(("at_most", "at_least"), ("a number", frozenset({"number", "integer"}))),
    **dict.fromkeys(("words", "host", "origin"), ("a text", frozenset({"string"}))),
    "below": ("a path or a list of paths", frozenset({"string", "array"})),
}
"""The types in JSON of the arguments that a test can fit."""


def _check_types(rule: Rule, about: Iterable[AnyTool]) -> None:
    """Raise ConfigError for a test that no argument of these tools can pass, because it has another type."""
    for argument, test, operand in rule.tests:
        schemas = [tool.spec.parameters.get("properties", {}).get(argument) for tool in about]
        types = [_types(schema) for schema in schemas if schema is not None]
        if test in ("equals", "one_of"):
            operands = operand if test == "one_of" else (operand,)
            wanted = frozenset(name for each in operands for name in _types_of(plain(each)))
            what = "another type than the values"
        elif test in _WANTED_TYPES:
            what, wanted = f"not {_WANTED_TYPES[test][0]}, as", _WANTED_TYPES[test][1]
        else:
            continue
        if types and wanted and all(known and known.isdisjoint(wanted) for known in types):
            raise ConfigError(
                f"The rule {rule.label!r} would apply to nothing. The argument {argument!r} is of type "
                f"{' or '.join(sorted(types[0]))}: {what} of the test {test!r}."
            )


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types in JSON that a schema allows; none when it does not say."""
    given = schema.get("type")
    if given:
        return frozenset([given] if isinstance(given, str) else given)
    choices = schema.get("anyOf") or schema.get("oneOf") or ()
    inner = [_types(each) for each in choices]
    return frozenset().union(*inner) if inner and all(inner) else frozenset()


def _types_of(value: Any) -> tuple[str, ...]:
    """The types in JSON of the arguments that can equal a value of a rule; none for what may equal anything."""
    match value:
        case bool():
            return ("boolean",)
        case int() | float() | Decimal():
            return ("number", "integer", "string") if isinstance(value, Decimal) else ("number", "integer")
        case str():
            return ("string", "number") if value.strip()[:1].isdigit() else ("string",)
        case list():
            return ("array",)
        case dict():
            return ("object",)
    return tuple(_ALL_TYPES)


_ALL_TYPES = frozenset({"null", "boolean", "number", "integer", "string", "array", "object"})


def _is_open(tool: AnyTool) -> bool:
    """Whether a tool accepts arguments that its schema does not list."""
    return tool.spec.hosted is not None or closed(dict(tool.spec.parameters)).get("additionalProperties") is not False


def _shipped() -> dict[str, AnyTool]:
    from agentkit.tools.catalog import all_tools

    return {tool.name: tool for tool in all_tools}


def _exports() -> dict[str, str]:
    """The names of the shipped tools by variable name: `shell_tool` is `run_shell`."""
    from agentkit.tools import catalog, core

    found = {**vars(core), **vars(catalog)}
    return {name: value.name for name, value in found.items() if isinstance(value, Tool)}
