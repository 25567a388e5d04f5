"""Connection pools for blocking and async requests, with proxies and TLS, and the bodies of their responses."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import socket
import sys
import threading
import time
import zlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from ipaddress import ip_address, ip_network
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from agentkit.errors import BadResponse, ConfigError, Unreachable
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.pipeline import CANCELLATION, RequestCancellation
from agentkit.llm.protocols.error_mapping import as_sentence
from agentkit.settings import environment


class PassThroughStream(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A response body, sync and async, that passes through the chunks of another stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.stream)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self.stream)

    def close(self) -> None:
        """Release the connection."""
        self.stream.close()

    async def aclose(self) -> None:
        """Async version of `close`."""
        await self.stream.aclose()


RETRY_ADVICE = "Try again later, or allow more timeout_seconds."
"""Advice in errors about slow servers."""

MAX_BYTES = 64_000_000
"""Maximum size of a response body, decompressed."""

MAX_COMPRESSED_BYTES = 4_000_000
"""Maximum size of a compressed body, as received."""

PATIENCE_FACTOR = 5
"""Multiple of the timeout allowed for one line, or for JSON. Blank lines, comments and pings do not count."""

_CHUNK_BYTES = 1_000_000
_ENCODINGS = ("gzip", "x-gzip", "deflate")  # the requested encodings; any other body is read unchanged
_GZIP_START = b"\x1f"  # first byte of gzip data; other trailing bytes are ignored
_GZIP_OR_ZLIB, _RAW_DEFLATE = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS

_JSON_STARTS = (b"{", b"[")
_PING = rb"\{\s*(?:\}\s*$|\"type\":\s*\"(?:ping|keep-?alive|heartbeat)\")"
_EMPTY_LINE = rb"event:|id:|retry:|data:\s*(?:%b|$)" % _PING
_CONTENT_LINE = re.compile(rb"^(?!%b)[^:\s]" % _EMPTY_LINE, re.MULTILINE)
_START_BYTES = 64
"""Number of bytes needed to decide whether a line has content."""


class BoundedBody(PassThroughStream):
    """A body that raises an error when it is too long, or when the server sends no content for too long.

    `where` names the server, `timeout_seconds` is the timeout for a single read.
    """

    def __init__(self, stream: Any, server: str, timeout_seconds: float, max_bytes: int) -> None:
        super().__init__(stream)
        self._server, self._patience_seconds, self._max_bytes = server, PATIENCE_FACTOR * timeout_seconds, max_bytes
        self._bytes, self._last_content_at = 0, time.monotonic()
        self._start = self._line = b""

    @classmethod
    def bind(cls, response: httpx2.Response, server: str, timeout_seconds: float) -> None:
        """Wrap the body of an unread response; a compressed body is decompressed on the fly.

        Its text is decoded as UTF-8, whatever the declared charset.
        """
        response.encoding = "utf-8-sig"
        encoding = response.headers.pop("content-encoding", "").strip().lower()
        if encoding in _ENCODINGS:
            response.stream = _CompressedBody(response.stream, server, timeout_seconds, encoding)
        else:
            response.stream = cls(response.stream, server, timeout_seconds, MAX_BYTES)

    def __iter__(self) -> Iterator[bytes]:
        return map(self._check_chunk, self.stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self.stream:
            yield self._check_chunk(chunk)

    def _check_chunk(self, chunk: bytes) -> bytes:
        """The chunk. Raises BadResponse if the body is too long, Unreachable if content takes too long."""
        self._bytes += len(chunk)
        if self._bytes > self._max_bytes:
            raise BadResponse(
                f"{self._server} sent more than {self._max_bytes:,} bytes, the maximum length of a response. Check the "
                "base URL."
            )
        if self._has_content(chunk):
            self._last_content_at = time.monotonic()
        elif time.monotonic() - self._last_content_at > self._patience_seconds:
            has_started = self._start in _JSON_STARTS or _CONTENT_LINE.match(self._line)
            sent = "no complete response" if has_started else "only blanks and comments"
            raise Unreachable(f"{self._server} sent {sent} for {self._patience_seconds:g} seconds. {RETRY_ADVICE}")
        return chunk

    def _has_content(self, chunk: bytes) -> bool:
        """Whether a line with content ends in this chunk. Lines of JSON do not count, only the whole document."""
        self._start = self._start or chunk.lstrip()[:1]
        lines, newline, tail = chunk.rpartition(b"\n")
        has_content = bool(newline) and _CONTENT_LINE.search(self._line + lines) is not None
        self._line = (tail if newline else self._line + chunk[:_START_BYTES])[:_START_BYTES]
        return has_content and self._start not in _JSON_STARTS


class _CompressedBody(BoundedBody):
    """A compressed body, decompressed chunk by chunk and aborted when the output is too long."""

    def __init__(self, stream: Any, server: str, timeout_seconds: float, encoding: str) -> None:
        super().__init__(stream, server, timeout_seconds, MAX_COMPRESSED_BYTES)
        self._encoding, self._bytes_left = encoding, MAX_BYTES
        self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.stream:
            yield from self._decompressed(self._check_chunk(chunk))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self.stream:
            for decompressed in self._decompressed(self._check_chunk(chunk)):
                yield decompressed

    def _decompressed(self, data: bytes) -> Iterator[bytes]:
        is_full = True
        while data or is_full:
            if self._inflater.eof and not data.startswith(_GZIP_START):
                return
            if self._inflater.eof:  # some servers compress each event separately
                self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
            chunk = self._inflate(data)
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
            is_full = len(chunk) == _CHUNK_BYTES
            self._bytes_left -= len(chunk)
            if self._bytes_left < 0:
                raise BadResponse(
                    f"{self._server} sent a response that decompresses to more than {MAX_BYTES:,} bytes. Check the "
                    "base URL."
                )
            if chunk:
                yield chunk

    def _inflate(self, data: bytes) -> bytes:
        try:
            return self._inflater.decompress(data, _CHUNK_BYTES)
        except zlib.error as error:
            if self._encoding != "deflate" or self._bytes > len(data):
                raise httpx2.DecodingError(str(error)) from error
        self._inflater = zlib.decompressobj(_RAW_DEFLATE)  # some servers omit the two-byte zlib header
        self._encoding = "gzip"
        return self._inflate(data)

    def _has_content(self, chunk: bytes) -> bool:
        return bool(chunk)


KEEPALIVE_SECONDS = 5.0
"""How long an idle connection stays open."""

MAX_CONNECTIONS = 1_000
"""Maximum number of concurrent connections; a process can be limited to about as many open files."""


class ConnectionPool:
    """An httpx2 transport for one event loop, built from many transports with one connection each.

    The library's pool scans all connections, and polls each idle one, for every request that starts or ends: with 200
    concurrent requests this dominates the cost. Here the cost per request is constant. `make` creates a transport with
    one connection; the first is created at once, so that errors surface early. At most `max_connections` requests run
    at once, the others wait.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        keepalive_seconds: float = KEEPALIVE_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._make, self._keepalive_seconds = make, keepalive_seconds
        self._idle: deque[tuple[float, Any]] = deque([(time.monotonic(), make())])
        self._is_closed, self._slots = False, asyncio.Semaphore(max_connections)

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request over the most recently used connection, which is the most likely to be still open."""
        await self._slots.acquire()
        connection = self._idle.pop()[1] if self._idle else self._make()
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            self._slots.release()
            await connection.aclose()
            raise
        response.stream = _BorrowedBody(response.stream, partial(self._give_back, connection))
        return response

    async def aclose(self) -> None:
        """Close idle connections; a connection in use is closed when it is returned."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop()[1].aclose()

    async def _give_back(self, connection: Any) -> None:
        """Return a connection to the pool, and close those that have been idle for too long."""
        self._slots.release()
        if self._is_closed:
            await connection.aclose()
            return
        now = time.monotonic()
        self._idle.append((now, connection))
        while self._idle and now - self._idle[0][0] > self._keepalive_seconds:
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


_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_CONNECTION_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", *_CERTIFICATE_VARIABLES)
_TCP_KEEPALIVE_SECONDS, _TCP_KEEPALIVE_PROBES = 60, 5
_TCP_KEEPALIVE = {
    **dict.fromkeys(("TCP_KEEPINTVL", "TCP_KEEPIDLE", "TCP_KEEPALIVE"), _TCP_KEEPALIVE_SECONDS),
    "TCP_KEEPCNT": _TCP_KEEPALIVE_PROBES,
}
_SOCKET_OPTIONS = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _TCP_KEEPALIVE.items()
        if hasattr(socket, name)
    ),
]
"""Options for TCP keepalive probes once a minute, since models can think for a long time."""


@dataclass(eq=False, repr=False)
class _Connection(httpx2.SyncByteStream):
    """A blocking transport with one connection, which another thread can close while it is in use.

    It is also the body of the response that it received last; closing the body returns the lane to its pool.
    """

    _pool: Connections
    _transport: Any
    _body: Any = None
    _connection: Any = None
    _cancellation: RequestCancellation | None = None

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; it ends when the requests of this context are cancelled."""
        self._cancellation = cancellation = CANCELLATION.get()
        if cancellation is not None:
            request.extensions = {**request.extensions, "trace": self._trace}
            cancellation.add(self._shut_down)
        response: httpx2.Response = self._transport.handle_request(request)
        self._connection = response.extensions.get("network_stream")
        self._body, response.stream = response.stream, self
        return response

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        """Close the body, then return the connection, once."""
        body, self._body = self._body, None
        if body is None:
            return
        try:
            body.close()
        finally:
            self._pool.give_back(self)

    def release(self) -> None:
        """Unregister the connection: its request has ended."""
        if self._cancellation is not None:
            self._cancellation.remove(self._shut_down)
            self._cancellation = None

    def disconnect(self) -> None:
        """Close the connection."""
        self.release()
        self._transport.close()

    def _trace(self, name: str, info: dict[str, Any]) -> None:
        """Store a connection as soon as it is made; the library reports each step of a request here."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._connection = info["return_value"]
            if self._cancellation is not None and self._cancellation.is_cancelled:
                self._shut_down()

    def _shut_down(self) -> None:
        """Wake a thread that is waiting for this connection; closing its socket would not."""
        connection = self._connection and self._connection.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):  # an SSLSocket's own method would disturb its reading thread
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class Connections:
    """Blocking connections shared by all threads, built from transports with one connection each, as ConnectionPool."""

    def __init__(
        self,
        make: Callable[[], Any],
        keepalive_seconds: float = KEEPALIVE_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._make, self._keepalive_seconds = make, keepalive_seconds
        self._idle: deque[tuple[float, _Connection]] = deque([(time.monotonic(), _Connection(self, make()))])
        self._is_closed, self._slots = False, threading.Semaphore(max_connections)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request over the most recently used connection, which is the most likely to be still open."""
        if not self._slots.acquire(timeout=request.extensions["timeout"]["pool"]):
            raise httpx2.PoolTimeout("All connections are in use.")
        try:
            connection = self._idle.pop()[1]
        except IndexError:
            connection = _Connection(self, self._make())
        try:
            return connection.handle_request(request)
        except BaseException:
            self._slots.release()
            connection.disconnect()
            raise

    def close(self) -> None:
        """Close idle connections; a connection in use is closed when it is returned."""
        self._is_closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop()[1].disconnect()

    def trim(self, max_idle: int) -> None:
        """Close all but the most recently used idle connections."""
        with suppress(IndexError):
            while len(self._idle) > max_idle:
                self._idle.popleft()[1].disconnect()

    def give_back(self, connection: _Connection) -> None:
        """Return a connection to the pool, and close those that have been idle for too long."""
        self._slots.release()
        connection.release()
        if self._is_closed:
            connection.disconnect()
            return
        now = time.monotonic()
        self._idle.append((now, connection))
        with suppress(IndexError):
            while now - self._idle[0][0] > self._keepalive_seconds:
                self._idle.popleft()[1].disconnect()


@dataclass(eq=False, repr=False)
class SharedPool:
    """The connections to one server, used by any number of LLMs: those of an event loop, or the blocking ones."""

    key: _PoolKey
    connections: Any
    """Connections, or a ConnectionPool for an event loop."""
    users: int = 0
    _keeper: AsyncGenerator[None] | None = None

    async def start(self) -> None:
        """Have the event loop close the connections when it shuts down, as it does with all async generators."""
        if self._keeper is None:
            self._keeper = self._open()
            await anext(self._keeper)

    async def _open(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            if isinstance(self.connections, ConnectionPool):
                await self.connections.aclose()

    def close(self) -> None:
        """Close blocking connections."""
        if isinstance(self.connections, Connections):
            self.connections.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        if self._keeper is not None:
            await self._keeper.aclose()


_PoolKey = tuple[asyncio.AbstractEventLoop | None, str, str, SSLContext | bool, str | None]
"""The event loop, or None for blocking connections; scheme and host of the server; its TLS context; the proxy."""


class PoolRegistry:
    """The connection pools of the process. LLMs that send to the same server share a pool. Thread-safe.

    Connections stay open for a while after the last LLM that used them is collected, so that a program that creates an
    agent for each request does not connect each time. They carry no credentials: each request has its own.
    """

    def __init__(self, keepalive_seconds: float = KEEPALIVE_SECONDS) -> None:
        self._pools: dict[_PoolKey, SharedPool] = {}
        self._keepalive_seconds = keepalive_seconds
        self._lock = threading.RLock()  # reentrant, because the garbage collector can release a pool at any time

    def take(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop | None = None) -> SharedPool:
        """The pool for an endpoint, to be released. Raises ConfigError if environment variables are invalid."""
        try:
            address, proxy = urlsplit(endpoint.base_url), proxy_of(endpoint)
            verify = tls_context() if address.scheme == "https" else False
            key = loop, address.scheme, address.netloc.rpartition("@")[2], verify, proxy
            options: dict[str, Any] = {"verify": verify, "proxy": proxy, "socket_options": _SOCKET_OPTIONS}
            with self._lock:
                pool = self._pools.pop(key, None)
                if pool is None and loop is None:
                    pool = SharedPool(key, Connections(partial(httpx2.HTTPTransport, **options)))
                elif pool is None:
                    pool = SharedPool(key, ConnectionPool(partial(httpx2.AsyncHTTPTransport, **options)))
                self._pools[key] = pool  # the most recently used pool is the last
                pool.users += 1
        except httpx2.InvalidURL:
            cause = "The address of the proxy is invalid."  # without details, which could contain part of the password
        except (ImportError, OSError, ValueError) as error:
            cause = f"{type(error).__name__}: {as_sentence(str(error))}"
        else:
            if len(self._pools) > 1:
                self._drop_unused()
            return pool
        names = [name for name in environment() if name.upper() in _CONNECTION_VARIABLES]
        raise ConfigError(f"The connection cannot be configured: {cause} Check {' and '.join(names)}.")

    def release(self, pool: SharedPool, *, close: bool = False) -> bool:
        """Stop using a pool. With `close`, returns whether nobody else uses it, so that it has to be closed."""
        loop = pool.key[0]
        with self._lock:
            pool.users -= 1
            if pool.users or self._pools.get(pool.key) is not pool:
                return close and not pool.users
            if close:
                del self._pools[pool.key]
                return True
        if isinstance(pool.connections, Connections):
            pool.connections.trim(_MAX_UNUSED_CONNECTIONS)
        elif loop:
            with suppress(RuntimeError):  # the loop is closed, which has closed the connections
                loop.call_soon_threadsafe(loop.call_later, self._keepalive_seconds, self._close_unused, pool)
        return False

    def close(self) -> None:
        """Close all blocking connections, at the end of the process."""
        with self._lock:
            for pool in self._pools.values():
                pool.close()

    def leave_to_parent(self) -> None:
        """In a forked child: start without pools. The inherited ones are neither used nor closed."""
        _INHERITED_POOLS.append(self._pools)
        self._pools, self._lock = {}, threading.RLock()

    def _drop_unused(self) -> None:
        """Forget the pools of closed event loops, and close unused blocking ones but for the latest."""
        with self._lock:
            unused = [pool for pool in self._pools.values() if not pool.users and pool.key[0] is None]
            for pool in unused[:-_MAX_UNUSED_POOLS]:
                del self._pools[pool.key]
                pool.close()
            for key in [key for key in self._pools if key[0] and key[0].is_closed()]:
                del self._pools[key]

    def _close_unused(self, pool: SharedPool) -> None:
        """Close the pool of an event loop if nobody has used it since its release; runs in that loop."""
        with self._lock:
            if pool.users or self._pools.get(pool.key) is not pool:
                return
            del self._pools[pool.key]
        asyncio.get_running_loop().create_task(pool.aclose())


_INHERITED_POOLS: list[object] = []
_MAX_UNUSED_POOLS, _MAX_UNUSED_CONNECTIONS = 8, 4


@cache
def shared_pools() -> PoolRegistry:
    """The pools of this process; blocking connections are closed at its end."""
    pools = PoolRegistry()
    atexit.register(pools.close)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=pools.leave_to_parent)
    return pools


def tls_context() -> SSLContext:
    """The TLS context for the certificates that the environment names."""
    return _tls_context(*map(environment().get, _CERTIFICATE_VARIABLES))


@cache
def _tls_context(*_: str | None) -> SSLContext:
    """One TLS context for the same variables: creating one costs a hundred times more than the rest of the setup."""
    return httpx2.create_ssl_context()


def proxy_of(endpoint: Endpoint) -> str | None:
    """The proxy that the environment sets for requests to an endpoint, if any."""
    has_settings = sys.platform in {"darwin", "win32"} or any(name.lower().endswith("_proxy") for name in environment())
    if endpoint.is_direct or not has_settings:  # reading the proxies is slow
        return None
    proxies, parts = getproxies(), urlsplit(endpoint.base_url)
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
