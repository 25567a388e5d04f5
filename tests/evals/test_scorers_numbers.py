"""Tests for the scorer of numbers."""

import pytest

from agentkit.errors import ConfigError
from agentkit.evals import Case, numeric
from agentkit.evals.scorers import given_number, numbers_in


@pytest.mark.for_each(
    ("text", "numbers"),
    [
        ("408", [408]),
        ("It is 2,400.50 dollars.", [2400.5]),
        ("1 000 000 people, 1_000", [1_000_000, 1_000]),
        ("1,2,3", [1, 2, 3]),
        ("12,34", [12, 34]),
        ("-3.5 and \N{MINUS SIGN}7 and +2", [-3.5, -7, 2]),
        ("6.02e23, 1E-3", [6.02e23, 1e-3]),
        (".5 of it", [0.5]),
        ("17%, $5, 3rd", [17, 5, 3]),
        ("version v2 of x3", []),
        ("nothing", []),
    ],
)
def test_numbers_in_a_text(text, numbers):
    """Numbers are parsed with thousands separators, decimals, exponents and signs, except within names."""
    assert numbers_in(text) == numbers


def test_numbers_with_a_decimal_comma():
    """With a decimal comma, points separate thousands."""
    assert numbers_in("Es sind 2.400,50 und ,5", ",") == [2400.5, 0.5]


@pytest.mark.parametrize(
    ("answer", "question", "number"),
    [
        ("It is 408.", "What is 17% of 2,400?", 408),
        ("17% of 2,400 is 408.", "What is 17% of 2,400?", 408),
        ("408, which is 17% of 2,400.", "What is 17% of 2,400?", 408),
        ("First 10, then 12.", "", 12),
        ("5", "What is 5 + 0?", 5),
        ("I do not know.", "What is 5 + 0?", None),
    ],
)
def test_last_number_is_the_answer(answer, question, number):
    """The last number that is not in the question is the answer."""
    assert given_number(answer, question) == number


@pytest.mark.parametrize(
    ("scorer", "answer", "expected", "passed"),
    [
        (numeric(), "408", 408, True),
        (numeric(), "0.30000000000000004", 0.3, True),
        (numeric(), "408.1", 408, False),
        (numeric(0.5), "408.4", 408, True),
        (numeric(relative=0.01), "411", 408, True),
        (numeric(), "408", "408", True),
        (numeric(), "2,400", "$2,400", True),
        (numeric(decimal=","), "2.400,5", "2400,5", True),
        (numeric(), "none", 408, False),
    ],
)
def test_number_passes_within_the_tolerance(scoring, scorer, answer, expected, passed):
    """A number passes within the absolute or relative tolerance."""
    assert scoring(scorer, answer, expected).passed is passed


def test_reason_of_a_miss(scoring):
    """The reason of a miss has the parsed number."""
    assert scoring(numeric(), "407", 408).reason == "407 is not 408"
    assert scoring(numeric(), "no idea", 408).reason == "it contains no number, 408 is expected"


@pytest.mark.parametrize("expected", ["none", "3 or 4", True, [3]])
def test_expectation_without_a_number_is_an_error(answering, expected):
    """An expectation without a number is an error of the case and not a wrong answer."""
    with pytest.raises(ConfigError, match="expects a number"):
        numeric()(Case("x", expected=expected), answering("3"))


@pytest.mark.parametrize("arguments", [{"tolerance": -1}, {"relative": float("inf")}, {"decimal": ";"}])
def test_invalid_settings_are_rejected(arguments):
    """Negative tolerances and other decimal separators raise an error."""
    with pytest.raises(ConfigError, match="numeric"):
        numeric(**arguments)
