"""Parsing of dates and times (pure)."""

from __future__ import annotations

import re
from datetime import date, time

_MOST_CHARS = 60
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>\d{4})"
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,?\s+)?"
_DATES = tuple(
    re.compile(_WEEKDAY + pattern, re.IGNORECASE)
    for pattern in (
        rf"{_YEAR}(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark){_DAY}(?!\d)",
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?!\d)",
        rf"{_MONTH}\s+{_DAY},?\s+{_YEAR}(?!\d)",
        rf"{_DAY}\s+{_MONTH},?\s+{_YEAR}(?!\d)",
    )
)
_YEAR_LAST = re.compile(r"(?P<one>\d{1,2})(?P<mark>[-/.])(?P<other>\d{1,2})(?P=mark)(?P<year>\d{4})(?!\d)")
_LENGTH = re.compile(
    r"((?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d+)?)\s*"
    r"(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|(?-i:m)|seconds?|secs?|s)(?![a-z])",
    re.IGNORECASE,
)
_LENGTHS = re.compile(rf"{_LENGTH.pattern}(?:\s*,?\s*(?:\band\s+)?{_LENGTH.pattern})*", re.IGNORECASE)
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_TIME = re.compile(
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?P<fraction>\.\d{1,6})?)?)?\s*(?P<half>[ap]\.?m\.?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?",
    re.IGNORECASE,
)


def moment(text: str, form: str) -> str | None:
    """Parse a `date`, `time` or `date-time` into ISO 8601; None if the text is not one or is ambiguous.

    A date is accepted if the year comes first, the month is a word, or only one order of day and month is possible:
    05/06/2026 is the fifth of June in some countries.
    """
    text = text.strip()
    if len(text) > _MOST_CHARS:
        return None
    if form == "time":
        return _time(text) if ":" in text or text[-2:-1].isalpha() else None
    found = next((match for pattern in (*_DATES, _YEAR_LAST) if (match := pattern.match(text))), None)
    day = found and (_only_date(found) if found.re is _YEAR_LAST else _date(found))
    if found is None or day is None:
        return None
    rest = text[found.end() :].lstrip("Tt, ").removeprefix("at ")
    if form == "date" or not rest:
        return None if rest else day
    clock = _time(rest)
    return clock and f"{day}T{clock}"


def seconds(text: str) -> float | None:
    """Parse a duration such as `90`, `1h 30m` or `5 minutes` into seconds; None if invalid or ambiguous.

    Units must be in descending order, so that the `m` of `1m 2d` is not read as minutes; a capital `M` could mean
    months.
    """
    if re.fullmatch(r"\s*\d{1,15}(\.\d+)?\s*", text):
        return float(text)
    text = text.strip()
    if len(text) > _MOST_CHARS or not _LENGTHS.fullmatch(text):
        return None
    parts = [(float(amount.replace(",", "")), _SECONDS[unit[0].lower()]) for amount, unit in _LENGTH.findall(text)]
    units = [unit for _, unit in parts]
    return sum(amount * unit for amount, unit in parts) if units == sorted({*units}, reverse=True) else None


def _date(found: re.Match[str]) -> str | None:
    month = found["month"].lower()
    number = int(month) if month.isdigit() else _MONTHS.index(month[:3]) + 1
    return _day(int(found["year"]), number, int(found["day"]))


def _only_date(found: re.Match[str]) -> str | None:
    """Return the date if only one order of day and month is valid, or both give the same date."""
    year, one, other = int(found["year"]), int(found["one"]), int(found["other"])
    days = {day for day in (_day(year, one, other), _day(year, other, one)) if day is not None}
    return days.pop() if len(days) == 1 else None


def _day(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def _time(text: str) -> str | None:
    found = _TIME.fullmatch(text)
    if found is None or (found["half"] and not 1 <= int(found["hour"]) <= 12):
        return None
    hour = int(found["hour"])
    if found["half"]:
        hour = hour % 12 + (12 if found["half"].lower().startswith("p") else 0)
    zone = (found["zone"] or "").upper()
    try:
        clock = time(hour, int(found["minute"] or 0), int(found["second"] or 0)).isoformat()
    except ValueError:
        return None
    zone = "Z" if zone in ("UTC", "GMT") else f"{zone}:00" if len(zone) == len("+02") else zone
    return f"{clock}{found['fraction'] or ''}{zone}"
