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
    """How much of an answer is there already."""

    def is_whole(self) -> bool:
        """Whether nothing may follow."""
        ...

    def is_answered(self) -> bool:
        """Whether what follows may be missed."""
        ...


CONNECT_SECONDS = 10.0
"""How long a connection may take to open, when the timeout for the answer is longer."""

_GRACE_SECONDS = 0.1

_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "keep-alive",
    "Content-Type": "application/json",
    "User-Agent": "agentkit",
}
_ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""The headers by which OpenAI is told whose account it is, and the variables that say it."""


class Transport:
    """The connection to one endpoint: made when first used, kept alive, shared by threads, one per event loop.

    `headers` are the protocol's, sent with every request.
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
        self._said: tuple[str | None, list[tuple[bytes, bytes]]] = "", []  # no key is empty: this is none's

    def post(self, path: str, content: bytes, attempts: AttemptCounter) -> str:
        """Send a request and read the text that answers it; counts the attempts. Raises ModelError."""
        with Translation(self, attempts) as foreign:
            return self._answer(path, content, attempts, whole=True).text
        raise foreign.translated

    async def apost(self, path: str, content: bytes, attempts: AttemptCounter) -> str:
        """Like `post`, awaiting."""
        with Translation(self, attempts) as foreign:
            return (await self._aanswer(path, content, attempts, whole=True)).text
        raise foreign.translated

    def stream(
        self, path: str, content: bytes, progress: ResponseProgress, attempts: AttemptCounter
    ) -> Generator[bytes]:
        """Send a request and yield its answer as bytes while they arrive. Raises ModelError.

        Once `progress` says that there is an answer, nothing that happens to the connection matters any more.
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
        """Like `stream`, awaiting."""
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
        """Make ready for the blocking methods."""
        self._blocking()

    def close(self) -> None:
        """Close the blocking connections. The next request opens new ones."""
        with self._own_lock():
            self._close_connections()
            self._connections, self._close_connections = None, _nothing

    async def aclose(self) -> None:
        """Close the connections that belong to the running event loop."""
        kept = self._kept.pop(asyncio.get_running_loop(), None)
        if kept:
            kept.let_go.detach()
            await kept.keeper.aclose()

    def scrub(self, text: str) -> str:
        """`text` without anything secret that was sent: some servers quote it."""
        return self._endpoint.scrub(self._token.scrub(text) if self._token else text)

    def _answer(self, path: str, content: bytes, attempts: AttemptCounter, *, whole: bool) -> httpx2.Response:
        """The answer to a request, which is sent again where that may help; a refusal is raised.

        What is to be had `whole` is read here, so that a connection that breaks in its middle is only one more attempt.
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
        """Like `_answer`, awaiting."""
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
        # given as a stream, the library takes the headers as they are, without looking through them three times
        stream, headers = httpx2.ByteStream(content), [*always, (b"Content-Length", b"%d" % len(content))]
        return httpx2.Request("POST", address.url, headers=headers, stream=stream, extensions=address.extensions)

    def _address(self, path: str) -> _Address:
        """Where requests go. The query stands where the HTTP library does not log it: it may be secret."""
        url, query = httpx2.URL(self._endpoint.shown_url + path), urlencode(self._endpoint.query)
        times = httpx2.Timeout(self.timeout_seconds, connect=self.connect_seconds)
        extensions: dict[str, object] = {"timeout": times.as_dict()}
        if query:
            extensions["target"] = url.raw_path + b"?" + query.encode()
        self._addresses[path] = _Address(url, extensions)
        return self._addresses[path]

    def _headers(self, key: str | None) -> dict[str, str]:
        """The key where the endpoint wants it, and nothing that the server does not need."""
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
        """The answer, of which only so much may come; its text is UTF-8, whatever charset it names."""
        response.encoding = "utf-8-sig"
        BoundedBody.bind(response, self.where, self.timeout_seconds)
        return response

    def _blocking(self) -> Connections | CustomClient:
        """The connections of this process."""
        with self._own_lock():
            if self._connections is None:
                self._connections = blocking(self._endpoint)
                self._close_connections = weakref.finalize(self, _close_in, os.getpid(), self._connections)
            return self._connections

    def _own_lock(self) -> threading.Lock:
        """The lock of this process: a forked child may use neither the sockets nor the locks of its parent."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
            self._connections, self._close_connections = None, _nothing
        return self._lock

    async def _awaiting(self) -> ConnectionPool | CustomClient:
        """The connections of the running event loop, which no other loop could use; closed when the loop ends."""
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
        """The key or token to send, if any. A token is asked for at each attempt; its giver knows when it ends."""
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
    """Where requests go, and what the HTTP library is told beside."""

    url: httpx2.URL
    extensions: dict[str, object]


class _LoopConnections(NamedTuple):
    """The connections of one event loop, the generator that closes them, and what does when nobody holds them."""

    lanes: ConnectionPool | CustomClient
    keeper: AsyncGenerator[None]
    let_go: weakref.finalize[[asyncio.AbstractEventLoop, AsyncGenerator[None]], Transport]


def _account() -> dict[str, str]:
    """What OpenAI is told of the account. Raises ConfigError for what no header can carry."""
    known = environment()
    for variable in _ACCOUNT.values():
        if variable in known and not is_header_text(known[variable]):
            raise ConfigError(f"{variable} has characters that no account's name has; was it pasted whole?")
    return {name: known[variable] for name, variable in _ACCOUNT.items() if variable in known}


def _read(response: httpx2.Response) -> httpx2.Response:
    """The answer, read whole; its connection is let go, whatever happens. A refusal counts without its words, too."""
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
    """The body as it comes, unpacked where it is packed."""
    stream: Any = response.stream
    return response.iter_bytes() if "content-encoding" in response.headers else stream


def _apieces(response: httpx2.Response) -> AsyncIterable[bytes]:
    stream: Any = response.stream
    return response.aiter_bytes() if "content-encoding" in response.headers else stream


def _is_framed(response: httpx2.Response) -> bool:
    """Whether the end of a body is marked; otherwise only closing the connection ends it, and some stay open."""
    return "content-length" in response.headers or "transfer-encoding" in response.headers


async def _keep(lanes: ConnectionPool | CustomClient) -> AsyncGenerator[None]:
    """Closes connections when it is closed itself, as every event loop does to its generators when it shuts down."""
    try:
        yield
    finally:
        await lanes.aclose()


def _let_go(loop: asyncio.AbstractEventLoop, keeper: AsyncGenerator[None]) -> None:
    """Close connections soon, unless their event loop shuts down before: what is begun then would be cancelled."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.call_later, _GRACE_SECONDS, lambda: loop.create_task(keeper.aclose()))


def _close_in(process: int, connections: Connections | CustomClient) -> None:
    """Close connections in the process that made them; they are not a forked child's to close."""
    if process == os.getpid():
        connections.close()


def _nothing() -> None:
    """What there is to close when nothing was opened."""
