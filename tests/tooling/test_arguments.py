"""Tests for parsing, repairing and explaining a model's arguments."""

from __future__ import annotations

import json
import threading
import types
from typing import Any

import pytest

from agentkit.errors import BadArguments
from agentkit.tooling.arguments import (
    arguments_error,
    copy_arguments,
    describe_type,
    existing_steps,
    format_value,
    invalid_sentence,
    missing_sentence,
    read_arguments,
    repair,
    unknown_sentence,
)


@pytest.mark.for_each(
    ("arguments", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        ('  {"a": 1}\n', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        ("", {}),
        ("   ", {}),
        ("null", {}),
        ("{'a': True}", {"a": True}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('""', {}),
        (None, {}),
        ("{}", {}),
    ],
)
def test_forms_of_arguments(arguments: Any, read: dict[str, Any]) -> None:
    """A JSON string, a mapping, JSON encoded twice, and no arguments at all are accepted."""
    assert read_arguments(arguments) == read


@pytest.mark.for_each(
    ("arguments", "message"),
    [
        ("{a: b}", r"not valid JSON: Expecting property name .* at character 1, near \"\{a: b\}\""),
        ('{"a": 1', "not valid JSON: .* at character 7"),
        ("[1]", r"must be a JSON object of names and values; got \[1\]"),
        ("7", "must be a JSON object of names and values; got 7"),
        ('"hello"', "not valid JSON"),
        ({1: 2}, "must be a JSON object"),
        (3.5, "must be a JSON object"),
        ('"' * 3, "not valid JSON"),
        (json.dumps(json.dumps(json.dumps("{}"))), "must be a JSON object"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": ' + "1" * 5_000 + "}", "too many digits"),
    ],
)
def test_arguments_that_are_not_an_object_are_rejected(arguments: Any, message: str) -> None:
    """Arguments that are not a JSON object raise a short error that describes the problem."""
    with pytest.raises(BadArguments, match=message) as caught:
        read_arguments(arguments)
    assert len(str(caught.value)) < 300


def test_reading_returns_a_new_dictionary() -> None:
    """Reading returns a new dictionary instead of the given mapping."""
    given = {"a": 1}
    assert read_arguments(given) is not given


def test_error_message_is_bounded() -> None:
    """The error message lists the first five distinct problems and is limited in length."""
    text = str(arguments_error(["Same."] * 3 + [f"Number {number}." for number in range(50)]))
    assert text == "Same. Number 0. Number 1. Number 2. Number 3. And 46 more."
    assert len(str(arguments_error(["x" * 5_000]))) == 1_000


def test_sentences_name_the_argument_and_what_was_expected() -> None:
    """Each sentence names the argument, the expected type and the given value."""
    assert missing_sentence(["path"], {"type": "string"}) == "Argument 'path' is missing; it should be text."
    assert missing_sentence(["items", 2, "price"]) == "Argument 'items[2].price' is missing."
    assert (
        unknown_sentence("file", "read_file", ["path"]) == "read_file has no parameter 'file'; its parameters are path."
    )
    assert unknown_sentence("x", "now", []) == "now has no parameter 'x'; it takes no arguments."
    assert invalid_sentence(["n"], "should be a number", "many") == "Argument 'n' should be a number; got \"many\"."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (7, "7"),
        ("é", '"é"'),
        ("x" * 500, '"' + "x" * 79 + '…"'),
        ({"a": [1, 2]}, "{'a': [1, 2]}"),
    ],
)
def test_values_are_shortened_in_errors(value: object, text: str) -> None:
    """A value is shown in a few characters."""
    assert format_value(value) == text


def test_large_value_is_truncated_in_errors() -> None:
    """Only the beginning of a large value is shown."""
    assert len(format_value([{"key": ["x" * 1_000] * 1_000}] * 1_000)) < 800
    assert len(format_value(object())) < 100
    assert format_value(10**5_000) == "a huge int"


@pytest.mark.for_each(
    ("schema", "text"),
    [
        ({"type": "integer"}, "a whole number"),
        ({"type": ["string", "null"]}, "text or null"),
        ({"anyOf": [{"type": "array"}, {"type": "object"}, {"type": "array"}]}, "a list or an object"),
        ({"enum": ["a", 1, None]}, '"a" or 1 or null'),
        ({"const": "a"}, '"a"'),
        ({"type": "gibberish"}, "gibberish"),
        ({}, "any value"),
        (True, "any value"),
    ],
)
def test_schema_is_described_in_words(schema: Any, text: str) -> None:
    """The expected type is described in words instead of JSON schema."""
    assert describe_type(schema) == text


def test_walk_omits_validator_branches() -> None:
    """Names of validator branches are omitted from the path to an argument."""
    arguments = {"a": [{"b": 1}], "t": (1,)}
    assert existing_steps(arguments, ["a", "list[int]", 0, "b", "int"]) == ("a", 0, "b")
    assert existing_steps(arguments, ["a", 5, "x"]) == ("a",)
    assert existing_steps(arguments, ["t", 0]) == ("t", 0)


def test_nested_json_strings_are_parsed() -> None:
    """A list or object written as a JSON string is parsed if it is needed, at any depth."""
    arguments = {"a": '[{"b": 1}]', "c": {"d": ("{}", 1)}, "e": "not json", "f": "7"}
    faults = [((name,), "wrong", None) for name in "aef"] + [(("c", "d", 0), "wrong", None)]
    assert repair(arguments, faults, []) == {"a": [{"b": 1}], "c": {"d": [{}, 1]}, "e": "not json", "f": "7"}
    assert arguments["a"] == '[{"b": 1}]'


def test_many_repairs_take_linear_time() -> None:
    """Repairing many invalid values takes time proportional to their number."""
    count = 100_000
    faults = [(("a", index), "wrong", None) for index in range(count)]
    assert repair({"a": ["[1]"] * count}, faults, []) == {"a": [[1]] * count}


def test_copied_arguments_are_independent() -> None:
    """A copy of arguments is deep, but sentinels and objects that cannot be copied are shared."""
    mark, lock = object(), threading.Lock()
    arguments = {"a": {"b": [1]}, "text": "x", "mark": mark, "lock": [lock]}
    copy = copy_arguments(arguments)
    copy["a"]["b"].append(2)
    assert arguments["a"] == {"b": [1]}
    assert (copy["text"], copy["mark"], copy["lock"]) == ("x", mark, [lock])


def test_invalid_null_counts_as_omitted() -> None:
    """An invalid null is dropped from nested objects and for optional parameters, but never from lists."""
    arguments = {"a": None, "b": None, "c": {"d": None, "e": 1}, "f": [None]}
    faults = [(path, "wrong", None) for path in (("a",), ("b",), ("c", "d"), ("f", 0))]
    assert repair(arguments, faults, ["a"]) == {"b": None, "c": {"e": 1}, "f": [None]}


@pytest.mark.parametrize("path", [(), ("a",), ("a", 0), ("missing",), ("deep", "missing")])
def test_unrepairable_arguments_return_none(path: tuple[str | int, ...]) -> None:
    """If no value can be repaired, `repair` returns None."""
    assert repair({"a": [None], "deep": {}}, [(path, "wrong", None)], []) is None
