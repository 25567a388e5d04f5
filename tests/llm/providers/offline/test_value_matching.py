"""Tests for dates in a text and their format in a parameter."""

import pytest

from agentkit.llm.providers.offline.lexicon import day_of, format_day, states_date


@pytest.mark.for_each(
    ("day", "text", "said"),
    [
        ("2027-03-05", "on March 5, 2027", True),
        ("2027-03-05", "on 2027-03-05", True),
        ("2027-03-25", "on 3/25/2027", True),
        ("2027-03-05", "on 5/3/2027", False),
        ("2027-03-05", "on March 5", False),
        ("2027-03-05", "tomorrow", False),
        ("2027-03-05T17:00", "5 March 2027 at 5 pm", True),
        ("2027-03-05T17:30", "5 March 2027 at 5 pm", False),
        ("17:30", "at 5:30 pm", True),
    ],
)
def test_date_must_be_unambiguous(day, text, said):
    """A date must be stated with its year, and with an unambiguous month."""
    assert states_date(day, text) is said


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("The date.", None),
        ("The date, as YYYY-MM-DD.", "2027-03-05"),
        ("In the format MM/DD/YYYY.", "03/05/2027"),
        ("dd.mm.yy", "05.03.27"),
        ("DD-DD-YYYY", None),
    ],
)
def test_date_is_written_in_the_pattern_of_the_description(description, expected):
    """A date is written in the pattern of the description, and an invalid pattern is ignored."""
    assert format_day("2027-03-05", {"description": description}) == expected


@pytest.mark.for_each(
    ("value", "day"),
    [
        ("2027-03-05", "2027-03-05"),
        ("March 5, 2027", "2027-03-05"),
        ("5th Dec. 2027", "2027-12-05"),
        ("Jan 28 2027", "2027-01-28"),
        ("March 2027", None),
        ("5 March 6, 2027", None),
        ("Room 5, 2027", None),
        ("tomorrow", None),
    ],
)
def test_date_may_be_written_in_words(value, day):
    """A date with the name of the month and a year is unambiguous."""
    assert day_of(value) == day
