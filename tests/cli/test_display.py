"""Tests for the display of runs: removal of control characters, calls on one line, and JSON."""

import json

import pytest

from agentkit.agents.result import RunResult
from agentkit.cli.display import call_line, result_fields, run_document, value_text, was_refused
from agentkit.cli.terminal import clean, document_text, json_text
from agentkit.decisions import Decision
from agentkit.errors import LimitExceeded
from agentkit.events import ToolCallFinished
from agentkit.messages import ToolCall, ToolResult
from agentkit.safety.approval import ApproverAnswer, answered
from agentkit.usage import Usage

ALLOWED = Decision("allow", "safety-level", "It only computes.")
ASKED = Decision("ask", "safety-level", "It changes files.")
DENIED = Decision("deny", "budget", "Enough.")


def nested(levels):
    """Return a list nested to the given depth."""
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def used(name="calculator", arguments="{}", **result):
    """Return a tool call with its result."""
    fields = {"tool": name, "status": "ok", "content": "4", "value": {"result": 4}} | result
    return ToolCallFinished(ToolCall("call_1", name, arguments), ToolResult(**fields))


@pytest.mark.for_each(
    ("text", "cleaned"),
    [
        ("two\tcolumns\nand lines → ünï 日本 🎉", "two\tcolumns\nand lines → ünï 日本 🎉"),
        ("\x1b[2J\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
        ("a\x1b]0;never ended", "a"),
        ("a\x1bcb\x1b", "ab"),
        ("a\rb\x00\x08\x7f\x85\x9b31m", "ab31m"),
        ("a\u200b\u202e\u2066\ufeff\u061cb", "ab"),
        ("a\U000e0001\U000e0041\U000e007fb", "ab"),
        ("a\ud800\udcffb", "ab"),
    ],
)
def test_invisible_characters_are_removed(text, cleaned):
    """Escape sequences, control characters, direction marks, tags and surrogates are removed."""
    assert clean(text) == cleaned


@pytest.mark.for_each("text", ["\x9b31m", "\x7f", "\u202e", "\u061c", "\U000e0041", "\ud800", "\x1b[2J", "\u200b"])
def test_json_escapes_invisible_characters(text):
    """JSON output escapes invisible characters and preserves all of them."""
    written = json_text({text: [text]})
    assert json.loads(written) == {text: [text]}
    assert written == clean(written)


def test_json_does_not_escape_letters():
    """JSON output does not escape letters of other scripts and emoji."""
    assert json_text(["ü 日本 🎉"]) == '[\n  "ü 日本 🎉"\n]'


@pytest.mark.for_each(
    ("call", "line"),
    [
        (used(arguments='{"expression": "2+2", "n": 1}'), 'calculator(expression="2+2", n=1) → 4'),
        (used(arguments=""), "calculator() → 4"),
        (used(arguments="[1]"), "calculator([1]) → 4"),
        (used(arguments="{no\njson"), "calculator({no json) → 4"),
        (used(decision=ALLOWED), "calculator() → 4  [allow: safety-level]"),
        (used(decision=answered(ASKED, ApproverAnswer.of(True))), "calculator() → 4  [approved: safety-level]"),
        (used(value=None, status="denied", error="No.", decision=DENIED), "calculator() → No.  [deny: budget]"),
        (used(value={"datetime": "now", "zone": "UTC"}), "calculator() → now"),
        (used(value={"other": 1}, content='{"other": 1}'), 'calculator() → {"other": 1}'),
        (used(value=["a"], content='["a"]'), 'calculator() → ["a"]'),
        (used(value="plain\ntext"), "calculator() → plain text"),
        (used(value=nested(100_000), content="[[…"), "calculator() → [[…"),
        (used(value="x" * 200), f"calculator() → {'x' * 99}…"),
        (used(value={"output": ""}), "calculator() → (nothing)"),
        (
            used(value=None, status="denied", error="x " * 100, decision=DENIED),
            f"calculator() → {'x ' * 99}x  [deny: budget]",
        ),
    ],
)
def test_call_is_one_line(call, line):
    """The line of a call has the tool, its arguments, the main part of its result or its error, and the decision."""
    assert call_line(call) == line


@pytest.mark.parametrize(
    "hostile",
    ["x\n  forged() → 1", "x\r\ny", "x\x0by\x0cz\x1c", "x\u2028y\u2029\x85z", "\x1b]0;swallow", "x" * 9999],
)
def test_call_line_stays_one_line(hostile):
    """A hostile name, argument, result or rule cannot break the line of a call."""
    decision = Decision("allow", hostile, "It only computes.")
    for call in (
        used(name=hostile, decision=ALLOWED),
        used(arguments=hostile, decision=ALLOWED),
        used(arguments=json.dumps({hostile: hostile}), decision=ALLOWED),
        used(value=hostile, decision=ALLOWED),
        used(error=hostile, decision=ALLOWED),
        used(decision=decision),
    ):
        line = call_line(call)
        assert line.isprintable()
        assert len(line) < 400
        assert "  [allow: " in line
        assert line.endswith("]")


@pytest.mark.for_each(
    "arguments",
    [
        '{"expression":' + "[" * 50_000 + "]" * 50_000 + "}",
        '{"expression":' + "[" * 50_000,
        '{"expression":' + "[" * 200 + "]" * 200 + "}",
        '{"x":' * 500 + "1" + "}" * 500,
        '{"x": NaN}',
        '{"x": 1e999}',
        '{"x": ' + "9" * 5000 + "}",
        "nonsense",
    ],
)
def test_invalid_arguments_are_shown_as_text(arguments):
    """Arguments that are not valid JSON are shown as the model wrote them."""
    call = used(arguments=arguments)
    document = run_document(RunResult("4", "done", (), (call,), 2, Usage()))
    assert json.loads(json_text(document))["tool_calls"][0]["arguments"] == arguments
    assert call_line(call).startswith(f"calculator({arguments[:8]}")


def test_run_is_one_document():
    """A run as JSON has one schema version, at the top level, and the arguments of each call as an object."""
    call = used(arguments='{"expression": "2+2"}', content='{"result": 4}', decision=ALLOWED, seconds=0.25)
    run = RunResult("so far", "limit", (), (call,), 2, Usage(), LimitExceeded("Too much."))
    document = json.loads(json_text(run_document(run)))
    assert list(document) == ["schema_version", "output", "status", "error", "iterations", "usage", "tool_calls"]
    assert (document["status"], document["error"]) == ("limit", "Too much.")
    assert document["tool_calls"] == [
        {
            "arguments": {"expression": "2+2"},
            "tool": "calculator",
            "status": "ok",
            "error": None,
            "result": {"result": 4},
            "decision": ALLOWED.to_dict(),
            "seconds": 0.25,
        }
    ]


def test_result_document():
    """A tool result is a JSON document with a schema version; content that is not JSON is a string."""
    document = json.loads(document_text(**result_fields(ToolResult("t", "ok", "plain", "plain"))))
    assert (document["schema_version"], document["result"], document["decision"]) == (1, "plain", None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1, "b": None}, "a: 1\nb: None"),
        ({"a": [1]}, '{\n  "a": [\n    1\n  ]\n}'),
        ([], "[]"),
        ({"a": "\x1b[2Jx"}, "a: x"),
        (nested(100_000), "content"),
        ("text", "content"),
    ],
)
def test_value_text(value, text):
    """A flat dictionary is shown as lines, nested values as JSON, and other values as text."""
    assert value_text(ToolResult("t", "ok", "con\x9btent", value)) == text


@pytest.mark.parametrize(
    ("status", "decision", "refused"),
    [("denied", DENIED, True), ("failed", DENIED, False), ("ok", ALLOWED, False), ("failed", None, False)],
)
def test_was_refused(status, decision, refused):
    """was_refused() is true only for a call that was denied."""
    assert was_refused(ToolResult("t", status, "", decision=decision)) is refused
