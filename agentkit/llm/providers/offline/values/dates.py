"""Is this the day that a text names, and how does a parameter want it written?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentkit.llm.providers.offline.words import words


def day_of(value: str) -> str | None:
    """The day that is written `2027-03-05`, `March 5, 2027` or `5 March 2027`, in the first form; else None."""
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
    """Whether a text names this day and time, so that it cannot be another: 5/3/2027 may be in March or in May."""
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
    """A day in the order and with the marks that the parameter's description shows, as `MM/DD/YYYY`; None for none."""
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
