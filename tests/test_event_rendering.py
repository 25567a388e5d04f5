"""Tests for the rendering of events: durations, tokens, values, calls and errors."""

import pytest

from agentkit.content import Image
from agentkit.event_rendering import (
    answer_text,
    call_text,
    content_text,
    conversation_text,
    count_text,
    error_text,
    escape_invisible,
    main_text,
    one_line,
    seconds_text,
    suggestion,
    tokens_text,
    truncate,
    value_text,
)
from agentkit.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.usage import Usage

KEY = "sk-abcdefghij0123456789ABCDEFG"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0121, "12 ms"), (0, "0 ms"), (3.44, "3.4 s"), (125, "2 min 05 s"), (3_600, "60 min 00 s")]
)
def test_durations(seconds, text):
    """A duration is formatted in a suitable unit."""
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(1_200, 34, 800, requests=1), "1,200 tokens in (800 cached), 34 out"),
        (Usage(3, 4, requests=2, unreported=1), "3 tokens in, 4 out, 1 request unreported"),
        (Usage(requests=2, unreported=2), "tokens unknown"),
    ],
)
def test_tokens(usage, text):
    """Unknown token counts are shown as such."""
    assert tokens_text(usage) == text


def test_counts():
    """Counts are formatted with singular and plural nouns."""
    assert (count_text(1, "run"), count_text(1_234, "run")) == ("1 run", "1,234 runs")


@pytest.mark.for_each("trick", ["\x1b[2J", "\x07", "\u202e", "\u200b", "\ud800", "\U000e0041", "\x9b", "\r", "\u3164"])
def test_invisible_characters_are_escaped(trick):
    """Escape sequences, direction marks, zero-width characters and surrogates are escaped."""
    assert escape_invisible(f"a{trick}b") == f"a\\u{{{ord(trick[0]):x}}}{trick[1:]}b"
    assert escape_invisible("plain ü, 茶 and a\ttab\n") == "plain ü, 茶 and a\ttab\n"


def test_text_is_shortened_to_one_line():
    """A text is shortened to one line after secrets are redacted."""
    assert one_line(f"one\n  two\t\x1b {KEY}") == r"one two \u{1b} [redacted: API key]"
    assert one_line(f"{'x' * 100} {KEY}") == f"{'x' * 100} [redacte…"
    assert one_line("abcdef", 4) == "abc…"


@pytest.mark.parametrize(
    ("value", "text"), [("ü", "ü"), ({"a": ["ü", 1]}, '{"a": ["ü", 1]}'), (None, "null"), ({"a": 1j}, '{"a": "1j"}')]
)
def test_value_is_shown_as_json(value, text):
    """A string is shown unchanged and any other value as JSON, with unsupported values as strings."""
    assert value_text(value) == text


def test_long_text_is_truncated():
    """A long text is truncated to the maximum length with an ellipsis."""
    assert [truncate("abcd", most) for most in (5, 4, 3, 1)] == ["abcd", "abcd", "ab…", "…"]


def test_call_is_shown_with_its_arguments():
    """A call is shown with its arguments, and secret ones are redacted."""
    assert call_text(ToolCall("1", "log_in", '{"user": "ann", "password": "tulip-9"}')) == (
        'log_in({"user": "ann", "password": "[redacted: secret]"})'
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [({"expression": "1+1", "result": 2}, "2"), ({"a": 1}, "said"), ("text", "text"), ([1], "said"), (None, "said")],
)
def test_answer_of_a_result_is_returned(value, expected):
    """A string value or the answering part of a known result is returned, otherwise the content."""
    assert main_text(ToolResult("t", "ok", "said", value)) == expected


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (UserMessage("Hi\nthere"), "user: Hi\n    there"),
        (SystemMessage("Be brief."), "system: Be brief."),
        (AssistantMessage("", (ToolCall("c1", "look", "{}"),)), "  calls: look({})"),
        (AssistantMessage("It is 42."), "assistant: It is 42."),
        (ToolMessage("c1", "look", "seen"), "  look: seen"),
        (ToolMessage("c1", "look", "x" * 1_001), f"  look: {'x' * 1_000} … (1001 characters)"),
    ],
)
def test_messages_are_rendered_after_their_authors(message, text):
    """Each message follows its author; long results are truncated."""
    assert conversation_text([message]) == text


@pytest.mark.parametrize(("value", "text"), [(None, ""), ("said", "said"), (42, "42")])
def test_answer_of_a_run_as_text(value, text):
    """Any answer is rendered as text, and a missing one as the empty text."""
    assert answer_text(value) == text


def test_error_is_shown_with_its_class():
    """An error is shown with its class name and its message, if any."""
    assert error_text(ValueError("no such city")) == "ValueError: no such city"
    assert error_text(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_prompt_is_shown_as_text():
    """The content of a prompt is shown as text with a placeholder for each image."""
    assert content_text("Look!") == "Look!"
    assert content_text(("Look:", Image("https://example.org/cat.png"))) == "Look: [image]"
    assert content_text(("Look:", Image("https://example.org/cat.png")), "\n") == "Look:\n[image]"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("calculater", " Did you mean 'calculator'?"), ("weather", ""), ("calculator" * 10_000, ""), ("", "")],
)
def test_similar_name_is_suggested(name, hint):
    """A similar name is suggested, and no suggestion is made for other names."""
    assert suggestion(name, ["calculator", "get_current_datetime"]) == hint
