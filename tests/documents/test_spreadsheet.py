"""Tests for the number formats of spreadsheets."""

import json
from pathlib import Path

import pytest

from agentkit.documents.spreadsheet import format_number

ROWS = json.loads(Path(__file__).with_name("number_formats.json").read_text("utf-8"))


@pytest.mark.for_each(("value", "code", "text"), ROWS)
def test_shown_value(value, code, text):
    """Numbers follow the cell's format, dates are ISO 8601, and unknown formats show the number."""
    assert format_number(value, code) == text


def test_dates_can_count_from_1904():
    """Workbooks of the 1904 date system show the same dates."""
    assert format_number("44684", "yyyy-mm-dd", is_1904=True) == "2026-05-04"
    assert format_number("0", "yyyy-mm-dd", is_1904=True) == "1904-01-01"
