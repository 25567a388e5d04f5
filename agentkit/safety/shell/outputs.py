"""What would this command print, as far as its words tell? (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentkit.safety import paths
from agentkit.safety.shell.files import resolve
from agentkit.safety.shell.knowledge.tables import tables
from agentkit.safety.shell.scope import A_NAME, TAME, UNKNOWN, Scope, Value, Word
from agentkit.safety.shell.syntax.words import ansi

_FORMAT = re.compile(r"%(?:(%)|[-+ #0-9.*']*([a-zA-Z]))")


def prints(words: list[Word], scope: Scope) -> Value:
    """The standard output of a command; unknown where it depends on the world."""
    name = words[0].text.rpartition("/")[2]
    groups = tables().groups
    origins = frozenset().union(*(word.origins for word in words))
    if scope.stdin:
        origins |= scope.stdin.origins
    if name in groups["fetchers"]:
        return Value(UNKNOWN, origins | {"fetch"})
    if name in groups["decoders"]:
        return Value(UNKNOWN, origins | {"decode"})
    if name in groups["namers"] and all(_within(word, scope) for word in words[1:]):
        return A_NAME
    if name == "find":
        root = next((word.text for word in words[1:] if not re.match(r"-[HLP]$", word.text)), "")
        return Value(root + "/" + UNKNOWN, origins)
    text = _text(name, words[1:], scope)
    return Value(text.rstrip("\n") if text else UNKNOWN, origins)


def _within(word: Word, scope: Scope) -> bool:
    path = resolve(word.text, scope)
    return path is not None and paths.inside(path, scope.workspace)


def _text(name: str, arguments: list[Word], scope: Scope) -> str:
    plain = [UNKNOWN if word.glob else word.text for word in arguments]
    if name == "echo":
        return _echo(plain)
    if name == "printf" and plain[:1] != ["-v"]:
        return "".join(_printf(plain))
    if name in {"cat", "tee"} and scope.stdin and not [text for text in plain if text != "-"]:
        return scope.stdin.text
    return (scope.cwd or "") if name == "pwd" else ""


def _echo(arguments: list[str]) -> str:
    escapes = False
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        escapes |= "e" in arguments[0]
        arguments = arguments[1:]
    text = " ".join(arguments)
    return ansi(text) if escapes else text


def _printf(arguments: list[str]) -> Iterator[str]:
    """The format filled in, again and again until the arguments are used up."""
    arguments = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not arguments:
        return
    form, rest = ansi(arguments[0]), list(arguments[1:])
    while True:
        before = len(rest)
        yield _FORMAT.sub(lambda match: _filled(match, rest), form)
        if not rest or len(rest) == before:
            return


def _filled(match: re.Match[str], rest: list[str]) -> str:
    if match[1]:
        return "%"
    value = rest.pop(0) if rest else ""
    if match[2] == "b":
        return ansi(value)
    return value if match[2] in "sq" else (TAME if match[2] in "diufgex" else UNKNOWN)
