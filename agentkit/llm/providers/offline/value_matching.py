"""Comparison of dates, numbers, names and texts with parameter schemas."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentkit.llm.providers.offline.lexicon import STOP_WORDS, ideas, signed_numbers_in, stem, vocabulary, words


def day_of(value: str) -> str | None:
    """The day written as `2027-03-05`, `March 5, 2027` or `5 March 2027`, in ISO format; otherwise None."""
    if _DAY.fullmatch(value):
        return value
    match = _IN_WORDS.fullmatch(value)
    if match is None:
        return None
    first, month, second, year = match.groups()
    place = _MONTHS.index(month.lower()) if month.lower() in _MONTHS else -1
    day = first or second
    return f"{year}-{place or 12:02}-{int(day):02}" if place >= 0 and day and not (first and second) else None


def is_said(date: Any, text: str) -> bool:
    """Whether a text states this day and time unambiguously: 5/3/2027 can be in March or in May."""
    said = {int(digits) for digits in re.findall(r"\d+", text)}
    date = str(date)
    match = _DAY.match(date)
    rest = [int(digits) for digits in re.findall(r"\d+", date[match.end() :] if match else date)]
    if any(number and number not in said and number - 12 not in said for number in rest):
        return False
    if match is None:
        return True
    year, month, day = map(int, match.groups())
    named = any(word.startswith(_MONTHS[month % 12]) for word in words(text))
    clear = named or (month in said and (day > 12 or day == month or match.group() in text))
    return clear and day in said and not said.isdisjoint((year, year % 100))


def written(day: str, schema: Mapping[str, Any]) -> str | None:
    """A day in the format shown in the parameter's description, such as `MM/DD/YYYY`; None without such a format."""
    pattern = _PATTERN.search(str(schema.get("description", "")))
    parts = dict(zip("YMD", day.split("-"), strict=True))
    if pattern is None or {letters[0].upper() for letters in pattern.group(1, 3, 4)} != {*parts}:
        return None
    return pattern.group(2).join(parts[letters[0].upper()][-len(letters) :] for letters in pattern.group(1, 3, 4))


_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTHS = ("dec", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov")
_IN_WORDS = re.compile(
    r"(?:(\d{1,2})(?:st|nd|rd|th)? )?([A-Za-z]{3})[a-z]*\.?(?: (\d{1,2})(?:st|nd|rd|th)?)?,? (\d{4})"
)
_PATTERN = re.compile(r"\b(YYYY|MM|DD)([-/.])(YYYY|MM|DD)\2(YYYY|YY|MM|DD)\b", re.IGNORECASE)


def measures_in(text: str) -> dict[float, float]:
    """Numbers that occur in a text only in percent, dozens, millions and so on, each with its factor."""
    found = {float(match.group(1)): _FACTORS[match.group(2).lower()] for match in _MEASURE.finditer(text)}
    alone = signed_numbers_in(_MEASURE.sub(" ", text))
    return {number: factor for number, factor in found.items() if number not in alone}


def as_counted(value: float, name: str, schema: Mapping[str, Any], text: str) -> float | None:
    """A number that the text gives in percent or millions, in the parameter's unit; None for any other number.

    5 % is 0.05, unless the parameter is in percent or takes whole numbers; 2 million is 2000000, unless the parameter
    is in millions.
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
    """Whether the parameter's name or description uses this unit."""
    if factor == _HUNDREDTH:
        return bool(_COUNTS_PERCENT.search(about) and not _COUNTS_PARTS.search(about))
    return any(word in about.lower() for word, each in _FACTORS.items() if each == factor)


def is_beside(number: float, name: str, schema: Mapping[str, Any], text: str) -> bool:
    """Whether a number in the text is next to a word of the parameter's name: `2021 season`, `radius of 5`."""
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
    """The numbers of the only enumeration in a text, for numbered parameters: `side1`, `side2`, `side3`."""
    numbered = [name for name in names if _NUMBERED.fullmatch(name)]
    stems = {match.group(1) for match in map(_NUMBERED.fullmatch, numbered) if match}
    lists = _ENUMERATION.findall(text)
    if len(stems) != 1 or numbered != sorted(numbered) or len(lists) != 1:
        return {}
    numbers = [float(number) if "." in number else int(number) for number in _NUMBER.findall(lists[0])]
    return dict(zip(numbered, numbers, strict=True)) if len(numbered) == len(numbers) > 1 else {}


def operation_in(text: str) -> tuple[frozenset[str], list[float]]:
    """The operation of a sum, in words, and its numbers; empty for a sum with different operations."""
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


def is_abbreviated(name: str, text: str) -> bool:
    """Whether capitals are initials of consecutive words in a text: CAD for `Canadian dollars`.

    For a single word they must be its first three letters or more: EUR for `euros`, but not CA for `Canada`.
    """
    if not _CAPITALS.fullmatch(name):
        return False
    said = [word.lower() for word in _WORD.findall(text) if word.isupper() or word.lower() not in STOP_WORDS]
    return any(_begins(name.lower(), said[place:], len(name)) for place in range(len(said)))


def is_named(name: str, text: str, schema: Mapping[str, Any]) -> bool:
    """Whether the parameter's description quotes the name and the text contains it: `detailed` for details."""
    given = _QUOTED.findall(str(schema.get("description", "")))
    meant, said = ({stem(word) for word in words(each) if word not in STOP_WORDS} for each in (name, text))
    return name in given and bool(meant) and meant <= said


def lacks_part(text: str, schema: Mapping[str, Any]) -> bool:
    """Whether the parameter's description shows a text of two parts, `'Paris, France'`, and the text has only one."""
    return "," not in text and _TWO_PARTS.search(str(schema.get("description", ""))) is not None


def _begins(letters: str, said: Sequence[str], length: int) -> bool:
    """Whether the letters are initials of the first words, of at most `length` letters in total."""
    if not letters or not said:
        return not letters
    shared = [size for size in range(1, len(letters) + 1) if said[0].startswith(letters[:size])]
    whole = [size for size in shared if size < length or length > 2]
    return any(_begins(letters[size:], said[1:], length) for size in whole)


_CAPITALS = re.compile(r"[A-Z]{2,5}")
_WORD = re.compile(r"[^\W\d_]+")
_TWO_PARTS = re.compile(r"([\"'])[A-Z][^\"',]*, ?[A-Z][^\"',]*\1")
_QUOTED = re.compile(r"[\"'`]([^\"'`]{2,30})[\"'`]")


def plain_schema(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with references into `root` resolved and `null` variants removed; empty if it is not a mapping."""
    for _ in range(8):
        if not isinstance(schema, Mapping):
            return {}
        options = [each for each in schema.get("anyOf") or schema.get("oneOf") or () if isinstance(each, Mapping)]
        variants = [each for each in options if each.get("type") != "null"]
        if isinstance(reference := schema.get("$ref"), str):
            schema = _target(reference, root)
        elif len(variants) == 1:
            schema = {**variants[0], **{key: schema[key] for key in ("default", "description") if key in schema}}
        else:
            break
    types = [kind for kind in schema["type"] if kind != "null"] if isinstance(schema.get("type"), list) else []
    return {**schema, "type": types[0]} if len(types) == 1 else schema


def definitions_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The shared definitions of a schema, under the keywords of different drafts."""
    return {key: schema[key] for key in ("$defs", "definitions") if key in schema}


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    target: Any = root
    for part in filter(None, reference.removeprefix("#").split("/")):
        target = target.get(part, {}) if isinstance(target, Mapping) else {}
    return target


def texts_in(value: Any) -> Iterator[str]:
    """Every value inside lists and dictionaries, as text."""
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(each)
    else:
        yield str(value)


def run(text: str) -> str:
    """The words of a text, each surrounded by spaces, so that word sequences can be searched in other texts."""
    return "".join(f" {word} " for word in words(text))


def values_in(value: Any) -> Iterator[Any]:
    """A value and every value nested in it."""
    yield value
    if isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from values_in(each)


def nodes_of(text: str) -> list[ast.AST]:
    """The syntax nodes of a text that is valid Python; otherwise empty."""
    try:
        return list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def literal(text: str) -> Any:
    """The value of a JSON text; None if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def overlap(value: str, text: str) -> int:
    """Number of characters that two texts share: all of the shorter if the longer contains it, else common words."""
    short, long = sorted((re.sub(r"\s+", "", each).lower() for each in (value, text)), key=len)
    if short and short in long:
        return len(short)
    mine, other = (set(_PIECES.findall(each.lower())) for each in (value, text))
    return sum(map(len, mine & other)) if 2 * len(mine & other) > len(mine) else 0


_PIECES = re.compile(r"\w+|[^\w\s]")
