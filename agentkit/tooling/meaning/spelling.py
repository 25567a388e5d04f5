"""What does JSON say that was not written quite as JSON?"""

from __future__ import annotations

import json
import re
from typing import Any

_FENCE = re.compile(r"```\w*[ \t\r]*\n")
_FOREIGN = re.compile(
    r"""(?P<double>"(?:[^"\\]|\\.)*+(?:"|\\?\Z)) | '(?P<single>(?:[^'\\]|\\.)*+)(?:'|\\?\Z) | (?P<comma>,)(?=\s*[}\])])
    | (?P<word>\b(?:True|False|None)\b) | (?P<name>(?<![\w$.+-])[\w$-]++(?=\s*:)) | (?P<bracket>[()])
    | (?P<remark>//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))""",
    re.DOTALL | re.VERBOSE,
)
_WORDS = {"True": "true", "False": "false", "None": "null", "(": "[", ")": "]"}
_JSON_SCALARS = frozenset({str, int, float, bool, type(None)})
_ESCAPED = re.compile(r'\\(.)|(")', re.DOTALL)


_decode = json.JSONDecoder(strict=False).decode


def read_json(text: str) -> Any:
    """The value of a JSON text; also of one that has line breaks in strings, a fence around it, or a foreign spelling.

    Python's are single quotes, `True`, `False`, `None`, tuples, and commas before a closing bracket; JavaScript's are
    names without quotes, and remarks. Nothing is added: a text that breaks off is refused. Raises what `json.loads`
    raises.
    """
    try:
        return _decode(text)
    except json.JSONDecodeError:
        mended = _mended(text)
        if mended is None:
            raise
        try:
            return _decode(mended)
        except ValueError:
            mended = None
        raise


def as_json(given: dict[str, Any]) -> str | None:
    """The JSON text of arguments that came from one, or None."""
    try:
        return json.dumps(given) if _is_json(given) else None
    except (ValueError, RecursionError):
        return None


def _is_json(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str for key in value) and all(map(_is_json, value.values()))
    return all(map(_is_json, value)) if type(value) is list else type(value) in _JSON_SCALARS


def _mended(text: str) -> str | None:
    inner = text.strip()
    fence = _FENCE.match(inner)
    if fence and inner.endswith("```"):
        inner = inner[fence.end() : -3].strip()
    return _FOREIGN.sub(_translated, inner) if inner.startswith(("{", "[", "(")) else None


def _translated(found: re.Match[str]) -> str:
    if found["single"] is not None:
        return f'"{_ESCAPED.sub(_reescaped, found["single"])}"'
    if found["name"] is not None:
        return f'"{found["name"]}"'
    return found["double"] or ("" if found["comma"] or found["remark"] else _WORDS[found[0]])


def _reescaped(found: re.Match[str]) -> str:
    """A quote inside single quotes, as it is written inside double quotes."""
    if found[2]:
        return '\\"'
    return "'" if found[1] == "'" else found[0]
