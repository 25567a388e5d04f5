"""Tests for transcripts of recorded runs."""

import itertools
import sys

from agentkit.decisions import Decision, Verdict
from agentkit.events import (
    Approved,
    ResponseReceived,
    RunEnded,
    RunStarted,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import AssistantMessage, Request, Response, ToolCall, ToolResult, UserMessage
from agentkit.recording import PersonAsked
from agentkit.sessions.cassettes.entries import RecordedAnswer, RecordedEvent
from agentkit.sessions.transcript import build_transcripts
from agentkit.usage import Usage

CALL = ToolCall("c1", "add", "{}")
ALLOW = Decision(Verdict.ALLOW, "level", "It is safe.")
ASK = Decision(Verdict.ASK, "level", "It is not safe.")


def entries_of(*events):
    """Return stored events of one run, a second apart, as in an exported session."""
    return [RecordedEvent("r", float(at), event) for at, event in enumerate(events, 100)]


def test_durations_come_from_event_times():
    """Without recorded requests, durations are computed from the times of the stored events."""
    run = build_transcripts(
        entries_of(
            RunStarted("helper", "Go."),
            ResponseReceived(Response(AssistantMessage("", (CALL,)))),
            Approved("c1", "no"),
            ToolCallStarted(CALL, None),
            ToolCallFinished(CALL, ToolResult("add", "ok", "1")),
            ResponseReceived(Response(AssistantMessage("Done."))),
        )
    )[0]
    assert [step.seconds for step in run.steps] == [1.0, 2.0, 1.0]
    assert (run.status, run.answer) == ("unfinished", "Done.")


def test_pending_call_has_a_question():
    """A pending call has a question and no result; an answer to an unknown call is included."""
    run = build_transcripts(
        entries_of(RunStarted("helper", "Go."), ToolCallPostponed(CALL, "May I?"), Approved("other", "once"))
    )[0]
    waiting, other = run.tool_calls
    assert (waiting.question, waiting.result, waiting.judgment, waiting.seconds) == ("May I?", None, None, 0.0)
    assert (other.call.id, other.answers[0].answer) == ("other", "once")


def test_call_has_the_time_it_waited_for_a_person():
    """The recorded approval request gives the time and the duration of the wait."""
    other = ToolCall("c2", "add", "{}")
    events = entries_of(RunStarted("helper", "Go."), ToolCallStarted(CALL, ASK), ToolCallStarted(other, ALLOW))
    question = RecordedAnswer(1, PersonAsked(CALL, ASK), Approved("c1", "once"), at=101.5, seconds=2.5)
    first, second = build_transcripts([*events, question])[0].tool_calls
    assert (first.waited, second.waited) == ((101.5, 2.5), None)


def test_pending_inner_call_belongs_to_the_outer_call():
    """A waiting call made by a program is part of the program's call."""
    inner = ToolCall("c1.2", "refund", "{}")
    postponed = ToolCallPostponed(CALL, "May it?", ASK, "", inner, usage=Usage(requests=1, input_tokens=7))
    run = build_transcripts(
        entries_of(RunStarted("helper", "Go."), ToolCallStarted(CALL, ALLOW), postponed, Approved("c1.2", "once"))
    )[0]
    (story,) = run.tool_calls
    assert (story.call.id, story.question, story.decision) == ("c1", "May it?", ALLOW)
    assert story.answers[0].answer == "once"
    assert run.usage.input_tokens == 7


def test_response_with_new_ids_is_matched():
    """A response whose calls got new ids is matched to its recorded request."""
    request, renamed = Request((UserMessage("Go."),)), ToolCall("c1_2", "add", "{}")
    entries = [
        RecordedAnswer(1, request, Response(AssistantMessage("", (CALL,))), at=100.0, seconds=2.0),
        *entries_of(RunStarted("helper", "Go."), ResponseReceived(Response(AssistantMessage("", (renamed,))))),
        *entries_of(ResponseReceived(Response(AssistantMessage("Else.")))),
    ]
    (run,) = build_transcripts(entries)
    assert [getattr(step, "request", None) for step in run.steps] == [request, None]


def test_summary_request_is_listed_once():
    """The usage of a summary belongs to its run, and its request is not listed separately."""
    exchange = RecordedAnswer(
        1, Request((UserMessage("Sum up."),)), Response(AssistantMessage("In short."), usage=Usage(5, 6)), 1.0
    )
    entries = [exchange, *entries_of(RunStarted("helper", "Go."), Summarised("In short.", 4, Usage(5, 6)))]
    (run,) = build_transcripts(entries)
    assert (run.usage, len(run.steps)) == (Usage(5, 6), 1)


def test_run_usage_includes_tool_results():
    """The usage of a run includes the usage in the results of its tool calls."""
    waiting = ToolCall("c2", "add", "{}")
    run = build_transcripts(
        entries_of(
            RunStarted("boss", "Go."),
            ResponseReceived(Response(AssistantMessage("", (CALL, waiting)), usage=Usage(5, 6, requests=1))),
            ToolCallFinished(CALL, ToolResult("add", "ok", "1", usage=Usage(70, 80, requests=2))),
            ToolCallPostponed(waiting, "May I?"),
        )
    )[0]
    assert run.usage == Usage(75, 86, requests=3)


def test_empty_cassette_has_no_stories():
    """An empty cassette has no stories, and a run without a response has an empty answer."""
    assert build_transcripts([]) == []
    assert build_transcripts(entries_of(RunStarted("helper", "Go."), RunEnded("failed", error="No.")))[0].answer == ""


MANY = 20_000


def work(entries):
    """Count the function calls needed to build the stories."""
    count = itertools.count()
    sys.setprofile(lambda *_: next(count))
    try:
        build_transcripts(entries)
    finally:
        sys.setprofile(None)
    return next(count)


def responses(count, **calls):
    """Return requests answered outside of runs, and the stored events of their responses."""
    answers = [Response(AssistantMessage(f"Answer {number}", **calls)) for number in range(count)]
    question = Request([UserMessage("Go.")])
    outside = [RecordedAnswer(number, question, answer, 99.0, 0.5) for number, answer in enumerate(answers, 1)]
    return outside, [ResponseReceived(answer) for answer in answers]


def test_responses_find_their_requests():
    """Responses are matched to the recorded requests in order."""
    outside, received = responses(3)
    run = build_transcripts([*outside, *entries_of(RunStarted("helper", "Go."), *received)])[0]
    assert [moment.request for moment in run.other_steps] == [exchange.question for exchange in outside]
    assert [moment.seconds for moment in run.other_steps] == [0.5, 0.5, 0.5]


def test_work_is_linear_in_the_entries():
    """A recording of four times the entries takes about four times the work."""

    def entries(count):
        outside, received = responses(count)
        loose, _ = responses(count)
        calls = tuple(ToolCall(f"c{number}", "add", "{}") for number in range(count))
        request = ResponseReceived(Response(AssistantMessage("", calls)))
        done = [ToolCallFinished(call, ToolResult("add", "ok", "1")) for call in calls]
        return [
            *outside,
            *loose,
            *entries_of(RunStarted("a", "Go."), *received, request, *(Approved(c.id, "no") for c in calls), *done),
        ]

    assert work(entries(800)) < 5 * work(entries(200))


def test_very_many_entries():
    """Tens of thousands of responses, calls and approvals can be processed."""
    outside, received = responses(MANY)
    calls = tuple(ToolCall(f"c{number}", "add", "{}") for number in range(MANY))
    request = ResponseReceived(Response(AssistantMessage("", calls)))
    approvals = [Approved(call.id, "once") for call in calls]
    (run,) = build_transcripts([*outside, *entries_of(RunStarted("helper", "Go."), *received, request, *approvals)])
    assert (len(run.other_steps), len(run.tool_calls)) == (MANY + 1, MANY)
    assert run.tool_calls[-1].call is calls[-1]
