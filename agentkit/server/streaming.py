"""Streaming responses, client disconnects and the limit of concurrent runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import Any, TypeVar

from agentkit.errors import ConfigError
from agentkit.server.http_types import HTTPError, Receive
from agentkit.usage import is_whole

Send = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends an ASGI message over a connection."""

BEAT_SECONDS = 15.0
"""Seconds without output before a keep-alive is sent."""

SEND_SECONDS = 30.0
"""Seconds that a client can leave a chunk unread before it counts as disconnected."""

_MOST_WAITING = 64
_Value = TypeVar("_Value")


class ClientDisconnected(Exception):
    """The client has closed the connection, so that the response has no reader."""


async def unless_gone(receive: Receive | None, work: Coroutine[Any, Any, _Value]) -> _Value:
    """Return the result of the work. If the client disconnects first, cancel it and raise ClientDisconnected."""
    task = asyncio.create_task(work)
    watching = [] if receive is None else [asyncio.create_task(_left(receive))]
    try:
        await asyncio.wait({task, *watching}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnected
        return task.result()
    finally:
        await _ended(task, *watching)


async def deliver(
    pieces: AsyncIterator[bytes], start: Mapping[str, Any], send: Send, *, beat: bytes, beat_seconds: float
) -> None:
    """Send each chunk when it arrives, and a keep-alive while none does; the chunks are always closed at the end.

    `start` is the first message of the response. Raises ClientDisconnected if the client does not read.
    """
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)
    pump = asyncio.create_task(_pumped(pieces, waiting))
    try:
        await _sent(send, dict(start))
        while (piece := await _next(waiting, pump, beat, beat_seconds)) is not None:
            await _sent(send, {"type": "http.response.body", "body": piece, "more_body": True})
        await pump
        await _sent(send, {"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await _ended(pump)


async def _pumped(pieces: AsyncIterator[bytes], waiting: asyncio.Queue[bytes | None]) -> None:
    """Forward chunks to the queue. A single task runs the iterator, so that it is closed where it was opened."""
    try:
        if isinstance(pieces, AsyncGenerator):
            async with aclosing(pieces):
                async for piece in pieces:
                    await waiting.put(piece)
        else:
            async for piece in pieces:
                await waiting.put(piece)
    finally:
        with suppress(asyncio.QueueFull):  # the reader then sees that the pump has ended
            waiting.put_nowait(None)


async def _next(
    waiting: asyncio.Queue[bytes | None], pump: asyncio.Task[None], beat: bytes, beat_seconds: float
) -> bytes | None:
    """The next chunk, or a keep-alive; None at the end."""
    if pump.done() and waiting.empty():
        return None
    try:
        async with asyncio.timeout(beat_seconds):
            return await waiting.get()
    except TimeoutError:
        return beat


async def _sent(send: Send, message: dict[str, Any]) -> None:
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await send(message)
    except (TimeoutError, OSError):
        raise ClientDisconnected from None


async def _left(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class ConcurrencyLimit:
    """A limit on concurrent runs; one more is rejected with a retry header, before it starts."""

    def __init__(self, most: int) -> None:
        if not is_whole(most, 1):
            raise ConfigError(f"most_runs= takes a whole number of at least 1. Got {most!r:.200}.")
        self._most, self._taken, self._lock = most, 0, threading.Lock()

    def take(self) -> None:
        """Acquire a slot, which must be released. Raises HTTPError if all are taken."""
        with self._lock:
            if self._taken >= self._most:
                text = f"The maximum number of runs is in progress ({self._most}). Try again when one has ended."
                raise HTTPError(429, text, code="too_many_runs", headers={"retry-after": "1"})
            self._taken += 1

    def give_back(self) -> None:
        """Release a slot."""
        with self._lock:
            self._taken -= 1

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a slot for the block. Raises HTTPError if all are taken."""
        self.take()
        try:
            yield
        finally:
            self.give_back()
