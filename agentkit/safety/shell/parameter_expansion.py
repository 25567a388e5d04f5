"""Transformations by `${name...}`: defaults, slices, replacements and case (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentkit.safety.shell.variables import A_FILE, A_WORD, DASHED, TAME, UNKNOWN, Value, composed

_PATTERN = re.compile(r"\*?[\w./ ,:@=+-]*\*?")
_PLAIN = re.compile(r"[\w./ ,:@=+-]*")
_MAX_CHARS = 100


def changed(value: Value, operator: str, operands: Sequence[str]) -> Value:
    """The value after the change, given the source of the operator's operands; unknown if it is uncertain."""
    if operator == ":" and value.items is not None and all(item.known for item in value.items):
        return _sliced_items(value, operands)
    if value.items is not None:
        return Value.array(changed(item, operator, operands) for item in value.items)
    if value.text == TAME:
        is_kept = operator in _KEEPING or (operator == ":" and not value.origins & {A_FILE, A_WORD})
        dashed = frozenset({DASHED} if A_FILE in value.origins and operator.startswith("#") else ())
        return Value(TAME if is_kept else UNKNOWN, composed(value.origins) | dashed)
    known = value.known and len(value.text) <= _MAX_CHARS
    text = _CHANGES[operator](value.text, operator, operands) if known and operator in _CHANGES else None
    return Value(UNKNOWN if text is None else text, value.origins)


def _sliced_items(value: Value, operands: Sequence[str]) -> Value:
    span = _span(operands, len(value.items or ()))
    return Value(UNKNOWN, value.origins) if span is None else Value.array((value.items or ())[span])


def _span(operands: Sequence[str], size: int) -> slice | None:
    """The part that :offset:length names, where both are written out."""
    first, *others = "".join(operands).replace(" ", "").split(":")
    if len(others) > 1 or not all(re.fullmatch(r"-?\d{1,4}", text) for text in (first, *others)):
        return None
    start = int(first) if int(first) >= 0 else max(0, size + int(first))
    if not others:
        return slice(start, None)
    length = int(others[0])
    return slice(start, start + length if length >= 0 else max(start, size + length))


def _sliced(text: str, _operator: str, operands: Sequence[str]) -> str | None:
    span = _span(operands, len(text))
    return None if span is None else text[span]


def _shortened(text: str, operator: str, operands: Sequence[str]) -> str | None:
    """Without the shortest or longest prefix (# ##) or suffix (% %%) that matches a simple pattern."""
    pattern = "".join(operands)
    if not _PATTERN.fullmatch(pattern):
        return None
    matches = re.compile(re.escape(pattern).replace(r"\*", ".*"), re.DOTALL).fullmatch
    cuts = range(len(text) + 1)
    if operator.startswith("#"):
        ends = cuts if operator == "#" else reversed(cuts)
        return next((text[end:] for end in ends if matches(text[:end])), text)
    starts = reversed(cuts) if operator == "%" else cuts
    return next((text[:start] for start in starts if matches(text[start:])), text)


def _replaced(text: str, operator: str, operands: Sequence[str]) -> str | None:
    old, new = operands[0] if operands else "", "".join(operands[2:])
    if not old or not _PLAIN.fullmatch(old + new) or operands[1:2] not in ([], ["/"]):
        return None
    if operator == "/#":
        return new + text.removeprefix(old) if text.startswith(old) else text
    if operator == "/%":
        return text.removesuffix(old) + new if text.endswith(old) else text
    return text.replace(old, new, -1 if operator == "//" else 1)


def _cased(text: str, operator: str, operands: Sequence[str]) -> str | None:
    end = len(text) if len(operator) == 2 else 1
    start = text[:end].upper() if operator[0] == "^" else text[:end].lower()
    return None if operands or not text.isascii() else start + text[end:]


_KEEPING = {"%", "%%", "#", "##", "^^", ",,"}
_CHANGES = {
    **dict.fromkeys(("%", "%%", "#", "##"), _shortened),
    **dict.fromkeys(("/", "//", "/#", "/%"), _replaced),
    **dict.fromkeys(("^", "^^", ",", ",,"), _cased),
    ":": _sliced,
}
