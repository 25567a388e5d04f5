"""How much may a server on the web answer? Not more than can be wanted: the package reads answers whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2

MOST_BYTES = 64_000_000
"""How long an answer may be. Of a stream of events, which may go on for ever, the package bounds each."""

UNPACKED = {"Accept-Encoding": "identity"}
"""The header that asks for answers as they are: a small one that is compressed can unfold to fill the memory."""


async def bound(response: httpx2.Response) -> None:
    """Bind the body of an answer that has not been read yet. Raises TransportError for one that is compressed."""
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise httpx2.DecodingError("its answer is compressed, which nobody asked for", request=response.request)
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error when it is too long."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._left = stream, MOST_BYTES

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise httpx2.ReadError(f"its answer has more than {MOST_BYTES:,} bytes")
            yield piece

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._stream.aclose()
