"""How much may a server on the web answer? Not more than can be wanted: the package reads answers whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT

from agentkit.doors import is_local

MOST_BYTES = 64_000_000
"""How long an answer may be that is read whole."""

UNPACKED = {"Accept-Encoding": "identity"}
"""The header that asks for answers as they are: a small one that is compressed can unfold to fill the memory."""


def web_client(url: str, headers: Mapping[str, str], auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """What asks one server, as the package would. What is for this machine goes through no proxy of another's."""
    return httpx2.AsyncClient(
        headers={**headers, **UNPACKED},
        auth=auth,
        timeout=httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=MCP_DEFAULT_SSE_READ_TIMEOUT),
        transport=httpx2.AsyncHTTPTransport() if is_local(urlsplit(url).hostname or "") else None,
        event_hooks={"response": [bound]},
    )


async def bound(response: httpx2.Response, most_bytes: int = MOST_BYTES) -> None:
    """Bind the body of an answer that has not been read yet. Raises TransportError for one that is compressed.

    Of a stream of events that was asked for, the package bounds each. A refusal is read whole, whatever it calls
    itself, and so is what has a narrower bound.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise httpx2.DecodingError("its answer is compressed, which nobody asked for", request=response.request)
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    if not is_stream or not response.is_success or most_bytes < MOST_BYTES:
        response.stream = _Bounded(response.stream, most_bytes)


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error when it is too long."""

    def __init__(self, stream: Any, most_bytes: int) -> None:
        self._stream, self._most, self._left = stream, most_bytes, most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise httpx2.ReadError(f"its answer has more than {self._most:,} bytes")
            yield piece

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._stream.aclose()
