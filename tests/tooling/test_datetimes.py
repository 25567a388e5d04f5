"""Tests for the parsing of dates, times and durations in usual notations."""

from __future__ import annotations

import pytest

from agentkit.tooling.coercion import parse_duration, parse_moment


@pytest.mark.for_each(
    ("form", "text", "iso"),
    [
        ("date", "2026/12/24", "2026-12-24"),
        ("date", "2026.1.5", "2026-01-05"),
        ("date", " 20261224 ", "2026-12-24"),
        ("date", "December 24th, 2026", "2026-12-24"),
        ("date", "Thursday, 24 Dec. 2026", "2026-12-24"),
        ("date", "3 may 2026", "2026-05-03"),
        ("date-time", "2026-12-24", "2026-12-24"),
        ("date-time", "2026/12/24T15:30", "2026-12-24T15:30:00"),
        ("date-time", "2026-12-24 15:30:05.25 UTC", "2026-12-24T15:30:05.25Z"),
        ("date-time", "Thu, 24 Dec 2026 15:30:00 GMT", "2026-12-24T15:30:00Z"),
        ("date-time", "Dec 24, 2026, 3:30 PM +07:00", "2026-12-24T15:30:00+07:00"),
        ("time", "9:30", "09:30:00"),
        ("time", "12 a.m.", "00:00:00"),
        ("time", "12:15 pm", "12:15:00"),
    ],
)
def test_usual_notations_of_a_datetime(form: str, text: str, iso: str) -> None:
    """Dates starting with the year or with a named month, and times of either clock, are converted to ISO 8601."""
    assert parse_moment(text, form) == iso


@pytest.mark.for_each(
    ("form", "text"),
    [
        ("date", "05/06/2026"),
        ("date", "31.11.2026"),
        ("date", "24.13.2026"),
        ("date", "tomorrow"),
        ("date", "2026"),
        ("date", "2026/13/01"),
        ("date", "2026/02-01"),
        ("date", "February 30, 2026"),
        ("date", "2026-12-24 15:30"),
        ("date-time", "2026-12-24 at noon"),
        ("date-time", "2026-12-24 25:00"),
        ("time", "15"),
        ("time", "13:00 pm"),
        ("time", "half past nine"),
        ("time", ""),
    ],
)
def test_ambiguous_or_invalid_dates_return_none(form: str, text: str) -> None:
    """An ambiguous date or an invalid time returns None."""
    assert parse_moment(text, form) is None


@pytest.mark.for_each("form", ["date", "time", "date-time"])
@pytest.mark.for_each("text", ["1:00{0}x", "2026-01-01 1{0}x", "monday{0}may", "may{0}1"])
def test_long_string_is_not_a_datetime(form: str, text: str) -> None:
    """A string with a million spaces returns None without slow matching."""
    assert parse_moment(text.format(" " * 1_000_000), form) is None


@pytest.mark.for_each(
    ("text", "length"),
    [
        ("1h30m", 5400),
        ("1 h, 30 min", 5400),
        ("1 hour and 30 minutes", 5400),
        ("1.5 H", 5400),
        ("5 MIN", 300),
        ("1,000 s", 1000),
        ("1,234,567.5 seconds", 1_234_567.5),
        ("2 weeks, 1 day", 1_296_000),
        ("90", 90),
        ("1,5h", None),
        ("0,500 h", None),
        ("1,0000 s", None),
        ("1 5 h", None),
        ("1 000 s", None),
        ("1h 30", None),
        ("1,h", None),
        ("2M", None),
        ("1H30M", None),
        ("1m 2d", None),
        ("1h 1h", None),
        ("1h and", None),
        ("", None),
        ("1h" + " " * 60 + "1m", None),
    ],
)
def test_unambiguous_durations(text: str, length: float | None) -> None:
    """Amounts with descending units are added; ambiguous decimal commas and a capital M are rejected."""
    assert parse_duration(text) == length
