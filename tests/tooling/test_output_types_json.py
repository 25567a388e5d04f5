"""Tests for finding JSON values in an answer."""

from __future__ import annotations

import pytest

from agentkit.tooling.output_types import JSONCandidates, find_json


@pytest.mark.for_each(
    ("text", "values"),
    [
        ('{"a": 1}', [{"a": 1}]),
        ('\ufeff \n{"a": 1}\n', [{"a": 1}]),
        ('```json\n{"a": 1}\n```', [{"a": 1}]),
        ("```\n[1]\n```", [[1]]),
        ('``` {"a": 1}```', [{"a": 1}]),
        ('Here it is: {"a": {"b": 1}}. Good luck!', [{"a": {"b": 1}}]),
        ('Sure!\n```json\n{"a": 1}\n```\nAnd so on.', [{"a": 1}]),
        ("The list:\n  [1, 2]\nas in [3].", [[1, 2]]),
        ('First {"a": 1}, then {"a": 2}.', [{"a": 1}, {"a": 2}]),
        ('{"a": "two\nlines"}', [{"a": "two\nlines"}]),
        ("42", [42]),
        ("null", [None]),
        ('"text"', ["text"]),
        ("Use {name} or {} in the text", [{}]),
        ('Draft: {"a": 1,, }. Answer: {"a": 2}', [{"a": 2}]),
        ("Nothing", []),
        ("", []),
        ("[see] {above}", []),
    ],
)
def test_values_are_found(text, values):
    """Values are found in a fence, after a byte order mark and in text, but not inside each other."""
    found = find_json(text)
    assert (list(found.values), found.error) == (values, None)


def test_only_the_last_values_are_read():
    """Only the last ten JSON values of a text are returned."""
    assert [value["a"] for value in find_json("".join(f'{{"a": {number}}} ' for number in range(30))).values] == [
        *range(20, 30)
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": 1', "The JSON is cut off before its end."),
        (
            'So: {"a": {"b": 1}, c}',
            "The answer is not valid JSON: Expecting property name enclosed in double quotes at c",
        ),
        ("{'a': 1} and [2]", "The answer is not valid JSON: Expecting property name"),
        ('{"a": 1}\n{"b": ', "The JSON is cut off before its end."),
        ("[" * 100_000, "The JSON is nested too deeply."),
        ('{"a": ' + "9" * 5_000 + "}", "A number in the JSON has too many digits."),
    ],
)
def test_invalid_json_is_reported(text, fault):
    """Invalid JSON is reported with its position, and no values inside it are returned."""
    found = find_json(text)
    assert found.values == ()
    assert found.error.startswith(fault)


def test_text_without_json_is_returned():
    """A text without JSON is returned without its code fence."""
    assert find_json("```\n yes \n```") == JSONCandidates("yes")


LONG = 100_000


@pytest.mark.for_each(
    ("text", "values"),
    [
        ('{"a": "' + LONG * r"\"{", []),
        ('{"a": "' + LONG * r"\"{" + '"}', [{"a": LONG * '"{'}]),
        ("So: " + '{"a": "' + LONG * r"\"{", []),
        ("{" * LONG, []),
        ("{a: " * LONG, []),
        ("{a:}" * LONG, []),
        ("{a:}\n" * LONG + '{"a": 1}', [{"a": 1}]),
        ("[\n" * LONG, []),
        ("```" + "a" * LONG, []),
        ("```" + " " * LONG + "a", []),
        ("```\n" * LONG + '{"a": 1}', [{"a": 1}]),
        ("`" * LONG + '{"a": 1}', [{"a": 1}]),
        ('{"a": 1} ' * LONG, [{"a": 1}] * 10),
    ],
    ids=lambda _: "",
)
def test_hostile_text_is_parsed_in_linear_time(text, values):
    """A megabyte of quotes, brackets, fences and errors is parsed in linear time."""
    assert list(find_json(text).values) == values


def test_error_position_in_the_whole_answer():
    """The position of an error is counted from the beginning of the answer."""
    assert "at character 10, near" in find_json("See {a}: {'a': 1}").error
