"""Tests for tool arguments that are written as text and parsed again."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentkit.llm.prompted_tools.parser import AnswerReader
from agentkit.llm.prompted_tools.text_format import arguments_of, input_of, read_json
from agentkit.messages import ToolSpec

TEXT = {"type": "string"}
ONE = ToolSpec("one", "", {"type": "object", "properties": {"text": TEXT}, "required": ["text"]})
TWO = ToolSpec("two", "", {"type": "object", "properties": {"a": TEXT, "b": {}}, "required": ["a", "b"]})
NONE = ToolSpec("none", "", {"type": "object"})

HOSTILE = st.text() | st.lists(
    st.sampled_from(["<TOOL: one>", "</TOOL>", "<RESULT: one>", "&lt;", "\n", "```", '"', "text: ", "{", "}", "x", "'"])
).map("".join)


@given(HOSTILE)
@example("text: 2")
@example(" indented\n  more")
@example("</TOOL>")
def test_single_string_argument(text):
    """Any string is the same after it was written into a call and parsed; most are written unchanged."""
    arguments = json.dumps({"text": text})
    written = f"<TOOL: one>{input_of(arguments, ONE)}</TOOL>"
    reader = AnswerReader([ONE])
    reader.feed(written)
    reader.finish()
    assert [json.loads(call.arguments) for call in reader.calls] == [{"text": text}]
    assert reader.text == ""


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=5,
)


@given(HOSTILE, JSON_VALUES)
def test_several_arguments(text, value):
    """Several arguments of any type are the same after they were written and parsed."""
    reader = AnswerReader([TWO])
    reader.feed(f"<TOOL: two>{input_of(json.dumps({'a': text, 'b': value}), TWO)}</TOOL>")
    reader.finish()
    assert [json.loads(call.arguments) for call in reader.calls] == [{"a": text, "b": value}]


@pytest.mark.for_each(
    ("arguments", "spec", "written"),
    [
        ('{"text": "2+2"}', ONE, "2+2"),
        ('{"text": "a\\nb"}', ONE, "a\nb"),
        ('{"text": ""}', ONE, '{"text": ""}'),
        ('{"text": "text: 2"}', ONE, '{"text": "text: 2"}'),
        ('{"text": "</TOOL>"}', ONE, '{"text": "\\u003c/TOOL>"}'),
        ('{"text": 3}', ONE, '{"text": 3}'),
        ('{"a": "x", "b": "y"}', TWO, '{"a": "x", "b": "y"}'),
        ("{}", NONE, ""),
        ("", NONE, ""),
        ('{"input": "nail"}', None, "nail"),
        ('{"nail": 1}', None, '{"nail": 1}'),
        ("no </TOOL> JSON", ONE, "no \u2039/TOOL> JSON"),
        ("[1]", ONE, "[1]"),
    ],
)
def test_calls_in_the_history(arguments, spec, written):
    """A call is written as its plain text if that is sufficient, and as JSON otherwise."""
    assert input_of(arguments, spec) == written


@given(HOSTILE)
def test_any_input_becomes_arguments(text):
    """Any input of a model is converted to a string of arguments."""
    for spec in (ONE, TWO, NONE, None):
        assert isinstance(arguments_of(text, spec), str)


@pytest.mark.parametrize("text", ["{" * 50_000, "[" * 50_000, '{"a":' * 50_000, "{'a': " + "9" * 50_000 + "}"])
def test_input_nested_too_deeply_is_returned_as_text(text):
    """JSON with too many levels, or with too long a number, is returned as text."""
    assert arguments_of(text, TWO) == text


@given(JSON_VALUES)
def test_valid_json_is_parsed_unchanged(value):
    """Valid JSON is parsed without a repair."""
    assert read_json(json.dumps(value)) == value


def test_lone_surrogates_are_joined_or_replaced():
    """Arguments with a lone surrogate can be sent."""
    assert arguments_of('{"a": "\\ud83d", "b": 1}', TWO).encode()
