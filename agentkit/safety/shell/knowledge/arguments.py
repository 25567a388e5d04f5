"""Which argument of a command is what: a flag, a flag's value, a path that is written? (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from agentkit.safety.shell.knowledge.tables import Spec, tables
from agentkit.safety.shell.scope import Word

_FULL_NAME = {"-V", "--version", "--help"}
_WITH_FILE = {"-L"}  # whose text may hold a file's name
_CHOOSING = {"--include", "-g", "--glob", "--iglob"}
_SOUGHT = {"-e", "--regexp"}
_NAME = re.compile(r"(?i)secrets?|credentials?")  # as good a name for a task, a branch or a test as for a file


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


def entry(name: str, words: list[Word]) -> tuple[Spec, list[Word]] | None:
    """The most special entry for a command and the words after its name: "git stash list" before "git stash"."""
    specs = tables().specs
    general = specs.get(name)
    rest = words[1:]
    if general is None or general.paths != "subcommand":
        return (general, rest) if general else None
    while rest and rest[0].text.startswith("-"):
        rest = rest[2:] if rest[0].text in general.valued else rest[1:]
    for count in (2, 1):
        found = specs.get(" ".join([name, *(word.text for word in rest[:count])]))
        if found and len(rest) >= count:
            return found, rest[count:]
    return (Spec(), []) if all(word.text in _FULL_NAME for word in words[1:]) else None


def perhaps_paths(name: str, words: list[Word]) -> list[Word]:
    """The arguments that could name a file, but for those that are only written, which are judged on their own."""
    known, rest = tables(), words[1:]
    if name in known.groups["writers"]:
        return []
    if name in known.groups["copiers"]:
        return rest[:-1]
    if name == "find" or name in known.launchers:  # the command that it starts is judged on its own
        inner = next((i for i, word in enumerate(rest) if word.text in known.groups["searchers"]), len(rest))
        return rest[:inner]
    found = entry(name, words) if rest else None
    searching = name in known.groups["searchers"] or [word.text for word in words[:2]] == ["git", "grep"]
    told = found and (searching or found[0].paths == "run")
    if not found or not told:
        return rest
    texts = list(_texts(*found, searching=searching))
    chosen = _chosen(*found) if searching else ()
    return [*(word for word in rest if not (word.known and any(word is text for text in texts))), *chosen]


def _chosen(spec: Spec, rest: list[Word]) -> Iterator[Word]:
    """The patterns for the names of the files that are searched; they may match what they do not name."""
    for argument in parsed(spec, rest):
        if argument.flag in _CHOOSING and not argument.word.text.startswith("!"):
            yield replace(argument.word, glob=True)


def _texts(spec: Spec, rest: list[Word], *, searching: bool) -> Iterator[Word]:
    """The arguments that name no file: what is sought, or a message and the name of a task, a branch or a test."""
    arguments = list(parsed(spec, rest))
    sought = _SOUGHT if searching else spec.pattern - _WITH_FILE
    if not any(argument.flag in spec.instead for argument in arguments):
        yield from [word for kind, word, _ in arguments if kind == "free"][: spec.text]
    left_out = (word for _, word, flag in arguments if flag in _CHOOSING and word.text.startswith("!"))
    yield from (*(word for _, word, flag in arguments if flag in sought), *left_out)
    for word in rest:
        if word.text.partition("=")[0] in sought or (not searching and _NAME.fullmatch(word.text)):
            yield word
