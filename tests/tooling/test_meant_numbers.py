"""Tests for the conversion of strings to numbers."""

from __future__ import annotations

import pytest

from agentkit.tooling.coercion import normalise_number, split_entries, split_numbers, to_integer


@pytest.mark.for_each(
    ("text", "written"),
    [
        ("1,000.0", "1000.0"),
        ("1,000,000", "1000000"),
        (" -1,234,567.50 ", "-1234567.50"),
        ("+5", "5"),
        ("1e3", "1e3"),
        (".5", ".5"),
        ("1,00", None),
        ("1,000", None),
        ("0,500,000", None),
        ("1,0000", None),
        ("1.000,00", None),
        ("$5", None),
        ("12%", None),
        ("", None),
        ("9" * 500, None),
    ],
)
def test_grouped_digits_are_read_as_a_number(text: str, written: str | None) -> None:
    """Commas that group digits are removed; a number with ambiguous commas or other symbols is rejected."""
    assert normalise_number(text) == written


def test_grouped_digits_of_an_integer() -> None:
    """`1,234` is ambiguous for a float, and an integer where an integer is required."""
    assert normalise_number("1,234", is_whole=True) == "1234"
    assert normalise_number("0,500", is_whole=True) is None


@pytest.mark.for_each(
    ("written", "exact"),
    [
        ("1e23", 10**23),
        ("-1e30", -(10**30)),
        ("1234567890123456789.0", 1_234_567_890_123_456_789),
        ("9007199254740993e0", 9_007_199_254_740_993),
        ("1.5e1", 15),
        ("1000e-3", 1),
        ("12.", 12),
        ("1.5", None),
        ("1e-3", None),
        ("1e31", None),
        ("0e999999999", None),
        ("1e-999999999", None),
        ("x", None),
    ],
)
def test_integer_is_exact(written: str, exact: int | None) -> None:
    """An integer is converted without loss of digits, and short strings never expand to hundreds."""
    assert to_integer(written) == exact


@pytest.mark.for_each(
    ("text", "floats", "integers"),
    [
        ("1, 5", ["1", "5"], ["1", "5"]),
        ("1,5,7", ["1", "5", "7"], ["1", "5", "7"]),
        ("1000,2000,3", ["1000", "2000", "3"], ["1000", "2000", "3"]),
        ("1, 200, 300", ["1", "200", "300"], ["1", "200", "300"]),
        ("1, 2\n3, 4", ["1", "2", "3", "4"], ["1", "2", "3", "4"]),
        ("1,5", None, ["1", "5"]),
        ("48.85,2.35", ["48.85", "2.35"], None),
        ("1.000, 5", ["1.000", "5"], None),
        ("1.000,5", None, None),
        ("1.5,2", None, None),
        (" 1,200, 300", None, None),
        ("1,5, 2,5", None, None),
        ("1,5;2,5", None, None),
        ("1,200\n300", None, None),
        ("1,234,5", None, None),
        ("1,50,123.5", None, None),
        ("10,20,300", None, None),
    ],
)
def test_ambiguous_list_of_numbers_is_rejected(text: str, floats: list[str] | None, integers: list[str] | None) -> None:
    """A list with commas that may be part of a number is ambiguous and rejected."""
    assert split_numbers(text) == floats
    assert split_numbers(text, is_whole=True) == integers


def test_list_of_numbers_is_distinguished_from_a_number() -> None:
    """`1,000` is ambiguous and not parsed as a list of numbers; `1, 2.5` is."""
    assert split_numbers("1, 2.5;-3,") == ["1", "2.5", "-3"]
    assert split_numbers("1,000") is None
    assert split_numbers("1, two") is None
    assert split_entries(" a, b;\nc ") == ["a", "b", "", "c"]
