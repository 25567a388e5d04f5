"""Tests for tapes, which record questions and answers or replay them."""

import asyncio
import threading
import time
from contextvars import copy_context

import pytest

from agentkit import recording
from agentkit.decisions import Decision
from agentkit.errors import RateLimited
from agentkit.events import Approved, ReasoningDelta, ResponseReceived, RunResumed, TextDelta, ToolCallDelta
from agentkit.messages import AssistantMessage, Request, Response, ToolCall, ToolResult, UserMessage
from agentkit.recording import OpenQuestion, PersonAsked, Recording, active

REQUEST = Request((UserMessage("hello"),))
CALL = ToolCall("c1", "add", '{"a": 1}')
RESPONSE = Response(AssistantMessage("Hi there.", (CALL,), reasoning="Think."))
RESULT = ToolResult("add", "ok", "2")


class Notebook(Recording):
    """A tape that stores questions and answers in a list."""

    def __init__(self, depth=0, received=None):
        self.depth = depth
        self.heard = [] if received is None else received
        self.charges = []

    def open_question(self, question, /):
        """Return an open question that will be recorded with its answer."""
        return NotedQuestion(self, question)

    def record_event(self, run, event, /):
        """Record a stored event."""
        self.heard.append((self.depth, run, event))

    def now(self):
        """Return a fixed time."""
        return 42.0


class NotedQuestion(OpenQuestion):
    """A question whose answer is recorded."""

    def __init__(self, notebook, question):
        super().__init__(Notebook(notebook.depth + 1, notebook.heard))
        self.notebook, self.question = notebook, question

    def record_answer(self, answer, /, *, is_live=False, charge=None):
        """Record the question and its answer."""
        self.notebook.heard.append((self.notebook.depth, self.question, answer, is_live))
        self.notebook.charges.append(charge)


class Record(Recording):
    """A tape that has the same answer to every question."""

    is_replaying = True

    def __init__(self, answer):
        self.answer = answer

    def replay(self, _question, _account=None, /):
        """Return the recorded answer."""
        return self.answer


def refuse():
    """Raise an error, as no call may be made."""
    raise AssertionError("The world was asked")


def stream(*events, error=None):
    """Yield the events of a stream."""
    yield from events
    if error is not None:
        raise error


async def astream(*events, error=None):
    """Yield the events of an async stream."""
    for event in events:
        yield event
    if error is not None:
        raise error


async def drained(events, most=100):
    """Return the first events of an async stream and close it."""
    found = []
    async for event in events:
        found.append(event)
        if len(found) == most:
            break
    await events.aclose()
    return found


def awaiting(value, error=None):
    """Return an async function that returns the value or raises the error."""

    async def ask():
        if error is not None:
            raise error
        return value

    return ask


def test_calls_are_made_without_a_tape():
    """Without a tape every call is made, and the clock is `time.monotonic`."""
    recording.record_event("run", RunResumed())
    assert recording.record_or_replay(CALL, lambda: RESULT) is RESULT
    assert asyncio.run(recording.arecord_or_replay(CALL, awaiting(RESULT))) is RESULT
    assert list(recording.record_or_replay_stream(REQUEST, lambda: stream(TextDelta("a")))) == [TextDelta("a")]
    assert asyncio.run(drained(recording.arecord_or_replay_stream(REQUEST, lambda: astream(TextDelta("a"))))) == [
        TextDelta("a")
    ]
    assert recording.is_replaying() is False
    assert recording.clock() is time.monotonic


def test_default_recording_stores_nothing():
    """The default Recording makes every call and stores nothing."""
    with active(Recording()):
        recording.record_event("run", RunResumed())
        assert recording.record_or_replay(CALL, lambda: RESULT) is RESULT
        assert abs(recording.clock()() - time.time()) < 3600


@pytest.mark.parametrize("question", [REQUEST, CALL, PersonAsked(CALL, Decision("ask", "level", "It is dear."))])
def test_question_and_its_answer_are_recorded(question):
    """A question and its answer are recorded, blocking and awaited."""
    answer = Approved("c1", "once")
    with active(Notebook()) as _:
        notebook = recording.TAPE.get()
        assert recording.record_or_replay(question, lambda: answer) is answer
        assert asyncio.run(recording.arecord_or_replay(question, awaiting(answer), lambda _: True)) is answer
        recording.record_event("run", RunResumed())
        assert recording.clock()() == 42.0
    assert notebook.heard == [(0, question, answer, False), (0, question, answer, True), (0, "run", RunResumed())]
    assert recording.TAPE.get() is None


def test_model_error_is_recorded():
    """A ModelError is recorded and raised, blocking, awaited and streaming."""
    notebook, error = Notebook(), RateLimited("Slow down.")
    with active(notebook):
        with pytest.raises(RateLimited):
            recording.record_or_replay(REQUEST, lambda: next(stream(error=error)))
        with pytest.raises(RateLimited):
            asyncio.run(recording.arecord_or_replay(REQUEST, awaiting(None, error)))
        with pytest.raises(RateLimited):
            list(recording.record_or_replay_stream(REQUEST, lambda: stream(TextDelta("a"), error=error)))
        with pytest.raises(RateLimited):
            asyncio.run(drained(recording.arecord_or_replay_stream(REQUEST, lambda: astream(error=error))))
    assert notebook.heard == [(0, REQUEST, error, False)] * 4


def test_other_errors_are_not_recorded():
    """Exceptions other than ModelError are not recorded."""
    notebook = Notebook()
    with active(notebook), pytest.raises(ZeroDivisionError):
        recording.record_or_replay(CALL, lambda: 1 // 0)
    assert notebook.heard == []


def test_nested_questions_are_recorded():
    """A question asked by a running tool, even in another thread, is recorded as nested."""
    notebook = Notebook()

    def ask():
        context = copy_context()
        thread = threading.Thread(target=context.run, args=(recording.record_or_replay, REQUEST, lambda: RESPONSE))
        thread.start()
        thread.join()
        return RESULT

    with active(notebook):
        recording.record_or_replay(CALL, ask)
    assert [(depth, question) for depth, question, *_ in notebook.heard] == [(1, REQUEST), (0, CALL)]


EVENTS = (ReasoningDelta("Think."), TextDelta("Hi "), TextDelta("there."), ResponseReceived(RESPONSE))


def test_stream_is_recorded_once():
    """The events of a stream are passed on, and its response is recorded once."""
    notebook = Notebook()
    with active(notebook):
        assert tuple(recording.record_or_replay_stream(REQUEST, lambda: stream(*EVENTS))) == EVENTS
        assert (
            tuple(asyncio.run(drained(recording.arecord_or_replay_stream(REQUEST, lambda: astream(*EVENTS))))) == EVENTS
        )
    assert notebook.heard == [(0, REQUEST, RESPONSE, False)] * 2


def test_closed_stream_is_recorded_as_truncated():
    """The text received before a stream was closed is recorded as a truncated response."""
    notebook = Notebook()
    with active(notebook):
        pieces = recording.record_or_replay_stream(REQUEST, lambda: stream(*EVENTS))
        assert [next(pieces), next(pieces)] == [*EVENTS[:2]]
        pieces.close()
        asyncio.run(drained(recording.arecord_or_replay_stream(REQUEST, lambda: astream(*EVENTS)), most=2))
    cut = Response(AssistantMessage("Hi "), finish_reason="length")
    assert notebook.heard == [(0, REQUEST, cut, False)] * 2


def test_stream_need_not_be_a_generator():
    """A stream can be any iterator of events."""
    notebook = Notebook()

    class Once:
        """An async iterator of one event."""

        def __init__(self):
            self.events = [ResponseReceived(RESPONSE)]

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.events:
                raise StopAsyncIteration
            return self.events.pop()

    with active(notebook):
        list(recording.record_or_replay_stream(REQUEST, lambda: iter(EVENTS)))
        asyncio.run(drained(recording.arecord_or_replay_stream(REQUEST, Once)))
    assert notebook.heard == [(0, REQUEST, RESPONSE, False)] * 2


def test_recorded_answer_is_returned():
    """A replay returns recorded answers without executing anything."""
    pieces = [
        ReasoningDelta("Think."),
        TextDelta("Hi there."),
        ToolCallDelta(0, "add", '{"a": 1}'),
        ResponseReceived(RESPONSE),
    ]
    with active(Record(RESPONSE)):
        assert recording.is_replaying()
        assert recording.record_or_replay(REQUEST, refuse) is RESPONSE
        assert asyncio.run(recording.arecord_or_replay(REQUEST, refuse)) is RESPONSE
        assert list(recording.record_or_replay_stream(REQUEST, refuse)) == pieces
        assert asyncio.run(drained(recording.arecord_or_replay_stream(REQUEST, refuse))) == pieces
    with active(Record(Response(AssistantMessage()))):
        assert list(recording.record_or_replay_stream(REQUEST, refuse)) == [
            ResponseReceived(Response(AssistantMessage()))
        ]


def test_recorded_error_is_raised():
    """A recorded ModelError is raised again."""
    with active(Record(RateLimited("Slow down."))), pytest.raises(RateLimited, match="Slow down"):
        recording.record_or_replay(REQUEST, refuse)


def test_abandoned_attempt_records_the_error():
    """A question in an abandoned attempt is answered by the error, and later answers are ignored."""
    recorder, error = Notebook(), RateLimited("Too late.")
    with active(recorder), recording.start_attempt() as attempt:
        before = attempt.open_question(REQUEST)
        assert attempt.give_up(error)
        attempt.open_question(REQUEST)
        before.record_partial(RESPONSE)
    after = attempt.open_question(REQUEST)
    after.record_partial(RESPONSE)
    answers = [answer for _, _, answer, _ in recorder.heard]
    assert answers == [error, error, RESPONSE, error, RESPONSE]


def test_attempt_passes_everything_on():
    """An attempt passes all calls to the active tape."""
    with active(Notebook()):
        notebook = recording.TAPE.get()
        with recording.start_attempt() as attempt:
            attempt.record_event("run", RunResumed())
            assert (attempt.replay(CALL), attempt.now(), attempt.new_clock()()) == (None, 42.0, 42.0)
            with pytest.raises(RateLimited), active(attempt):
                list(
                    recording.record_or_replay_stream(REQUEST, lambda: stream(TextDelta("a"), error=RateLimited("No.")))
                )
    assert (0, "run", RunResumed()) in notebook.heard
    with recording.start_attempt() as attempt:
        assert attempt.give_up(RateLimited("Nobody hears it."))


def test_parts_of_a_program_have_separate_clocks():
    """Concurrent parts of a program have separate clocks named by their nested scopes."""

    class Named(Recording):
        """A tape that records for which part a watch was created."""

        def __init__(self):
            self.parts = []

        def new_clock(self, part="", /):
            """Record the part."""
            self.parts.append(part)
            return super().new_clock(part)

    named = Named()
    recording.ScopedRecording(recording.ScopedRecording(named, "map 3"), "5").new_clock()
    recording.ScopedRecording(named, "map 4").new_clock()
    with active(named):
        assert recording.clock().seconds_left(2.5) == 2.5
    assert named.parts == ["map 3/5/", "map 4/", ""]
