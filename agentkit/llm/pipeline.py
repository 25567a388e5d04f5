"""The model pipeline: stages that answer a request as generators without I/O, and the drivers that perform their I/O.

The steps of a stage yield events for the caller and effects for the driver, receive the results of the effects, and
return the response. A stage delegates to the next one with `yield from`; the last one sends the request.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing, closing
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from agentkit.errors import AgentKitError, BadResponse, ModelError, Unreachable
from agentkit.events import Event, ReasoningDelta, ResponseReceived, TextDelta, ToolCallDelta
from agentkit.messages import AssistantMessage, Request, Response, ToolCall
from agentkit.usage import Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


_T = TypeVar("_T")


class IOCall(NamedTuple):
    """A call that the driver makes, blocking or async; its result is sent to the steps, an AgentKitError thrown in."""

    blocking: Callable[[], Any]
    awaiting: Callable[[], Awaitable[Any]]


class OpenStream(NamedTuple):
    """Opens a stream, whose items are then read with READ; the driver closes it at the end, or with the next one."""

    blocking: Callable[[], Generator[Any]]
    awaiting: Callable[[], AsyncGenerator[Any]]


class Read(NamedTuple):
    """Reads the next item of the stream that was opened last; None at its end."""


READ = Read()

StageStep = Event | IOCall | OpenStream | Read
StageSteps = Generator[StageStep, Any, _T]


class Provider(Protocol):
    """The interface of a model provider. Failures are raised as ModelError; see `agentkit.errors`.

    `stream` and `astream` yield TextDelta, ReasoningDelta and ToolCallDelta events and end with one ResponseReceived.
    Optional members are `prepare`, which loads what the first request needs, `close` and `aclose`, which release
    connections, and `adjustments`, which lists changes to requests that the server rejected.
    """

    def complete(self, request: Request) -> Response:
        """Answer one request, blocking."""
        ...

    async def acomplete(self, request: Request) -> Response:
        """Answer one request, async."""
        ...

    def stream(self, request: Request) -> Iterator[Event]:
        """Stream the response to one request, blocking."""
        ...

    def astream(self, request: Request) -> AsyncIterator[Event]:
        """Stream the response to one request, async."""
        ...


class Stage(ABC):
    """A provider that is implemented by steps."""

    @abstractmethod
    def steps(self, request: Request, *, streaming: bool, has_fallback: bool = False) -> StageSteps[Response]:
        """The steps that answer a request. `has_fallback`: give up sooner, because another model can be called."""

    def complete(self, request: Request) -> Response:
        """Answer one request, blocking."""
        return run(self.steps(request, streaming=False))

    async def acomplete(self, request: Request) -> Response:
        """Answer one request, async."""
        return await arun(self.steps(request, streaming=False))

    def stream(self, request: Request) -> Generator[Event]:
        """Stream the response to one request, blocking."""
        return perform(self.steps(request, streaming=True), ResponseReceived)

    def astream(self, request: Request) -> AsyncGenerator[Event]:
        """Stream the response to one request, async."""
        return aperform(self.steps(request, streaming=True), ResponseReceived)


def steps_of(
    provider: Provider, request: Request, *, streaming: bool, has_fallback: bool = False
) -> StageSteps[Response]:
    """The steps of any provider."""
    if isinstance(provider, Stage):
        return provider.steps(request, streaming=streaming, has_fallback=has_fallback)
    return _provider_steps(provider, request, streaming=streaming)


def _provider_steps(provider: Provider, request: Request, *, streaming: bool) -> StageSteps[Response]:
    if not streaming:
        response: Response = yield IOCall(partial(provider.complete, request), partial(provider.acomplete, request))
        return response
    emitted: list[Event] = []
    yield OpenStream(partial(_events, provider, request), partial(_aevents, provider, request))
    try:
        while (event := (yield READ)) is not None:
            if isinstance(event, ResponseReceived):
                return event.response
            emitted.append(event)
            yield event
    except ModelError as error:
        error.partial = error.partial or partial_answer(emitted)
        raise
    raise BadResponse("The provider's stream ended without an answer.")


def _events(provider: Provider, request: Request) -> Generator[Event]:
    yield from provider.stream(request)


async def _aevents(provider: Provider, request: Request) -> AsyncGenerator[Event]:
    events = provider.astream(request)
    try:
        async for event in events:
            yield event
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


def adjustments_of(provider: Provider) -> tuple[str, ...]:
    """The names of the adjustments that the provider makes to requests."""
    adjustments: tuple[str, ...] = getattr(provider, "adjustments", ())
    return adjustments


def prepare(provider: Provider) -> None:
    """Load what the provider's first request needs. Nothing is sent."""
    if found := getattr(provider, "prepare", None):
        found()


def close(provider: Provider) -> None:
    """Close the connections of the provider's blocking methods; a later request opens new ones."""
    if found := getattr(provider, "close", None):
        found()


async def aclose(provider: Provider) -> None:
    """Close the connections of the provider's async methods on the running event loop."""
    if found := getattr(provider, "aclose", None):
        await found()


def map_events(steps: StageSteps[_T], emit: Callable[[Event], Iterable[Event]]) -> StageSteps[_T]:
    """The same steps, with every event replaced by the events that `emit` returns for it."""
    move: Callable[[Any], StageStep] = steps.send
    given: Any = None
    try:
        while True:
            try:
                step = move(given)
            except StopIteration as done:
                result: _T = done.value
                return result
            move, given = steps.send, None
            if isinstance(step, Event):
                yield from emit(step)
                continue
            try:
                given = yield step
            except AgentKitError as error:
                move, given = steps.throw, error
    finally:
        given = None  # a thrown exception would refer to itself by its traceback
        steps.close()


def partial_answer(events: Iterable[Event]) -> AssistantMessage | None:
    """The message that these events of a stream were about; None without deltas."""
    texts: list[str] = []
    reasoning: list[str] = []
    calls: dict[int, ToolCall] = {}
    for event in events:
        if isinstance(event, TextDelta):
            texts.append(event.text)
        elif isinstance(event, ReasoningDelta):
            reasoning.append(event.text)
        elif isinstance(event, ToolCallDelta):
            call = calls.get(event.index, ToolCall("", "", ""))
            calls[event.index] = ToolCall("", call.name + event.name, call.arguments + event.arguments)
    if not (texts or reasoning or calls):
        return None
    return AssistantMessage("".join(texts), tuple(calls.values()), "".join(reasoning))


def run(steps: StageSteps[_T]) -> _T:
    """Perform all steps, blocking, and return their result."""
    items: list[_T] = [*perform(steps)]
    return items[-1]


async def arun(steps: StageSteps[_T]) -> _T:
    """Async version of `run`."""
    async with aclosing(aperform(steps)) as results:
        items: list[_T] = [item async for item in results]
    return items[-1]


def perform(steps: StageSteps[Any], finish: Callable[[Any], Any] | None = None) -> Generator[Any]:
    """Perform the steps, blocking; yields their events, and last their result, or `finish` of it."""
    move: Callable[[Any], StageStep] = steps.send
    given: Any = None
    source: Any = None
    with closing(steps), ExitStack() as opened:
        while True:
            try:
                step = move(given)
            except StopIteration as done:
                result = done.value
                break
            move, given = steps.send, None
            if isinstance(step, Event):
                yield step
                continue
            try:
                if isinstance(step, IOCall):
                    given = step.blocking()
                elif isinstance(step, OpenStream):
                    opened.close()
                    source = opened.enter_context(closing(step.blocking()))
                else:
                    given = next(source, None)
            except AgentKitError as error:
                move, given = steps.throw, error
        yield result if finish is None else finish(result)


async def aperform(steps: StageSteps[Any], finish: Callable[[Any], Any] | None = None) -> AsyncGenerator[Any]:
    """Async version of `perform`."""
    move: Callable[[Any], StageStep] = steps.send
    given: Any = None
    source: Any = None
    with closing(steps):
        async with AsyncExitStack() as opened:
            while True:
                try:
                    step = move(given)
                except StopIteration as done:
                    result = done.value
                    break
                move, given = steps.send, None
                if isinstance(step, Event):
                    yield step
                    continue
                try:
                    if isinstance(step, IOCall):
                        given = await step.awaiting()
                    elif isinstance(step, OpenStream):
                        await opened.aclose()
                        source = await opened.enter_async_context(aclosing(step.awaiting()))
                    else:
                        given = await anext(source, None)
                except AgentKitError as error:
                    move, given = steps.throw, error
            yield result if finish is None else finish(result)


class RequestCancellation:
    """Cancels blocking requests from another thread: at a deadline, or when their caller was interrupted.

    Connections in use are registered with a function that closes them. After `cancel` nothing is retried.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self._ends = time.monotonic() + seconds
        self._lock, self._cancelled = threading.Lock(), threading.Event()
        self._closers: list[Callable[[], None]] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for an answer any more."""
        return self._cancelled.is_set()

    def seconds_left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(self._ends - time.monotonic(), 0.0)

    def cancel(self) -> None:
        """Close the connections in use. Called again, it does nothing."""
        with self._lock:
            self._cancelled.set()
            closers, self._closers = self._closers, []
        for close in closers:
            close()

    def add(self, close: Callable[[], None]) -> None:
        """Register a connection in use; it is closed at once if the request was cancelled already."""
        with self._lock:
            is_late = self.is_cancelled
            if not is_late:
                self._closers.append(close)
        if is_late:
            close()

    def remove(self, close: Callable[[], None]) -> None:
        """Unregister a connection that is no longer in use."""
        with self._lock:
            if close in self._closers:
                self._closers.remove(close)

    def sleep(self, seconds: float) -> None:
        """Sleep, but no longer than until the request is cancelled."""
        self._cancelled.wait(seconds)


CANCELLATION: ContextVar[RequestCancellation | None] = ContextVar("CANCELLATION", default=None)
"""The cancellation of the blocking requests in this context; None if only their own thread can end them."""


def is_cancelled() -> bool:
    """Whether the requests of this context were cancelled, or their deadline has passed."""
    cancellation = CANCELLATION.get()
    return cancellation is not None and (cancellation.is_cancelled or not cancellation.seconds_left())


ABANDONED_USAGE: ContextVar[Callable[[Usage], None] | None] = ContextVar("ABANDONED_USAGE", default=None)
"""Receives what is known of the usage of a stream while it is closed before its end."""

ABANDONED = "abandoned"
"""Error code of a model request that was abandoned because the run's time was up."""


def too_late() -> Unreachable:
    """The error of a request that was not answered before its deadline."""
    return Unreachable("The run reached its time limit before the model answered.", code=ABANDONED)


def pause(seconds: float) -> IOCall:
    """Sleep, or stop sleeping when the request is cancelled."""
    return IOCall(partial(_sleep, seconds), partial(_asleep, seconds))


def _sleep(seconds: float) -> None:
    cancellation = CANCELLATION.get()
    if cancellation is None:
        time.sleep(seconds)
    else:
        cancellation.sleep(seconds)


async def _asleep(seconds: float) -> None:
    from asyncio import sleep

    await sleep(seconds)
