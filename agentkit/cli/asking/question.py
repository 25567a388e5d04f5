"""What is asked? The words of the command line, the files they name, and what is piped in."""

from __future__ import annotations

import re
import sys
from itertools import groupby
from pathlib import Path

import click

from agentkit.messages import Content
from agentkit.parts import File, Image, part_of

_PIPED = "-"
_NAMED = re.compile(r"(?<!\S)@(?P<escape>@?)(?P<name>[^\s@]\S*?)(?=[.,;:!?)]*(?:\s|\Z))")
"""A word that may name a file, without the signs that end a sentence."""

NO_TEXT = "What is piped in is not text. Pipe text, or name a file: @photo.png, @report.pdf"


def question_of(words: tuple[str, ...]) -> Content:
    """The question; an empty text when there is none.

    `@FILE` stands for the text, image, PDF or recording in a file; `-` for what is piped in, which else is appended.
    `@@` is an @ that means itself. Raises UsageError for a file that cannot be read.
    """
    is_piped = sys.stdin is not None and not sys.stdin.isatty()
    if is_piped and _PIPED not in words:
        words = (*words, _PIPED)
    parts: list[str | Image | File] = []
    for is_plain, some in groupby(words, key=_is_plain):
        group = list(some)
        parts += [" ".join(map(_unescaped, group))] if is_plain else map(_read, group)
    parts = [part for part in parts if not isinstance(part, str) or part.strip()]
    if all(isinstance(part, str) for part in parts):
        return "\n\n".join(str(part) for part in parts)
    return tuple(parts)


def with_files(prompt: str) -> Content:
    """What a person typed, in which `@FILE` stands for what is in a file, and `@@FILE` for its name.

    A word that names no file is a word like any other. Raises UsageError for a file that no model reads.
    """
    parts: list[str | Image | File] = []
    end = 0
    for named in _NAMED.finditer(prompt):
        if _is_file(named["name"]):
            parts += [prompt[end : named.start()], f"@{named['name']}" if named["escape"] else _shown(named["name"])]
            end = named.end()
    parts.append(prompt[end:])
    if all(isinstance(part, str) for part in parts):
        return "".join(map(str, parts))
    return tuple(part for part in parts if not isinstance(part, str) or part.strip())


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # too long for a name, or within what may not be read
        return False


def _shown(name: str) -> str | Image | File:
    try:
        return part_of(Path(name))
    except (OSError, ValueError) as error:
        told = f"The file {name!r} cannot be read: {error.strerror}" if isinstance(error, OSError) else error
        raise click.UsageError(f"{told}. To say @{name} itself, write @@{name}.") from None


def text_of(question: Content) -> str:
    """The words of a question, without its images and files."""
    return question if isinstance(question, str) else " ".join(part for part in question if isinstance(part, str))


def _is_plain(word: str) -> bool:
    """Whether a word means itself; `@ada what?` in one argument is a text that begins with a name."""
    names_file = word.startswith("@") and len(word) > 1 and not word.startswith("@@")
    return word != _PIPED and not (names_file and (" " not in word or Path(word[1:]).is_file()))


def _unescaped(word: str) -> str:
    return word[1:] if word.startswith("@@") else word


def _read(word: str) -> str | Image | File:
    is_piped = word == _PIPED
    try:
        data = _piped() if is_piped else Path(word[1:]).read_bytes()
        part = part_of(data if is_piped else Path(word[1:]))
    except OSError as error:
        raise click.UsageError(
            f"The file {word[1:]!r} cannot be read: {error.strerror}. To say {word} itself, write @{word}."
        ) from None
    except ValueError as error:
        raise click.UsageError(NO_TEXT if is_piped else f"{error}.") from None
    return decoded(data, NO_TEXT) if isinstance(part, str) else part


def _piped() -> bytes:
    return b"" if sys.stdin is None else sys.stdin.buffer.read()


def decoded(data: bytes, complaint: str) -> str:
    """The text that UTF-8 data says, without blank lines around it. Raises UsageError with the complaint."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").strip()
    except UnicodeDecodeError:
        raise click.UsageError(complaint) from None
