"""Connection pools for blocking and async requests, with proxies and TLS."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import cache, partial
from ipaddress import ip_address, ip_network
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from agentkit.errors import ConfigError
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.http.response_limits import PassThroughStream
from agentkit.llm.protocols.error_mapping import ended
from agentkit.settings import environment

if TYPE_CHECKING:
    from agentkit.llm.http.custom_client import CustomClient


KEPT_SECONDS = 5.0
"""How long an idle connection stays open."""

MOST_LANES = 1_000
"""Maximum number of concurrent connections; a process can be limited to about as many open files."""


class ConnectionPool:
    """An httpx2 transport for one event loop, built from many transports with one connection each.

    The library's pool scans all connections, and polls each idle one, for every request that starts or ends: with 200
    concurrent requests this dominates the cost. Here the cost per request is constant. `make` creates a transport with
    one connection; the first is created at once, so that errors surface early. At most `most` requests run at once, the
    others wait.
    """

    def __init__(self, make: Callable[[], Any], kept_seconds: float = KEPT_SECONDS, most: int = MOST_LANES) -> None:
        self._make, self._kept_seconds = make, kept_seconds
        self._idle: deque[tuple[float, Any]] = deque([(time.monotonic(), make())])
        self._is_closed, self._free = False, asyncio.Semaphore(most)

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request over the most recently used connection, which is the most likely to be still open."""
        await self._free.acquire()
        lane = self._idle.pop()[1] if self._idle else self._make()
        try:
            response = await lane.handle_async_request(request)
        except BaseException:
            self._free.release()
            await lane.aclose()
            raise
        response.stream = _BorrowedBody(response.stream, partial(self._give_back, lane))
        return response

    async def aclose(self) -> None:
        """Close idle connections; a connection in use is closed when it is returned."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop()[1].aclose()

    async def _give_back(self, lane: Any) -> None:
        """Return a connection to the pool, and close those that have been idle for too long."""
        self._free.release()
        if self._is_closed:
            await lane.aclose()
            return
        now = time.monotonic()
        self._idle.append((now, lane))
        while self._idle and now - self._idle[0][0] > self._kept_seconds:
            await self._idle.popleft()[1].aclose()


class _BorrowedBody(PassThroughStream):
    """A response body that returns its connection to the pool when closed."""

    def __init__(self, stream: Any, give_back: Callable[[], Awaitable[None]]) -> None:
        super().__init__(stream)
        self._give_back: Callable[[], Awaitable[None]] | None = give_back

    async def aclose(self) -> None:
        """Close the body, then return the connection, once."""
        give_back, self._give_back = self._give_back, None
        try:
            await super().aclose()
        finally:
            if give_back is not None:
                await give_back()


_MOST_CONNECTIONS = httpx2.Limits(max_connections=1_000, max_keepalive_connections=100)
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", *_CERTIFICATES)
_ALIVE_SECONDS, _ALIVE_TIMES = 60, 5

_Made = TypeVar("_Made")


class Connections(httpx2.HTTPTransport):
    """Connections shared by all threads. Closed connections are not reopened."""

    _is_closed = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises RuntimeError after `close`."""
        if self._is_closed:
            raise RuntimeError("Its connections were closed before the request was sent.")
        return super().handle_request(request)

    def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        super().close()


def blocking(endpoint: Endpoint) -> Connections | CustomClient:
    """Blocking connections to a server, for all threads. Raises ConfigError if environment variables are invalid."""
    if endpoint.client is not None:
        return _lent(endpoint)
    return _set_up(lambda: Connections(limits=_MOST_CONNECTIONS, **_options(endpoint.base_url)))


def awaiting(endpoint: Endpoint) -> ConnectionPool | CustomClient:
    """Async connections to a server, for one event loop. Raises ConfigError if environment variables are invalid."""
    if endpoint.client is not None:
        return _lent(endpoint)
    return _set_up(lambda: ConnectionPool(partial(httpx2.AsyncHTTPTransport, **_options(endpoint.base_url))))


def _lent(endpoint: Endpoint) -> CustomClient:
    """The client given by the user; its package is imported only in this case."""
    from agentkit.llm.http.custom_client import CustomClient

    return CustomClient(endpoint.client)


def _options(base_url: str) -> dict[str, Any]:
    is_secure = base_url.startswith("https:")
    return {
        "verify": _tls_context(*map(environment().get, _CERTIFICATES)) if is_secure else False,
        "proxy": _proxy_to(base_url),
        "socket_options": _stays_alive(),
    }


@cache
def _tls_context(*_: str | None) -> SSLContext:
    """One TLS context for the same variables: creating one costs a hundred times more than the rest of the setup."""
    return httpx2.create_ssl_context()


def _proxy_to(url: str) -> str | None:
    """The proxy that the environment sets for a URL, if any."""
    proxies, parts = getproxies(), urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    if any(_covers(name.strip(), parts.hostname or "") for name in proxies.get("no", "").split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _covers(name: str, host: str) -> bool:
    """Whether an entry of NO_PROXY matches a host, for the kinds of entries that `proxy_bypass` does not support."""
    if name.startswith("*"):
        return f".{host}".endswith(name[1:].lower())
    try:
        return ip_address(host) in ip_network(name.replace("[", "").replace("]", ""), strict=False)
    except ValueError:
        return False


def _stays_alive() -> list[tuple[int, int, int]]:
    """Socket options for TCP keepalive probes once a minute, since models can think for a long time."""
    times = ("TCP_KEEPINTVL", "TCP_KEEPIDLE", "TCP_KEEPALIVE")  # the last two are the same option on different systems
    wishes = {**dict.fromkeys(times, _ALIVE_SECONDS), "TCP_KEEPCNT": _ALIVE_TIMES}
    known = [
        (socket.IPPROTO_TCP, getattr(socket, name), wish) for name, wish in wishes.items() if hasattr(socket, name)
    ]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *known]


def _set_up(make: Callable[[], _Made]) -> _Made:
    """Call `make`. Raises ConfigError with the environment variables to check if it fails."""
    try:
        return make()
    except httpx2.InvalidURL:
        cause = "The proxy's address is none."  # details are omitted: they could contain part of the password
    except (ImportError, OSError, ValueError) as error:
        cause = f"{type(error).__name__}: {ended(str(error))}"
    names = [name for name in environment() if name.upper() in _VARIABLES]
    raise ConfigError(f"No connection can be set up: {cause} Check {' and '.join(names)}.")
