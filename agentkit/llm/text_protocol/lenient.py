"""What JSON did a model mean? Reads what is nearly JSON. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(
    r"\"(?P<double>[^\"\\]*+(?:\\.[^\"\\]*+)*+)(?:\"|\\?\Z)"
    r"|'(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)(?:'|\\?\Z)"
    r"|(?P<number>[-+]?\d[\w.+-]*)"
    r"|(?P<word>[^\W\d][\w-]*)(?P<colon>\s*:)?"
    r"|(?P<comma>,)(?=\s*(?:[}\]]|\Z))",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_WORDS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_MISSING_ENDS = ("", "}", "]}", "}}", "]}}")


def read_json(text: str) -> Any:
    """The JSON value that `text` was meant to be. Raises ValueError.

    Taken are single quotes, commas before a bracket, bare keys, Python's True, False and None, line breaks and unknown
    escapes in strings, and missing brackets at the end.
    """
    try:
        return _loaded(text)
    except ValueError:
        repaired = _TOKEN.sub(_repaired, text)
    for end in _MISSING_ENDS:
        try:
            return _loaded(repaired + end)
        except ValueError:
            continue
    raise ValueError("This is no JSON")


def read_object(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` was meant to be, if it was."""
    if not text.startswith("{"):
        return None
    try:
        value = read_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_exact_object(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, with nothing repaired."""
    try:
        value = _loaded(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, strict=False, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("This nests too deep") from None


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _repaired(token: re.Match[str]) -> str:
    if token["double"] is not None:
        return f'"{_ESCAPE.sub(_escape, token["double"])}"'
    if token["single"] is not None:
        inner = _ESCAPE.sub(_escape, token["single"])
        return '"' + re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', inner) + '"'
    if token["word"] is not None:
        word = token["word"]
        return f'"{word}"{token["colon"]}' if token["colon"] else _WORDS.get(word, word)
    return "" if token["comma"] else token[0]


def _escape(escape: re.Match[str]) -> str:
    """An escape that JSON knows; the backslash of any other stands for itself."""
    char = escape[1]
    if len(char) > 1 or char in '"\\/bfnrt':
        return escape[0]
    return char if char == "'" else f"\\\\{char}"
