"""Is what happens told to the page as it was, and as nothing but text?"""

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
from agentkit.safety.approval import ApprovalRequest
from agentkit.safety.data_flow import FLOW
from agentkit.server.event_stream import asked, bounded, editable, fields_of, history, page_events
from agentkit.sessions.store import SessionEntry

SPOOF = "a\u202eb\u200bc"
ASKS = Decision(Verdict.ASK, "safety-level", "It is SYSTEM.", "rm", "Use safety=.")
CALL = ToolCall("c1", f"tool{SPOOF}", json.dumps({"path": SPOOF, "n": 5}))


def only(event):
    """The one thing that is told of an event."""
    (found,) = page_events(event)
    return found


@pytest.mark.for_each(
    ("event", "said"),
    [
        (RunStarted("helper", "Hi"), {"kind": "begun", "agent": "helper", "prompt": "Hi"}),
        (RunStarted("helper", ("Look:", Image("data:x"))), {"kind": "begun", "prompt": "Look:\n[image]"}),
        (RunResumed("Go on."), {"kind": "resumed", "prompt": "Go on."}),
        (RequestStarted(2), {"kind": "request", "iteration": 2}),
        (TextDelta("wo"), {"kind": "text", "text": "wo"}),
        (ResponseReceived(Response(AssistantMessage("word", reasoning="Hm."))), {"kind": "said", "reasoning": "Hm."}),
        (AnswerGiven("42"), {"kind": "said", "text": "42"}),
        (AnswerAmended("43"), {"kind": "amended", "text": "43"}),
        (HandedOff("other"), {"kind": "note", "what": "Handed off to other", "words": ""}),
        (Approved("c1", "once", "", "{}"), {"kind": "answered", "id": "c1", "answer": "once", "edited": True}),
        (ToolCallPostponed(CALL, "Which?"), {"kind": "waits", "id": "c1", "question": "Which?"}),
        (
            ToolCallPostponed(CALL, "May it?", inner=ToolCall("c1.2", "refund", "{}")),
            {"kind": "waits", "id": "c1.2", "name": "refund"},
        ),
    ],
)
def test_each_event_is_told(event, said):
    """What happens is told as its kind with its texts and numbers."""
    assert said.items() <= only(event).items()


def test_pieces_that_the_page_does_not_show_are_not_told():
    """What the page has no use for is passed over."""
    assert list(page_events(PartialOutput({}))) == []


def test_a_tool_call_is_told_with_its_judgment():
    """A call is told with its name, readable arguments and the decision; what deceives the eye is made visible."""
    started = only(ToolCallStarted(CALL, ASKS))
    assert started["name"] == "toola\\u{202e}b\\u{200b}c"
    assert started["arguments"] == [["path", "a\\u{202e}b\\u{200b}c"], ["n", "5"]]
    assert started["decision"] == ASKS.to_dict()
    result = only(ToolCallFinished(CALL, ToolResult("tool", "failed", "{}", error="No.", seconds=1.23456)))
    assert (result["ok"], result["content"], result["seconds"], result["decision"]) == (False, "No.", 1.235, None)


@pytest.mark.parametrize("arguments", ["[1]", "{", "[" * 100_000, '"x"'])
def test_arguments_that_are_no_object_are_shown_as_they_are(arguments):
    """What a model wrote in place of arguments is shown, without a name and not at any length."""
    ((name, value),) = fields_of(arguments)
    assert name == ""
    assert arguments.startswith(value[:100])
    assert fields_of("") == []


def test_a_question_has_all_that_is_needed_to_answer_it():
    """A question says who wants what and why; its arguments can be edited, and what would mislead is an escape."""
    said = asked(
        7, ApprovalRequest("helper", "fetch_url", {"url": "https://a.example/x", "t": SPOOF}, ASKS, "/w", "c1", "run")
    )
    assert said["within"] == "run"
    assert (said["question"], said["id"], said["name"], said["folder"]) == (7, "c1", "fetch_url", "/w")
    assert said["answers"] == ["once", "run", "always"]
    assert said["like"] == "any address at https://a.example:443"
    assert json.loads(said["json"]) == {"url": "https://a.example/x", "t": SPOOF}
    assert "\u202e" not in said["json"]
    assert said["decision"]["remedy"] == ""


def test_what_flows_out_is_asked_for_each_time():
    """A call that could carry data out can be allowed once, never for good."""
    flow = Decision(Verdict.ASK, FLOW, "It could carry data out.")
    said = asked(1, ApprovalRequest("helper", "post", {"text": "x"}, flow))
    assert (said["answers"], said["like"]) == (["once"], "exactly this call")


def test_edited_arguments_are_the_same_value():
    """What is shown for editing is JSON of the very value, also with signs beyond the first plane."""
    value = {"a": ["é\U000e0041\n", {"b": "\u2028"}]}
    assert json.loads(editable(value)) == value
    assert editable(value).isprintable() is False  # it is indented
    assert not set("\U000e0041\u2028") & set(editable(value))


def test_what_is_long_is_shown_from_its_beginning():
    """A text that is long for a page is cut, and says how much is missing."""
    assert bounded("x" * 20_000) == "x" * 20_000
    assert bounded("x" * 20_005).endswith("\n[… 5 more characters are not shown …]")


def entries(run, *milestones):
    """Entries of one run."""
    return [SessionEntry(run, 1.0, milestone) for milestone in milestones]


def test_a_kept_conversation_is_told_run_by_run():
    """What is kept is told in the order in which runs began, each to its end, with what it changed and spent."""
    one = entries(
        "one", RunStarted("helper", "First", 0, "r1"), RunEnded("done", "", "", "+ api_key = sk-" + "a1" * 20)
    )
    two = entries("two", RunStarted("helper", "Second"), RunEnded("failed", "", "No."))
    mixed = [one[0], two[0], one[1], two[1]]
    found = list(history(mixed, [], {"r1": True}))
    assert [each["kind"] for each in found] == ["begun", "ended", "begun", "ended"]
    assert (found[1]["record"], found[1]["undone"], found[3]["error"]) == ("r1", True, "No.")
    assert "a1a1" not in found[1]["changes"]
    assert list(history(one, [], {}))[1]["record"] == ""


def test_only_what_still_waits_is_asked_again():
    """A kept run that is paused tells its waiting calls; one that nobody can go on with tells none."""
    response = ResponseReceived(Response(AssistantMessage("", (ToolCall("c1", "ask_user", "{}"),))))
    postponed = ToolCallPostponed(ToolCall("c1", "ask_user", "{}"), "Which?")
    paused = entries("one", RunStarted("helper", "Hi"), response, postponed, RunEnded("paused"))
    assert list(history(paused, ["one"], {}))[-1]["pending"] == [
        {"id": "c1", "name": "ask_user", "question": "Which?", "needs_words": True}
    ]
    assert list(history(paused, [], {}))[-1]["pending"] == []


def test_what_was_said_elsewhere_is_told():
    """Messages that a conversation began with are told as prompts and answers."""
    before = (UserMessage("Hi"), AssistantMessage(""), ToolMessage("c", "t", "x"), AssistantMessage("Hello."))
    assert [(each["kind"], each.get("prompt", each.get("text"))) for each in page_events(HistoryGiven(before))] == [
        ("begun", "Hi"),
        ("said", "Hello."),
    ]


def test_the_end_of_a_run_is_its_result():
    """A result is told with its status, its error, and no record when it changed nothing."""
    from agentkit import Agent
    from agentkit.testing import ScriptedLLM

    result = Agent("helper", llm=ScriptedLLM("Hello.")).run("Hi")
    ended = only(RunFinished(result))
    assert (ended["status"], ended["error"], ended["record"], ended["tokens"]) == ("done", "", "", 15)
