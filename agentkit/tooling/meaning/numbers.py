"""Which numbers does a text write, when it writes only these? As JSON writes them."""

from __future__ import annotations

import re

_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LISTED = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?")
_MOST_CHARS = 400


def number(text: str) -> str | None:
    """The number of a text such as `1,234.50`, `+5` or `1e3`, without signs that group its digits; None without one."""
    text = text.strip()
    if len(text) > _MOST_CHARS or not (_GROUPED.fullmatch(text) or _NUMBER.fullmatch(text)):
        return None
    return text.replace(",", "").removeprefix("+")


def numbers(text: str) -> list[str] | None:
    """The numbers of a text such as `1, 2.5, 3`; None when it has others, or writes one number in groups of digits."""
    if _GROUPED.fullmatch(text.strip()):
        return None
    parts = entries(text)
    return parts if all(map(_LISTED.fullmatch, parts)) else None


def entries(text: str) -> list[str]:
    """What commas, semicolons and line breaks part in a text."""
    return [part.strip() for part in re.split(r"[,;\n]", text.strip().rstrip(",;"))]
