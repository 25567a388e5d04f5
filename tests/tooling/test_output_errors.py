"""Tests for the errors of an invalid answer, which tell the model how to correct it."""

from __future__ import annotations

import pytest

from agentkit.tooling.output_types import OutputError, sentences, split_location

SCHEMA = {
    "type": "object",
    "properties": {
        "pair": {"prefixItems": [{"type": "string"}, {"type": "integer"}]},
        "day": {"type": "string", "format": "date"},
        "node": {"$ref": "#/$defs/Node"},
        "any": {},
        "either": {"oneOf": [{"properties": {"a": {"type": "null"}}}, {"properties": {"a": {"type": "array"}}}]},
    },
    "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}, "value": {"type": "number"}}}},
}


@pytest.mark.parametrize(
    ("location", "is_missing", "expected"),
    [
        (("a", 0, "b"), False, (("a", 0, "b"), ())),
        (("a", 0, "c"), True, (("a", 0, "c"), ())),
        (
            ("a", "list[X]", 0, "function-after[f(), X]", "b"),
            False,
            (("a", 0, "b"), ((("a",), "list[X]"), (("a", 0), "function-after[f(), X]"))),
        ),
        ((), False, ((), ())),
    ],
)
def test_locations_become_paths(location, is_missing, expected):
    """The path of an error contains the steps through the value, without the members of unions."""
    assert split_location({"a": [{"b": 1}]}, location, is_missing=is_missing) == expected


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (("pair", 1), "a whole number"),
        (("pair", 2), "any value"),
        (("day",), "text in the form date"),
        (("node", "next", "next", "value"), "a number"),
        (("any",), "any value"),
        (("any", "thing"), "any value"),
        (("either", "a"), "null or a list"),
    ],
)
def test_missing_value_is_reported_with_its_type(path, wanted):
    """The error states the type of a missing value inside lists, definitions and unions."""
    dotted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]
    assert sentences([OutputError(path, "is missing", {})], SCHEMA, {}) == [
        f"{dotted!r} is missing; it should be {wanted}."
    ]


def test_required_null_is_reported_as_null():
    """A null for a required value is reported as the given value."""
    output = sentences([OutputError(("day",), "is missing", {})], SCHEMA, {"day": None}, "result")
    assert output == ["'result.day' should be text in the form date; got null."]


def test_circular_references_are_bounded():
    """A definition that only refers to itself has no description."""
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}
    assert sentences([OutputError(("a",), "is missing", {})], schema, {}) == ["'a' is missing; it should be any value."]


def test_union_error_reports_the_closest_type():
    """The error of a union reports the member with the fewest problems, or else all members."""
    point = ("pet",)
    faults = [
        OutputError(("pet", "name"), "is missing", {}, ((point, "Cat"),)),
        OutputError(("pet", "lives"), "is missing", {}, ((point, "Cat"),)),
        OutputError(("pet", "bark"), "should be true", 0, ((point, "Dog"),)),
        OutputError(("pet",), "should be null", {}, ((point, "null"),)),
        OutputError(("size",), "should be a valid integer, not this", [], ((("size",), "int"),)),
        OutputError(("size",), "should be a valid string", [], ((("size",), "str"),)),
    ]
    given = {"pet": {"bark": 0}, "size": []}
    assert sentences(faults, {}, given) == [
        "'pet.bark' should be true; got 0.",
        "'size' should be a valid integer or a valid string; got [].",
    ]
