"""How do many requests at once share connections? Each has one to itself, and leaves it to the next."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from agentkit.llm.http.streams import Passing

KEPT_SECONDS = 5.0
"""How long a connection that nobody uses stays open."""

MOST_LANES = 1_000
"""How many requests at once have a connection; a process may have no more than so many files open."""


class Lanes:
    """A transport of the HTTP library for one event loop, made of many that have one connection each.

    A pool of that library goes through all its connections, and asks the system about each idle one, for every request
    that comes or goes: with 200 at once that is more work than all the rest. Here a request costs the same however
    many there are. `make` makes the transport of one connection; the first at once, so that it is known to work.
    Of more than `most` requests at once, the last wait until others are done.
    """

    def __init__(self, make: Callable[[], Any], kept_seconds: float = KEPT_SECONDS, most: int = MOST_LANES) -> None:
        self._make, self._kept_seconds = make, kept_seconds
        self._idle: deque[tuple[float, Any]] = deque([(time.monotonic(), make())])
        self._is_closed, self._free = False, asyncio.Semaphore(most)

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request on the lane that was used last, whose connection is the likeliest to be open still."""
        await self._free.acquire()
        lane = self._idle.pop()[1] if self._idle else self._make()
        try:
            response = await lane.handle_async_request(request)
        except BaseException:
            self._free.release()
            await lane.aclose()
            raise
        response.stream = _Lent(response.stream, partial(self._give_back, lane))
        return response

    async def aclose(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop()[1].aclose()

    async def _give_back(self, lane: Any) -> None:
        """Keep a lane for the next request, and close those that have waited too long for one."""
        self._free.release()
        if self._is_closed:
            await lane.aclose()
            return
        now = time.monotonic()
        self._idle.append((now, lane))
        while self._idle and now - self._idle[0][0] > self._kept_seconds:
            await self._idle.popleft()[1].aclose()


class _Lent(Passing):
    """A body whose connection is given back when it is closed."""

    def __init__(self, stream: Any, give_back: Callable[[], Awaitable[None]]) -> None:
        super().__init__(stream)
        self._give_back: Callable[[], Awaitable[None]] | None = give_back

    async def aclose(self) -> None:
        """Close the body, then give the connection back, once."""
        give_back, self._give_back = self._give_back, None
        try:
            await super().aclose()
        finally:
            if give_back is not None:
                await give_back()
