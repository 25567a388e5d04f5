"""Tests for the validation of the less common keywords of JSON schema."""

import re

import pytest

from agentkit.tooling.json_schema import is_multiple, matches
from agentkit.tooling.tool import Tool


def checked(value, schema):
    """Return the result of a call whose argument `v` has the given schema."""
    described = {"type": "object", "properties": {"v": schema}}
    return Tool.from_schema("look", "", described, lambda v: v).invoke({"v": value})


RULES = [
    # schema, valid values, invalid values, words of the error
    ({"multipleOf": 0.1}, [0.3, 7, "x"], [0.35], "a multiple of 0.1"),
    ({"multipleOf": 0}, [1], [], ""),
    ({"minProperties": 1, "maxProperties": 2}, [{"a": 1}, []], [{}], "an object of at least 1"),
    ({"maxProperties": 1}, [{}], [{"a": 1, "b": 2}], "an object of at most 1"),
    (
        {"uniqueItems": True},
        [[1, True, "1"], [[1], [2]]],
        [[1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]],
        "duplicates",
    ),
    ({"uniqueItems": False}, [[1, 1]], [], ""),
    ({"contains": {"type": "string"}}, [["a", 1]], [[], [1]], "contain at least 1"),
    ({"contains": {"const": 1}, "minContains": 0, "maxContains": 1}, [[], [1]], [[1, 1]], "contain at most 1"),
    ({"pattern": "^a+$"}, ["aa", 1], ["ab"], r"match the pattern \^a\+\$"),
    ({"pattern": "(?<=a)b"}, ["x"], [], ""),
    ({"not": {"type": "string"}}, [1], ["a"], "not fit"),
    ({"not": {"enum": ["a" * 300]}}, ["b"], ["a" * 300], "…"),
    (
        {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 2}},
        ["ab", 2],
        ["a", 1],
        "at least 2",
    ),
    ({"if": {"type": "string"}}, ["a", 1], [], ""),
    ({"patternProperties": {"^n": {"type": "number"}}}, [{"n1": 1, "x": "y"}], [{"n1": "a"}], "should be a number"),
    (
        {"patternProperties": {"^n": {}}, "additionalProperties": False, "properties": {"p": {}}},
        [{"n1": 1, "p": 2}],
        [{"x": 1}],
        "'v.x' is not a known name",
    ),
    ({"propertyNames": {"maxLength": 2}}, [{"ab": 1}], [{"abc": 1}], "a name that fits"),
    ({"dependentRequired": {"a": ["b"]}}, [{"b": 1}, {"a": 1, "b": 2}], [{"a": 1}], "required with a"),
    ({"dependentRequired": {"a": "b"}}, [{"a": 1}], [], ""),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{}, {"a": 1, "b": 1}, []], [{"a": 1}], "b"),
]


@pytest.mark.for_each(("schema", "valid", "invalid", "words"), RULES, ids=[str(rule[0])[:60] for rule in RULES])
def test_keywords(schema, valid, invalid, words):
    """A value that violates a keyword is rejected with the rule; any other value is accepted."""
    for value in valid:
        assert checked(value, schema).ok
    for value in invalid:
        result = checked(value, schema)
        assert not result.ok
        assert re.search(words, result.error)


def test_multiples_of_huge_numbers():
    """Numbers with more digits than decimal arithmetic has count as multiples."""
    assert is_multiple(10**400, 7)
    assert not is_multiple(10, 3)


def test_pattern_takes_linear_time():
    """A pattern with nested repetitions is matched against a long string in linear time."""
    assert not matches("^(a+)+$", "a" * 50_000 + "b")
