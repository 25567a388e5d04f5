"""Which day does a text name, and how is it written for a parameter?"""

import pytest

from agentkit.llm.providers.offline.values.dates import is_day, is_said, written


@pytest.mark.parametrize(
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
def test_a_day_counts_as_said_when_it_cannot_be_another(day, text, said):
    """A day needs its year, and its month in letters or where no day could stand."""
    assert is_said(day, text) is said


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("The date.", "2027-03-05"),
        ("The date, as YYYY-MM-DD.", "2027-03-05"),
        ("In the format MM/DD/YYYY.", "03/05/2027"),
        ("dd.mm.yy", "05.03.27"),
        ("DD-DD-YYYY", "2027-03-05"),
    ],
)
def test_a_day_is_written_as_the_parameter_shows(description, expected):
    """The description's own pattern gives the order and the marks, and a pattern that is none changes nothing."""
    assert written("2027-03-05", {"description": description}) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("2027-03-05", True), ("2027-03", False), ("March", False), (5, False)]
)
def test_what_a_day_looks_like(value, expected):
    """The engine writes a day with its year first."""
    assert is_day(value) is expected
