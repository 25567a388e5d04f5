"""Event listeners: dispatch, run identity, surrounding contexts and failure handling.

A listener is a function of an Event; it may have a method `around` too, as in `Surrounding`. Whoever listens hears the
same events as everybody else.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, ExitStack, aclosing, closing, contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, Self, TypeGuard, TypeVar, cast

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision
from agentkit.events import Event, ResponseReceived, RunStatus, ToolCallFinished
from agentkit.messages import Request, Response, ToolCall, ToolResult
from agentkit.redaction import redact
from agentkit.usage import Cost, Usage

Listener = Callable[[Event], object]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an event comes from: the run of the id `run`, and the agent that leads it by now.

    `parent` is the id of the run whose tool call set this one to work, empty where there is none; `session` is the name
    of a conversation that is kept. `iteration` is that of the newest request, counted from 1; 0 before the first. A run
    that `is_elsewhere` went on in another process, and is told of once its result is here.
    """

    run: str
    agent: str
    parent: str = ""
    session: str = ""
    iteration: int = 0
    is_elsewhere: bool = False


NOWHERE = Origin("", "")
"""The origin of what no run tells."""

_ORIGIN: ContextVar[Origin] = ContextVar("agentkit_origin", default=NOWHERE)


def origin() -> Origin:
    """Where the event comes from that a listener is told of just now; `NOWHERE` when none is."""
    return _ORIGIN.get()


def tell(listeners: Iterable[Listener], event: Event, source: Origin) -> None:
    """Let the listeners hear an event, one after the other; what one of them raises is raised."""
    token = _ORIGIN.set(source)
    try:
        for listener in listeners:
            listener(event)
    finally:
        _ORIGIN.reset(token)


@dataclass(slots=True, eq=False)
class ModelRequest:
    """A request that a run is about to make of the model `model` at `provider`, under the address `url`.

    `response` is the answer, once it is whole; where there is none, a ModelError is raised.
    """

    origin: Origin
    request: Request
    provider: str
    model: str
    url: str = ""
    is_streamed: bool = False
    response: Response | None = None


@dataclass(slots=True, eq=False)
class ToolUse:
    """A tool call that may happen, and is about to. `result` is what came of it; a tool's failure is a result."""

    origin: Origin
    call: ToolCall
    decision: Decision
    description: str = ""
    result: ToolResult | None = None


Work = ModelRequest | ToolUse
"""What a run has done by the world, and what takes its time."""

_Work = TypeVar("_Work", bound=Work)
_Value = TypeVar("_Value")


class ContextListener(Protocol):
    """A listener that stands around the work of runs, too."""

    def __call__(self, event: Event, /) -> object:
        """Hear an event."""

    def around(self, work: Work, /) -> AbstractContextManager[object]:
        """What is entered before the work and left after it, in the thread or task that does it.

        Context variables that are set there hold for the work: also in the threads that it starts, and from piece to
        piece of a streamed answer. It lets pass what is raised within.
        """


def is_surrounding(listener: Listener) -> TypeGuard[ContextListener]:
    """Whether a listener has a method `around`."""
    return callable(getattr(listener, "around", None))


@contextmanager
def surrounded(listeners: Iterable[ContextListener], work: _Work) -> Iterator[_Work]:
    """All that listeners put around the work, the first one outermost."""
    with ExitStack() as stack:
        for listener in listeners:
            stack.enter_context(listener.around(work))
        yield work


def pieces_within(
    around: AbstractContextManager[object], pieces: Generator[Event, None, None]
) -> Generator[Event, None, None]:
    """A streamed answer, each piece of which is waited for within `around`: that is left when the answer is whole.

    Whoever reads the pieces goes on in a context of their own meanwhile.
    """
    event = None
    with closing(pieces), _Context(around) as within:
        while (event := within.call(next, pieces, None)) is not None and not isinstance(event, ResponseReceived):
            yield event
    if event is not None:
        yield event


async def apieces_within(
    around: AbstractContextManager[object], pieces: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """Like `pieces_within`, awaiting; the last piece is the last before the whole answer, which is not among them."""
    async with aclosing(pieces):
        with _Context(around) as within:
            while (event := await within.awaited(anext(pieces, None))) is not None:
                yield event


class _Context:
    """A context of its own, in which something is entered, and left at the end of the block."""

    def __init__(self, entered: AbstractContextManager[object]) -> None:
        self._entered, self._context = entered, copy_context()

    def __enter__(self) -> Self:
        self._context.run(self._entered.__enter__)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._context.run(self._entered.__exit__, *raised)

    def call(self, function: Callable[..., _Value], *arguments: Any) -> _Value:
        """What the function gives in this context."""
        return self._context.run(function, *arguments)

    async def awaited(self, awaitable: Awaitable[_Value]) -> _Value:
        """What is awaited in this context, by the task that is at work."""
        return await _ContextAwaitable(self, awaitable)


class _ContextAwaitable(Generator[Any, Any, _Value]):
    """Awaits something, and takes each of its steps in a context."""

    def __init__(self, context: _Context, awaitable: Awaitable[_Value]) -> None:
        self._context, self._steps = context, awaitable.__await__()

    def __await__(self) -> Generator[Any, Any, _Value]:
        return self

    def send(self, value: Any) -> Any:
        return self._context.call(self._steps.send, value)

    def throw(self, *raised: Any) -> Any:
        return self._context.call(self._steps.throw, *raised)


class RunOutcome(Protocol):
    """What a run has come to: what `RunFinished.result` says."""

    status: RunStatus
    usage: Usage
    cost: Cost | None
    iterations: int
    tool_calls: Sized
    error: Exception | None
    value: Any


def ending_in(event: Event) -> RunOutcome | None:
    """The result in RunFinished, which lives with the agents; None in any other event."""
    result = None if isinstance(event, ToolCallFinished) else getattr(event, "result", None)
    return cast("RunOutcome | None", result)


def text_of(value: object) -> str:
    """An answer as text."""
    return value if isinstance(value, str) else "" if value is None else str(value)


_LOGGER = logging.getLogger("agentkit.tracing")


class FailureGuard:
    """Calls what may fail. The first failure is a warning in the log `agentkit.tracing`, no other is.

    The warning says `what` failed, and as `remedy` what to do about it.
    """

    def __init__(self, what: str, remedy: str) -> None:
        self._what, self._remedy, self._has_failed = what, remedy, False

    def call(self, function: Callable[..., _Value], *arguments: object) -> _Value | None:
        """What the function gives; None when it fails."""
        try:
            return function(*arguments)
        except Exception as error:
            if not self._has_failed:
                self._has_failed = True
                told = redact(f"{type(error).__name__}: {error}")
                _LOGGER.warning("%s (%s). Runs go on, and this is not told again. %s", self._what, told, self._remedy)
        return None
