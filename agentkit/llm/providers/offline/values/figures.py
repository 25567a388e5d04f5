"""Which number does a question give a parameter: what counts hundredths, what is listed, what a sum is told with?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentkit.llm.providers.offline.words import ideas, signed_numbers_in, vocabulary, words


def measures_in(text: str) -> dict[float, float]:
    """The numbers that a text gives in percent, dozens or millions, and never alone, each with what it is taken by."""
    found = {float(match.group(1)): _FACTORS[match.group(2).lower()] for match in _MEASURE.finditer(text)}
    alone = signed_numbers_in(_MEASURE.sub(" ", text))
    return {number: factor for number, factor in found.items() if number not in alone}


def as_counted(value: float, name: str, schema: Mapping[str, Any], text: str) -> float | None:
    """What a text says in percent or millions, as the parameter counts it; None for a number that is not said so.

    5 % is 0.05, unless the parameter speaks of percent or takes whole numbers; 2 million are 2000000, unless it speaks
    of millions.
    """
    for said, factor in measures_in(text).items():
        exact = round(said * factor, 9)
        if value in (said, exact):
            about = f"{name} {schema.get('description', '')}".replace("_", " ")
            whole = schema.get("type") == "integer"
            kept = _counts(about, factor) or (whole and not exact.is_integer())
            number = said if kept else exact
            return int(number) if whole and number.is_integer() else number
    return None


def _counts(about: str, factor: float) -> bool:
    """Whether a parameter's own words say that it counts in this measure."""
    if factor == _HUNDREDTH:
        return bool(_COUNTS_PERCENT.search(about) and not _COUNTS_PARTS.search(about))
    return any(word in about.lower() for word, each in _FACTORS.items() if each == factor)


def is_beside(number: float, name: str, schema: Mapping[str, Any], text: str) -> bool:
    """Whether a number stands in a text beside a word that the parameter is named for: `2021 season`, `radius of 5`."""
    named = ideas(words(name.replace("_", " ")))
    near = [
        word
        for match in _BESIDE.finditer(text)
        if float(match.group(2).replace(",", "")) == number
        for word in (*words(match.group(1))[-2:], *words(match.group(3))[:1])
    ]
    fits = schema.get("type") != "integer" or number.is_integer()
    return fits and not named.isdisjoint(ideas(near))


def in_turn(names: Sequence[str], text: str) -> dict[str, float]:
    """The numbers of the one enumeration in a text for parameters that are numbered: `side1`, `side2`, `side3`."""
    numbered = [name for name in names if _NUMBERED.fullmatch(name)]
    stems = {match.group(1) for match in map(_NUMBERED.fullmatch, numbered) if match}
    lists = _ENUMERATION.findall(text)
    if len(stems) != 1 or numbered != sorted(numbered) or len(lists) != 1:
        return {}
    numbers = [float(number) if "." in number else int(number) for number in _NUMBER.findall(lists[0])]
    return dict(zip(numbered, numbers, strict=True)) if len(numbered) == len(numbers) > 1 else {}


def operation_in(text: str) -> tuple[frozenset[str], list[float]]:
    """What is done in a sum of one kind, in words, and with which numbers; nothing for a sum of several kinds."""
    between = {part.strip().lower() for part in _NUMBER.split(text)} - {""}
    for pattern, said in _OPERATIONS.items():
        if between and all(re.fullmatch(pattern, sign) for sign in between):
            return said, [float(number) for number in _NUMBER.findall(text)]
    return frozenset(), []


_HUNDREDTH = 0.01
_FACTORS = {
    **dict.fromkeys(("%", "percent", "per cent"), _HUNDREDTH),
    "dozen": 12.0,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
}
_MEASURE = re.compile(
    rf"(?<![\w.,])(\d+(?:\.\d+)?)\s?(%|(?:{'|'.join(name for name in _FACTORS if name != '%')})\b)", re.IGNORECASE
)
_COUNTS_PERCENT = re.compile(r"percent|%", re.IGNORECASE)
_COUNTS_PARTS = re.compile(r"decimal|fraction|\b0?\.\d|between 0 and 1\b|0 to 1\b", re.IGNORECASE)
_BESIDE = re.compile(r"(?<![\w.-])((?:[^\W\d]+ +){0,2})(\d[\d,]*(?:\.\d+)?)(?![\w%])(?= *(\w*))")
_NUMBERED = re.compile(r"((?:\w*[^\W\d])?)_?(?:\d|(?<![^\W_])[a-z])")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w%])")
_ALONE = rf"(?<![-\u2212]){_NUMBER.pattern}"
_ENUMERATION = re.compile(rf"{_ALONE}(?:(?:,\s+(?:and\s+)?|\s+and\s+){_ALONE})+")
_OPERATIONS = {
    r"\+|plus": vocabulary("add sum plus total"),
    "[-\u2212]|minus": vocabulary("subtract minus difference"),
    r"[*x\u00d7]|times|multiplied by": vocabulary("multiply product times"),
    "[/\u00f7]|divided by": vocabulary("divide quotient"),
}
