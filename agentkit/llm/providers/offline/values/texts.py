"""Which texts and values stand inside a value, and how much do two texts share?"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentkit.llm.providers.offline.words import words


def texts_in(value: Any) -> Iterator[str]:
    """Every value inside lists and dictionaries, as text."""
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(each)
    else:
        yield str(value)


def run(text: str) -> str:
    """The words of a text, each between spaces of its own: one text's can be looked for in another's."""
    return "".join(f" {word} " for word in words(text))


def values_in(value: Any) -> Iterator[Any]:
    """A value and every value inside it."""
    yield value
    if isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from values_in(each)


def nodes_of(text: str) -> list[ast.AST]:
    """The parts of a text that is Python as a whole; none of any other."""
    try:
        return list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def literal(text: str) -> Any:
    """The value that a text writes as JSON; None for one that writes none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def overlap(value: str, text: str) -> int:
    """How many characters two texts share: all of the shorter if it lies in the longer, else their common words'."""
    short, long = sorted((re.sub(r"\s+", "", each).lower() for each in (value, text)), key=len)
    if short and short in long:
        return len(short)
    mine, other = (set(_PIECES.findall(each.lower())) for each in (value, text))
    return sum(map(len, mine & other)) if 2 * len(mine & other) > len(mine) else 0


_PIECES = re.compile(r"\w+|[^\w\s]")
