"""Tests for JSON with deviations, such as comments, trailing commas and Python literals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentkit.tooling.coercion import read_json


@pytest.mark.for_each(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": "two\nlines\tand more"}', {"a": "two\nlines\tand more"}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2, ], }', {"a": [1, 2]}),
        ("{'a': 'b'}", {"a": "b"}),
        ("{'a': True, 'b': [False, None]}", {"a": True, "b": [False, None]}),
        ("{'a': (1, ('x',))}", {"a": [1, ["x"]]}),
        ("""{'it\\'s': 'say "no"', "True": "None, (1,)"}""", {"it's": 'say "no"', "True": "None, (1,)"}),
        ("{'a': 'C:\\\\new\\n'}", {"a": "C:\\new\n"}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("  ```\n[1]```\n", [1]),
        ("```json\n{'a': 1}\n```", {"a": 1}),
        ('{a: 1, b-c: "d: e", 7: [{$f: "//g"}]}', {"a": 1, "b-c": "d: e", "7": [{"$f": "//g"}]}),
        ('{"a": 1, // the first\n "b": /* the second */ 2}', {"a": 1, "b": 2}),
    ],
)
def test_almost_valid_json_is_read(text: str, value: Any) -> None:
    """Line breaks in strings, code fences, trailing commas and Python literals are accepted."""
    assert read_json(text) == value


@pytest.mark.for_each(
    "text",
    [
        '{"a": 1',
        '{"a": "cut off',
        "{'a': 'cut",
        "hello",
        "'a'",
        "{a: b}",
        "{a: 1: 2}",
        '{"a": 12:30}',
        '{"a": 1 // never ends',
        '{"a": 1} {"a": 2}',
        "{'a': Truer}",
        "```\nx\n```",
    ],
)
def test_incomplete_json_is_rejected(text: str) -> None:
    """Incomplete or contradictory JSON raises the same error as `json.loads`."""
    with pytest.raises(json.JSONDecodeError) as caught:
        read_json(text)
    with pytest.raises(json.JSONDecodeError) as wanted:
        json.loads(text, strict=False)
    assert str(caught.value) == str(wanted.value)


def test_long_invalid_json_is_rejected_quickly() -> None:
    """Long invalid JSON is rejected in time proportional to its length."""
    for text in ("{" + "'" * 200_001, "{" + "," * 200_000, "```\n" * 60_000, "{'" + "\\" * 200_001):
        with pytest.raises(json.JSONDecodeError):
            read_json(text)


@pytest.mark.for_each(
    "text",
    [
        "```json\n" + "\n" * 100_000 + "x",
        "```json\n" + "``\n" * 100_000 + "x",
        '{"' + '\\"' * 100_000,
        "{'" + "\\'" * 100_000,
        "{'" + "\\'" * 100_000 + "\\",
        "{" + ", " * 100_000,
        "{" + "$" * 200_000,
        "{" + "a-" * 100_000,
        "{" + "a " * 100_000,
        "{" + "/*" * 100_000,
        "{" + "//" * 100_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_is_rejected_quickly(text: str) -> None:
    """Hostile text is rejected in linear time."""
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|Invalid"):
        read_json(text)
