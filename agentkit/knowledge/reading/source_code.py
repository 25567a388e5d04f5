"""How is a program built? Python by its own grammar, other languages by their layout (pure)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from agentkit.knowledge.passages import Block

_DEFINITION = re.compile(
    r"(?:[\w@<>,\[\]*&]+\s+)*?(?:class|struct|interface|trait|enum|impl|func(?:tion)?|fn|def|sub|module|package|type|record"
    r"|namespace|protocol|object)\b\s*(?:\([^)]*\)\s*)?([A-Za-z_$][\w$.:]*)"
)
_MEMBERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Member = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEEPEST = 3
_MOST_PARSED_CHARS = 100_000
"""A hostile program takes a thousand times its size in memory, and the parser of Python 3.11 takes time that grows with
the square of the length of an f-string: three seconds for one of this length."""

_ESCAPE = re.compile(r"\\[^\n'\"]")
"""Hidden from the parser, which would warn the host program of those that are none. No place in the text changes."""


def blocks_of_python(text: str) -> Iterator[Block]:
    """The functions, classes and methods of a Python program, and what stands between them."""
    if len(text) > _MOST_PARSED_CHARS:
        yield from blocks_of_code(text)
        return
    lines = text.split("\n")
    try:
        tree = ast.parse(_ESCAPE.sub("__", text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield from blocks_of_code(text)
        return
    yield from _body(tree.body, lines, (), 1, len(lines))


def _body(
    nodes: Iterable[ast.stmt], lines: list[str], section: tuple[str, ...], first: int, last: int
) -> Iterator[Block]:
    """The blocks of lines `first` to `last`, of which nodes are the statements."""
    at = first
    for node in nodes:
        if isinstance(node, _MEMBERS):
            begin = max(at, _begin(node, lines))
            yield from _block(lines, section, at, begin - 1)
            end = node.end_lineno or begin
            yield from _member(node, lines, (*section, node.name), begin)
            at = end + 1
    yield from _block(lines, section, at, last)


def _member(node: _Member, lines: list[str], section: tuple[str, ...], begin: int) -> Iterator[Block]:
    """A function in one block; a class in one for itself and one for each of its members."""
    end = node.end_lineno or begin
    if isinstance(node, ast.ClassDef) and len(section) < _DEEPEST:
        yield from _body(node.body, lines, section, begin, end)
    else:
        yield from _block(lines, section, begin, end)


def _begin(node: _Member, lines: list[str]) -> int:
    """The first line of a definition: that of its decorators and of the comments right above."""
    begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    while begin > 1 and lines[begin - 2].lstrip().startswith("#"):
        begin -= 1
    return begin


def _block(lines: list[str], section: tuple[str, ...], first: int, last: int) -> Iterator[Block]:
    while first <= last and not lines[first - 1].strip():
        first += 1
    text = "\n".join(lines[first - 1 : last]).rstrip()
    if text:
        yield Block(text, section, first, is_code=True)


def blocks_of_code(text: str) -> Iterator[Block]:
    """The parts of a program that begin at the margin behind a blank line, each named by what it defines."""
    lines = text.split("\n")
    starts = [1, *(number for number in range(2, len(lines) + 1) if _begins(lines, number)), len(lines) + 1]
    for first, following in pairwise(starts):
        named = next((found for line in lines[first - 1 : following - 1] if (found := _DEFINITION.match(line))), None)
        yield from _block(lines, (named[1],) if named else (), first, following - 1)


def _begins(lines: list[str], number: int) -> bool:
    line = lines[number - 1]
    return bool(line) and not line[0].isspace() and line[0] not in "})]" and not lines[number - 2].strip()
