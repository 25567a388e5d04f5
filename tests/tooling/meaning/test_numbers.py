"""Proves which texts are read as numbers."""

from __future__ import annotations

import pytest

from agentkit.tooling.meaning.numbers import entries, number, numbers


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1,000", "1000"),
        (" -1,234,567.50 ", "-1234567.50"),
        ("+5", "5"),
        ("1e3", "1e3"),
        (".5", ".5"),
        ("1,00", None),
        ("1,0000", None),
        ("1.000,00", None),
        ("$5", None),
        ("12%", None),
        ("", None),
        ("9" * 500, None),
    ],
)
def test_a_number_may_be_written_in_groups_of_digits(text: str, written: str | None) -> None:
    """Commas that group digits are left out; other signs beside a number may change what it means."""
    assert number(text) == written


def test_a_list_of_numbers_is_told_from_one_number() -> None:
    """`1,000` is one number to some and two to others, so it is no list; `1, 2` is."""
    assert numbers("1, 2.5;-3,") == ["1", "2.5", "-3"]
    assert numbers("1,000") is None
    assert numbers("1, two") is None
    assert entries(" a, b;\nc ") == ["a", "b", "", "c"]
