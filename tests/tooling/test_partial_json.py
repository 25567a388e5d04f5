"""Tests for the parsing of incomplete JSON."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.tooling.partial_json import PartialJSONParser

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
WHOLE = st.lists(VALUES) | st.dictionaries(st.text(), VALUES)


def grown(*pieces, **options):
    """Return the value known after each piece."""
    growing = PartialJSONParser(**options)
    seen = []
    for piece in pieces:
        growing.feed(piece)
        seen.append(growing.value)
    return seen


def is_part(part, full_text):
    """Return whether a value is a beginning of another."""
    if isinstance(part, dict):
        return isinstance(full_text, dict) and all(
            key in full_text and is_part(inner, full_text[key]) for key, inner in part.items()
        )
    if isinstance(part, list):
        return len(part) <= len(full_text) and all(map(is_part, part, full_text))
    if isinstance(part, str) and isinstance(full_text, str):
        return full_text.startswith(part)
    return part == full_text


@given(WHOLE, st.booleans(), st.lists(st.integers(0, 400), max_size=8))
def test_pieces_give_the_same_value_as_the_whole(value, is_ascii, cuts):
    """However a text is split, its parts return growing values, the last of which is complete."""
    text = json.dumps(value, ensure_ascii=is_ascii)
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    seen = grown(*(text[start:end] for start, end in itertools.pairwise(places)))
    assert seen[-1] == value
    assert all(is_part(part, value) for part in seen if part is not None)


@given(WHOLE)
def test_single_characters_give_the_same_value(value):
    """A text that arrives character by character has the same value."""
    assert grown(*json.dumps(value, indent=1))[-1] == value


@pytest.mark.for_each(
    ("text", "value"),
    [
        ("", None),
        ("Let me see", None),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a": ', {}),
        ('{"a": "', {"a": ""}),
        ('{"a": "x', {"a": "x"}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\u00e', {"a": "x"}),
        ('{"a": "x\\ud83d', {"a": "x"}),
        ('{"a": "x\\ud83d\\', {"a": "x"}),
        ('{"a": "x\\ud83d\\ude0', {"a": "x"}),
        ('{"a": "x\\ud83d\\ude00', {"a": "x😀"}),
        ('{"a": "x\\ud83d!', {"a": "x\ud83d!"}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": tru', {}),
        ('{"a": NaN, "b": null }', None),
        ('{"a": {"b": [1, [2, "c', {"a": {"b": [1, [2, "c"]]}}),
        ('{"a": 1} and {"b": 2}', {"a": 1}),
        ('{"a": 1,}', {"a": 1}),
        ("[1, 2, ]", [1, 2]),
    ],
)
def test_partial_value_of_incomplete_json(text, value):
    """Keys appear with their values, strings grow, and numbers and literals wait until complete."""
    (seen,) = grown(text)
    assert seen == value or str(seen) == "{'a': nan, 'b': None}"


@pytest.mark.for_each(
    ("text", "value"),
    [
        ('{"a": 1, "b": 1; "c": 2}', {"a": 1}),
        ('{"a": yes, "b": 2}', {}),
        ('["a\\q", 2]', ["a"]),
        ('{"a": 1, b: 2}', {"a": 1}),
        ('{"a": 1, "b" 2}', {"a": 1}),
        ('{"a": 1, "b": yes, "c": 3}', {"a": 1}),
        ('{"a": "x\\q", "c": 3}', {"a": "x"}),
        ('{"a": [1}', {"a": [1]}),
        ('{"a": 1, "b": :}', {"a": 1}),
    ],
)
def test_parsing_stops_at_invalid_json(text, value):
    """Parsing stops at invalid JSON, and the value parsed before it is returned."""
    assert grown(text, '{"more": 1}') == [value, value]


def test_brackets_in_text_are_ignored():
    """Brackets in the text around the answer are ignored."""
    assert grown('See {here} and [there]: {"a"', ": 1}")[-1] == {"a": 1}
    assert grown('Of [1] and [2]: {"a": 1}', opening="{") == [{"a": 1}]


def test_returned_value_does_not_change():
    """A returned value does not change when more text is parsed."""
    first, second = grown('{"a": [1, {"b": "c', 'd"}, 2]')
    assert (first, second) == ({"a": [1, {"b": "c"}]}, {"a": [1, {"b": "cd"}, 2]})


def test_nesting_depth_is_limited():
    """Parsing stops at a nesting depth of two hundred."""
    (value,) = grown("[" * 100_000)
    for _ in range(199):
        (value,) = value
    assert value == []
    assert grown('{"a": 1, "b": ' + "[" * 200 + "]" * 200 + "}", ', "c": 2}')[-1]["a"] == 1


def test_too_long_number_stops_parsing():
    """A number with more digits than Python converts stops the parsing."""
    assert grown('{"a": 1, "b": ', "9" * 6_000, ', "c": 3}')[-1] == {"a": 1}


@pytest.mark.parametrize(
    "text", ['{"a": "' + 100_000 * r"\"{" + '"}', "[" + "1," * 100_000 + "1]", "{ " * 100_000, '{"a":' + " " * 200_000]
)
def test_long_text_in_single_characters(text):
    """Hundreds of thousands of single characters are parsed in linear time."""
    growing = PartialJSONParser()
    for character in text:
        growing.feed(character)
    try:
        assert growing.value == json.loads(text)
    except ValueError:
        assert growing.value == {}
