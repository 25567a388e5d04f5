"""Tests for the parsing of values that real servers send in different shapes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import BadResponse
from agentkit.llm.protocols import parsing
from agentkit.llm.protocols.anthropic import AnthropicReader
from agentkit.llm.protocols.chat_completions import ChatReader
from agentkit.llm.protocols.gemini import GeminiReader
from agentkit.llm.protocols.responses import ResponsesReader
from agentkit.usage import Usage, unreported

NAMES, DETAILS = ("in", "out"), ("in_details", "out_details")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hi", "Hi"),
        (None, ""),
        (42, ""),
        ({"text": "Hi"}, "Hi"),
        (["H", {"type": "text", "text": "i"}, {"type": "image"}, {"text": None}, None, 7], "Hi"),
    ],
)
def test_text_of_content(content, text):
    """The text of a content is its string, or the joined text of its parts."""
    assert parsing.text_of(content) == text


@pytest.mark.for_each(
    ("content", "text", "thoughts"),
    [
        ("Hi", "Hi", ""),
        (None, "", ""),
        (False, "", ""),
        ({"text": "Hi"}, "Hi", ""),
        ({"type": "output_text", "text": "Hi", "annotations": []}, "Hi", ""),
        ({"type": "image", "image": "x"}, "", ""),
        ({}, "{}", ""),
        ({"text": "Hi", "to": "é"}, '{"text": "Hi", "to": "é"}', ""),
        ({"type": "note"}, '{"type": "note"}', ""),
        (4.5, "4.5", ""),
        (["H", {"type": "thinking", "thinking": "Hm", "signature": "x"}, {"text": "i"}], "Hi", "Hm"),
        ([{"type": "reasoning", "reasoning": "Hm"}, {"type": "reasoning_text", "text": "!"}], "", "Hm!"),
        ([{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm"}]}], "", "Hm"),
        ([{"type": "reasoning", "encrypted": "x"}, {"type": "text", "text": "Hi"}], "Hi", ""),
    ],
)
def test_text_and_reasoning_of_an_answer(content, text, thoughts):
    """Reasoning parts are excluded from the text, and values that are not parts are written as JSON."""
    assert (parsing.answer_text(content), parsing.reasoning_of_parts(content)) == (text, thoughts)


DEEP = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.for_each(
    ("value", "states_date"),
    [
        (None, False),
        ("", False),
        (0, False),
        ([], False),
        ({"a": "", "b": [{}, None], "c": {"d": 0}}, False),
        ("x", True),
        ({"a": "", "b": [{}, {"c": "x"}]}, True),
        (DEEP, True),
    ],
)
def test_has_content_of_nested_values(value, states_date):
    """A value has content if anything nested in it does, or if it is too deep to inspect."""
    assert parsing.has_content(value) is states_date


@pytest.mark.for_each(
    ("arguments", "text"),
    [
        (None, ""),
        ("", ""),
        ("{", "{"),
        ('{"a": 1}', '{"a": 1}'),
        ({"a": "é"}, '{"a": "é"}'),
        ([1], "[1]"),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ('"unclosed', '"unclosed'),
        ('"a" "b"', '"a" "b"'),
        ("\ud83d\ude00", "😀"),
    ],
)
def test_arguments_become_a_string(arguments, text):
    """Arguments are converted to a string, whether a server sends a string, an object, null, or JSON encoded twice."""
    assert parsing.arguments_text(arguments) == text


@pytest.mark.for_each(
    ("arguments", "sent"),
    [
        ("", {}),
        ("  ", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": "😀"}', {"a": "😀"}),
        ("[1]", {"malformed_arguments": "[1]"}),
        ("{", {"malformed_arguments": "{"}),
        ('{"a": NaN}', {"malformed_arguments": '{"a": NaN}'}),
        ("[" * 50_000, {"malformed_arguments": "[" * 50_000}),
        ('{"a": "\ud83d"}', {"a": "\ufffd"}),
    ],
)
def test_sent_arguments_are_a_json_object(arguments, sent):
    """Call arguments are sent back as a JSON object, whatever the model wrote."""
    text = parsing.sendable_arguments(arguments)
    assert json.loads(text) == sent
    text.encode()


@pytest.mark.parametrize(
    ("name", "sent"),
    [("calculator", "calculator"), ("search the web!", "search_the_web_"), ("", "unnamed"), ("x" * 100, "x" * 64)],
)
def test_invalid_tool_name_is_sent_with_valid_characters(name, sent):
    """An invalid tool name that a model invented is sent with valid characters only."""
    assert parsing.sendable_name(name) == sent


@given(st.text(), st.data())
def test_pieces_form_the_text(text, data):
    """A text that is split anywhere, even inside a character, is complete in the end, and each piece is valid."""
    units = text.encode("utf-16-le", "surrogatepass")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(units) // 2), max_size=5)))
    bounds = zip([0, *cuts], [*cuts, len(units) // 2], strict=True)
    pieces = parsing.TextBuffer()
    for start, stop in bounds:
        pieces.add(units[2 * start : 2 * stop].decode("utf-16-le", "surrogatepass")).encode()
    assert str(pieces) == text
    assert bool(pieces) is bool(text)


@pytest.mark.for_each(
    ("figures", "usage"),
    [
        ({"in": 7, "out": 3}, Usage(7, 3, requests=1)),
        (
            {"in": 7, "out": 3, "in_details": {"cached_tokens": 2}, "out_details": {"reasoning_tokens": 1}},
            Usage(7, 3, 2, 1, requests=1),
        ),
        ({"in": 7.0, "out": None, "in_details": None, "out_details": "?"}, Usage(7, 0, requests=1)),
        ({"in": float("inf"), "out": float("nan")}, Usage(requests=1, unreported=1)),
        ({"in": "7", "out": " 3 "}, Usage(7, 3, requests=1)),
        ({"in": "many", "out": -3}, Usage(requests=1, unreported=1)),
        ({"in": True, "out": 10**400}, Usage(requests=1, unreported=1)),
        ({"prompt_tokens": 7, "completion_tokens": 3}, Usage(7, 3, requests=1)),
        ({"input_tokens": 7, "output_tokens": "9" * 5_000}, Usage(7, 0, requests=1)),
        ({"in": None, "out": None}, Usage(requests=1, unreported=1)),
        ({"total": 9}, Usage(requests=1, unreported=1)),
        (None, Usage(requests=1, unreported=1)),
        ("?", Usage(requests=1, unreported=1)),
        # Moonshot and Together; DeepSeek; Mistral; proxies before Anthropic; Perplexity and SGLang
        ({"in": 7, "out": 3, "cached_tokens": 2}, Usage(7, 3, 2, requests=1)),
        ({"in": 7, "out": 3, "prompt_cache_hit_tokens": 2}, Usage(7, 3, 2, requests=1)),
        ({"in": 7, "out": 3, "num_cached_tokens": 2, "in_details": {"cached_tokens": 0}}, Usage(7, 3, 2, requests=1)),
        (
            {"in": 7, "out": 3, "in_details": {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 1}},
            Usage(7, 3, 4, requests=1, written_tokens=1),
        ),
        ({"in": 7, "out": 3, "reasoning_tokens": 2}, Usage(7, 3, 0, 2, requests=1)),
    ],
)
def test_token_counts_become_usage(figures, usage):
    """Valid token counts become the usage; without any, the usage is unreported."""
    assert parsing.usage_of(figures, NAMES, DETAILS) == usage


@pytest.mark.for_each(
    ("figures", "usage"),
    [
        ({"in": 7, "out": 3, "total_tokens": 10}, Usage(7, 3, requests=1)),
        ({"in": 7, "out": 3, "total_tokens": 8}, Usage(7, 3, requests=1)),
        # xAI; Gemini; a server without output tokens
        ({"in": 7, "out": 3, "total_tokens": 15, "out_details": {"reasoning_tokens": 5}}, Usage(7, 8, 0, 5, 1)),
        ({"in": 7, "out": 3, "total_tokens": 15}, Usage(7, 8, requests=1)),
        ({"in": 7, "out": 3, "total_tokens": 15, "in_details": {"cached_tokens": 4}}, Usage(7, 8, 4, requests=1)),
        ({"in": 7, "total_tokens": 15}, Usage(7, 8, requests=1)),
        ({"in": 7, "total_tokens": 15, "out_details": {"reasoning_tokens": 5}}, Usage(7, 8, 0, 5, 1)),
        # a proxy before Anthropic
        (
            {"in": 1, "out": 3, "total_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2},
            Usage(7, 3, 4, requests=1, written_tokens=2),
        ),
        # Moonshot, whose sums are wrong by one
        ({"in": 7, "out": 3, "total_tokens": 11, "out_details": {"reasoning_tokens": 4}}, Usage(7, 3, 0, 4, 1)),
        ({"in": 7, "out": 3, "total_tokens": 11, "out_details": {"audio_tokens": 0}}, Usage(7, 4, requests=1)),
    ],
)
def test_usage_includes_tokens_that_are_not_itemized(figures, usage):
    """Tokens of the total that are not itemized count as output, and cached tokens count as input."""
    assert parsing.usage_of(figures, NAMES, DETAILS) == usage


@pytest.mark.for_each(
    ("reader", "begin", "counted"),
    [
        (
            ChatReader,
            {"choices": [{"index": 0, "delta": {"content": "Hi"}}]},
            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        ),
        (
            ResponsesReader,
            {"type": "response.output_text.delta", "delta": "Hi"},
            {"type": "response.completed", "response": {"usage": {"input_tokens": 7, "output_tokens": 2}}},
        ),
        (
            AnthropicReader,
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
            {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 7, "output_tokens": 2}},
        ),
        (
            GeminiReader,
            {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]},
            {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2}},
        ),
    ],
)
def test_token_counts_of_an_incomplete_stream(reader, begin, counted):
    """A reader reports the token counts that have arrived: at first none, which is an unreported request."""
    reading = reader()
    list(reading.feed(begin))
    assert reading.usage == unreported(1)
    list(reading.feed(counted))
    assert reading.usage == Usage(7, 2, requests=1)


def test_reasoning_is_parsed_from_parts():
    """Reasoning in parts of the content is parsed as text."""
    assert parsing.reasoning_of_parts([{"thinking": "H"}, {"thinking": [{"text": "m"}]}, {"text": "Hi"}, None]) == "Hm"
    assert parsing.reasoning_of_parts("Hi") == ""


def test_deeply_nested_answer_is_rejected():
    """A value nested deeper than Python supports raises BadResponse."""
    value = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(BadResponse, match="nested too deeply"):
        parsing.well_formed_json(value)
