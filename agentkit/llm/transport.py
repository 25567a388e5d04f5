"""How do bytes get to a provider and back? Over the openai package; the only module that talks to models' servers."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import cache, partial
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

from agentkit.config import Secret, environment
from agentkit.errors import ConfigError, Unauthorized
from agentkit.llm.endpoint import Endpoint, is_header_text
from agentkit.llm.http.attempts import Attempts, acounting, counting
from agentkit.llm.http.bounds import Bounded
from agentkit.llm.http.headers import make_readable
from agentkit.llm.http.lanes import Lanes
from agentkit.llm.http.loading import loading
from agentkit.llm.http.translation import Translation
from agentkit.llm.wire.failures import ended, is_spent


class Progress(Protocol):
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
_TOO_MANY_REQUESTS = 429
_VERSION = "api-version"

_PLAIN_HEADERS = {"accept", "content-type", "user-agent"}
"""The only headers of the openai package that a server other than OpenAI's own is sent."""

_ADDED_HEADERS = ("X-Stainless-Retry-Count", "X-Stainless-Read-Timeout")
"""The headers that the openai package adds to a request, beside its default ones."""


_CONNECTION_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


class Transport:
    """The connection to one endpoint: made when first used, kept alive, shared by threads, one per event loop."""

    def __init__(self, endpoint: Endpoint, timeout_seconds: float, max_retries: int) -> None:
        self.where = f"{endpoint.provider} at {endpoint.shown_url}"
        self.timeout_seconds, self.connect_seconds = timeout_seconds, min(CONNECT_SECONDS, timeout_seconds)
        self.max_retries, self._endpoint = max_retries, endpoint
        self._base = endpoint.shown_url  # to join it with a path again takes the openai package longer than all of ours
        self._token: Secret | None = None
        self._process, self._lock = os.getpid(), threading.Lock()
        self._client: Any = None
        self._close_client: Callable[[], object] = _nothing
        self._kept: dict[asyncio.AbstractEventLoop, _Kept] = {}
        self._said: tuple[str | None, dict[str, Any]] = "", {}  # no key is empty, so that this is none's

    def post(self, path: str, content: bytes, attempts: Attempts) -> str:
        """Send a request and read the text that answers it; counts the attempts. Raises ModelError."""
        with Translation(self) as foreign:
            client = self._blocking()
            options = self._options(client, self._key())
            with attempts.counted():
                text: str = client.post(self._base + path, cast_to=str, content=content, options=options)
            return text
        raise foreign.translated

    async def apost(self, path: str, content: bytes, attempts: Attempts) -> str:
        """Like `post`, awaiting."""
        with Translation(self) as foreign:
            client = await self._awaiting()
            options = self._options(client, await self._akey())
            with attempts.counted():
                text: str = await client.post(self._base + path, cast_to=str, content=content, options=options)
            return text
        raise foreign.translated

    def stream(self, path: str, content: bytes, progress: Progress, attempts: Attempts) -> Generator[bytes]:
        """Send a request and yield its answer as bytes while they arrive. Raises ModelError.

        Once `progress` says that there is an answer, nothing that happens to the connection matters any more.
        """
        with Translation(self) as foreign:
            import openai

            client = self._blocking()
            kind, options = openai.Stream[object], self._options(client, self._key())
            sending = partial(client.post, self._base + path, cast_to=object, content=content, stream=True)
            with attempts.counted():
                stream = sending(options=options, stream_cls=kind)
            with closing(stream):
                for piece in stream.response.iter_bytes():
                    yield piece
                    if progress.is_whole() and not _is_framed(stream.response):
                        break
            return
        if not progress.is_answered():
            raise foreign.translated

    async def astream(self, path: str, content: bytes, progress: Progress, attempts: Attempts) -> AsyncGenerator[bytes]:
        """Like `stream`, awaiting."""
        with Translation(self) as foreign:
            import openai

            client = await self._awaiting()
            kind, options = openai.AsyncStream[object], self._options(client, await self._akey())
            sending = partial(client.post, self._base + path, cast_to=object, content=content, stream=True)
            with attempts.counted():
                stream = await sending(options=options, stream_cls=kind)
            try:
                async for piece in stream.response.aiter_bytes():
                    yield piece
                    if progress.is_whole() and not _is_framed(stream.response):
                        break
            finally:
                await stream.close()
            return
        if not progress.is_answered():
            raise foreign.translated

    def prepare(self) -> None:
        """Make the client of the blocking methods."""
        self._blocking()

    def close(self) -> None:
        """Close the blocking connections. The next request opens new ones."""
        with self._own_lock():
            self._close_client()
            self._client, self._close_client = None, _nothing

    async def aclose(self) -> None:
        """Close the connections that belong to the running event loop."""
        kept = self._kept.pop(asyncio.get_running_loop(), None)
        if kept:
            kept.let_go.detach()
            await kept.keeper.aclose()

    def scrub(self, text: str) -> str:
        """`text` without anything secret that was sent: some servers quote it."""
        return self._endpoint.scrub(self._token.scrub(text) if self._token else text)

    def _blocking(self) -> Any:
        """The client of this process."""
        with self._own_lock():
            if self._client is None:
                with loading("openai"):
                    self._client = self._made()
                self._close_client = weakref.finalize(self, _close_in, os.getpid(), self._client)
            return self._client

    def _made(self) -> Any:
        import openai

        with _set_up():
            http_client = counting(openai.DefaultHttpxClient)(**self._http_options(_prepare, _receive))
        return openai.OpenAI(http_client=http_client, **self._client_options())

    def _own_lock(self) -> threading.Lock:
        """The lock of this process: a forked child may use neither the sockets nor the locks of its parent."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
            self._client, self._close_client = None, _nothing
        return self._lock

    async def _awaiting(self) -> Any:
        """The client of the running event loop, whose sockets no other loop could use; closed when the loop ends."""
        loop = asyncio.get_running_loop()
        if loop not in self._kept:
            self._forget_ended_loops()
            with loading("openai"):
                client = self._amade()
            keeper = _keep(client)
            await anext(keeper)
            self._kept[loop] = _Kept(client, keeper, weakref.finalize(self, _let_go, loop, keeper))
            self._kept[loop].let_go.atexit = False
        return self._kept[loop].client

    def _amade(self) -> Any:
        import openai

        with _set_up():
            http_options = self._http_options(_aprepare, _areceive)
            make = acounting(openai.DefaultAsyncHttpxClient)
            http_client = make(**http_options, transport=_lanes(http_options["verify"]))
        return openai.AsyncOpenAI(http_client=http_client, **self._client_options())

    def _forget_ended_loops(self) -> None:
        with self._own_lock():
            for ended in [loop for loop in list(self._kept) if loop.is_closed()]:
                self._kept.pop(ended).let_go.detach()

    def _http_options(
        self, prepare: Callable[[bytes, Any], object], receive: Callable[[str, float, Any], object]
    ) -> dict[str, Any]:
        """Redirects are not followed: they could carry key and conversation to another host.

        Nor are cookies kept: they would tell a server which runs belong together.
        """
        from agentkit.llm.http.cookies import NoCookies

        is_secure = self._endpoint.base_url.startswith("https:")
        own_query = urlencode({name: value for name, value in self._endpoint.query.items() if name != _VERSION})
        return {
            "verify": _tls_context() if is_secure else False,
            "follow_redirects": False,
            "cookies": NoCookies(),
            "event_hooks": {
                "request": [partial(prepare, own_query.encode())] if own_query else [],
                "response": [partial(receive, self.where, self.timeout_seconds)],
            },
        }

    def _client_options(self) -> dict[str, Any]:
        import openai

        return {
            "base_url": self._endpoint.shown_url,
            "default_query": {name: value for name, value in self._endpoint.query.items() if name == _VERSION},
            "api_key": "none",
            "max_retries": self.max_retries,
            "timeout": openai.Timeout(self.timeout_seconds, connect=self.connect_seconds),
        }

    def _options(self, client: Any, key: str | None) -> dict[str, Any]:
        """What is said of a request beside its content, made anew only when the key is another one."""
        said, options = self._said
        if said != key:
            # Limits are the client's anyway, but what is not said costs the openai package a deep copy a request.
            limits = {"max_retries": client.max_retries, "timeout": client.timeout}
            options = {"headers": self._headers(client, key), **limits}
            self._said = key, options
        return options

    def _headers(self, client: Any, key: str | None) -> dict[str, Any]:
        """The key where the endpoint wants it, and nothing that the server does not need."""
        import openai

        endpoint = self._endpoint
        added = () if endpoint.is_openai else (*client.default_headers, *_ADDED_HEADERS)
        omitted = [name for name in added if name.lower() not in _PLAIN_HEADERS]
        headers: dict[str, Any] = dict.fromkeys([*omitted, "Authorization"], openai.Omit())
        bearer = f"Bearer {key}" if key else ""
        if key and endpoint.key_header and not endpoint.token_provider:
            headers[endpoint.key_header], bearer = key, ""
        if authorization := endpoint.authorization or bearer:
            headers["Authorization"] = authorization
        return headers

    def _key(self) -> str | None:
        """The key or token to send, if any. A token is asked for each time; its provider knows when to renew it."""
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


class _Kept(NamedTuple):
    """A client of one event loop, the generator that closes it, and what closes it when nobody holds its transport."""

    client: Any
    keeper: AsyncGenerator[None]
    let_go: weakref.finalize[[asyncio.AbstractEventLoop, AsyncGenerator[None]], Transport]


def _prepare(query: bytes, request: Any) -> None:
    """Add a base URL's own query where the HTTP library does not log it: it may be secret."""
    path: bytes = request.url.raw_path
    target = path + (b"&" if b"?" in path else b"?") + query
    request.extensions = {**request.extensions, "target": target}


async def _aprepare(query: bytes, request: Any) -> None:
    _prepare(query, request)


def _receive(where: str, timeout_seconds: float, response: Any) -> None:
    """Take out of an answer what the libraries fail on, and bound it."""
    _prepare_answer(where, timeout_seconds, response)
    if response.status_code == _TOO_MANY_REQUESTS:
        response.read()
        _spare_retries(response)


async def _areceive(where: str, timeout_seconds: float, response: Any) -> None:
    _prepare_answer(where, timeout_seconds, response)
    if response.status_code == _TOO_MANY_REQUESTS:
        await response.aread()
        _spare_retries(response)


def _prepare_answer(where: str, timeout_seconds: float, response: Any) -> None:
    make_readable(response)
    Bounded.bind(response, where, timeout_seconds)


def _spare_retries(response: Any) -> None:
    """Keep the openai package from asking again where there is nothing left to pay with."""
    if is_spent(response.text):
        response.headers["x-should-retry"] = "false"


@contextmanager
def _set_up() -> Iterator[None]:
    """Says which variables may be wrong when no connection can be set up at all. Raises ConfigError."""
    try:
        yield
    except (ImportError, OSError, ValueError) as error:
        names = [name for name in environment() if name.upper() in _CONNECTION_VARIABLES]
        cause = f"{type(error).__name__}: {ended(str(error))}"
        raise ConfigError(f"No connection can be set up: {cause} Check {' and '.join(names)}.") from None


async def _keep(client: Any) -> AsyncGenerator[None]:
    """Closes a client when it is closed itself, which every event loop does to its generators when it shuts down."""
    try:
        yield
    finally:
        await client.close()


def _let_go(loop: asyncio.AbstractEventLoop, keeper: AsyncGenerator[None]) -> None:
    """Close a client soon, unless its event loop shuts down before: what is begun then would be cancelled."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.call_later, _GRACE_SECONDS, _close_on, loop, keeper)


def _close_on(loop: asyncio.AbstractEventLoop, keeper: AsyncGenerator[None]) -> None:
    loop.create_task(keeper.aclose())


def _close_in(process: int, client: Any) -> None:
    """Close a client in the process that made it; its sockets are not a forked child's to close."""
    if process == os.getpid():
        client.close()


def _nothing() -> None:
    """What there is to close when nothing was opened."""


@cache
def _tls_context() -> Any:
    """One TLS context for all clients: making it costs a hundred times more than the client itself."""
    import httpx2

    return httpx2.create_ssl_context()


def _lanes(verify: Any) -> Any:
    """The connections of an event loop; None where a proxy stands between, which only the library's own pool knows."""
    from urllib.request import getproxies

    import openai

    ancestors = (ancestor.__module__.partition(".")[0] for ancestor in openai.DefaultAsyncHttpxClient.__mro__)
    library = sys.modules[next(name for name in ancestors if name.startswith("httpx"))]  # openai 2 stands on httpx
    return None if getproxies() else Lanes(partial(library.AsyncHTTPTransport, verify=verify))


def _is_framed(response: Any) -> bool:
    """Whether the end of a body is marked; otherwise only closing the connection ends it, and some stay open."""
    return "content-length" in response.headers or "transfer-encoding" in response.headers
