"""What does a rule compare? A checked argument as JSON would say it, whatever Python makes of it (pure)."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Set
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any

from agentkit.wording import value_text

_TEXTUAL = ("urn", "unicode_string")
"""What tells a UUID, and a URL of pydantic: their text is what was written."""


def plain(value: Any) -> Any:
    """The value without what only Python knows of it: an Enum's value, a date's and a path's text, lists, dictionaries.

    A finite Decimal stays, as no float says it exactly; so does an object that is none of these.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | Set):
        return [plain(inner) for inner in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    """The same of what is no collection, or is an object with fields."""
    match value:
        case str():
            return str.__str__(value)
        case bytes() | bytearray():
            return value.decode("utf-8", "backslashreplace")
        case Decimal():
            return value if value.is_finite() else math.nan if value.is_nan() else float(value)
        case os.PathLike():
            return os.fspath(value)
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    kind = type(value)
    if hasattr(kind, "isoformat"):
        return str(value.isoformat())
    if any(hasattr(kind, told) for told in _TEXTUAL):
        return str(value)
    if dataclasses.is_dataclass(kind):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(kind)}
    return plain(value.model_dump()) if hasattr(kind, "model_dump") else value


def is_same(one: Any, other: Any) -> bool:
    """Whether two plain values are the same JSON: 1 is 1.0, and neither is true."""
    if is_number(one) and is_number(other):
        return bool(one == other)
    if {type(one), type(other)} == {Decimal, str}:
        return bool(_number_in(one) == _number_in(other))
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(inner, other[name]) for name, inner in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def _number_in(written: Decimal | str) -> Decimal | str:
    """The number that a text writes, as JSON may write that of a Decimal; the text itself where it is none."""
    try:
        return Decimal(written)
    except InvalidOperation:
        return written


def is_number(value: Any) -> bool:
    """Whether it is a number, which true and false are not."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def text_of(value: Any) -> str:
    """The text that a pattern is looked for in: a text itself, anything else as JSON."""
    return str(value) if isinstance(value, Decimal) else value_text(value)
