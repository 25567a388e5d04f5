"""Which JSON values stand in what a model wrote? Also between fences, and with words around them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from agentkit.tooling.arguments import shown

_DECODER = json.JSONDecoder(strict=False)
_MOST = 10
_FENCE = re.compile(r"```[\w-]*[ \t]*\n?(.*?)\n?[ \t]*```", re.DOTALL)
# An object may stand within a line, a list only at its beginning: [1] within a line is a footnote.
_BRACKET = re.compile(r"\{|^[ \t]*\[", re.MULTILINE)
_MEANT = re.compile(r"""\{\s*(?:["'}]|\w+\s*:|$)|\[\s*(?:["'\[\]{]|-?\d|true|false|null|$)""")
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


@dataclass(frozen=True, slots=True)
class Written:
    """What a text holds: `values` in order, or `fault`, one sentence on the JSON in it that cannot be read.

    `text` is the text without what stands around it for form: byte order mark, blanks, fence.
    """

    text: str
    values: tuple[Any, ...] = ()
    fault: str | None = None


def read(text: str) -> Written:
    """The JSON values in a text: all of it, or each that has words around it, the last few."""
    bare = text.lstrip("\ufeff").strip()
    fence = _FENCE.fullmatch(bare)
    bare = fence.group(1).strip() if fence else bare
    try:
        return Written(bare, (_DECODER.decode(bare),))
    except (ValueError, RecursionError):
        return _scanned(bare)


def _scanned(text: str) -> Written:
    """The values that begin somewhere in the text. Those inside one that is broken are not looked at."""
    values: list[Any] = []
    fault = None
    place = 0
    while match := _BRACKET.search(text, place):
        start = match.end() - 1
        try:
            value, place = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            meant = _MEANT.match(text, start)
            fault = _fault(text, error) if meant else fault
            place = _closing(text, start) if meant else start + 1
        else:
            values.append(value)
            fault = None  # a draft that was broken off before the answer
    return Written(text, () if fault else tuple(values[-_MOST:]), fault)


def _fault(text: str, error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        if error.pos >= len(text):
            return "The JSON is cut off before its end."
        near = shown(text[max(error.pos - 20, 0) : error.pos + 20])
        return f"The answer is not valid JSON: {error.msg} at character {error.pos}, near {near}."
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply."
    return "A number in the JSON has too many digits."


def _closing(text: str, start: int) -> int:
    """The place behind the bracket that closes the one at `start`, or the end of the text."""
    depth = 0
    for match in _BRACKETS.finditer(text, start):
        depth += (match.group() in "[{") - (match.group() in "]}")
        if depth == 0:
            return match.end()
    return len(text)
