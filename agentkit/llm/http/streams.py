"""How does the body of an answer pass through our hands on its way? As a stream of the HTTP library's own kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2


class Passing(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """The body of a response on its way, blocking or awaiting: what another stream gives."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.stream)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self.stream)

    def close(self) -> None:
        """Let go of the connection."""
        self.stream.close()

    async def aclose(self) -> None:
        """Like `close`, awaiting."""
        await self.stream.aclose()
