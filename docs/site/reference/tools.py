"""Which tools are shipped, what do they take, and what holds them?"""

import json
from importlib import import_module
from typing import Any

from markdown import block, code, docstring_of, first_sentence, flowing, joined, table

import agentkit
from agentkit import Tool
from agentkit.sandbox.watchdog import ProcessLimits
from agentkit.tools.catalog import all_tools, collections

_OPENING = """\
By name for models, rules and the command line; by import for programs. The level is the highest that a call can have:
the judge may say a lower one of a call, as it does for reading. A direct call gives the dictionary; an agent is told it
as JSON, cut at the number of characters."""


def page() -> str:
    """The whole page."""
    rows = [(f"[{each.name}](#{each.name})", each.level.name, _collections(each)) for each in all_tools]
    overview = table(("tool", "level", "collections"), rows)
    return joined(["# Reference: the tools we ship", _OPENING, overview, *map(_entry, all_tools)])


def _collections(tool: Tool[..., Any]) -> str:
    return ", ".join(name for name, members in collections.items() if tool in members)


def _entry(tool: Tool[..., Any]) -> str:
    read = docstring_of(tool.function)
    rows = [
        ("import", code(_import(tool))),
        ("level", tool.level.name),
        ("judge", _judge(tool)),
        ("time", _time(tool)),
        ("told to a model", f"at most {tool.max_chars:,} characters"),
        ("results are", ", ".join(sorted(tool.labels)) or "neither untrusted nor private"),
        ("gives", flowing(read.returns.description) if read.returns else ""),
    ]
    schema = json.dumps(tool.parameters, indent=2, ensure_ascii=False)
    return joined([f"## {tool.name}", tool.description, table(("", ""), rows), block("json", schema)])


def _import(tool: Tool[..., Any]) -> str:
    """Where a program finds the tool: a public name, or one of the module that its function stands in."""
    module = import_module(tool.function.__module__)
    for home in (agentkit, module):
        for name in getattr(home, "__all__", None) or sorted(vars(home)):
            if getattr(home, name) is tool:
                return f"from {home.__name__} import {name}"
    raise KeyError(f"{module.__name__} makes the tool {tool.name} and offers it under no name; give it one there.")


def _judge(tool: Tool[..., Any]) -> str:
    """What its own judge does, in a sentence."""
    judge = tool.judged_by
    return "none: every call of it is allowed" if judge is None else first_sentence(judge)


def _time(tool: Tool[..., Any]) -> str:
    limits = [value for value in _parts(getattr(tool.function, "__self__", None)) if isinstance(value, ProcessLimits)]
    if limits:
        memory = limits[0].memory_bytes // 2**20
        return f"{limits[0].timeout_seconds:g} s and {memory:,} MB, then its processes are ended"
    return "no clock: what it takes in is bounded" if tool.timeout_seconds is None else f"{tool.timeout_seconds:g} s"


def _parts(owner: object) -> list[object]:
    """What an object is made of, two deep."""
    first = [getattr(owner, name) for name in getattr(owner, "__slots__", ())]
    return first + [getattr(part, name) for part in first for name in getattr(part, "__slots__", ())]
