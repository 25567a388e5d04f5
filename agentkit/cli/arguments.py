"""Which arguments of a tool did the words on the command line mean?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentkit.tooling.toolset import AnyTool


_MISTAKEN = re.compile(r"[a-z][a-z0-9_]*=(?!=)")
"""What was meant for a parameter. A variable before a command, `LANG=C sort`, and a comparison, `a==b`, are neither."""


class WholeNumber(click.IntRange):
    """A whole number within bounds, called so in help and errors."""

    name = "number"


class Fraction(click.FloatRange):
    """A number within bounds, called so in help and errors."""

    name = "number"


def named_arguments(tool: AnyTool, words: tuple[str, ...]) -> dict[str, str]:
    """The arguments by name: KEY=VALUE where KEY is a parameter, anything else for the next parameter without one.

    Raises UsageError for a name that no parameter has, for a parameter that is given twice, and for more values than
    parameters.
    """
    names = list(tool.parameters["properties"])
    named: dict[str, str] = {}
    values = []
    for word in words:
        key, equals, value = word.partition("=")
        if key not in names and _MISTAKEN.match(word):
            which = ", ".join(names) or "none"
            raise click.UsageError(f"{tool.name} has no parameter {key!r}; its parameters are: {which}.")
        if not equals or key not in names:
            values.append(word)
        elif key in named:
            raise click.UsageError(f"{key!r} is given twice; give each argument once.")
        else:
            named[key] = value
    free = [name for name in names if name not in named]
    if len(values) > len(free):
        takes = f"takes {', '.join(names)}" if names else "takes no arguments"
        raise click.UsageError(f"{tool.name} {takes}; {values[len(free)]!r} is one too many.")
    return {**dict(zip(free, values, strict=False)), **named}
