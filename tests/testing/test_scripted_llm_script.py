"""Tests for the lines of a script and their order."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, strategies

from agentkit.messages import AssistantMessage, Response, ToolCall
from agentkit.testing import LINE_USAGE, ScriptError, call, say
from agentkit.testing.scripted_llm import Script, describe, resolve, split_words, to_response, with_call_ids
from agentkit.usage import Usage


def _script(*lines, repeat=False):
    return Script(lines, str, repeat=repeat)


@pytest.mark.parametrize(
    ("made", "arguments"),
    [
        (call("clock"), {}),
        (call("calculator", expression="2+2"), {"expression": "2+2"}),
        (call("calculator", {"expression": "2+2"}), {"expression": "2+2"}),
        (call("find", {"a": 1}, b=[None, "đ"]), {"a": 1, "b": [None, "đ"]}),
        (call("find", name="x", arguments="y"), {"name": "x", "arguments": "y"}),
    ],
)
def test_call_accepts_keywords_or_a_dictionary(made, arguments):
    """Arguments can be passed by name, as a dictionary or both, under any name."""
    assert json.loads(made.arguments) == arguments
    assert made.id == ""


@pytest.mark.parametrize("text", ["", "null", '{"expression": "2+', "[1]"])
def test_call_accepts_a_string_verbatim(text):
    """Arguments given as a string are sent verbatim, so that invalid JSON can be scripted."""
    assert call("calculator", text).arguments == text


def test_call_rejects_a_string_with_keywords():
    """A string cannot be combined with arguments by name."""
    with pytest.raises(TypeError, match="not both"):
        call("calculator", "{}", expression="2+2")


def test_call_rejects_positional_arguments():
    """A positional argument of `call` raises an error that shows the keyword form."""
    with pytest.raises(TypeError, match=r'call\("roll", name=value\). Got 3'):
        call("roll", 3)


def test_say_returns_a_response():
    """`say` accepts text, calls, reasoning, usage, finish reason and model."""
    clock = call("clock")
    line = say("Wait", clock, reasoning="Which day?", usage=Usage(1, 2, requests=1), model="gpt")
    message = AssistantMessage("Wait", (clock,), "Which day?")
    assert line == Response(message, "tool_calls", Usage(1, 2, requests=1), "gpt")


def test_say_without_usage_counts_the_request_as_unreported():
    """`usage=None` simulates a server that does not report usage."""
    assert say("Hi", usage=None).usage == Usage(requests=1, unreported=1)


@pytest.mark.for_each(
    ("line", "text", "names", "finish_reason"),
    [
        ("Hello", "Hello", [], "stop"),
        ("", "", [], "stop"),
        (call("clock"), "", ["clock"], "tool_calls"),
        ([call("a"), call("b")], "", ["a", "b"], "tool_calls"),
        ((call("a"),), "", ["a"], "tool_calls"),
        (AssistantMessage("Hi"), "Hi", [], "stop"),
        (AssistantMessage("", (call("a"),)), "", ["a"], "tool_calls"),
        (say("Hi", finish_reason="length"), "Hi", [], "length"),
    ],
)
def test_line_is_converted_to_a_response(line, text, names, finish_reason):
    """A string, a call, several calls, a message and a response are valid lines."""
    response = to_response(line)
    assert (response.text, [entry.name for entry in response.tool_calls]) == (text, names)
    assert (response.finish_reason, response.usage) == (finish_reason, LINE_USAGE)


@pytest.mark.parametrize("line", [None, 7, b"bytes", [], [call("a"), "text"], {"role": "assistant"}, str])
def test_invalid_line_raises_an_error(line):
    """An invalid line raises an error that lists the valid kinds."""
    with pytest.raises(TypeError, match="is not a valid script line"):
        to_response(line)


def test_calls_without_an_id_get_one():
    """Ids depend on the request and the position; explicit ids are preserved."""
    response = with_call_ids(say("", call("a"), ToolCall("mine", "b", "{}"), call("c")), 3)
    assert [entry.id for entry in response.tool_calls] == ["call_3_1", "mine", "call_3_3"]


@given(strategies.text())
def test_pieces_form_the_text(text):
    """The streamed pieces of any text add up to the text, and none of them is empty."""
    assert "".join(split_words(text)) == text
    assert all(split_words(text))


def test_pieces_are_words():
    """A text is streamed word by word, each with the space after it."""
    assert split_words("Hello there,\n you") == ["Hello ", "there,\n ", "you"]


def test_function_may_return_a_function():
    """A function may return another function, which is called for the line."""
    assert resolve(lambda request: lambda again: f"{request} {again}", "x") == "x x"


@pytest.mark.for_each(
    ("line", "shown"),
    [
        (say("Hi"), "'Hi'"),
        (say(""), "''"),
        (say("", call("a", x=1)), 'a({"x": 1})'),
        (say("Hi", call("a"), call("b")), "'Hi', a({}), b({})"),
        (ValueError("no"), "ValueError('no')"),
        (say, "say(request)"),
        (lambda _: "x", "<lambda>(request)"),
        (say("x" * 200), "'" + "x" * 98 + "…"),
    ],
)
def test_line_is_described_in_errors(line, shown):
    """Errors show lines in the notation of the script."""
    assert describe(line) == shown


def test_lines_are_returned_in_order():
    """Each request is recorded and receives the next line and its number."""
    script = _script("a", "b")
    assert [script.take("x"), script.take("y")] == [(1, "a"), (2, "b")]
    assert script.requests == ["x", "y"]
    script.done()


def test_request_without_a_line_shows_the_script():
    """A request without a remaining line raises an error that shows the request and the script."""
    script = _script(say("Hello"))
    script.take("one")
    with pytest.raises(ScriptError) as caught:
        script.take("What else?")
    assert str(caught.value) == ("The script has no line for request 2; it has 1.\n  asked: What else?\n  1. 'Hello'")


def test_empty_script_raises_on_the_first_request():
    """A script without lines fails on the first request."""
    with pytest.raises(ScriptError, match=r"the script is empty"):
        _script().take("x")


def test_long_script_is_shown_in_part():
    """An error shows at most ten lines of a script and counts the rest."""
    script = Script([f"line {number}" for number in range(30)], str)
    with pytest.raises(ScriptError, match=r"10\. 'line 9'\n  … and 20 more$"):
        script.done()


def test_unused_lines_are_shown():
    """`done` fails on unused lines and shows them with their numbers."""
    script = _script(say("a"), say("b"), say("c"))
    script.take("x")
    with pytest.raises(ScriptError) as caught:
        script.done()
    assert str(caught.value) == "Only 1 of the script's 3 lines were used. Unused:\n  2. 'b'\n  3. 'c'"


def test_last_line_is_repeated():
    """With `repeat` the last line is used for all further requests."""
    script = _script("a", "b", repeat=True)
    assert [script.take("x")[1] for _ in range(5)] == ["a", "b", "b", "b", "b"]


def test_repeating_requires_a_line():
    """`repeat` requires a line."""
    with pytest.raises(ValueError, match="no line to repeat"):
        _script(repeat=True)


def test_threads_share_a_script():
    """Each line is used once across threads, and the n-th recorded request got the n-th line."""
    script = _script(*range(500))
    with ThreadPoolExecutor(8) as pool:
        items = list(pool.map(lambda request: (request, script.take(request)), map(str, range(500))))
    assert sorted(line for _, (_, line) in items) == list(range(500))
    assert all(script.requests[number - 1] == question and line == number - 1 for question, (number, line) in items)
    script.done()
