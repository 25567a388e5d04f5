"""Requests to model providers over httpx2."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Mapping
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlencode

import httpx2

from agentkit.errors import ConfigError, ModelError, Unauthorized
from agentkit.llm.endpoint import Endpoint, is_header_text
from agentkit.llm.http.attempts import AttemptCounter
from agentkit.llm.http.connection_pool import ConnectionPool, Connections, awaiting, blocking
from agentkit.llm.http.error_mapping import Translation
from agentkit.llm.http.response_limits import BoundedBody
from agentkit.llm.http.retry import RetryState
from agentkit.settings import Secret, environment

if TYPE_CHECKING:
    from agentkit.llm.http.custom_client import CustomClient


class ResponseProgress(Protocol):
    """Progress of a streamed response."""

    def is_whole(self) -> bool:
        """Whether the response is complete and nothing can follow."""
        ...

    def is_answered(self) -> bool:
        """Whether the rest of the response can be lost without harm."""
        ...


CONNECT_SECONDS = 10.0
"""Timeout for opening a connection, if the response timeout is longer."""

_GRACE_SECONDS = 0.1

_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "keep-alive",
    "Content-Type": "application/json",
    "User-Agent": "agentkit",
}
_ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Headers for OpenAI's organization and project, with the environment variables that set them."""


class Transport:
    """The connection to one endpoint: opened on first use, kept alive, shared by threads, one pool per event loop.

    `headers` are protocol headers, sent with every request.
    """

    def __init__(
        self, endpoint: Endpoint, timeout_seconds: float, max_retries: int, headers: Mapping[str, str] | None = None
    ) -> None:
        self.where = f"{endpoint.provider} at {endpoint.shown_url}"
        self.timeout_seconds, self.connect_seconds = timeout_seconds, min(CONNECT_SECONDS, timeout_seconds)
        self.max_retries, self._endpoint, self._always = max_retries, endpoint, _HEADERS | dict(headers or {})
        self._token: Secret | None = None
        self._process, self._lock = os.getpid(), threading.Lock()
        self._connections: Connections | CustomClient | None = None
        self._close_connections: Callable[[], object] = _nothing
        self._kept: dict[asyncio.AbstractEventLoop, _LoopConnections] = {}
        self._addresses: dict[str, _Address] = {}
        self._said: tuple[str | None, list[tuple[bytes, bytes]]] = "", []  # "" equals no key: the cache is empty

    def post(self, path: str, content: bytes, attempts: AttemptCounter) -> str:
        """Send a request and return the response text; counts the attempts. Raises ModelError."""
        with Translation(self, attempts) as foreign:
            return self._answer(path, content, attempts, whole=True).text
        raise foreign.translated

    def get(self, path: str, attempts: AttemptCounter) -> str:
        """Send a request without a body and return the response text. Raises ModelError."""
        return self.post(path, b"", attempts)

    async def apost(self, path: str, content: bytes, attempts: AttemptCounter) -> str:
        """Async version of `post`."""
        with Translation(self, attempts) as foreign:
            return (await self._aanswer(path, content, attempts, whole=True)).text
        raise foreign.translated

    def stream(
        self, path: str, content: bytes, progress: ResponseProgress, attempts: AttemptCounter
    ) -> Generator[bytes]:
        """Send a request and yield the response bytes as they arrive. Raises ModelError.

        Connection errors are ignored once `progress` reports that the response is complete.
        """
        with Translation(self, attempts) as foreign:
            with closing(self._answer(path, content, attempts, whole=False)) as response:
                is_framed = _is_framed(response)
                for piece in _pieces(response):
                    yield piece
                    if not is_framed and progress.is_whole():
                        break
            return
        if not progress.is_answered():
            raise foreign.translated

    async def astream(
        self, path: str, content: bytes, progress: ResponseProgress, attempts: AttemptCounter
    ) -> AsyncGenerator[bytes]:
        """Async version of `stream`."""
        with Translation(self, attempts) as foreign:
            async with aclosing(await self._aanswer(path, content, attempts, whole=False)) as response:
                is_framed = _is_framed(response)
                async for piece in _apieces(response):
                    yield piece
                    if not is_framed and progress.is_whole():
                        break
            return
        if not progress.is_answered():
            raise foreign.translated

    def prepare(self) -> None:
        """Set up the connections of the blocking methods."""
        self._blocking()

    def close(self) -> None:
        """Close the blocking connections. The next request opens new ones."""
        with self._own_lock():
            self._close_connections()
            self._connections, self._close_connections = None, _nothing

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        kept = self._kept.pop(asyncio.get_running_loop(), None)
        if kept:
            kept.let_go.detach()
            await kept.keeper.aclose()

    def scrub(self, text: str) -> str:
        """`text` without the secrets that were sent: some servers quote them."""
        return self._endpoint.scrub(self._token.scrub(text) if self._token else text)

    def _answer(self, path: str, content: bytes, attempts: AttemptCounter, *, whole: bool) -> httpx2.Response:
        """Send a request, with retries, and return its response; raises an error for an error status.

        With `whole` the body is read here, so that a connection lost halfway through is retried.
        """
        attempts.has_begun = False
        tries, connections = RetryState(self, attempts), self._blocking()
        while True:
            request = self._request(path, content, self._key())
            try:
                response = self._bounded(connections.handle_request(request))
                if whole or not response.is_success:
                    response = _read(response)
            except (httpx2.RequestError, ModelError) as error:
                pause = tries.after_error(error)
            else:
                if response.is_success:
                    attempts.has_begun = True
                    return response
                pause = tries.after_refusal(response)
            time.sleep(pause)

    async def _aanswer(self, path: str, content: bytes, attempts: AttemptCounter, *, whole: bool) -> httpx2.Response:
        """Async version of `_answer`."""
        attempts.has_begun = False
        tries, connections = RetryState(self, attempts), await self._awaiting()
        while True:
            request = self._request(path, content, await self._akey())
            try:
                response = self._bounded(await connections.handle_async_request(request))
                if whole or not response.is_success:
                    response = await _aread(response)
            except (httpx2.RequestError, ModelError) as error:
                pause = tries.after_error(error)
            else:
                if response.is_success:
                    attempts.has_begun = True
                    return response
                pause = tries.after_refusal(response)
            await asyncio.sleep(pause)

    def _request(self, path: str, content: bytes, key: str | None) -> httpx2.Request:
        address = self._addresses.get(path) or self._address(path)
        said, always = self._said
        if said != key:
            always = httpx2.Headers({"Host": address.url.netloc.decode(), **self._headers(key)}).raw
            self._said = key, always
        # Passed as a stream, because the library then uses the headers unchanged instead of scanning them three times.
        stream, headers = httpx2.ByteStream(content), [*always, (b"Content-Length", b"%d" % len(content))]
        method = "POST" if content else "GET"
        return httpx2.Request(method, address.url, headers=headers, stream=stream, extensions=address.extensions)

    def _address(self, path: str) -> _Address:
        """URL and extensions for a path. The query goes into the target, which is not logged: it could be secret."""
        url, query = httpx2.URL(self._endpoint.shown_url + path), urlencode(self._endpoint.query)
        times = httpx2.Timeout(self.timeout_seconds, connect=self.connect_seconds)
        extensions: dict[str, object] = {"timeout": times.as_dict()}
        if query:
            extensions["target"] = url.raw_path + b"?" + query.encode()
        self._addresses[path] = _Address(url, extensions)
        return self._addresses[path]

    def _headers(self, key: str | None) -> dict[str, str]:
        """The headers, with the key in the header that the endpoint expects; custom headers replace defaults."""
        endpoint, headers = self._endpoint, dict(self._always)
        bearer = f"Bearer {key}" if key else ""
        if key and endpoint.key_header and not endpoint.token_provider:
            headers[endpoint.key_header], bearer = key, ""
        if authorization := endpoint.authorization or bearer:
            headers["Authorization"] = authorization
        headers |= _account() if endpoint.is_openai else {}
        given = {name.lower() for name in endpoint.headers}
        return {name: value for name, value in headers.items() if name.lower() not in given} | dict(endpoint.headers)

    def _bounded(self, response: httpx2.Response) -> httpx2.Response:
        """Apply size and time limits to a response; its text is decoded as UTF-8, whatever the declared charset."""
        response.encoding = "utf-8-sig"
        BoundedBody.bind(response, self.where, self.timeout_seconds)
        return response

    def _blocking(self) -> Connections | CustomClient:
        """The blocking connections of this process."""
        with self._own_lock():
            if self._connections is None:
                self._connections = blocking(self._endpoint)
                self._close_connections = weakref.finalize(self, _close_in, os.getpid(), self._connections)
            return self._connections

    def _own_lock(self) -> threading.Lock:
        """The lock of this process: a forked child must not use the sockets or locks of its parent."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
            self._connections, self._close_connections = None, _nothing
        return self._lock

    async def _awaiting(self) -> ConnectionPool | CustomClient:
        """The connections of the running event loop; other loops cannot use them. Closed when the loop ends."""
        loop = asyncio.get_running_loop()
        if loop not in self._kept:
            self._forget_ended_loops()
            lanes = awaiting(self._endpoint)
            keeper = _keep(lanes)
            await anext(keeper)
            self._kept[loop] = _LoopConnections(lanes, keeper, weakref.finalize(self, _let_go, loop, keeper))
            self._kept[loop].let_go.atexit = False
        return self._kept[loop].lanes

    def _forget_ended_loops(self) -> None:
        with self._own_lock():
            for ended in [loop for loop in list(self._kept) if loop.is_closed()]:
                self._kept.pop(ended).let_go.detach()

    def _key(self) -> str | None:
        """The key or token to send, if any. The token provider is called for each attempt and handles expiry itself."""
        if self._endpoint.token_provider is None:
            return self._endpoint.api_key.reveal() if self._endpoint.api_key else None
        try:
            token = self._endpoint.token_provider()
        except Exception as error:
            raise Unauthorized(f"The token provider failed: {type(error).__name__}: {error}") from error
        if not isinstance(token, str) or not is_header_text(token):
            raise Unauthorized(f"The token provider gave no token but {type(token).__name__}.")
        self._token = Secret(token)
        return token

    async def _akey(self) -> str | None:
        return self._key() if self._endpoint.token_provider is None else await asyncio.to_thread(self._key)


class _Address(NamedTuple):
    """The URL and the request extensions for a path."""

    url: httpx2.URL
    extensions: dict[str, object]


class _LoopConnections(NamedTuple):
    """Connections of one event loop, the generator that closes them, and the finalizer for a collected transport."""

    lanes: ConnectionPool | CustomClient
    keeper: AsyncGenerator[None]
    let_go: weakref.finalize[[asyncio.AbstractEventLoop, AsyncGenerator[None]], Transport]


def _account() -> dict[str, str]:
    """OpenAI's account headers. Raises ConfigError if a value is not valid in a header."""
    known = environment()
    for variable in _ACCOUNT.values():
        if variable in known and not is_header_text(known[variable]):
            raise ConfigError(f"{variable} has characters that no account's name has; was it pasted whole?")
    return {name: known[variable] for name, variable in _ACCOUNT.items() if variable in known}


def _read(response: httpx2.Response) -> httpx2.Response:
    """Read the whole response and release its connection. An error response counts even if its body is unreadable."""
    try:
        response.read()
    except (httpx2.RequestError, ModelError):
        if response.is_success:
            raise
        return httpx2.Response(response.status_code, headers=response.headers)
    finally:
        response.close()
    return response


async def _aread(response: httpx2.Response) -> httpx2.Response:
    try:
        await response.aread()
    except (httpx2.RequestError, ModelError):
        if response.is_success:
            raise
        return httpx2.Response(response.status_code, headers=response.headers)
    finally:
        await response.aclose()
    return response


def _pieces(response: httpx2.Response) -> Iterable[bytes]:
    """The body in chunks, decompressed if needed."""
    stream: Any = response.stream
    return response.iter_bytes() if "content-encoding" in response.headers else stream


def _apieces(response: httpx2.Response) -> AsyncIterable[bytes]:
    stream: Any = response.stream
    return response.aiter_bytes() if "content-encoding" in response.headers else stream


def _is_framed(response: httpx2.Response) -> bool:
    """Whether the end of the body is marked; otherwise only closing the connection ends it, and some stay open."""
    return "content-length" in response.headers or "transfer-encoding" in response.headers


async def _keep(lanes: ConnectionPool | CustomClient) -> AsyncGenerator[None]:
    """Close connections when this generator is closed, which event loops do for all generators at shutdown."""
    try:
        yield
    finally:
        await lanes.aclose()


def _let_go(loop: asyncio.AbstractEventLoop, keeper: AsyncGenerator[None]) -> None:
    """Close connections soon, unless the event loop shuts down first: a task started then would be cancelled."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.call_later, _GRACE_SECONDS, lambda: loop.create_task(keeper.aclose()))


def _close_in(process: int, connections: Connections | CustomClient) -> None:
    """Close connections in the process that opened them, not in a forked child."""
    if process == os.getpid():
        connections.close()


def _nothing() -> None:
    """Do nothing: placeholder until connections are opened."""
