"""The interface through which runs are recorded and replayed.

A recording is active in the context of a `with` block: in its tasks and in threads that copy the context. Code that
queries a model, tool or person goes through `record_or_replay` or one of its variants.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision
from agentkit.errors import ModelError
from agentkit.events import Approved, Event, ResponseReceived, StoredEvent, TextDelta, response_events
from agentkit.messages import AssistantMessage, EmbeddingAnswer, EmbeddingQuery, Request, Response, ToolCall, ToolResult
from agentkit.usage import Charge


@dataclass(frozen=True, slots=True)
class PersonAsked:
    """A person is asked to approve a tool call; the answer is an Approved."""

    call: ToolCall
    decision: Decision


Question = Request | ToolCall | PersonAsked | EmbeddingQuery
"""A query to the outside world: a model, a tool or a person."""

Answer = Response | ModelError | ToolResult | Approved | EmbeddingAnswer
"""The result of a query. A ModelError was raised, and is raised again on replay."""

_Answer = TypeVar("_Answer", bound=Response | ToolResult | Approved | EmbeddingAnswer)


class Account(Protocol):
    """Where the cost of answering a query is charged."""

    @property
    def charged(self) -> Charge:
        """The amount charged so far."""
        ...

    def charge(self, charge: Charge, /) -> None:
        """Charge the recorded cost of a replayed answer."""
        ...


class Clock:
    """The clock of a run: measures time and the time left until a deadline."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now()

    def seconds_left(self, seconds: float, /) -> float:
        """Seconds left in the run, given `seconds` by this clock; 0 or less means that the time is up."""
        return seconds


class OpenQuestion:
    """A query that is being executed. `tape` is the recording for queries that its execution makes itself."""

    def __init__(self, tape: Recording) -> None:
        self.tape = tape

    def record_answer(self, answer: Answer, /, *, is_live: bool = False, charge: Charge | None = None) -> bool | None:
        """Record the answer. Returns False if an answer is already recorded; the first one stays.

        An answer that `is_live` cannot be stored completely, so a replay executes the query again. `charge` is its
        cost.
        """

    def record_partial(self, answer: Answer, /) -> None:
        """Record the partial answer received before the consumer stopped."""
        self.record_answer(answer)


class Recording:
    """Base class of recordings, which records nothing. Thread-safe."""

    is_replaying = False
    """Whether answers come from a recording, so that models, tools and people are not needed."""

    def replay(self, _question: Question, _account: Account | None = None, /) -> Answer | None:
        """Return the recorded answer, or None to execute the query. Raises ReplayError if a replay has no such answer.

        The recorded cost is charged to the account.
        """
        return None

    def open_question(self, _question: Question, /) -> OpenQuestion:
        """Record that the query is about to be executed."""
        return OpenQuestion(self)

    def record_event(self, run: str, event: StoredEvent, /) -> None:
        """Record a stored event of the run with that id."""

    def now(self) -> float:
        """The time in seconds since 1970; in a replay, that of the recording."""
        return time.time()

    def new_clock(self, _part: str = "", /) -> Clock:
        """Return the clock of a run that starts: the next one of this part of the program."""
        return Clock(self.now)


TAPE: ContextVar[Recording | None] = ContextVar("TAPE", default=None)
"""The active recording; None if nothing is recorded or replayed."""


@contextmanager
def active(tape: Recording) -> Iterator[None]:
    """Activate the recording in the block."""
    token = TAPE.set(tape)
    try:
        yield
    finally:
        TAPE.reset(token)


def is_replaying() -> bool:
    """Whether answers come from a recording in this context."""
    tape = TAPE.get()
    return tape is not None and tape.is_replaying


def record_event(run: str, event: StoredEvent) -> None:
    """Record a stored event of the run with that id, if a recording is active."""
    tape = TAPE.get()
    if tape is not None:
        tape.record_event(run, event)


def clock() -> Callable[[], float]:
    """Return a function that measures seconds: the monotonic clock, or that of the active recording.

    In a replay the recording's clock returns recorded times.
    """
    tape = TAPE.get()
    return time.monotonic if tape is None else tape.new_clock()


class ScopedRecording(Recording):
    """Forwards everything to another recording; with a name, its clocks are separate from those of other parts."""

    def __init__(self, tape: Recording, name: str = "") -> None:
        self._tape, self._name = tape, name
        self.is_replaying = tape.is_replaying

    def replay(self, question: Question, account: Account | None = None, /) -> Answer | None:
        """Forward to the wrapped recording."""
        return self._tape.replay(question, account)

    def open_question(self, question: Question, /) -> OpenQuestion:
        """Forward to the wrapped recording."""
        return self._tape.open_question(question)

    def record_event(self, run: str, event: StoredEvent, /) -> None:
        """Forward to the wrapped recording."""
        self._tape.record_event(run, event)

    def now(self) -> float:
        """Forward to the wrapped recording."""
        return self._tape.now()

    def new_clock(self, part: str = "", /) -> Clock:
        """Return the next clock of this part."""
        return self._tape.new_clock(f"{self._name}/{part}" if self._name else part)


class Attempt(ScopedRecording):
    """A recording whose queries can be abandoned; the error given then is recorded as their answer. Thread-safe.

    Partial answers are recorded when the attempt is closed.
    """

    def __init__(self, tape: Recording) -> None:
        super().__init__(tape)
        self.has_started = threading.Event()
        self._lock = threading.Lock()
        self._questions: list[OpenQuestion] = []
        self._left: list[tuple[OpenQuestion, Answer]] = []
        self._error: ModelError | None = None
        self._is_closed = False

    def open_question(self, question: Question, /) -> OpenQuestion:
        """Record a query that can be abandoned."""
        asked = _Attempted(self._tape.open_question(question), self)
        with self._lock:
            self._questions.append(asked)
            error = self._error
        self.has_started.set()
        if error is not None:
            asked.record_answer(error)
        return asked

    def give_up(self, error: ModelError) -> bool:
        """Record the error as the answer of all queries. Returns False if one was answered just before."""
        with self._lock:
            self._error = error
            questions = tuple(self._questions)
        taken = [asked.record_answer(error) for asked in questions]
        return False not in taken

    def leave(self, asked: OpenQuestion, answer: Answer) -> None:
        """Store a partial answer, to be recorded when the attempt closes unless the query is abandoned first."""
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._left.append((asked, answer))
        if is_closed:
            asked.record_answer(answer)

    def close(self) -> None:
        """Close the attempt and record the partial answers."""
        with self._lock:
            self._is_closed = True
        for asked, answer in self._left:
            asked.record_answer(answer)


class _Attempted(OpenQuestion):
    """A query of an attempt."""

    def __init__(self, asked: OpenQuestion, attempt: Attempt) -> None:
        super().__init__(asked.tape)
        self._asked, self._attempt = asked, attempt

    def record_answer(self, answer: Answer, /, *, is_live: bool = False, charge: Charge | None = None) -> bool | None:
        return self._asked.record_answer(answer, is_live=is_live, charge=charge)

    def record_partial(self, answer: Answer, /) -> None:
        self._attempt.leave(self._asked, answer)


@contextmanager
def start_attempt() -> Iterator[Attempt]:
    """Start an attempt on the active recording; it is closed at the end of the block."""
    attempt = Attempt(TAPE.get() or _SILENCE)
    try:
        yield attempt
    finally:
        attempt.close()


_SILENCE = Recording()


def record_or_replay(
    question: Question,
    ask: Callable[[], _Answer],
    is_live: Callable[[_Answer], bool] = lambda _: False,
    account: Account | None = None,
) -> _Answer:
    """Return the recorded answer, or call `ask` and record its answer. Raises what `ask` raises, and ReplayError.

    `is_live` states whether an answer contains objects that cannot be stored, such as the agent a call hands off to; a
    replay executes the query again. `account` is charged for the answer.
    """
    tape = TAPE.get()
    if tape is None:
        return ask()
    known = tape.replay(question, account)
    if known is not None:
        return cast("_Answer", _return_or_raise(known))
    asked = tape.open_question(question)
    with _record_error(asked), active(asked.tape):
        answer = ask()
    asked.record_answer(answer, is_live=is_live(answer), charge=None if account is None else account.charged)
    return answer


async def arecord_or_replay(
    question: Question,
    ask: Callable[[], Awaitable[_Answer]],
    is_live: Callable[[_Answer], bool] = lambda _: False,
    account: Account | None = None,
) -> _Answer:
    """Async version of `record_or_replay`."""
    tape = TAPE.get()
    if tape is None:
        return await ask()
    known = tape.replay(question, account)
    if known is not None:
        return cast("_Answer", _return_or_raise(known))
    asked = tape.open_question(question)
    with _record_error(asked), active(asked.tape):
        answer = await ask()
    asked.record_answer(answer, is_live=is_live(answer), charge=None if account is None else account.charged)
    return answer


@contextmanager
def _record_error(asked: OpenQuestion) -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        asked.record_answer(error)
        raise


def record_or_replay_stream(request: Request, ask: Callable[[], Iterator[Event]]) -> Iterator[Event]:
    """Streaming version of `record_or_replay`; a replay emits each part of the response in one event."""
    tape = TAPE.get()
    return ask() if tape is None else _stream(tape, request, ask)


def arecord_or_replay_stream(request: Request, ask: Callable[[], AsyncIterator[Event]]) -> AsyncIterator[Event]:
    """Async version of `record_or_replay_stream`."""
    tape = TAPE.get()
    return ask() if tape is None else _astream(tape, request, ask)


def _stream(tape: Recording, request: Request, ask: Callable[[], Iterator[Event]]) -> Generator[Event, None, None]:
    known = tape.replay(request)
    if known is not None:
        yield from response_events(_return_or_raise(known))
        return
    stream = _StreamRecorder(tape.open_question(request))
    events = ask()
    try:
        for event in events:
            stream.observe(event)
            yield event
    except ModelError as error:
        stream.end(error)
        raise
    finally:
        if isinstance(events, Generator):
            events.close()
        stream.end()


async def _astream(
    tape: Recording, request: Request, ask: Callable[[], AsyncIterator[Event]]
) -> AsyncGenerator[Event, None]:
    known = tape.replay(request)
    if known is not None:
        for event in response_events(_return_or_raise(known)):
            yield event
        return
    stream = _StreamRecorder(tape.open_question(request))
    events = ask()
    try:
        async for event in events:
            stream.observe(event)
            yield event
    except ModelError as error:
        stream.end(error)
        raise
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
        stream.end()


class _StreamRecorder:
    """Records a stream once: its response, its error, or the text received before the consumer stopped."""

    def __init__(self, asked: OpenQuestion) -> None:
        self._asked = asked
        self._texts: list[str] = []
        self._has_ended = False

    def observe(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._texts.append(event.text)
        elif isinstance(event, ResponseReceived):
            self.end(event.response)

    def end(self, answer: Response | ModelError | None = None) -> None:
        """Record the end of the stream; without an answer, the consumer stopped early."""
        if not self._has_ended:
            self._has_ended = True
            if answer is not None:
                self._asked.record_answer(answer)
            else:
                self._asked.record_partial(Response(AssistantMessage("".join(self._texts)), finish_reason="length"))


def _return_or_raise(answer: Answer) -> Any:
    """Return the answer, or raise it if it is an error."""
    if isinstance(answer, ModelError):
        raise answer
    return cast("Any", answer)
