"""Tests for the operations of the calculator, which are bounded before they are computed."""

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.errors import ToolError
from agentkit.tools.calculator.evaluator import FUNCTIONS, MAX_BITS, call, format_number, negate, operate

EXTREMES = [0, 1, -1, 2.5, -7, 10**15, 10**2000, -(10**3000), -1e308, 5e-324]
NUMBERS = st.lists(st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6), min_size=2, max_size=20)


def outcome(function, *arguments):
    """Return the result of a function or its error message."""
    try:
        return function(*arguments)
    except ToolError as error:
        return str(error)


def is_number(value):
    """Return whether a value is an integer or a finite float."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


@pytest.mark.for_each("name", FUNCTIONS)
def test_function_returns_a_number_or_an_error(name):
    """Every function returns a finite real number or an error that starts with the call."""
    count = (
        max(FUNCTIONS[name].min_arguments, 2)
        if FUNCTIONS[name].max_arguments is None
        else FUNCTIONS[name].min_arguments
    )
    values = [outcome(call, name, [number] * count) for number in EXTREMES]
    assert [value for value in values if not is_number(value) and not value.startswith(f"{name}(")] == []


@pytest.mark.for_each("symbol", ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|"])
def test_operator_returns_a_number_or_an_error(symbol):
    """Every operator returns a finite real number or an error that repeats the operator."""
    values = [outcome(operate, symbol, left, right) for left in EXTREMES for right in EXTREMES]
    assert [value for value in values if not is_number(value) and f" {symbol} " not in value] == []


def test_integers_are_bounded_in_bits():
    """An integer may have at most ten thousand bits."""
    assert operate("**", 2, MAX_BITS - 1).bit_length() == MAX_BITS
    with pytest.raises(ToolError, match="too large"):
        operate("**", 2, MAX_BITS)


def test_invert_needs_an_integer():
    """The bits of a float cannot be inverted."""
    assert negate("~", 5) == -6
    with pytest.raises(ToolError, match=r"~2\.5 needs whole numbers"):
        negate("~", 2.5)


def test_large_numbers_are_shown_by_their_length():
    """An error shows a long integer by its number of digits, with a tolerance of one."""
    assert format_number(10**20) == "1" + "0" * 20
    assert format_number(10**2500) == "<a whole number of about 2501 digits>"


def test_long_argument_lists_are_cut():
    """An error repeats at most four arguments."""
    with pytest.raises(ToolError, match=r"gcd\(1\.5, 1, 2, 3, \.\.\.\)"):
        call("gcd", [1.5, 1, 2, 3, 4, 5])


def test_list_argument_is_unpacked():
    """A variadic function accepts its numbers as separate arguments or as one list."""
    assert call("sum", [[1, 2, 3]]) == call("sum", [1, 2, 3]) == 6


@pytest.mark.parametrize("number", [2.0**53 + 2, 1e300])
def test_inexact_float_is_not_an_integer(number):
    """A float is accepted as an integer only up to the range in which floats are exact."""
    assert call("isqrt", [2.0**53]) == math.isqrt(2**53)
    with pytest.raises(ToolError, match="needs whole numbers"):
        call("isqrt", [number])


@settings(max_examples=100)
@given(NUMBERS)
def test_statistics_agree_with_the_standard_library(numbers):
    """Mean, median, variance and deviation are those of the statistics module."""
    for name in ("mean", "median", "variance", "pvariance", "stdev", "pstdev"):
        expected = float(getattr(statistics, name)(numbers))
        assert call(name, [numbers]) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@settings(max_examples=100)
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_counting_agrees_with_the_standard_library(total, chosen):
    """Choices are counted exactly as the math module counts them."""
    assert call("comb", [total, chosen]) == math.comb(total, chosen)
    assert call("perm", [total, chosen]) == math.perm(total, chosen)
