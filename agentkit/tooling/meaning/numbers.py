"""Which numbers does a text write, when it writes only these? As JSON writes them."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import pairwise

_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE](?P<exponent>[+-]?\d+))?")
_LISTED = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?")
_HEAD = re.compile(r"[+-]?\d{1,3}")
_GROUP = re.compile(r"\d{3}(?:\.\d+)?")
_MOST_CHARS = 400
_MOST_EXPONENT = 30


def number(text: str, *, is_whole: bool = False) -> str | None:
    """The number of a text such as `1,234.50`, `+5` or `1e3`, without signs that group its digits; None without one.

    `1,234` is a number only where a whole one is asked for: elsewhere it may be a little more than one.
    """
    text = text.strip()
    if len(text) > _MOST_CHARS or not (_GROUPED.fullmatch(text) or _NUMBER.fullmatch(text)):
        return None
    may_be_fraction = text.count(",") == 1 and "." not in text and not is_whole
    return None if may_be_fraction else text.replace(",", "").removeprefix("+")


def whole(written: str) -> int | None:
    """The integer that a number from `number` is exactly; None when it is none, or its exponent is beyond 30."""
    found = _NUMBER.fullmatch(written)
    if found is None or abs(int(found["exponent"] or 0)) > _MOST_EXPONENT:
        return None
    exact = Decimal(written)
    return int(exact) if exact == exact.to_integral_value() else None


def numbers(text: str, *, is_whole: bool = False) -> list[str] | None:
    """The numbers of a text such as `1, 2.5, 3`; None when it has others, or a comma may belong to a number.

    Commas that are not all followed by a space may group digits or part a fraction, and so may a point where only
    whole numbers are asked for.
    """
    parts = entries(text)
    if not all(map(_LISTED.fullmatch, parts)) or (is_whole and any("." in part for part in parts)):
        return None
    return None if _is_unclear(_listed(text), parts, is_whole=is_whole) else parts


def _is_unclear(text: str, parts: list[str], *, is_whole: bool) -> bool:
    """Whether a comma without a space behind it may be something else than the sign between two of these numbers."""
    behind = {*re.findall(r",(\s?)", text)}
    if "" not in behind:
        return False
    if len(behind) > 1 or re.search(r"[;\n]", text) or any(map(_is_grouped, pairwise(parts))):
        return True
    return len(parts) == 2 and not is_whole and "." not in parts[1]


def _is_grouped(pair: tuple[str, str]) -> bool:
    return bool(_HEAD.fullmatch(pair[0]) and _GROUP.fullmatch(pair[1]))


def entries(text: str) -> list[str]:
    """What commas, semicolons and line breaks part in a text."""
    return [part.strip() for part in re.split(r"[,;\n]", _listed(text))]


def _listed(text: str) -> str:
    """A text without what may end a list."""
    return text.strip().rstrip(",;")
