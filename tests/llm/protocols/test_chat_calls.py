"""Tests for assembling tool calls from their pieces."""

import json

import pytest

from agentkit.llm.protocols.chat_completions import CallChunks, calls_in, read_call


def piece(arguments=None, name=None, call_id=None, index=None):
    """Return a piece of a call with only the given fields."""
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    return {**{key: value for key, value in {"id": call_id, "index": index}.items() if value is not None}, **function}


def read(*pieces):
    """Return the names and arguments of the calls in these pieces."""
    calls = CallChunks()
    for each in pieces:
        calls.feed([each])
    return [(call.name, call.arguments) for call in calls.assembled()]


ONE, TWO = ("f", '{"x": 1}'), ("f", '{"x": 2}')

PIECES = {
    "one whole call twice": ([piece(ONE[1], "f", "a", 0)] * 2, [ONE]),
    "one whole call twice, without index": ([piece(ONE[1], "f", "a")] * 2, [ONE]),
    "two equal calls": ([piece(ONE[1], "f", "a", 0), piece(ONE[1], "f", "b", 0)], [ONE, ONE]),
    "two equal calls, without ids": ([piece(ONE[1], "f", index=0)] * 2, [ONE, ONE]),
    "two calls of one id": ([piece(ONE[1], "f", "a", 0), piece(TWO[1], "f", "a", 0)], [ONE, TWO]),
    "equal pieces, with their id": ([piece("[1", "f", "a", 0), piece("[1", "f", "a", 0)], [("f", "[1[1")]),
    "calls that begin empty, of one index and without ids": (
        [piece("", "f", index=0), piece(ONE[1], index=0), piece("", "f", index=0), piece(TWO[1], index=0)],
        [ONE, TWO],
    ),
    "one name in each piece, and an empty piece last": (
        [piece("", "f", index=0), piece(ONE[1], "f", index=0), piece("", "f", index=0)],
        [ONE],
    ),
    "an empty object first": ([piece("{}", "f", "a", 0), piece(ONE[1], index=0)], [ONE]),
    "an empty object first, and id and name in each piece": (
        [piece("{}", "f", "a", 0), piece(ONE[1][:4], "f", "a", 0), piece(ONE[1][4:], "f", "a", 0)],
        [ONE],
    ),
    "calls without arguments": ([piece("{}", "f", "a", 0), piece("{}", "f", "b", 0)], [("f", "{}"), ("f", "{}")]),
    "null for missing": ([piece("null", "f", "a", 0)], [("f", "")]),
    "an object": ([piece({"x": 1}, "f", "a", 0)], [ONE]),
}


@pytest.mark.for_each(("pieces", "expected"), PIECES.values(), ids=PIECES)
def test_each_call_is_assembled_once(pieces, expected):
    """Each call is assembled exactly once, however its pieces are identified."""
    assert read(*pieces) == expected


@pytest.mark.parametrize("older", [{"function_call": {"name": "f"}}, {"tool_calls": {"function": {"name": "f"}}}])
def test_legacy_call_is_parsed(older):
    """A call in the legacy format, or outside of a list, is parsed as a call."""
    (found,) = calls_in(older)
    assert read_call(found).name == "f"


def test_arguments_preserve_their_original_text():
    """The arguments of a call preserve their original text and whitespace."""
    written = json.dumps({"x": [1, {"y": "é"}]}, indent=1, ensure_ascii=False)
    assert read(*(piece(letter, "f" if not index else None, index=0) for index, letter in enumerate(written))) == [
        ("f", written)
    ]
