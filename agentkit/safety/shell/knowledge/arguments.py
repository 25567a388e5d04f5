"""Which argument of a command is what: a flag, a flag's value, a path that is written? (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from agentkit.safety.shell.knowledge.tables import Spec
from agentkit.safety.shell.scope import Word


def parsed(spec: Spec, rest: list[Word]) -> Iterator[tuple[str, Word]]:
    """Each argument with what it is: free, flag, read, write, program, value or ask."""
    rest = list(rest)
    while rest:
        word = rest.pop(0)
        if word.text == "--":
            yield from (("free", free) for free in rest)
            return
        if not word.text.startswith("-") or word.text == "-":
            yield "free", word
        elif word.text.startswith("--"):
            yield from _long(spec, word, rest)
        else:
            yield from _short(spec, word, rest)


def _kind(spec: Spec, flag: str) -> str:
    for kind in ("ask", "write", "read", "program", "value"):
        if flag in getattr(spec, kind):
            return kind
    return "flag"


def _long(spec: Spec, word: Word, rest: list[Word]) -> Iterator[tuple[str, Word]]:
    name, equals, value = word.text.partition("=")
    full = name if name in spec.ask | spec.valued else _completed(spec, name)
    kind = _kind(spec, full)
    if kind in {"ask", "flag"}:
        yield kind, word
    elif equals:
        yield kind, Word(value, word.source, word.glob, word.origins)
    elif rest:
        yield kind, rest.pop(0)


def _completed(spec: Spec, name: str) -> str:
    """A long option may be shortened: the delicate one it could mean."""
    flags = sorted(spec.ask | spec.write | spec.program)
    return next((flag for flag in flags if len(name) > 3 and flag.startswith(name)), name)


def _short(spec: Spec, word: Word, rest: list[Word]) -> Iterator[tuple[str, Word]]:
    """Single letters after one dash, the last with its value; or one long word after one dash, as in -exec."""
    kind = _kind(spec, word.text)
    if kind != "flag":
        yield (kind, word) if kind == "ask" else (kind, rest.pop(0) if rest else word)
        return
    for index, letter in enumerate(word.text[1:], 2):
        kind = _kind(spec, f"-{letter}")
        if kind == "ask":
            yield kind, word
        elif kind != "flag":
            value = word.text[index:]
            attached = Word(value, word.source, word.glob, word.origins)
            yield kind, attached if value else (rest.pop(0) if rest else attached)
            return
