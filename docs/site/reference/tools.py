"""Reference page of the built-in tools: parameters, levels, judges and limits."""

import json
from importlib import import_module
from typing import Any

from markdown import block, code, docstring_of, first_sentence, flowing, joined, table

import agentkit
from agentkit import Tool
from agentkit.sandbox.watchdog import ProcessLimits
from agentkit.tools.catalog import all_tools, collections

_OPENING = """\
Models, rules and the command line use the name of a tool, programs its import. The level is the highest that a call can
have; the judge can assign a lower one, for example to reads. A direct call returns a dictionary; a model receives it as
JSON, truncated at the maximum number of characters."""


def page() -> str:
    """Render the page."""
    rows = [(f"[{each.name}](#{each.name})", each.level.name, _collections(each)) for each in all_tools]
    overview = table(("tool", "level", "collections"), rows)
    return joined(["# Reference: built-in tools", _OPENING, overview, *map(_entry, all_tools)])


def _collections(tool: Tool[..., Any]) -> str:
    return ", ".join(name for name, members in collections.items() if tool in members)


def _entry(tool: Tool[..., Any]) -> str:
    read = docstring_of(tool.function)
    rows = [
        ("import", code(_import(tool))),
        ("level", tool.level.name),
        ("judge", _judge(tool)),
        ("time", _time(tool)),
        ("result for a model", f"at most {tool.max_chars:,} characters"),
        ("labels of results", ", ".join(sorted(tool.labels)) or "neither untrusted nor private"),
        ("returns", flowing(read.returns.description) if read.returns else ""),
    ]
    schema = json.dumps(tool.parameters, indent=2, ensure_ascii=False)
    return joined([f"## {tool.name}", tool.description, table(("", ""), rows), block("json", schema)])


def _import(tool: Tool[..., Any]) -> str:
    """The import of a tool: a public name, or one of the module of its function."""
    module = import_module(tool.function.__module__)
    for home in (agentkit, module):
        for name in getattr(home, "__all__", None) or sorted(vars(home)):
            if getattr(home, name) is tool:
                return f"from {home.__name__} import {name}"
    raise KeyError(f"{module.__name__} creates the tool {tool.name} without a module-level name; add one.")


def _judge(tool: Tool[..., Any]) -> str:
    """The first sentence of the docstring of a tool's judge."""
    judge = tool.judged_by
    return "none: every call is allowed" if judge is None else first_sentence(judge)


def _time(tool: Tool[..., Any]) -> str:
    limits = [value for value in _parts(getattr(tool.function, "__self__", None)) if isinstance(value, ProcessLimits)]
    if limits:
        memory = limits[0].memory_bytes // 2**20
        return f"{limits[0].timeout_seconds:g} s and {memory:,} MB, then its processes are killed"
    return "no timeout: its input is limited" if tool.timeout_seconds is None else f"{tool.timeout_seconds:g} s"


def _parts(owner: object) -> list[object]:
    """The attributes of an object, two levels deep."""
    first = [getattr(owner, name) for name in getattr(owner, "__slots__", ())]
    return first + [getattr(part, name) for part in first for name in getattr(part, "__slots__", ())]
