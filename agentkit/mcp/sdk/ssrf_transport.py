"""HTTP transport of logins: only permitted addresses, bounded responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT

from agentkit.errors import ToolError, ToolTimeout
from agentkit.http_security import is_local
from agentkit.llm.http.connection_pool import tls_context
from agentkit.mcp.login_store import AllowedHosts
from agentkit.safety.urls import Url
from agentkit.tooling import execution
from agentkit.tools.web.connection import RESOLVE_SECONDS, USER_AGENT, Resolver, resolve

MAX_RESPONSE_BYTES = 64_000_000
"""Maximum size of a response that is read as a whole."""

UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""The header that requests uncompressed responses: a small compressed one could expand to exhaust the memory."""


def web_client(url: str, headers: Mapping[str, str], auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """Create the HTTP client for one server, configured like the package's. Local requests bypass proxies."""
    return httpx2.AsyncClient(
        headers={**headers, **UNCOMPRESSED},
        auth=auth,
        timeout=httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=MCP_DEFAULT_SSE_READ_TIMEOUT),
        verify=tls_context(),
        transport=httpx2.AsyncHTTPTransport(verify=tls_context()) if is_local(urlsplit(url).hostname or "") else None,
        event_hooks={"response": [limit_response]},
    )


async def limit_response(response: httpx2.Response, max_bytes: int = MAX_RESPONSE_BYTES) -> None:
    """Limit the size of an unread response body. Raises TransportError for a compressed one.

    In a requested event stream, the package limits each event. Error responses are read as a whole, whatever their
    content type, as are those with a smaller limit.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise httpx2.DecodingError("its response is compressed, which was not requested", request=response.request)
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    if not is_stream or not response.is_success or max_bytes < MAX_RESPONSE_BYTES:
        response.stream = _Bounded(response.stream, max_bytes)


class _Bounded(httpx2.AsyncByteStream):
    """A body that raises an error if it is too long."""

    def __init__(self, stream: Any, max_bytes: int) -> None:
        self._stream, self._max_bytes, self._remaining = stream, max_bytes, max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._remaining -= len(piece)
            if self._remaining < 0:
                raise httpx2.ReadError(f"its answer has more than {self._max_bytes:,} bytes")
            yield piece

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


MAX_OAUTH_BYTES = 1_000_000
"""Maximum size of a response in the OAuth flow. Metadata, registrations and tokens are far shorter."""

_MAX_REDIRECTS = 5
_HEADERS = {**UNCOMPRESSED, "User-Agent": USER_AGENT, "Accept": "application/json"}


class JudgedTransport(httpx2.AsyncBaseTransport):
    """Sends a request if its host is allowed, connecting to exactly the address that was checked."""

    def __init__(self, allowed_hosts: AllowedHosts, resolver: Resolver = resolve) -> None:
        self._allowed_hosts, self._resolver = allowed_hosts, resolver
        self._transport = httpx2.AsyncHTTPTransport(verify=tls_context())

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request. Raises ToolError if it is not allowed, and TransportError."""
        url = self._allowed_hosts.parse_allowed(str(request.url))
        extensions: dict[str, Any] = {} if url.address else {"sni_hostname": url.host}
        pinned = httpx2.Request(
            request.method,
            url.at(await self._address(url)),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, **extensions},
        )
        return await self._transport.handle_async_request(pinned)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _address(self, url: Url) -> str:
        """Return the first address of a host, if all of them are allowed."""
        if url.address:
            return str(url.address)
        try:
            found = list(await execution.acall(partial(self._resolver, url.host, url.port), RESOLVE_SECONDS))
        except (OSError, ToolTimeout):
            raise ToolError(f"The host {url.host}, to which the login leads, cannot be resolved.") from None
        for address in found:
            self._allowed_hosts.check(url, address)
        return str(found[0])


async def send_request(request: httpx2.Request, allowed_hosts: AllowedHosts, seconds: float = 20.0) -> httpx2.Response:
    """Send a request of the OAuth flow and read the response, following redirects within its origin.

    Raises ToolError, also on timeout.
    """
    from mcp.shared._httpx_utils import next_request_within_origin

    for name, value in _HEADERS.items():
        request.headers.setdefault(name, value)
    hooks: dict[str, list[Callable[..., Any]]] = {"response": [partial(limit_response, max_bytes=MAX_OAUTH_BYTES)]}
    host = request.url.host
    try:
        async with (
            asyncio.timeout(seconds),
            httpx2.AsyncClient(
                verify=tls_context(), transport=JudgedTransport(allowed_hosts), event_hooks=hooks
            ) as web,
        ):
            response = await web.send(request)
            for _ in range(_MAX_REDIRECTS):
                follow = next_request_within_origin(response)
                if follow is None:
                    break
                response = await web.send(follow)
            return response
    except TimeoutError:
        raise ToolError(f"{host}, to which the login leads, did not answer within {seconds:g} seconds.") from None
    except httpx2.RequestError as error:
        raise ToolError(f"{host}, to which the login leads, cannot be reached: {error}.") from None
