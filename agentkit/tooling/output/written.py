"""Which JSON values stand in what a model wrote? Also between fences, and with words around them."""

from __future__ import annotations

import json
import re
from collections import deque
from typing import Any

from agentkit.slotted import dataclass
from agentkit.tooling.arguments import shown

_DECODER = json.JSONDecoder(strict=False)
_MOST = 10
_FENCE = "```"
_FENCE_BEGIN = r"```[\w-]*[ \t]*"
# An object may stand within a line, a list only at its beginning: [1] within a line is a footnote.
_BRACKET = re.compile(r"\{|^[ \t]*\[", re.MULTILINE)
_MEANT = re.compile(r"""\{\s*(?:["'}]|\w+\s*:|$)|\[\s*(?:["'\[\]{]|-?\d|true|false|null|NaN|-?Infinity|$)""")
# A text that nothing ends goes to the end, so that what stands in it is looked at once.
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


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
    bare = _unfenced(text.lstrip("\ufeff").strip())
    try:
        return Written(bare, (_DECODER.decode(bare),))
    except (ValueError, RecursionError):
        return _scanned(bare)


def _unfenced(text: str) -> str:
    """A text without the fence that all of it stands in."""
    begin = re.match(_FENCE_BEGIN, text)
    if begin is None or not text.endswith(_FENCE) or len(text) < len(begin.group()) + len(_FENCE):
        return text
    return text[begin.end() : -len(_FENCE)].strip()


def _scanned(text: str) -> Written:
    """The values that begin somewhere in the text. Those inside one that is broken are not looked at."""
    values: deque[Any] = deque(maxlen=_MOST)
    broken: tuple[str, ValueError | RecursionError, int] | None = None
    place = 0
    while match := _BRACKET.search(text, place):
        start, place = match.end() - 1, match.end()
        if not _MEANT.match(text, start):
            continue
        place = closing(text, start) or len(text)
        # Decoded by itself, because an error counts the lines of all that is before it.
        piece = text[start:place]
        try:
            values.append(_DECODER.decode(piece))
        except (ValueError, RecursionError) as error:
            broken = piece, error, start
        else:
            broken = None  # a draft that was broken off before the answer
    return Written(text, fault=_fault(*broken)) if broken else Written(text, tuple(values))


def _fault(text: str, error: ValueError | RecursionError, start: int) -> str:
    """What is wrong with the JSON that begins at the character `start` of an answer."""
    if isinstance(error, json.JSONDecodeError):
        if error.pos >= len(text):
            return "The JSON is cut off before its end."
        near = shown(text[max(error.pos - 20, 0) : error.pos + 20])
        return f"The answer is not valid JSON: {error.msg} at character {start + error.pos}, near {near}."
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply."
    return "A number in the JSON has too many digits."


def closing(text: str, start: int) -> int | None:
    """The place behind the bracket that closes the one at `start` in what looks like JSON; None where none does."""
    depth = 0
    for match in _BRACKETS.finditer(text, start):
        depth += (match.group() in "[{") - (match.group() in "]}")
        if depth == 0:
            return match.end()
    return None
