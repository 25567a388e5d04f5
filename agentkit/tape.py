"""Where do answers come from: the world, or a recording of it? A tape hears them, or gives them again.

A tape is active for what happens in the context of a `with` block: its tasks, and the threads that copy the context.
Whoever asks the world goes through `taped` or its likes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from agentkit.decisions import Decision
from agentkit.errors import ModelError
from agentkit.events import (
    Approved,
    Event,
    Milestone,
    ResponseReceived,
    TextDelta,
    deltas_of,
)
from agentkit.messages import AssistantMessage, Request, Response, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class PersonAsked:
    """A person is asked about a tool call; the answer is an Approved."""

    call: ToolCall
    decision: Decision


Question = Request | ToolCall | PersonAsked
"""What only the world can answer: a model, a tool, a person."""

Answer = Response | ModelError | ToolResult | Approved
"""What came of a question. A ModelError was raised, and is raised again."""

_Answer = TypeVar("_Answer", bound=Response | ToolResult | Approved)


class Asked:
    """A question that is being put to the world. `tape` hears what the answering itself asks."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def heard(self, answer: Answer, /, *, is_live: bool = False) -> None:
        """Take down the answer; one that `is_live` cannot be written down whole, so that a replay asks again."""


class Tape:
    """What every tape does unless it knows better: nothing. Any thread may use it."""

    is_replaying = False
    """Whether answers come from a recording, so that no model, tool or person is needed."""

    def replayed(self, _question: Question, /) -> Answer | None:
        """The recorded answer; None when the world is to be asked. Raises ReplayError when none was recorded."""
        return None

    def asked(self, _question: Question, /) -> Asked:
        """The question, about to be put to the world."""
        return Asked(self)

    def told(self, run: str, milestone: Milestone, /) -> None:
        """Take down what the run of that id has done."""

    def now(self) -> float:
        """The time in seconds since 1970, of the recording when it is replayed."""
        return time.time()


TAPE: ContextVar[Tape | None] = ContextVar("TAPE", default=None)
"""The tape that is active here; None when the world answers and nobody listens."""


@contextmanager
def active(tape: Tape) -> Iterator[None]:
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
    return time.monotonic if tape is None else tape.now


def taped(
    question: Question, ask: Callable[[], _Answer], is_live: Callable[[_Answer], bool] = lambda _: False
) -> _Answer:
    """The recorded answer, or what `ask` gives, which is recorded. Raises what `ask` raises, and ReplayError.

    `is_live` says of an answer that it holds what no file can, such as the agent that a call hands over to: it is asked
    for again in a replay.
    """
    tape = TAPE.get()
    if tape is None:
        return ask()
    known = tape.replayed(question)
    if known is not None:
        return cast("_Answer", _given(known))
    asked = tape.asked(question)
    try:
        with active(asked.tape):
            answer = ask()
    except ModelError as error:
        asked.heard(error)
        raise
    asked.heard(answer, is_live=is_live(answer))
    return answer


async def ataped(
    question: Question, ask: Callable[[], Awaitable[_Answer]], is_live: Callable[[_Answer], bool] = lambda _: False
) -> _Answer:
    """Like `taped`, awaiting."""
    tape = TAPE.get()
    if tape is None:
        return await ask()
    known = tape.replayed(question)
    if known is not None:
        return cast("_Answer", _given(known))
    asked = tape.asked(question)
    try:
        with active(asked.tape):
            answer = await ask()
    except ModelError as error:
        asked.heard(error)
        raise
    asked.heard(answer, is_live=is_live(answer))
    return answer


def taped_stream(request: Request, ask: Callable[[], Iterator[Event]]) -> Iterator[Event]:
    """Like `taped`, for an answer in pieces; from a recording each piece is whole."""
    tape = TAPE.get()
    return ask() if tape is None else _stream(tape, request, ask)


def ataped_stream(request: Request, ask: Callable[[], AsyncIterator[Event]]) -> AsyncIterator[Event]:
    """Like `taped_stream`, awaiting."""
    tape = TAPE.get()
    return ask() if tape is None else _astream(tape, request, ask)


def _stream(tape: Tape, request: Request, ask: Callable[[], Iterator[Event]]) -> Generator[Event, None, None]:
    known = tape.replayed(request)
    if known is not None:
        yield from _pieces(_given(known))
        return
    hearing = _Hearing(tape.asked(request))
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
    tape: Tape, request: Request, ask: Callable[[], AsyncIterator[Event]]
) -> AsyncGenerator[Event, None]:
    known = tape.replayed(request)
    if known is not None:
        for event in _pieces(_given(known)):
            yield event
        return
    hearing = _Hearing(tape.asked(request))
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


class _Hearing:
    """Hears a stream once: its response, its error, or as much of it as came before it was left."""

    def __init__(self, asked: Asked) -> None:
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
            so_far = AssistantMessage("".join(self._texts))
            self._asked.heard(answer or Response(so_far, finish_reason="length"))


def _given(answer: Answer) -> Any:
    """The answer as the world gave it: returned, or raised."""
    if isinstance(answer, ModelError):
        raise answer
    return cast("Any", answer)


def _pieces(response: Response) -> Iterable[Event]:
    """A whole response as a stream tells it."""
    yield from deltas_of(response)
    yield ResponseReceived(response)
