"""Tests for the events of a run and their descriptions."""

import dataclasses
import json
from multiprocessing import Pipe

import pytest

from agentkit import events
from agentkit.decisions import Decision
from agentkit.events import Event
from agentkit.messages import AssistantMessage, MadeCall, Response, ToolCall, ToolResult, UserMessage
from agentkit.usage import Usage

KINDS = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
KINDS = [kind for kind in KINDS if dataclasses.is_dataclass(kind)]
CALL = ToolCall("a", "look", "{}")
VALUES = {
    "agent": "helper",
    "bound": {"/w/deploy.sh": "file 9f86d081"},
    "prompt": "Hi!",
    "iteration": 1,
    "text": "Hel",
    "index": 0,
    "name": "look",
    "arguments": "{",
    "content": "One more thing.",
    "response": Response(AssistantMessage("Hello.")),
    "call": CALL,
    "decision": None,
    "result": ToolResult("look", "ok", "seen"),
    "history": 2,
    "record": "r1",
    "messages": (UserMessage("before"),),
    "value": {"total": 3},
    "error": "Slow down.",
    "kind": "RateLimited",
    "call_id": "a",
    "answer": "once",
    "question": "May I?",
    "reason": "Too long.",
    "usage": Usage(3, 2, requests=1),
    "limit": "seconds",
    "status": "done",
    "output": "Hello.",
    "changes": "",
    "folder": "/srv/project",
    "inner": CALL,
    "made": (MadeCall(CALL, "ok", 3),),
    "function": "book_trip",
    "version": "2",
    "number": 1,
    "digest": "9f86d081",
    "session": "trip/0001",
    "inner_run": {"agentkit_run": 1, "events": []},
}


@pytest.mark.for_each("kind", KINDS, ids=lambda kind: kind.__name__)
def test_event_is_plain_data(kind):
    """Every event is immutable, compares by value and can be pickled."""
    names = [field.name for field in dataclasses.fields(kind)]
    assert VALUES.keys() >= set(names), "Give each field a value in VALUES, at the top of this file"
    values = {name: VALUES[name] for name in names}
    event = kind(**values)
    assert event == kind(**values)
    here, there = Pipe()
    with here, there:
        here.send(event)
        assert there.recv() == event
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, next(iter(values)), None)


@pytest.mark.for_each("kind", events.STORED_EVENTS.values(), ids=lambda kind: kind.__name__)
def test_event_describes_itself(kind):
    """Every stored event has a title or a tool call, and log fields that are JSON data."""
    decision = Decision("allow", "rule", "A reason.")
    special = {
        events.Summarised: {"messages": 3},
        events.FunctionStarted: {"arguments": {"city": "Hanoi"}},
        events.StepRecorded: {"value": "3"},
    }
    values = VALUES | {"decision": decision} | special.get(kind, {})
    event = kind(**{field.name: values[field.name] for field in dataclasses.fields(kind)})
    description = event.describe()
    assert description.title or description.call
    assert json.loads(json.dumps(dict(description.fields))) == description.fields
    assert all(text is None or isinstance(text, str) for text in description.content.values())


@pytest.mark.for_each(
    ("event", "title", "text", "severity"),
    [
        (events.RunStarted("helper", "Hi"), "Run started", "Hi", "info"),
        (events.RunResumed("More."), "Run resumed", "More.", "info"),
        (events.HistoryGiven((UserMessage("Hi"),)), "Starts with 1 earlier message", "user: Hi", "info"),
        (
            events.RequestFailed("Slow down.", "RateLimited"),
            "Model request failed (RateLimited)",
            "Slow down.",
            "error",
        ),
        (events.Approved("a", "once", "Fine."), "Approval answered: once", "Fine.", "warning"),
        (events.ToolCallFinished(CALL, ToolResult("look", "ok", "seen")), "ok in 0 ms", "seen", "info"),
        (events.ToolCallFinished(CALL, ToolResult("look", "failed", "", error="E")), "failed in 0 ms", "E", "error"),
        (events.ToolCallFinished(CALL, ToolResult("look", "waiting", "")), "waiting in 0 ms", "", "info"),
        (events.ToolCallPostponed(CALL, "Name?"), "waits for an answer", "Name?", "warning"),
        (events.ToolCallPostponed(CALL, "May I?", inner=CALL), "waits for approval", "May I?", "warning"),
        (events.AnswerRefused("Too long."), "Answer rejected", "Too long.", "info"),
        (events.AnswerGiven("42"), "Answer given by a tool", "42", "info"),
        (events.AnswerAmended("42"), "Answer changed by a guardrail", "42", "info"),
        (events.Summarised("Short.", 3), "3 messages summarised", "Short.", "info"),
        (events.HandedOff("expert"), "Handed off to expert", "", "info"),
        (events.LimitReached("cost", "Too high."), "Limit reached: cost", "Too high.", "error"),
        (events.RunLeft(), "Run abandoned", "", "info"),
        (events.RunLeft("ValueError: no"), "Run abandoned", "ValueError: no", "error"),
        (events.RunEnded("done", "42"), "Run ended: done", "42", "info"),
        (events.RunEnded("failed", error="No key."), "Run ended: failed", "No key.", "error"),
        (events.TextDelta("a"), "", "", "debug"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_event_is_described(event, title, text, severity):
    """Each event has the title, text and severity with which consoles, logs and pages render it."""
    description = event.describe()
    assert (description.title, description.text, description.severity) == (title, text, severity)


def test_events_of_different_classes_are_not_equal():
    """Events of different classes with the same fields are not equal."""
    assert events.TextDelta("Hel") != events.ReasoningDelta("Hel")


def test_complete_response_is_converted_to_a_stream():
    """A complete response is converted to its reasoning, text and tool calls, followed by the response."""
    response = Response(AssistantMessage("Hello.", (CALL,), "Greet."))
    items = list(events.response_events(response))
    pieces = [events.ReasoningDelta("Greet."), events.TextDelta("Hello."), events.ToolCallDelta(0, "look", "{}")]
    assert items == [*pieces, events.ResponseReceived(response)]
