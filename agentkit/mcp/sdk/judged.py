"""How does a login's own request reach the address that was judged? Resolved once, judged, and sent to just that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx2

from agentkit.errors import ToolError, ToolTimeout
from agentkit.mcp.logins.reach import Reach
from agentkit.mcp.sdk.bounding import UNPACKED, bound
from agentkit.safety.addresses import Url
from agentkit.tooling import running
from agentkit.tools.web.connection import RESOLVE_SECONDS, USER_AGENT, Resolver, resolve

MOST_BYTES = 1_000_000
"""How long an answer may be. Metadata, a registration and a token are far shorter."""

_MOST_REDIRECTS = 5
_HEADERS = {**UNPACKED, "User-Agent": USER_AGENT, "Accept": "application/json"}


class JudgedTransport(httpx2.AsyncBaseTransport):
    """Sends a request if its host may be reached: it connects to the very address that was checked."""

    def __init__(self, reach: Reach, resolver: Resolver = resolve) -> None:
        self._reach, self._resolver = reach, resolver
        self._transport = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer. Raises ToolError for what may not be asked, and TransportError."""
        url = self._reach.admitted(str(request.url))
        named: dict[str, Any] = {} if url.address else {"sni_hostname": url.host}
        pinned = httpx2.Request(
            request.method,
            url.at(await self._address(url)),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, **named},
        )
        return await self._transport.handle_async_request(pinned)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._transport.aclose()

    async def _address(self, url: Url) -> str:
        """The first address of a host, when all of them may be called."""
        if url.address:
            return str(url.address)
        try:
            found = list(await running.acall(partial(self._resolver, url.host, url.port), RESOLVE_SECONDS))
        except (OSError, ToolTimeout):
            raise ToolError(f"The host {url.host}, where the login leads, cannot be found.") from None
        for address in found:
            self._reach.check(url, address)
        return str(found[0])


async def sent(request: httpx2.Request, reach: Reach, seconds: float = 20.0) -> httpx2.Response:
    """The answer to a login's own request, read whole; redirects are followed within its origin, as the package does.

    Raises ToolError, also when that takes longer.
    """
    from mcp.shared._httpx_utils import next_request_within_origin

    for name, value in _HEADERS.items():
        request.headers.setdefault(name, value)
    hooks: dict[str, list[Callable[..., Any]]] = {"response": [partial(bound, most_bytes=MOST_BYTES)]}
    host = request.url.host
    try:
        async with (
            asyncio.timeout(seconds),
            httpx2.AsyncClient(transport=JudgedTransport(reach), event_hooks=hooks) as web,
        ):
            response = await web.send(request)
            for _ in range(_MOST_REDIRECTS):
                follow = next_request_within_origin(response)
                if follow is None:
                    break
                response = await web.send(follow)
            return response
    except TimeoutError:
        raise ToolError(f"{host}, where the login leads, did not answer in {seconds:g} seconds.") from None
    except httpx2.RequestError as error:
        raise ToolError(f"{host}, where the login leads, cannot be asked: {error}.") from None
