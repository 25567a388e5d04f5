"""Tests for the reasons of validation errors, in words that a model can act on."""

from __future__ import annotations

import pytest

from agentkit.tooling.coercion import discriminator_error, first_sentence, join_reasons, reason


@pytest.mark.for_each(
    ("kind", "message", "expected"),
    [
        ("missing", "Field required", "is missing"),
        ("date_parsing", "Input should be a valid date, input is too short", "should be a date such as 2026-12-24"),
        ("bytes_type", "Input should be a valid bytes", "should be text"),
        ("int_type", "Input should be a valid integer\nand more", "should be a valid integer"),
        ("decimal_type", "Decimal input should be an integer, float, string or Decimal object", "should be a number"),
        (
            "too_long",
            "Tuple should have at most 2 items after validation, not 3",
            "should have at most 2 entries, not 3",
        ),
        ("value_error", "Value error, it must be even", "is not accepted (it must be even)"),
        ("assertion_error", "Assertion failed, what you gave should fit", "is not accepted (what you gave should fit)"),
    ],
)
def test_reason(kind: str, message: str, expected: str) -> None:
    """The reason states what was expected, with an example where that helps."""
    assert reason(kind, message) == expected


def test_object_without_valid_discriminator() -> None:
    """The error names the discriminator field and its allowed values."""
    assert discriminator_error({"discriminator": "'kind'"}, {}) == ("kind", "is missing", {})
    expected = {"discriminator": "'kind'", "tag": "cow", "expected_tags": "'cat', 'dog'"}
    assert discriminator_error(expected, {"kind": "cow"}) == ("kind", "should be one of 'cat', 'dog'", "cow")
    assert discriminator_error({"discriminator": "by_shape()"}, {}) is None
    assert discriminator_error({}, {}) is None


def test_first_sentence_of_an_error() -> None:
    """Only the first sentence of a long error message is used."""
    assert first_sentence(ValueError("It is wrong. Read the manual.\nAnd more")) == "It is wrong"


@pytest.mark.parametrize(
    ("reasons", "sentence"),
    [
        (["should be a list, of numbers"], "should be a list, of numbers"),
        (["should be a list, of numbers", "should be null", "should be a list"], "should be a list or null"),
        (["is missing", "is missing"], "is missing"),
    ],
)
def test_union_errors_are_joined(reasons, sentence):
    """The errors of all members of a union are joined into one sentence without repetition."""
    assert join_reasons(reasons) == sentence
