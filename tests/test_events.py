"""What does a run report?"""

import dataclasses
from multiprocessing import Pipe

import pytest

from agentkit import events
from agentkit.events import Event
from agentkit.messages import AssistantMessage, MadeCall, Response, ToolCall, ToolResult, UserMessage
from agentkit.usage import Usage

KINDS = [kind for kind in vars(events).values() if dataclasses.is_dataclass(kind) and issubclass(kind, Event)]
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
    "inner_run": {"agentkit_run": 1, "milestones": []},
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_event_is_plain_data(kind):
    """Every event is an unchangeable record that compares by value and can be sent to another process."""
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


def test_events_are_told_apart_by_kind():
    """Two kinds of events with the same parts are different events."""
    assert events.TextDelta("Hel") != events.ReasoningDelta("Hel")


def test_a_whole_response_is_told_as_a_stream_tells_it():
    """A response that came whole is told in pieces, reasoning first, and then itself."""
    response = Response(AssistantMessage("Hello.", (CALL,), "Greet."))
    told = list(events.streamed(response))
    pieces = [events.ReasoningDelta("Greet."), events.TextDelta("Hello."), events.ToolCallDelta(0, "look", "{}")]
    assert told == [*pieces, events.ResponseReceived(response)]
