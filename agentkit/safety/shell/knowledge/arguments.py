"""Which argument of a command is what: a flag, a flag's value, a path that is written? (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentkit.safety.shell.knowledge.tables import Spec
from agentkit.safety.shell.scope import Word


class Argument(NamedTuple):
    """What an argument is (free, or a kind of flag in `Spec`), the word that counts, and the flag it belongs to."""

    kind: str
    word: Word
    flag: str = ""


def parsed(spec: Spec, rest: list[Word]) -> Iterator[Argument]:
    """Each argument with what it is."""
    rest = list(rest)
    while rest:
        yield from leading(spec, rest)
        if rest and rest[0].text == "--":
            yield from (Argument("free", free) for free in rest[1:])
            return
        if rest:
            yield Argument("free", rest.pop(0))


def leading(spec: Spec, rest: list[Word]) -> Iterator[Argument]:
    """The options before the first free argument or "--"; they are taken out of `rest`."""
    while rest and rest[0].text.startswith("-") and rest[0].text not in {"-", "--"}:
        word = rest.pop(0)
        yield from (_long if word.text.startswith("--") else _short)(spec, word, rest)


def _kind(spec: Spec, flag: str) -> str:
    found = next((kind for kind in Spec.KINDS if flag in getattr(spec, kind)), None)
    return found or ("ask" if spec.strict else "flag")


def _long(spec: Spec, word: Word, rest: list[Word]) -> Iterator[Argument]:
    name, equals, value = word.text.partition("=")
    full = name if name in spec.known else _completed(spec, name)
    kind = _kind(spec, full)
    if kind in {"ask", "flag"}:
        yield Argument(kind, word, full)
    elif equals:
        yield Argument(kind, _part(word, value), full)
    elif kind == "optional" or not rest:
        yield Argument("flag", word, full)
    else:
        yield Argument(kind, rest.pop(0), full)


def _completed(spec: Spec, name: str) -> str:
    """A long option may be shortened: the one it could mean, a delicate one first."""
    delicate, others = sorted(spec.known - spec.flag), sorted(spec.flag)
    return next((flag for flag in (*delicate, *others) if len(name) > 2 and flag.startswith(name)), name)


def _short(spec: Spec, word: Word, rest: list[Word]) -> Iterator[Argument]:
    """Single letters after one dash, the last with its value; or one long word after one dash, as in -exec."""
    whole = word.text.partition("=")[0]
    if len(whole) > 2 and whole in spec.known:
        yield from _long(spec, word, rest)
        return
    for index, letter in enumerate(word.text[1:], 2):
        flag = f"-{letter}"
        kind = _kind(spec, flag)
        if kind == "ask":
            yield Argument(kind, word, flag)
        elif kind == "flag":
            yield Argument(kind, word, flag)
            continue
        value = _part(word, word.text[index:])
        if kind != "ask":
            yield Argument(kind, value if value.text or kind == "optional" or not rest else rest.pop(0), flag)
            return


def _part(word: Word, text: str) -> Word:
    return Word(text, word.source, word.glob, word.origins)
