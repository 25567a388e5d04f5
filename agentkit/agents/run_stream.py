"""The events of a running run as iterators that also accept messages for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any, Generic, Self, TypeVar

from agentkit.agents.result import RunFinished
from agentkit.errors import RunError
from agentkit.events import Event
from agentkit.messages import Content

T = TypeVar("T")

_ENDED = "The run has ended. Send the message as the next prompt."


class Inbox:
    """Messages sent into a run while it is running. Thread-safe."""

    def __init__(self) -> None:
        self._messages: deque[Content] = deque()
        self._lock = threading.Lock()
        self._is_closed = False

    def put(self, message: Content) -> None:
        """Add a message. Raises RunError if the run has ended."""
        with self._lock:
            if self._is_closed:
                raise RunError(_ENDED)
            self._messages.append(message)

    def take(self) -> Content | None:
        """Remove and return the oldest message; None if there are none."""
        with self._lock:
            return self._messages.popleft() if self._messages else None

    def close(self) -> list[Content]:
        """Accept no more messages; returns those that were not read."""
        with self._lock:
            self._is_closed = True
            return list(self._messages)

    def close_if_empty(self) -> bool:
        """Accept no more messages, unless there are unread ones; returns whether it was closed."""
        with self._lock:
            self._is_closed = not self._messages
            return self._is_closed


class _Sender:
    def __init__(self, inbox: Inbox, content_from: Callable[[Any], Content]) -> None:
        self._inbox, self._content_from = inbox, content_from

    def send(self, message: Any) -> None:
        """Send a message into the run, from any thread or task; the next request to the model contains it.

        If the model has just answered, the run continues with the message. Raises ConfigError for an invalid message,
        RunError if the run has ended.
        """
        self._inbox.put(self._content_from(message))


class RunStream(_Sender, Generic[T]):
    """The events of a run; the last is RunFinished. Leaving the loop, or `close()`, interrupts the run."""

    def __init__(
        self, events: Generator[Event, None, None], inbox: Inbox, content_from: Callable[[Any], Content]
    ) -> None:
        super().__init__(inbox, content_from)
        self._events = events

    def __iter__(self) -> Iterator[Event | RunFinished[T]]:
        return self

    def __next__(self) -> Event | RunFinished[T]:
        return next(self._events)

    def close(self) -> None:
        """Interrupt the run unless it has ended."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncRunStream(_Sender, Generic[T]):
    """Async version of `RunStream`; use it as `async with` to leave it early."""

    def __init__(
        self, events: AsyncGenerator[Event, None], inbox: Inbox, content_from: Callable[[Any], Content]
    ) -> None:
        super().__init__(inbox, content_from)
        self._events = events

    def __aiter__(self) -> AsyncIterator[Event | RunFinished[T]]:
        return self

    async def __anext__(self) -> Event | RunFinished[T]:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Interrupt the run unless it has ended."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
