"""Markdown rendering of docstrings, tables and code for the reference."""

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

from docstring_parser import DocstringStyle, parse
from docstring_parser.common import Docstring


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; empty without rows."""
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines]) if lines else ""


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", r"\|") or "\N{EN DASH}"


def code(text: object) -> str:
    """Inline code."""
    return f"`{text}`"


def block(language: str, text: str) -> str:
    """A fenced code block."""
    return f"```{language}\n{text}\n```"


def joined(parts: Iterable[str]) -> str:
    """Join the non-empty parts of a page with empty lines."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def docstring_of(what: Any) -> Docstring:
    """The parsed docstring."""
    return parse(inspect.getdoc(what) or "", style=DocstringStyle.GOOGLE)


def described(what: Any) -> str:
    """Render a docstring as Markdown: description, arguments, return value and exceptions."""
    read = docstring_of(what)
    arguments = [f"- `{each.arg_name}`: {flowing(each.description)}" for each in read.params]
    raises = [f"Raises `{each.type_name}`: {flowing(each.description)}" for each in read.raises]
    given = [f"Returns: {flowing(read.returns.description)}"] if read.returns else []
    return joined([read.short_description or "", read.long_description or "", "\n".join(arguments), *given, *raises])


def flowing(text: str | None) -> str:
    """A text on one line."""
    return re.sub(r"\s+", " ", text or "").strip()


def first_sentence(what: Any) -> str:
    """The first sentence of a docstring."""
    return flowing(docstring_of(what).short_description)
