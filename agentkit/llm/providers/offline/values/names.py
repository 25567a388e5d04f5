"""Does a text say what a short name stands for, or what one of a parameter's given names says in another form?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentkit.llm.providers.offline.words import STOP_WORDS, stem, words


def is_abbreviated(name: str, text: str) -> bool:
    """Whether capitals are the beginnings of words that stand together in a text: CAD of `Canadian dollars`.

    Of one word they are the first three letters or more: EUR of `euros`, but not CA of `Canada`.
    """
    if not _CAPITALS.fullmatch(name):
        return False
    said = [word.lower() for word in _WORD.findall(text) if word.isupper() or word.lower() not in STOP_WORDS]
    return any(_begins(name.lower(), said[place:], len(name)) for place in range(len(said)))


def is_named(name: str, text: str, schema: Mapping[str, Any]) -> bool:
    """Whether the parameter's description gives the name in quotes and a text says the same: `detailed` for details."""
    given = _QUOTED.findall(str(schema.get("description", "")))
    meant, said = ({stem(word) for word in words(each) if word not in STOP_WORDS} for each in (name, text))
    return name in given and bool(meant) and meant <= said


def lacks_part(text: str, schema: Mapping[str, Any]) -> bool:
    """Whether the parameter's description shows `'Paris, France'`, a text of two parts, and a text has but one."""
    return "," not in text and _TWO_PARTS.search(str(schema.get("description", ""))) is not None


def _begins(letters: str, said: Sequence[str], length: int) -> bool:
    """Whether the letters are beginnings of the first words, of at most `length` letters in all."""
    if not letters or not said:
        return not letters
    shared = [size for size in range(1, len(letters) + 1) if said[0].startswith(letters[:size])]
    whole = [size for size in shared if size < length or length > 2]
    return any(_begins(letters[size:], said[1:], length) for size in whole)


_CAPITALS = re.compile(r"[A-Z]{2,5}")
_WORD = re.compile(r"[^\W\d_]+")
_TWO_PARTS = re.compile(r"([\"'])[A-Z][^\"',]*, ?[A-Z][^\"',]*\1")
_QUOTED = re.compile(r"[\"'`]([^\"'`]{2,30})[\"'`]")
