"""Scripts: the answer of the server is derived from the path and from the tool results in the request."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

_LAST_RESULT = b"result-"
_PART = re.compile(r"([a-z_]+)-(\w+)")


@dataclass(frozen=True)
class Script:
    """A conversation: `turns` responses with `width` calls of a tool each, then a text of `words` words.

    The script is part of the path, as in `/turns-9.width-1.tool-lookup/v1/chat/completions`, so that the server has no
    state per conversation. Call number n has the argument `number=n`, and its result must contain the text `result-n`,
    with four digits. If `final` is set, the last answer is a call of that tool.
    """

    turns: int = 0
    width: int = 1
    tool: str = "lookup"
    words: int = 12
    delay: int = 0
    final: str = ""
    weigh: int = 0
    """1 to add up the bytes of the prompts, and to compare each prompt with the previous one."""


class WrongResultError(ValueError):
    """A request lacks the results of the calls of the previous response."""


@cache
def script_in(path: str) -> Script:
    """Parse the script at the start of a path. Raises ValueError if it has none."""
    kinds: dict[str, type[int] | type[str]] = {
        field.name: int if isinstance(field.default, int) else str for field in fields(Script)
    }
    first = path.lstrip("/").partition("/")[0]
    parts = dict(_PART.findall(first))
    if not parts or parts.keys() - kinds.keys():
        raise ValueError(f"No script in the path {path!r}")
    values: dict[str, Any] = {name: kinds[name](value) for name, value in parts.items()}
    return Script(**values)


def turn_of(script: Script, body: bytes) -> int:
    """The number of turns before this request. Raises WrongResultError if a result is missing."""
    if not script.turns:
        return 0
    found = body.rfind(_LAST_RESULT)
    if found < 0:
        return 0
    begin = found + len(_LAST_RESULT)
    turn = int(body[begin : begin + 4]) // script.width
    missing = [text for text in results_of(script, turn) if text not in body]
    if missing or turn >= script.turns:
        raise WrongResultError(f"Turn {turn} lacks the results {missing[:3]}")
    return turn + 1


@cache
def results_of(script: Script, turn: int) -> tuple[bytes, ...]:
    """The texts that the results of one turn must contain."""
    first = turn * script.width
    return tuple(b"result-%04d" % number for number in range(first, first + script.width))
