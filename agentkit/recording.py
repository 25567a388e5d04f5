"""The interface through which runs are recorded and replayed.

A tape is active for what happens in the context of a `with` block: its tasks, and the threads that copy the context.
Whoever asks the world goes through `taped` or its likes.
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
from agentkit.events import Approved, Event, Milestone, ResponseReceived, TextDelta, streamed
from agentkit.messages import AssistantMessage, Request, Response, ToolCall, ToolResult, VectorsAsked, VectorsMade
from agentkit.usage import Charge


@dataclass(frozen=True, slots=True)
class PersonAsked:
    """A person is asked about a tool call; the answer is an Approved."""

    call: ToolCall
    decision: Decision


Question = Request | ToolCall | PersonAsked | VectorsAsked
"""What only the world can answer: a model, a tool, a person."""

Answer = Response | ModelError | ToolResult | Approved | VectorsMade
"""What came of a question. A ModelError was raised, and is raised again."""

_Answer = TypeVar("_Answer", bound=Response | ToolResult | Approved | VectorsMade)


class Account(Protocol):
    """What the answering of a question is charged to."""

    @property
    def charged(self) -> Charge:
        """What was charged so far."""
        ...

    def charge(self, charge: Charge, /) -> None:
        """Charge what the answer of a recording has cost then."""
        ...


class Clock:
    """Tells a run how the seconds pass, and whether its time is up."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now()

    def left(self, seconds: float, /) -> float:
        """How many seconds the run has left, by this clock `seconds`; with 0 or less its time is up."""
        return seconds


class OpenQuestion:
    """A question that is being put to the world. `tape` hears what the answering itself asks."""

    def __init__(self, tape: Recording) -> None:
        self.tape = tape

    def heard(self, answer: Answer, /, *, is_live: bool = False, charge: Charge | None = None) -> bool | None:
        """Take down the answer; False when there was one already, which stays.

        One that `is_live` cannot be written down whole, so that a replay asks again. `charge` is what it has cost.
        """

    def left(self, answer: Answer, /) -> None:
        """Take down what came until nobody wanted to hear more."""
        self.heard(answer)


class Recording:
    """What every tape does unless it knows better: nothing. Any thread may use it."""

    is_replaying = False
    """Whether answers come from a recording, so that no model, tool or person is needed."""

    def replayed(self, _question: Question, _account: Account | None = None, /) -> Answer | None:
        """The recorded answer; None when the world is to be asked. Raises ReplayError when none was recorded.

        What it has cost then is charged to the account.
        """
        return None

    def asked(self, _question: Question, /) -> OpenQuestion:
        """The question, about to be put to the world."""
        return OpenQuestion(self)

    def told(self, run: str, milestone: Milestone, /) -> None:
        """Take down what the run of that id has done."""

    def now(self) -> float:
        """The time in seconds since 1970, of the recording when it is replayed."""
        return time.time()

    def watch(self, _part: str = "", /) -> Clock:
        """The watch of a run that begins: the next one of this part of the program."""
        return Clock(self.now)


TAPE: ContextVar[Recording | None] = ContextVar("TAPE", default=None)
"""The tape that is active here; None when the world answers and nobody listens."""


@contextmanager
def active(tape: Recording) -> Iterator[None]:
    """The tape is active in the block."""
    token = TAPE.set(tape)
    try:
        yield
    finally:
        TAPE.reset(token)


def is_replaying() -> bool:
    """Whether answers come from a recording here."""
    tape = TAPE.get()
    return tape is not None and tape.is_replaying


def told(run: str, milestone: Milestone) -> None:
    """Let the tape know what the run of that id has done."""
    tape = TAPE.get()
    if tape is not None:
        tape.told(run, milestone)


def clock() -> Callable[[], float]:
    """What tells how the seconds pass: this machine's clock, or the tape, which in a replay tells the recording's."""
    tape = TAPE.get()
    return time.monotonic if tape is None else tape.watch()


class ScopedRecording(Recording):
    """Passes everything on to another tape; with a name it has watches of its own beside those of other parts."""

    def __init__(self, tape: Recording, name: str = "") -> None:
        self._tape, self._name = tape, name
        self.is_replaying = tape.is_replaying

    def replayed(self, question: Question, account: Account | None = None, /) -> Answer | None:
        """The other tape's answer."""
        return self._tape.replayed(question, account)

    def asked(self, question: Question, /) -> OpenQuestion:
        """The question, for the other tape."""
        return self._tape.asked(question)

    def told(self, run: str, milestone: Milestone, /) -> None:
        """Let the other tape know."""
        self._tape.told(run, milestone)

    def now(self) -> float:
        """The other tape's time."""
        return self._tape.now()

    def watch(self, part: str = "", /) -> Clock:
        """The next watch of this part."""
        return self._tape.watch(f"{self._name}/{part}" if self._name else part)


class Attempt(ScopedRecording):
    """What is asked here may be given up before it is answered; that is its answer then. Any thread may use it.

    Once it is closed, what was left early is left.
    """

    def __init__(self, tape: Recording) -> None:
        super().__init__(tape)
        self.has_begun = threading.Event()
        self._lock = threading.Lock()
        self._questions: list[OpenQuestion] = []
        self._left: list[tuple[OpenQuestion, Answer]] = []
        self._error: ModelError | None = None
        self._is_closed = False

    def asked(self, question: Question, /) -> OpenQuestion:
        """The question, which may be given up."""
        asked = _Attempted(self._tape.asked(question), self)
        with self._lock:
            self._questions.append(asked)
            error = self._error
        self.has_begun.set()
        if error is not None:
            asked.heard(error)
        return asked

    def give_up(self, error: ModelError) -> bool:
        """Take down the error as the answer; whether it is, rather than one that came just before."""
        with self._lock:
            self._error = error
            questions = tuple(self._questions)
        taken = [asked.heard(error) for asked in questions]
        return False not in taken

    def leave(self, asked: OpenQuestion, answer: Answer) -> None:
        """Leave a question early, unless it will have been given up by the end of the attempt."""
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._left.append((asked, answer))
        if is_closed:
            asked.heard(answer)

    def close(self) -> None:
        """The attempt is over."""
        with self._lock:
            self._is_closed = True
        for asked, answer in self._left:
            asked.heard(answer)


class _Attempted(OpenQuestion):
    """A question of an attempt."""

    def __init__(self, asked: OpenQuestion, attempt: Attempt) -> None:
        super().__init__(asked.tape)
        self._asked, self._attempt = asked, attempt

    def heard(self, answer: Answer, /, *, is_live: bool = False, charge: Charge | None = None) -> bool | None:
        return self._asked.heard(answer, is_live=is_live, charge=charge)

    def left(self, answer: Answer, /) -> None:
        self._attempt.leave(self._asked, answer)


@contextmanager
def attempted() -> Iterator[Attempt]:
    """An attempt on the tape that is active here; closed at the end of the block."""
    attempt = Attempt(TAPE.get() or _SILENCE)
    try:
        yield attempt
    finally:
        attempt.close()


_SILENCE = Recording()


def taped(
    question: Question,
    ask: Callable[[], _Answer],
    is_live: Callable[[_Answer], bool] = lambda _: False,
    account: Account | None = None,
) -> _Answer:
    """The recorded answer, or what `ask` gives, which is recorded. Raises what `ask` raises, and ReplayError.

    `is_live` says of an answer that it holds what no file can, such as the agent that a call hands over to: it is asked
    for again in a replay. `account` is what the answering is charged to.
    """
    tape = TAPE.get()
    if tape is None:
        return ask()
    known = tape.replayed(question, account)
    if known is not None:
        return cast("_Answer", _given(known))
    asked = tape.asked(question)
    with _hearing_errors(asked), active(asked.tape):
        answer = ask()
    asked.heard(answer, is_live=is_live(answer), charge=None if account is None else account.charged)
    return answer


async def ataped(
    question: Question,
    ask: Callable[[], Awaitable[_Answer]],
    is_live: Callable[[_Answer], bool] = lambda _: False,
    account: Account | None = None,
) -> _Answer:
    """Like `taped`, awaiting."""
    tape = TAPE.get()
    if tape is None:
        return await ask()
    known = tape.replayed(question, account)
    if known is not None:
        return cast("_Answer", _given(known))
    asked = tape.asked(question)
    with _hearing_errors(asked), active(asked.tape):
        answer = await ask()
    asked.heard(answer, is_live=is_live(answer), charge=None if account is None else account.charged)
    return answer


@contextmanager
def _hearing_errors(asked: OpenQuestion) -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        asked.heard(error)
        raise


def taped_stream(request: Request, ask: Callable[[], Iterator[Event]]) -> Iterator[Event]:
    """Like `taped`, for an answer in pieces; from a recording each piece is whole."""
    tape = TAPE.get()
    return ask() if tape is None else _stream(tape, request, ask)


def ataped_stream(request: Request, ask: Callable[[], AsyncIterator[Event]]) -> AsyncIterator[Event]:
    """Like `taped_stream`, awaiting."""
    tape = TAPE.get()
    return ask() if tape is None else _astream(tape, request, ask)


def _stream(tape: Recording, request: Request, ask: Callable[[], Iterator[Event]]) -> Generator[Event, None, None]:
    known = tape.replayed(request)
    if known is not None:
        yield from streamed(_given(known))
        return
    hearing = _StreamRecorder(tape.asked(request))
    events = ask()
    try:
        for event in events:
            hearing.hear(event)
            yield event
    except ModelError as error:
        hearing.end(error)
        raise
    finally:
        if isinstance(events, Generator):
            events.close()
        hearing.end()


async def _astream(
    tape: Recording, request: Request, ask: Callable[[], AsyncIterator[Event]]
) -> AsyncGenerator[Event, None]:
    known = tape.replayed(request)
    if known is not None:
        for event in streamed(_given(known)):
            yield event
        return
    hearing = _StreamRecorder(tape.asked(request))
    events = ask()
    try:
        async for event in events:
            hearing.hear(event)
            yield event
    except ModelError as error:
        hearing.end(error)
        raise
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
        hearing.end()


class _StreamRecorder:
    """Hears a stream once: its response, its error, or as much of it as came before it was left."""

    def __init__(self, asked: OpenQuestion) -> None:
        self._asked = asked
        self._texts: list[str] = []
        self._has_ended = False

    def hear(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._texts.append(event.text)
        elif isinstance(event, ResponseReceived):
            self.end(event.response)

    def end(self, answer: Response | ModelError | None = None) -> None:
        """The stream is over; without an answer it was left early."""
        if not self._has_ended:
            self._has_ended = True
            if answer is not None:
                self._asked.heard(answer)
            else:
                self._asked.left(Response(AssistantMessage("".join(self._texts)), finish_reason="length"))


def _given(answer: Answer) -> Any:
    """The answer as the world gave it: returned, or raised."""
    if isinstance(answer, ModelError):
        raise answer
    return cast("Any", answer)
