"""Tests for the encoding of stored events and messages."""

import json
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit import content, events, messages
from agentkit.decisions import Decision, Label, SafetyLevel, Verdict
from agentkit.errors import SessionError
from agentkit.events import STORED_EVENTS, StoredEvent
from agentkit.sessions.codec import (
    decode,
    decode_entry,
    decode_message,
    decode_part,
    encode,
    encode_entry,
    encode_part,
    from_line,
    to_line,
)
from agentkit.sessions.store import SessionEntry
from agentkit.usage import Usage

MODULES_OF_TYPES = (events, messages)
texts = st.text(st.characters(), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, json_values, max_size=3)
labels = st.frozensets(st.sampled_from(Label))
counts = st.integers(0, 10**12)
seconds = st.floats(0, 1e9)
usages = st.builds(Usage, counts, counts, counts, counts, counts, counts)
decisions = st.builds(
    Decision,
    st.sampled_from(Verdict),
    texts,
    texts,
    texts,
    texts,
    st.none() | st.sampled_from(SafetyLevel),
    st.booleans(),
)
calls = st.builds(messages.ToolCall, texts, texts, texts, objects)
statuses = st.sampled_from(messages.Status.__args__)
results = st.builds(
    messages.ToolResult,
    texts,
    statuses,
    texts,
    st.none(),
    error=st.none() | texts,
    decision=st.none() | decisions,
    seconds=seconds,
    labels=labels,
    full_content=st.none() | texts,
)
files = st.builds(content.File, texts.map("data:".__add__), st.sampled_from(["", "a.pdf"]))
images = st.builds(content.Image, texts.map("data:".__add__), st.sampled_from([None, "auto", "low", "high"]))
contents = texts | st.lists(texts | images | files, max_size=3).map(tuple)
assistants = st.builds(messages.AssistantMessage, texts, st.lists(calls, max_size=2).map(tuple), texts, objects, texts)
said = st.one_of(
    st.builds(messages.SystemMessage, texts),
    st.builds(messages.UserMessage, contents),
    assistants,
    st.builds(
        messages.ToolMessage,
        texts,
        texts,
        texts,
        labels,
        images=st.lists(images, max_size=1).map(tuple),
        files=st.lists(files, max_size=1).map(tuple),
    ),
)
responses = st.builds(
    messages.Response, assistants, st.sampled_from(messages.FinishReason.__args__), usages, texts, st.just({})
)
stored_events = st.one_of(
    st.builds(events.RunStarted, texts, contents, counts, texts),
    st.builds(events.HistoryGiven, st.lists(said, max_size=4).map(tuple)),
    st.builds(events.RunResumed),
    st.builds(events.ResponseReceived, responses),
    st.builds(events.RequestFailed, texts, texts),
    st.builds(events.Approved, texts, texts, arguments=st.none() | texts),
    st.builds(events.ToolCallStarted, calls, decisions),
    st.builds(events.ToolCallFinished, calls, results),
    st.builds(events.ToolCallPostponed, calls, texts, st.none() | decisions),
    st.builds(events.AnswerRefused, texts),
    st.builds(events.AnswerGiven, texts),
    st.builds(events.AnswerAmended, texts),
    st.builds(events.Summarised, texts, counts, usages),
    st.builds(events.HandedOff, texts),
    st.builds(events.LimitReached, texts, texts),
    st.builds(events.RunEnded, st.sampled_from(events.RunStatus.__args__), texts, texts, texts),
)


@given(stored_events)
@settings(max_examples=300)
def test_event_round_trip(event):
    """A stored event survives an encoding round trip, whatever strings it contains."""
    assert decode(encode(event)) == event


@given(stored_events)
@settings(max_examples=200)
def test_lines_round_trip(event):
    """A stored event is encoded as one line of UTF-8 and decoded from it; lone surrogates may be joined."""
    line = to_line(encode(event)).encode()
    assert b"\n" not in line
    back = decode(from_line(line))
    assert to_line(encode(back)).encode().decode() == to_line(json.loads(line))


@given(said)
@settings(max_examples=100)
def test_messages_round_trip(message):
    """A message is encoded under its role and decoded again."""
    assert decode_message(encode_part(message)) == message


def kinds(root=StoredEvent):
    """Return all classes of stored events."""
    return {kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, root)} - {root}


@pytest.mark.for_each("kind", sorted(kinds(), key=lambda kind: kind.__name__))
def test_every_event_type_is_registered(kind):
    """Every stored event type is registered, and none has a field named like a reserved key."""
    assert not {"event", "run", "at"}.intersection(field.name for field in fields(kind))
    assert kind in STORED_EVENTS.values()
    blank = kind(*[SAMPLES.get(field.type, "x") for field in fields(kind)])
    assert type(decode(json.loads(to_line(encode(blank))))) is kind


CALL = messages.ToolCall("call_1", "calculator", '{"expression": "1+1"}')
SAMPLES = {
    "Literal['done', 'failed', 'asks', 'sleeps']": "done",
    "int": 1,
    "tuple[Message, ...]": (messages.UserMessage("Hi"),),
    "Response": messages.Response(messages.AssistantMessage("Hello", (CALL,)), raw={"id": 1}),
    "ToolCall": CALL,
    "ToolCall | None": CALL,
    "tuple[MadeCall, ...]": (messages.MadeCall(CALL, "ok", [2, {"a": None}], labels=frozenset({Label.PRIVATE})),),
    "Decision": Decision(Verdict.ASK, "rule", "why", level=SafetyLevel.SYSTEM, egress=True),
    "Decision | None": None,
    "ToolResult": messages.ToolResult("calculator", "ok", "2", value=object()),
    "RunStatus": "done",
    "Usage": Usage(1),
    "Mapping[str, Any]": {"run": "r", "history": []},
    "Mapping[str, str]": {"/w/deploy.sh": "/w/deploy.sh sha256:00"},
}


def test_raw_response_and_tool_value_are_not_stored():
    """A response's raw JSON and a tool result's value are not stored."""
    response = messages.Response(messages.AssistantMessage("Hello"), raw={"id": 1})
    result = messages.ToolResult("clock", "ok", "12:00", value=object())
    assert decode_part(messages.Response, encode_part(response)).raw == {}
    assert decode_part(messages.ToolResult, encode_part(result)).value is None


def test_defaults_are_omitted():
    """Fields with their default value are not written."""
    assert encode(events.RunEnded("done")) == {"event": "run_ended", "status": "done"}
    assert encode_part(messages.UserMessage("Hi")) == {"role": "user", "content": "Hi"}


def test_decision_round_trip():
    """A decision survives a round trip with its level and egress flag."""
    decision = Decision(Verdict.ASK, "rule", "why", "rm", "ls", SafetyLevel.SYSTEM, egress=True)
    data = encode_part(decision)
    assert data["verdict"] == "ask"
    assert data["level"] == "SYSTEM"
    assert decode_part(Decision, data) == decision


def test_unknown_keys_are_ignored():
    """An unknown key is ignored."""
    data = {"event": "run_ended", "status": "done", "mood": "good"}
    assert decode(data) == events.RunEnded("done")


def test_non_ascii_letters_are_not_escaped():
    """A line contains letters of all languages unescaped, unless it has a lone surrogate."""
    assert "Hà Nội" in to_line({"text": "Hà Nội"})
    assert from_line(to_line({"text": "Hà \ud83d"})) == {"text": "Hà \ud83d"}
    assert from_line(to_line({"text": "\ud83d\ude00"})) == {"text": "😀"}


def test_enum_members_become_plain_strings():
    """Enum members are encoded as plain strings."""
    assert encode_part(Label.PRIVATE) == "private"
    assert encode_part(SafetyLevel.NETWORK) == "NETWORK"
    assert encode_part([Verdict.ASK]) == ["ask"]


@pytest.mark.parametrize("value", [object(), b"bytes"])
def test_non_json_value_is_rejected(value):
    """A value that is not JSON raises a SessionError."""
    with pytest.raises(SessionError, match="not JSON"):
        encode_part(value)
    with pytest.raises(SessionError, match="not JSON"):
        to_line({"value": value})


def test_deeply_nested_json_is_rejected():
    """Deeply nested JSON raises a SessionError when encoding and when decoding."""
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SessionError):
        to_line({"deep": deep})
    with pytest.raises(SessionError):
        from_line("[" * 100_000)


CHAT = {"role": "user", "content": "Hi"}
DAMAGED = [
    (None, "no event name"),
    ({"status": "done"}, "no event name"),
    ({"event": 1}, "no event name"),
    ({"event": "run_flown", "status": "done"}, "'run_flown' is unknown. Update"),
    ({"event": "run_ended"}, "RunEnded lacks 'status'"),
    ({"event": "run_ended", "status": "flown"}, "'flown' should be one of done, paused"),
    ({"event": "run_ended", "status": ["done"]}, "should be one of"),
    ({"event": "run_ended", "status": "done", "output": 1}, "1 should be of type str"),
    ({"event": "run_started", "agent": "a", "prompt": 1}, "1 has the wrong type"),
    ({"event": "run_started", "agent": "a", "prompt": "b", "history": True}, "True should be of type int"),
    ({"event": "history_given", "messages": "none"}, "should be a list"),
    ({"event": "history_given", "messages": [{**CHAT, "role": "oracle"}]}, "has the wrong type"),
    ({"event": "history_given", "messages": [CHAT, "Hi"]}, "has the wrong type"),
    ({"event": "tool_call_finished", "call": [], "result": {}}, "is not a valid ToolCall"),
    ({"event": "summarised", "text": "", "messages": 1, "usage": {"output_tokens": -1}}, "has a negative count"),
    (
        {"event": "tool_call_started", "call": {"id": "", "name": "", "arguments": "", "extra": []}, "decision": {}},
        "should be an object",
    ),
]


@pytest.mark.for_each(("data", "problem"), DAMAGED)
def test_damaged_data_is_rejected(data, problem):
    """Damaged data raises an error that says what is wrong."""
    with pytest.raises(SessionError, match=problem):
        decode(data)


def test_message_of_another_role_is_rejected():
    """Decoding a message of another role raises a SessionError."""
    with pytest.raises(SessionError, match="is not a valid SystemMessage"):
        decode_part(messages.SystemMessage, {"role": "user", "text": "Hi"})


@pytest.mark.parametrize("line", ["", "[]", "{", b"\xff\xfe{", '"text"'])
def test_line_is_one_object(line):
    """A line that is not a single JSON object raises an error."""
    with pytest.raises(SessionError, match="damaged"):
        from_line(line)


def test_entries_name_their_run_and_time():
    """An entry is encoded as one flat object of its stored event, run id and time."""
    entry = SessionEntry("run-1", 12.5, events.RunEnded("done"))
    data = encode_entry(entry)
    assert data == {"run": "run-1", "at": 12.5, "event": "run_ended", "status": "done"}
    assert decode_entry(data) == entry


@pytest.mark.parametrize("change", [{"run": None}, {"run": ""}, {"at": "now"}, {"at": True}])
def test_entries_without_run_or_time_are_rejected(change):
    """An entry without a run id or a time raises an error."""
    with pytest.raises(SessionError, match=r"`run` must be an id|should be a time in seconds"):
        decode_entry({"run": "run-1", "at": 1, "event": "run_resumed", **change})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1, 1e12, 10**400, True, "12"])
def test_invalid_times_are_rejected(number):
    """A time before 1970, out of range or not a number raises a SessionError."""
    with pytest.raises(SessionError, match="seconds"):
        decode_entry({"run": "r", "at": number, "event": "run_resumed"})


@pytest.mark.parametrize("number", [float("nan"), float("-inf"), 10**400])
def test_numbers_out_of_range_are_rejected(number):
    """A number that is out of range raises a SessionError."""
    with pytest.raises(SessionError, match="damaged"):
        decode_part(messages.ToolResult, {"tool": "t", "status": "ok", "content": "", "seconds": number})
