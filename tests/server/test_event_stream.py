"""Tests for the conversion of run events to page events."""

import json

import pytest

from agentkit.agents.result import RunFinished
from agentkit.content import Image
from agentkit.decisions import Decision, Verdict
from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
    Approved,
    HandedOff,
    HistoryGiven,
    PartialOutput,
    RequestStarted,
    ResponseReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.safety.approval import ApprovalRequest, CallPreview
from agentkit.safety.data_flow import FLOW
from agentkit.safety.policy import BY_LEVEL
from agentkit.server.event_stream import argument_fields, editable, history, page_events, question_event, truncate
from agentkit.sessions.store import SessionEntry

SPOOF = "a\u202eb\u200bc"
ASKS = Decision(Verdict.ASK, "safety-level", "It is SYSTEM.", "rm", "Use safety=.")
CALL = ToolCall("c1", f"tool{SPOOF}", json.dumps({"path": SPOOF, "n": 5}))


def only(event):
    """Return the only page event of an event."""
    (found,) = page_events(event)
    return found


@pytest.mark.for_each(
    ("event", "text"),
    [
        (RunStarted("helper", "Hi"), {"kind": "started", "agent": "helper", "prompt": "Hi"}),
        (RunStarted("helper", ("Look:", Image("data:x"))), {"kind": "started", "prompt": "Look:\n[image]"}),
        (RunResumed("Go on."), {"kind": "resumed", "prompt": "Go on."}),
        (RequestStarted(2), {"kind": "request", "iteration": 2}),
        (TextDelta("wo"), {"kind": "text", "text": "wo"}),
        (
            ResponseReceived(Response(AssistantMessage("word", reasoning="Hm."))),
            {"kind": "message", "reasoning": "Hm."},
        ),
        (AnswerGiven("42"), {"kind": "message", "text": "42"}),
        (AnswerAmended("43"), {"kind": "replaced", "text": "43"}),
        (HandedOff("other"), {"kind": "note", "title": "Handed off to other", "text": ""}),
        (Approved("c1", "once", "", "{}"), {"kind": "answered", "id": "c1", "answer": "once", "edited": True}),
        (ToolCallPostponed(CALL, "Which?"), {"kind": "waiting", "id": "c1", "question": "Which?"}),
        (
            ToolCallPostponed(CALL, "May it?", inner=ToolCall("c1.2", "refund", "{}")),
            {"kind": "waiting", "id": "c1.2", "name": "refund"},
        ),
    ],
)
def test_each_event_is_converted(event, text):
    """An event is converted to its kind, texts and numbers."""
    assert text.items() <= only(event).items()


def test_events_that_are_not_shown_are_ignored():
    """Events that the page does not show are ignored."""
    assert list(page_events(PartialOutput({}))) == []


def test_tool_call_event_contains_the_decision():
    """A tool call event contains the decision, and invisible characters in its name and arguments are escaped."""
    started = only(ToolCallStarted(CALL, ASKS))
    assert started["name"] == "toola\\u{202e}b\\u{200b}c"
    assert started["arguments"] == [["path", "a\\u{202e}b\\u{200b}c"], ["n", "5"]]
    assert started["decision"] == ASKS.to_dict()
    result = only(ToolCallFinished(CALL, ToolResult("tool", "failed", "{}", error="No.", seconds=1.23456)))
    assert (result["ok"], result["content"], result["seconds"], result["decision"]) == (False, "No.", 1.235, None)


@pytest.mark.parametrize("arguments", ["[1]", "{", "[" * 100_000, '"x"'])
def test_arguments_that_are_not_an_object_are_truncated(arguments):
    """Arguments that are not a JSON object are shown as truncated text without a name."""
    ((name, value),) = argument_fields(arguments)
    assert name == ""
    assert arguments.startswith(value[:100])
    assert argument_fields("") == []


def test_question_contains_what_is_needed_to_answer():
    """A question contains the call, its decision and editable JSON with misleading characters escaped."""
    event = question_event(
        7, ApprovalRequest("helper", "fetch_url", {"url": "https://a.example/x", "t": SPOOF}, ASKS, "/w", "c1", "run")
    )
    assert event["within"] == "run"
    assert (event["question"], event["id"], event["name"], event["folder"]) == (7, "c1", "fetch_url", "/w")
    assert event["answers"] == ["once", "run", "always"]
    assert event["like"] == event["always"] == "this call to any address at https://a.example:443"
    assert json.loads(event["json"]) == {"url": "https://a.example/x", "t": SPOOF}
    assert "\u202e" not in event["json"]
    assert event["decision"]["remedy"] == ""


def test_always_applies_to_changes_of_the_file():
    """A question about a change of a file states that an approval for good applies to that file."""
    by_level = Decision(Verdict.ASK, BY_LEVEL, "It changes files.")
    preview = CallPreview(("new file",), "+x", frozenset({"content"}), is_confined=True)
    event = question_event(
        "1", ApprovalRequest("a", "write_file", {"path": "a.txt", "content": "x"}, by_level, preview=preview)
    )
    assert (event["like"], event["always"]) == ("exactly this call", "write_file of 'a.txt'")


def test_calls_that_could_leak_data_are_allowed_once():
    """A call that could leak data can only be allowed once."""
    flow = Decision(Verdict.ASK, FLOW, "It could carry data out.")
    event = question_event(1, ApprovalRequest("helper", "post", {"text": "x"}, flow))
    assert (event["answers"], event["like"]) == (["once"], "exactly this call")


def test_editable_json_decodes_to_the_same_value():
    """Editable JSON decodes to the same value and escapes invisible characters."""
    value = {"a": ["é\U000e0041\n", {"b": "\u2028"}]}
    assert json.loads(editable(value)) == value
    assert editable(value).isprintable() is False  # indented
    assert not set("\U000e0041\u2028") & set(editable(value))


def test_long_text_is_truncated():
    """A long text is truncated with a note of how many characters are missing."""
    assert truncate("x" * 20_000) == "x" * 20_000
    assert truncate("x" * 20_005).endswith("\n[… 5 more characters are not shown …]")


def entries(run, *events):
    """Return the entries of one run."""
    return [SessionEntry(run, 1.0, event) for event in events]


def test_history_groups_events_by_run():
    """Stored runs are returned in the order they started, with secrets in their changes redacted."""
    one = entries(
        "one", RunStarted("helper", "First", 0, "r1"), RunEnded("done", "", "", "+ api_key = sk-" + "a1" * 20)
    )
    two = entries("two", RunStarted("helper", "Second"), RunEnded("failed", "", "No."))
    mixed = [one[0], two[0], one[1], two[1]]
    found = list(history(mixed, [], {"r1": True}))
    assert [each["kind"] for each in found] == ["started", "ended", "started", "ended"]
    assert (found[1]["record"], found[1]["undone"], found[3]["error"]) == ("r1", True, "No.")
    assert "a1a1" not in found[1]["changes"]
    assert list(history(one, [], {}))[1]["record"] == ""


def test_only_resumable_runs_list_pending_calls():
    """A stored paused run lists its pending calls only if it can be resumed."""
    response = ResponseReceived(Response(AssistantMessage("", (ToolCall("c1", "ask_user", "{}"),))))
    postponed = ToolCallPostponed(ToolCall("c1", "ask_user", "{}"), "Which?")
    paused = entries("one", RunStarted("helper", "Hi"), response, postponed, RunEnded("paused"))
    assert list(history(paused, ["one"], {}))[-1]["pending"] == [
        {"id": "c1", "name": "ask_user", "question": "Which?", "needs_text": True}
    ]
    assert list(history(paused, [], {}))[-1]["pending"] == []


def test_given_history_is_converted():
    """Messages given as history are converted to prompts and answers."""
    before = (UserMessage("Hi"), AssistantMessage(""), ToolMessage("c", "t", "x"), AssistantMessage("Hello."))
    assert [(each["kind"], each.get("prompt", each.get("text"))) for each in page_events(HistoryGiven(before))] == [
        ("started", "Hi"),
        ("message", "Hello."),
    ]


def test_last_event_contains_the_result():
    """The last event has the status, error and tokens of the result, and no record without changes."""
    from agentkit import Agent
    from agentkit.testing import ScriptedLLM

    result = Agent("helper", llm=ScriptedLLM("Hello.")).run("Hi")
    ended = only(RunFinished(result))
    assert (ended["status"], ended["error"], ended["record"], ended["tokens"]) == ("done", "", "", 15)
