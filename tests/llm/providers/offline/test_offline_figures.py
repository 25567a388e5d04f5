"""Tests for the numbers in a question and the parameters they belong to."""

import pytest

from agentkit.llm.providers.offline.argument_matching import (
    enumerated_numbers,
    in_unit_of_parameter,
    is_next_to_name,
    measures_in,
    operation_in,
)

NUMBER, WHOLE = {"type": "number"}, {"type": "integer"}


def about(description, kind="number"):
    """Return the schema of a number with a description."""
    return {"type": kind, "description": description}


@pytest.mark.for_each(
    ("value", "schema", "text", "expected"),
    [
        (5.0, NUMBER, "at a rate of 5%", 0.05),
        (0.05, NUMBER, "at a rate of 5 percent", 0.05),
        (5.0, about("The rate in percent."), "at a rate of 5%", 5.0),
        (0.05, about("The rate, in percentage."), "at a rate of 5%", 5.0),
        (5.0, about("The rate as a decimal, 5% is 0.05."), "at a rate of 5%", 0.05),
        (5, WHOLE, "with 5% off", 5),
        (5.0, NUMBER, "5 apples at 5%", None),
        (7.0, NUMBER, "at a rate of 5%", None),
        (2, WHOLE, "a city of 2 million", 2_000_000),
        (1.5, NUMBER, "about 1.5 billion", 1.5e9),
        (1.5, about("The population in billions."), "about 1.5 billion", 1.5),
        (3, WHOLE, "3 dozen eggs", 36),
    ],
)
def test_number_is_converted_to_the_unit_of_the_parameter(value, schema, text, expected):
    """5 % is 0.05 unless the parameter is in percent, and 2 million are written out unless it is in millions."""
    assert in_unit_of_parameter(value, "rate", schema, text) == expected


def test_name_of_a_parameter_may_state_percent():
    """A parameter may be in percent by its name or its description."""
    assert in_unit_of_parameter(0.2, "discount_percent", NUMBER, "with 20% off") == 20


def test_number_that_also_occurs_without_a_unit():
    """A number that also occurs without its unit is not a measure."""
    assert measures_in("5 of them at 5%, 3 percent of 2 million") == {3.0: 0.01, 2.0: 1e6}


@pytest.mark.for_each(
    ("names", "text", "expected"),
    [
        (("side1", "side2", "side3"), "the sides are 3, 4, and 5.", {"side1": 3, "side2": 4, "side3": 5}),
        (("a", "b"), "add 3.5 and 4", {"a": 3.5, "b": 4}),
        (("a", "b", "width"), "add 3 and 4", {"a": 3, "b": 4}),
        (("a", "b"), "subtract 3 from 4", {}),
        (("a", "b"), "add 3, 4 and 5", {}),
        (("a", "b"), "3 and 4, or 5 and 6", {}),
        (("b", "a"), "add 3 and 4", {}),
        (("a", "b"), "add -3 and 4", {}),
        (("x1", "y1"), "the point 3, 4", {}),
        (("width", "height"), "3 and 4", {}),
    ],
)
def test_listed_numbers_go_to_numbered_parameters(names, text, expected):
    """An enumeration with as many numbers as there are parameters fills them in order."""
    assert enumerated_numbers(names, text) == expected


@pytest.mark.parametrize(
    ("text", "word", "numbers"),
    [
        ("3 plus 4", "add", [3.0, 4.0]),
        ("3+4 + 5", "sum", [3.0, 4.0, 5.0]),
        ("3 multiplied by 4", "multiply", [3.0, 4.0]),
        ("9 / 1.5", "divide", [9.0, 1.5]),
        ("3 minus 4", "subtract", [3.0, 4.0]),
    ],
)
def test_operation_and_numbers_of_a_sum(text, word, numbers):
    """The words for the operation and the numbers in order are returned."""
    said, found = operation_in(text)
    assert (word in said, found) == (True, numbers)


@pytest.mark.parametrize("text", ["3 + 4 - 5", "sqrt(3) + 4", "5% of 20", "2 ** 3", "7"])
def test_other_sums_are_ignored(text):
    """A sum with several operations or other text is left to a calculator."""
    assert operation_in(text) == (frozenset(), [])


@pytest.mark.parametrize(
    ("number", "name", "text", "expected"),
    [
        (2021.0, "season", "the best defence of the 2021 season", True),
        (5.0, "radius", "a circle with a radius of 5", True),
        (5.0, "year", "the top 5 countries", False),
        (6.0, "radius", "a circle with a radius of 5", False),
    ],
)
def test_number_belongs_to_the_parameter_next_to_it(number, name, text, expected):
    """A number belongs to the parameter named by the next word or one of the two words before it."""
    assert is_next_to_name(number, name, WHOLE, text) is expected
