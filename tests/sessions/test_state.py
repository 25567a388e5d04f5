"""Tests for the state of a run, which follows from its stored events."""

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
    AnswerRefused,
    Approved,
    HandedOff,
    HistoryGiven,
    LimitReached,
    RequestFailed,
    ResponseReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import AssistantMessage, MadeCall, Response, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.sessions.state import RunState, Summary
from agentkit.usage import Usage

ALLOWED = Decision(Verdict.ALLOW, "level", "It is safe.")
ASKED = Decision(Verdict.ASK, "level", "It is not safe.")
DENIED = Decision(Verdict.DENY, "never", "Nobody may.")
SPENT = Usage(10, 5, requests=1)
ONE, TWO = ToolCall("call_1", "note", '{"text": "a"}'), ToolCall("call_2", "note", '{"text": "b"}')
STARTED = RunStarted("helper", "Hi", 4, "record-1")


def reply(text="", *calls):
    """Return an answer of the model."""
    return ResponseReceived(Response(AssistantMessage(text, calls), usage=SPENT))


def finished(call, text="noted", **more):
    """Return the result of a call."""
    return ToolCallFinished(call, ToolResult("note", "ok", text, **more))


def test_started_run():
    """A prompt is part of the conversation once the model has answered it."""
    progress = RunState.of([STARTED])
    assert (progress.agent, progress.history, progress.record) == ("helper", 4, "record-1")
    assert (progress.prompt, progress.messages, progress.status) == ("Hi", [], None)
    assert not progress.is_answered
    progress.apply(reply("Hello"))
    assert (progress.prompt, progress.text, progress.usage, progress.iterations) == (None, "Hello", SPENT, 1)
    assert progress.valid_messages() == (UserMessage("Hi"), AssistantMessage("Hello"))
    assert progress.is_answered


def test_results_are_added_in_the_order_of_the_calls():
    """The results of a response are added in the order of its calls once all are available."""
    progress = RunState.of([STARTED, reply("", ONE, TWO), finished(TWO, "two", usage=SPENT)])
    assert (len(progress.messages), progress.tool_calls, progress.results) == (2, [], ())
    progress.apply(finished(ONE, "one"))
    assert [message.content for message in progress.messages[2:]] == ["one", "two"]
    assert [used.call.id for used in progress.tool_calls] == ["call_1", "call_2"]
    assert progress.results == tuple(progress.tool_calls)
    assert (progress.steps, progress.usage) == ({}, SPENT + SPENT)


@pytest.mark.parametrize("follows", [reply("Done."), HandedOff("expert"), AnswerGiven("Done.")])
def test_results_are_added_with_the_next_step(follows):
    """The results of the newest response are added with the next answer or agent."""
    progress = RunState.of([STARTED, reply("", ONE), finished(ONE)])
    assert len(progress.results) == 1
    progress.apply(follows)
    assert progress.results == ()


def test_unknown_call_is_ignored():
    """A stored event about an unknown call is ignored."""
    progress = RunState.of([STARTED, reply("", ONE), finished(TWO), Approved("call_9", "once")])
    assert (progress.tool_calls, len(progress.steps)) == ([], 1)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], "has not taken effect"),
        ([ToolCallStarted(ONE, ALLOWED)], "is unknown"),
        ([ToolCallStarted(ONE, DENIED)], "has not taken effect"),
        ([ToolCallPostponed(ONE, "May it?", ASKED)], "has not taken effect"),
        ([ToolCallPostponed(ONE, "May it?", ASKED), Approved("call_1", "once")], "has not taken effect"),
        (
            [
                ToolCallPostponed(ONE, "May it?", ASKED),
                Approved("call_1", "once"),
                ToolCallStarted(ONE, ALLOWED),
            ],
            "is unknown",
        ),
    ],
)
def test_interrupted_calls(events, expected):
    """An interrupted call may have taken effect only if it was started with permission."""
    progress = RunState.of([STARTED, reply("", ONE, TWO), finished(TWO), *events])
    (interruption,) = progress.interruptions()
    assert interruption.result.status == "interrupted"
    assert expected in interruption.result.error
    progress.apply(interruption)
    assert [type(message) for message in progress.messages[2:]] == [ToolMessage, ToolMessage]


def test_pending_calls_keep_the_conversation_valid():
    """While a call is pending, its placeholder result keeps the conversation valid."""
    progress = RunState.of([STARTED, reply("", ONE, TWO), ToolCallPostponed(ONE, "May it?", ASKED), RunEnded("paused")])
    assert [step.call for step in progress.waiting] == [ONE]
    assert progress.status == "paused"
    waiting, requested_calls = (message.content for message in progress.valid_messages()[2:])
    assert "waits for a person" in waiting
    assert "it has not taken effect" in requested_calls
    progress.apply(Approved("call_1", "once"))
    assert progress.waiting == ()
    progress.apply(ToolCallPostponed(ONE, "Really?", ASKED))
    assert len(progress.waiting) == 1


def test_refused_amended_and_given_answers():
    """Refused, amended and given answers are reflected in the messages."""
    progress = RunState.of([HistoryGiven((UserMessage("Before"),)), STARTED, reply("Helo"), AnswerRefused("Spell it.")])
    assert (progress.refusals, progress.is_answered) == (1, False)
    progress.apply(reply("Hello"))
    progress.apply(AnswerAmended("Hello!"))
    assert (progress.text, progress.messages[-1]) == ("Hello!", AssistantMessage("Hello!"))
    progress.apply(AnswerRefused("Once more."))
    progress.apply(AnswerAmended("Hey."))
    assert (progress.text, progress.messages[-1]) == ("Hey.", UserMessage("Once more.", by_person=False))
    progress.apply(AnswerGiven("Good day."))
    assert (progress.text, progress.is_answered, len(progress.messages)) == ("Good day.", True, 7)


def test_run_is_resumed_after_its_end():
    """A resumed run has no end and no limit, and keeps the last agent."""
    limit = LimitReached("iterations", "No more.")
    progress = RunState.of(
        [STARTED, RequestFailed("Busy", "RateLimited"), reply("So far."), HandedOff("expert"), limit]
    )
    progress.apply(Summarised("Of old", 2, SPENT))
    progress.apply(RunEnded("limit", "So far."))
    assert (progress.status, progress.limit, progress.agent) == ("limit", limit, "expert")
    progress.apply(RunResumed("Go on."))
    assert (progress.status, progress.limit, progress.agent) == (None, None, "expert")
    assert (progress.messages[-1], progress.usage) == (UserMessage("Go on."), SPENT + SPENT)
    progress.apply(RunResumed())
    assert len(progress.messages) == 3
    assert len(progress.events) == 9


INNER = ToolCall("call_1.2", "send", "{}")
MADE = MadeCall(ToolCall("call_1.1", "note", "{}"), "ok", 1)


def test_outer_call_waits_for_its_inner_call():
    """An answer applies to the pending inner call and is used up when the outer call resumes."""
    waits = ToolCallPostponed(ONE, "May it send?", ASKED, "", INNER, (MADE,), SPENT)
    progress = RunState.of([STARTED, reply("", ONE), Approved("call_1", "once"), ToolCallStarted(ONE, ALLOWED), waits])
    (step,) = progress.waiting
    assert (step.pending_call, step.inner, step.made, step.decision) == (INNER, INNER, (MADE,), None)
    assert (step.within.call, step.within.question, step.within.inner) == (INNER, "May it send?", None)
    assert progress.usage == SPENT + SPENT
    progress.apply(Approved("call_1.2", "no"))
    assert (progress.waiting, step.answer.answer, step.consent.answer) == ((), "no", "once")
    progress.apply(ToolCallStarted(ONE, ALLOWED))
    assert (step.within, step.answer, step.consent.answer) == (step, None, "once")
    progress.apply(ToolCallPostponed(ONE, "May it?", ASKED, "", INNER, (MADE, MADE)))
    assert step.made == (MADE, MADE, MADE)


@pytest.mark.parametrize(
    ("made", "expected"), [((), "it has not taken effect"), ((MADE,), "whether it took effect is unknown")]
)
def test_call_with_inner_calls_may_have_taken_effect(made, expected):
    """An abandoned call may have taken effect if it has already made inner calls."""
    waits = ToolCallPostponed(ONE, "May it send?", ASKED, "", INNER, made)
    progress = RunState.of([STARTED, reply("", ONE), ToolCallStarted(ONE, ALLOWED), waits])
    (finished,) = progress.interruptions()
    assert expected in finished.result.error


def test_first_handoff_of_a_response_is_made():
    """Only the first requested handoff in a response is followed; the other calls are denied."""
    first = ToolCallFinished(
        ONE, ToolResult("calculator", "ok", "The conversation is passed to Ann.", handoff_to="Ann")
    )
    second = ToolCallFinished(TWO, ToolResult("clock", "ok", "The conversation is passed to Bob.", handoff_to="Bob"))
    progress = RunState.of([STARTED, reply("", ONE, TWO), second, first])
    assert [used.result.handoff_to for used in progress.results] == ["Ann", ""]
    output, passed_over = progress.messages[2:]
    assert output.content == "The conversation is passed to Ann."
    assert "handed off to Ann by another call" in passed_over.content
    assert "Bob was not called" in progress.tool_calls[1].result.error
    assert progress.tool_calls[1].result.status == "denied"


def test_summary_covers_its_conversation():
    """A summary covers a longer conversation that starts with the summarised messages."""
    messages = [UserMessage("Hi"), AssistantMessage("Hello"), UserMessage("And?")]
    summary = Summary(2, messages[1], "They greeted each other.")
    assert summary.covers(messages)
    assert not summary.covers(messages[:2])
    assert not summary.covers([messages[0], AssistantMessage("Good morning"), messages[2]])
