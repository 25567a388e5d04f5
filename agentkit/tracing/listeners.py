"""Event listeners: dispatch, run identity, surrounding contexts and failure handling.

A listener is a callable that takes an Event; it can also have a method `around`, as in `ContextListener`. Every
listener receives the same events.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, closing, contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, Self, TypeGuard, TypeVar, cast

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision
from agentkit.events import Event, ResponseReceived, RunStatus, StoredEvent, ToolCallFinished
from agentkit.messages import EmbeddingAnswer, EmbeddingQuery, Request, Response, ToolCall, ToolResult
from agentkit.redaction import redact

Listener = Callable[[Event], object]


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of an event: the run with the id `run`, and the agent that is active now.

    `parent` is the id of the run whose tool call started this one, or empty; `session` is the name of a stored
    conversation. `iteration` is the number of the latest request, counted from 1; 0 before the first. A run that
    `is_elsewhere` ran in another process, and its events are emitted once its result has arrived. `description` is that
    of the agent, `request_seconds` the duration of the latest request.
    """

    run: str
    agent: str
    parent: str = ""
    session: str = ""
    iteration: int = 0
    is_elsewhere: bool = False
    description: str = ""
    request_seconds: float | None = None


OUTSIDE_RUNS = Origin("", "")
"""The origin outside of runs."""

_ORIGIN: ContextVar[Origin] = ContextVar("agentkit_origin", default=OUTSIDE_RUNS)


def origin() -> Origin:
    """Return the origin of the event that is being dispatched; `OUTSIDE_RUNS` outside of dispatch."""
    return _ORIGIN.get()


def dispatch(listeners: Iterable[Listener], event: Event, source: Origin) -> None:
    """Dispatch an event to the listeners in order; exceptions propagate."""
    token = _ORIGIN.set(source)
    try:
        for listener in listeners:
            listener(event)
    finally:
        _ORIGIN.reset(token)


@dataclass(slots=True, eq=False)
class ModelRequest:
    """A request that a run is about to send to the model `model` of `provider`, at the address `url`.

    `response` is set once it is complete; a failed request raises a ModelError.
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
    """An approved tool call that is about to be executed. `result` is its result; a failure of the tool is a result."""

    origin: Origin
    call: ToolCall
    decision: Decision
    description: str = ""
    result: ToolResult | None = None


@dataclass(slots=True, eq=False)
class EmbeddingRequest:
    """A request for the vectors of texts that a tool call is about to make. `made` is set once it is complete."""

    origin: Origin
    asked: EmbeddingQuery
    provider: str
    model: str
    url: str = ""
    made: EmbeddingAnswer | None = None


Work = ModelRequest | ToolUse | EmbeddingRequest
"""The external work of a run that takes time."""

_Work = TypeVar("_Work", bound=Work)
_Value = TypeVar("_Value")


class ContextListener(Protocol):
    """A listener that also wraps the work of runs in a context manager."""

    def __call__(self, event: Event, /) -> object:
        """Receive an event."""

    def around(self, work: Work, /) -> AbstractContextManager[object]:
        """Return a context manager for the work, entered and exited in the thread or task that does it.

        Context variables set on entering apply to the work, also in threads that it starts, and across all chunks of a
        streamed response. The context manager must not suppress exceptions.
        """


def is_context_listener(listener: Listener) -> TypeGuard[ContextListener]:
    """Whether a listener has a method `around`."""
    return callable(getattr(listener, "around", None))


@contextmanager
def contexts_around(listeners: Iterable[ContextListener], work: _Work) -> Iterator[_Work]:
    """Enter the contexts of all listeners around the work, the first one outermost."""
    with ExitStack() as stack:
        for listener in listeners:
            stack.enter_context(listener.around(work))
        if isinstance(work, ToolUse):
            token = _CURRENT_LISTENERS.set((tuple(listeners), work.origin))
            stack.callback(_CURRENT_LISTENERS.reset, token)
        yield work


_CURRENT_LISTENERS: ContextVar[tuple[Sequence[ContextListener], Origin]] = ContextVar("agentkit_listeners")
"""The listeners of the run whose tool call is being executed, and its origin."""


@contextmanager
def contexts_around_embedding(asked: EmbeddingQuery, where: Callable[[], Any]) -> Iterator[EmbeddingRequest]:
    """Enter the contexts of the run's listeners around a request for vectors, if a tool call makes it.

    `where` describes the model: its `provider`, `model` and `endpoint`.
    """
    listeners, source = _CURRENT_LISTENERS.get(((), OUTSIDE_RUNS))
    if not listeners:
        yield EmbeddingRequest(source, asked, "", "")
        return
    model = where()
    with contexts_around(
        listeners, EmbeddingRequest(source, asked, model.provider, model.model, model.endpoint)
    ) as work:
        yield work


def chunks_within(
    around: AbstractContextManager[object], chunks: Generator[Event, None, None]
) -> Generator[Event, None, None]:
    """Stream a response, producing each chunk within `around`, which is exited when the response is complete.

    The consumer of the chunks runs in its own context.
    """
    event = None
    with closing(chunks), _Context(around) as within:
        while (event := within.call(next, chunks, None)) is not None and not isinstance(event, ResponseReceived):
            yield event
    if event is not None:
        yield event


async def achunks_within(
    around: AbstractContextManager[object], chunks: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """Like `chunks_within`, asynchronously; ends with the last chunk, without the complete response."""
    async with aclosing(chunks):
        with _Context(around) as within:
            while (event := await within.awaited(anext(chunks, None))) is not None:
                yield event


class _Context:
    """A separate context, in which a context manager is entered, and exited at the end of the block."""

    def __init__(self, entered: AbstractContextManager[object]) -> None:
        self._entered, self._context = entered, copy_context()

    def __enter__(self) -> Self:
        self._context.run(self._entered.__enter__)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._context.run(self._entered.__exit__, *raised)

    def call(self, function: Callable[..., _Value], *arguments: Any) -> _Value:
        """Call the function in this context."""
        return self._context.run(function, *arguments)

    async def awaited(self, awaitable: Awaitable[_Value]) -> _Value:
        """Await in this context, within the current task."""
        return await _ContextAwaitable(self, awaitable)


class _ContextAwaitable(Generator[Any, Any, _Value]):
    """Awaits an object, running each step in a context."""

    def __init__(self, context: _Context, awaitable: Awaitable[_Value]) -> None:
        self._context, self._steps = context, awaitable.__await__()

    def __await__(self) -> Generator[Any, Any, _Value]:
        return self

    def send(self, value: Any) -> Any:
        return self._context.call(self._steps.send, value)

    def throw(self, *raised: Any) -> Any:
        return self._context.call(self._steps.throw, *raised)


class RunOutcome(Protocol):
    """The outcome of a run: the interface of `RunFinished.result`."""

    status: RunStatus
    error: Exception | None
    value: Any


def outcome_of(event: Event) -> RunOutcome | None:
    """Return the result in RunFinished, which is defined in the agents package; None for any other event."""
    result = None if isinstance(event, ToolCallFinished) else getattr(event, "result", None)
    return cast("RunOutcome | None", result)


def is_logged(event: Event) -> bool:
    """Whether an event is logged: stored events and the end of a run, not streamed chunks."""
    return isinstance(event, StoredEvent) or outcome_of(event) is not None or event.describe().severity != "debug"


_LOGGER = logging.getLogger("agentkit.tracing")


class FailureGuard:
    """Calls functions that can fail. Only the first failure is logged, as a warning in `agentkit.tracing`.

    The warning states `what` failed, and as `remedy` what to do about it.
    """

    def __init__(self, what: str, remedy: str) -> None:
        self._what, self._remedy, self._has_failed = what, remedy, False

    def call(self, function: Callable[..., _Value], *arguments: object) -> _Value | None:
        """Call the function; return None if it fails."""
        try:
            return function(*arguments)
        except Exception as error:
            if not self._has_failed:
                self._has_failed = True
                text = redact(f"{type(error).__name__}: {error}")
                _LOGGER.warning(
                    "%s (%s). Runs are not affected; further failures are not logged. %s",
                    self._what,
                    text,
                    self._remedy,
                )
        return None
