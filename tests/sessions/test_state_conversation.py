"""Tests for the conversation that results from the entries of a session."""

import json

import pytest

from agentkit.events import (
    HistoryGiven,
    ResponseReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    Summarised,
    ToolCallFinished,
)
from agentkit.messages import (
    READ_MORE,
    AssistantMessage,
    Response,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    read_more_call,
    with_distinct_ids,
)
from agentkit.sessions.state import Conversation, RunState, Summary, history_problem, with_distinct_calls
from agentkit.sessions.store import SessionEntry
from agentkit.usage import Usage

HELLO = ResponseReceived(Response(AssistantMessage("Hello"), usage=Usage(10, 5, requests=1)))


def conversation_of(*events, runs=("run-1",)):
    """Build a conversation from the stored events of consecutive runs."""
    conversation = Conversation()
    for run in runs:
        for event in events:
            conversation.apply_entry(SessionEntry(run, 1.0, event), RunState)
    return conversation


def test_unfinished_run_has_a_state():
    """A run has a state until it ends, and only messages afterwards."""
    assert list(conversation_of(RunStarted("helper", "Hi"), HELLO).active_runs) == ["run-1"]
    ended = conversation_of(RunStarted("helper", "Hi"), HELLO, RunEnded("done"))
    assert ended.active_runs == {}
    assert ended.has_entered("run-1")
    assert ended.messages == [UserMessage("Hi"), AssistantMessage("Hello")]


def test_paused_run_is_unfinished():
    """A paused run is unfinished."""
    paused = conversation_of(RunStarted("helper", "Hi"), HELLO, RunEnded("paused"))
    assert list(paused.active_runs) == ["run-1"]
    assert not paused.has_entered("run-1")


def test_usage_is_summed_over_runs():
    """The usage is the sum over all runs, each counted once."""
    assert conversation_of(HELLO, RunEnded("done"), runs=("1", "2", "3")).usage_with(()).requests == 3


def test_resumed_run_is_read_again():
    """A run resumed after its end is read again, and only its new messages are added."""
    conversation = conversation_of(RunStarted("helper", "Hi"), HELLO, RunEnded("limit"))
    questions = []

    def reread(run):
        questions.append(run)
        return RunState.of([RunStarted("helper", "Hi"), HELLO, RunEnded("limit")])

    for event in (RunResumed(), HELLO, RunEnded("done")):
        conversation.apply_entry(SessionEntry("run-1", 2.0, event), reread)
    assert questions == ["run-1"]
    assert len(conversation.messages) == 3
    assert conversation.resumptions == {"run-1": 1}
    assert conversation.count == 6
    assert conversation.usage_with(()).requests == 2


def test_messages_of_unfinished_runs():
    """Messages of unfinished runs can be read, with a unique id for each call."""
    called = ResponseReceived(Response(AssistantMessage("", (ToolCall("call_0", "clock", "{}"),)), usage=Usage(5)))
    conversation = conversation_of(RunStarted("helper", "Hi"), called, runs=("one", "two"))
    assert conversation.messages == []
    messages = conversation.messages_with(["one", "two"])
    assert [message.call_id for message in messages if isinstance(message, ToolMessage)] == ["call_0", "call_0_two"]
    assert "has not taken effect" in messages[2].content
    assert conversation.usage_with(["one"]).input_tokens == 5
    assert conversation.messages == []


def test_newest_summary_is_known():
    """The newest valid summary is available with the last message that it covers."""
    conversation = conversation_of(RunStarted("helper", "Hi"), HELLO, RunEnded("done"))
    assert conversation.summary is None
    questions = (
        RunStarted("helper", "Go on", 2),
        Summarised("They met.", 2),
        Summarised("", 0),
        HELLO,
        RunEnded("done"),
    )
    for event in questions:
        conversation.apply_entry(SessionEntry("run-2", 2.0, event), RunState)
    assert conversation.summary == Summary(2, AssistantMessage("Hello"), "They met.")
    for event in (RunStarted("helper", "Go on", 2), Summarised("Of more than there is.", 20), RunEnded("done")):
        conversation.apply_entry(SessionEntry("run-3", 3.0, event), RunState)
    assert conversation.summary.text == "They met."


def test_ids_of_all_runs_are_reserved():
    """An id used by a finished or unfinished run is not given to another call."""
    used = AssistantMessage("", (ToolCall("call_0", "clock", "{}"),))
    conversation = conversation_of(ResponseReceived(Response(used)))
    assert with_distinct_ids(used, conversation.call_ids).tool_calls[0].id != "call_0"
    given = conversation_of(HistoryGiven((used,)), RunEnded("done"))
    assert with_distinct_ids(used, given.call_ids).tool_calls[0].id != "call_0"


def test_notes_have_the_new_ids_of_calls():
    """If a call gets another id, the notes in its result contain it, in text and JSON, in any script."""
    used = ToolCall("gọi", "clock", "{}")
    content = f"{read_more_call('gọi', 500)} {json.dumps({READ_MORE: read_more_call('gọi')}, ensure_ascii=False)}"
    response_event = ResponseReceived(Response(AssistantMessage("", (used,))))
    finished = ToolCallFinished(used, ToolResult("clock", "ok", content))
    conversation = conversation_of(
        RunStarted("helper", "Hi"), response_event, finished, RunEnded("done"), runs=("1", "2")
    )
    _, first, _, second = (message for message in conversation.messages if not isinstance(message, UserMessage))
    assert first.content == content
    assert second.call_id != "gọi"
    assert second.content == content.replace("gọi", second.call_id)


def message_with(*ids):
    """Return a message with a tool call for each id."""
    return AssistantMessage("Look.", tuple(ToolCall(each, "look", "{}") for each in ids))


def tool_result(call_id):
    """Return the result of a call."""
    return ToolMessage(call_id, "look", "seen")


@pytest.mark.for_each(
    ("messages", "fault"),
    [
        ([], None),
        (
            [
                UserMessage("Hi"),
                message_with("a", "b"),
                tool_result("b"),
                tool_result("a"),
                message_with("c"),
                tool_result("c"),
            ],
            None,
        ),
        ([tool_result("a")], r"messages[0] is a result of the call 'a', which does not exist or already has one."),
        (
            [message_with("a"), tool_result("a"), tool_result("a")],
            r"messages[2] is a result of the call 'a', which does not exist or already has one.",
        ),
        ([message_with("a"), UserMessage("?")], "messages[1] must be the result of the call 'a' of 'look'"),
        ([UserMessage("?"), message_with("a")], "The result of the call 'a' of 'look' is missing at the end."),
        ([message_with("a"), tool_result("a"), message_with("a")], "messages[2] has a call with the id 'a' of another"),
        ([message_with("a", "a"), tool_result("a")], "messages[0] has a call with the id 'a' of another call."),
    ],
)
def test_valid_conversation(messages, fault):
    """In a valid conversation, each call has a unique id and exactly one result, directly after it."""
    found = history_problem(messages)
    assert found == fault if fault is None else found.startswith(fault)


def test_calls_get_unique_ids():
    """Calls with duplicate ids get unique ones, and their results are matched by order."""
    messages = [
        message_with("a", "a"),
        tool_result("a"),
        tool_result("a"),
        message_with("a", ""),
        tool_result(""),
        tool_result("a"),
    ]
    distinct = with_distinct_calls(messages)
    assert history_problem(distinct) is None
    assert [each.call_id for each in distinct if isinstance(each, ToolMessage)] == ["a", "a_2", "call_4", "a_3"]
    assert with_distinct_calls([tool_result("a")]) == [tool_result("a")]
