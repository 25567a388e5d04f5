"""Requests to model providers over httpx2, or over a client that the user passes."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self
from urllib.parse import urlencode

import httpx2

from agentkit.errors import AgentKitError, ConfigError, ModelError, Unauthorized
from agentkit.llm.endpoint import Endpoint, display_url, is_header_text
from agentkit.llm.http.connection_pool import (
    BoundedBody,
    ConnectionPool,
    Connections,
    PassThroughStream,
    SharedPool,
    proxy_of,
    shared_pools,
)
from agentkit.llm.http.retry import (
    HTTP_EXCEPTIONS,
    Retries,
    error_for_response,
    translate_error,
)
from agentkit.llm.pipeline import CANCELLATION, READ, IOCall, OpenStream, StageSteps, pause
from agentkit.settings import Secret, environment

if TYPE_CHECKING:
    from agentkit.events import Event
    from agentkit.llm.protocols import WireProtocol


class _ConnectionFailed(AgentKitError):
    """An exception of the HTTP library, on the way to the steps of the transport, which map it by `translate_error`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class ResponseReader(Protocol):
    """Reads a streamed response."""

    def feed(self, chunk: bytes) -> Iterable[Event]:
        """The events in the next chunk of bytes."""
        ...

    def is_whole(self) -> bool:
        """Whether the response is complete and nothing can follow."""
        ...

    def is_answered(self) -> bool:
        """Whether the rest of the response can be lost without harm."""
        ...


CONNECT_SECONDS = 10.0
"""Timeout for opening a connection, if the response timeout is longer."""

_GRACE_SECONDS, _MIN_SECONDS = 0.1, 0.001

_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "keep-alive",
    "Content-Type": "application/json",
    "User-Agent": "agentkit",
}
_ACCOUNT_HEADERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Headers for OpenAI's organization and project, with the environment variables that set them."""


class Transport:
    """The connection to one endpoint: opened on first use, kept alive, shared by threads, one pool per event loop."""

    def __init__(self, endpoint: Endpoint, timeout_seconds: float, max_retries: int, wire: WireProtocol) -> None:
        self.server = f"{endpoint.provider} at {endpoint.shown_url}"
        self.timeout_seconds, self.connect_seconds = timeout_seconds, min(CONNECT_SECONDS, timeout_seconds)
        self.max_retries, self._endpoint, self._wire = max_retries, endpoint, wire
        self._base_headers = _HEADERS | dict(wire.headers)
        self._timeouts = dict.fromkeys(("connect", "read", "write", "pool"), timeout_seconds)
        self._timeouts["connect"] = self.connect_seconds
        self._token: Secret | None = None
        self._process, self._lock = os.getpid(), threading.Lock()
        self._custom_client = None if endpoint.client is None else CustomClient(endpoint.client)
        self._lease: _Lease | None = None
        self._leases: dict[asyncio.AbstractEventLoop, _Lease] = {}
        self._addresses: dict[str, _Address] = {}
        self._sent_headers: tuple[str | None, list[tuple[bytes, bytes]]] = (
            "",
            [],
        )  # "" equals no key: the cache is empty

    @property
    def proxy(self) -> str:
        """The proxy that the environment sets for the endpoint, without its password; empty if there is none."""
        return display_url(proxy_of(self._endpoint) or "")

    def retries(self, *, has_fallback: bool = False) -> Retries:
        """The retries of one request."""
        return Retries(self.max_retries, has_fallback=has_fallback)

    def stream(self, path: str, content: bytes, reader: ResponseReader, retries: Retries) -> StageSteps[None]:
        """The steps that send a request and pass its response to `reader` as it arrives. Raise ModelError.

        Connection errors are ignored once the response is complete.
        """
        response = yield from self.request(path, content, retries, read_body=False)
        # without either header only closing the connection ends the body, and some connections stay open
        is_framed = "content-length" in response.headers or "transfer-encoding" in response.headers
        yield OpenStream(partial(_chunks, response), partial(_achunks, response))
        failed = None
        while failed is None:
            try:
                chunk = yield READ
            except _ConnectionFailed as failure:
                failed = translate_error(failure.error, self, retries)
            else:
                if chunk is None:
                    return
                yield from reader.feed(chunk)
                if not is_framed and reader.is_whole():
                    return
        if not reader.is_answered():
            raise failed

    def prepare(self) -> None:
        """Set up the connections of the blocking methods."""
        self._sync_connections()

    def close(self) -> None:
        """Close the blocking connections, unless another LLM uses them. The next request opens new ones."""
        with self._process_lock():
            lease, self._lease = self._lease, None
        if lease and lease.end():
            lease.pool.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop, unless another LLM uses them."""
        lease = self._leases.pop(asyncio.get_running_loop(), None)
        if lease and lease.end():
            await lease.pool.aclose()

    def scrub(self, text: str) -> str:
        """`text` without the secrets that were sent: some servers quote them."""
        return self._endpoint.scrub(self._token.scrub(text) if self._token else text)

    def request(
        self, path: str, content: bytes, retries: Retries, *, read_body: bool = True
    ) -> StageSteps[httpx2.Response]:
        """The steps that send a request, with retries, and return its response. Raise ModelError for an error status.

        With `read_body` the body is read here, so that a connection lost halfway through is retried.
        """
        retries.has_started = False
        send = IOCall(
            partial(self._send, path, content, read_body=read_body),
            partial(self._asend, path, content, read_body=read_body),
        )
        while True:
            try:
                response: httpx2.Response = yield send
            except (_ConnectionFailed, ModelError) as error:
                cause = error.error if isinstance(error, _ConnectionFailed) else error
                seconds = retries.after_error(cause)
                failed = translate_error(cause, self, retries)
            else:
                if response.is_success:
                    retries.has_started = True
                    return response
                failed = error_for_response(response, self, self._wire)
                seconds = retries.after_error_response(response, failed)
            if seconds is None:
                raise failed
            yield pause(seconds)

    def _send(self, path: str, content: bytes, *, read_body: bool) -> httpx2.Response:
        """Send a request once; returns its response, read if its body is needed. Raises _ConnectionFailed."""
        try:
            request = self._request(path, content, self._key())
            response = self._sync_connections().handle_request(request)
            BoundedBody.bind(response, self.server, self.timeout_seconds)
            return _read(response) if read_body or not response.is_success else response
        except HTTP_EXCEPTIONS as error:
            raise _ConnectionFailed(error) from None

    async def _asend(self, path: str, content: bytes, *, read_body: bool) -> httpx2.Response:
        """Async version of `_send`."""
        try:
            request = self._request(path, content, await self._akey())
            response = await (await self._async_connections()).handle_async_request(request)
            BoundedBody.bind(response, self.server, self.timeout_seconds)
            return await _aread(response) if read_body or not response.is_success else response
        except HTTP_EXCEPTIONS as error:
            raise _ConnectionFailed(error) from None

    def _request(self, path: str, content: bytes, key: str | None) -> httpx2.Request:
        address = self._addresses.get(path)
        if address is None:
            # The query goes into the target, which is not logged: it could be secret.
            url, query = httpx2.URL(self._endpoint.shown_url + path), urlencode(self._endpoint.query)
            target = {"target": url.raw_path + (b"&" if url.query else b"?") + query.encode()} if query else {}
            address = self._addresses[path] = _Address(url, {"timeout": self._timeouts, **target})
        cached_key, common_headers = self._sent_headers
        if cached_key != key:
            common_headers = httpx2.Headers({"Host": address.url.netloc.decode(), **self._headers(key)}).raw
            self._sent_headers = key, common_headers
        extensions, cancellation = address.extensions, CANCELLATION.get()
        if cancellation is not None:
            seconds_left = max(cancellation.seconds_left(), _MIN_SECONDS)
            extensions = {
                **extensions,
                "timeout": {name: min(seconds_left, each) for name, each in self._timeouts.items()},
            }
        # Passed as a stream, because the library then uses the headers unchanged instead of scanning them three times.
        stream, headers = httpx2.ByteStream(content), [*common_headers, (b"Content-Length", b"%d" % len(content))]
        method = "POST" if content else "GET"
        return httpx2.Request(method, address.url, headers=headers, stream=stream, extensions=extensions)

    def _headers(self, key: str | None) -> dict[str, str]:
        """The headers, with the key in the header that the endpoint expects; custom headers replace defaults."""
        endpoint, headers = self._endpoint, dict(self._base_headers)
        bearer = f"Bearer {key}" if key else ""
        if key and endpoint.key_header and not endpoint.token_provider:
            headers[endpoint.key_header], bearer = key, ""
        if authorization := endpoint.authorization or bearer:
            headers["Authorization"] = authorization
        headers |= _account_headers() if endpoint.is_openai else {}
        overridden = {name.lower() for name in endpoint.headers}
        return {name: value for name, value in headers.items() if name.lower() not in overridden} | dict(
            endpoint.headers
        )

    def _sync_connections(self) -> Connections | CustomClient:
        """The blocking connections of this process."""
        if self._custom_client is not None:
            return self._custom_client
        with self._process_lock():
            if self._lease is None:
                self._lease = _Lease(self, shared_pools().take(self._endpoint))
            connections: Connections = self._lease.pool.connections
            return connections

    def _process_lock(self) -> threading.Lock:
        """The lock of this process: a forked child must not use the sockets or locks of its parent."""
        if self._process != os.getpid():
            self._process, self._lock, self._lease = os.getpid(), threading.Lock(), None
        return self._lock

    async def _async_connections(self) -> ConnectionPool | CustomClient:
        """The connections of the running event loop; other loops cannot use them. Closed when the loop ends."""
        if self._custom_client is not None:
            return self._custom_client
        loop = asyncio.get_running_loop()
        if loop not in self._leases:
            with self._process_lock():
                for ended in [each for each in self._leases if each.is_closed()]:
                    self._leases.pop(ended).end()
            self._leases[loop] = _Lease(self, shared_pools().take(self._endpoint, loop))
            await self._leases[loop].pool.start()
        connections: ConnectionPool = self._leases[loop].pool.connections
        return connections

    def _key(self) -> str | None:
        """The key or token to send, if any. The token provider is called for each attempt and handles expiry itself.

        Raises ConfigError for an async token provider.
        """
        if self._endpoint.token_provider is None:
            return self._endpoint.api_key.reveal() if self._endpoint.api_key else None
        token = _call_token_provider(self._endpoint.token_provider)
        if inspect.isawaitable(token):
            if inspect.iscoroutine(token):
                token.close()
            raise ConfigError(
                "azure_token_provider= is async, so this LLM supports only async methods, such as arun and acomplete. "
                "For blocking calls, pass the synchronous provider: azure.identity.get_bearer_token_provider."
            )
        return self._checked_token(token)

    async def _akey(self) -> str | None:
        if self._endpoint.token_provider is None:
            return self._key()
        token = await asyncio.to_thread(_call_token_provider, self._endpoint.token_provider)
        if inspect.isawaitable(token):
            try:
                token = await token
            except Exception as error:
                raise _token_error(error) from error
        return self._checked_token(token)

    def _checked_token(self, token: object) -> str:
        if not isinstance(token, str) or not is_header_text(token):
            raise Unauthorized(f"The token provider returned {type(token).__name__} instead of a token.")
        self._token = Secret(token)
        return token


def _call_token_provider(provider: Callable[[], object]) -> object:
    """Call a token provider. Raises Unauthorized if it fails."""
    try:
        return provider()
    except Exception as error:
        raise _token_error(error) from error


def _token_error(error: Exception) -> Unauthorized:
    return Unauthorized(f"The token provider failed: {type(error).__name__}: {error}")


class _Address(NamedTuple):
    """The URL and the request extensions for a path."""

    url: httpx2.URL
    extensions: dict[str, object]


class _Lease:
    """The use of a shared pool by a transport: ended by the transport, or when that is collected."""

    def __init__(self, transport: Transport, pool: SharedPool) -> None:
        self.pool = pool
        self._release = weakref.finalize(transport, _release, os.getpid(), pool)
        self._release.atexit = False

    def end(self) -> bool:
        """End the use; returns whether nobody else uses the pool, so that it has to be closed."""
        return self._release.detach() is not None and shared_pools().release(self.pool, close=True)


def _release(process: int, pool: SharedPool) -> None:
    """Release a pool in the process that took it, not in a forked child."""
    if process == os.getpid():
        shared_pools().release(pool)


def _account_headers() -> dict[str, str]:
    """OpenAI's account headers. Raises ConfigError if a value is not valid in a header."""
    variables = environment()
    for variable in _ACCOUNT_HEADERS.values():
        if variable in variables and not is_header_text(variables[variable]):
            raise ConfigError(
                f"{variable} contains characters that are invalid in an account name. Was it copied completely?"
            )
    return {name: variables[variable] for name, variable in _ACCOUNT_HEADERS.items() if variable in variables}


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


def _chunks(response: httpx2.Response) -> Generator[bytes]:
    """The body in chunks, decompressed if needed. Raises _ConnectionFailed."""
    stream: Any = response.iter_bytes() if "content-encoding" in response.headers else response.stream
    try:
        yield from stream
    except HTTP_EXCEPTIONS as error:
        raise _ConnectionFailed(error) from None
    finally:
        response.close()


async def _achunks(response: httpx2.Response) -> AsyncGenerator[bytes]:
    stream: Any = response.aiter_bytes() if "content-encoding" in response.headers else response.stream
    try:
        async for chunk in stream:
            yield chunk
    except HTTP_EXCEPTIONS as error:
        raise _ConnectionFailed(error) from None
    finally:
        await response.aclose()


class CustomClient:
    """Sends requests with a client of the openai package instead of a connection pool. The user owns and closes it.

    Each attempt is one `post`; retries and timeouts are handled by the transport as usual. An OpenAI client also works
    for async calls, in worker threads; an AsyncOpenAI client is bound to one event loop and works for async calls only.
    """

    def __init__(self, client: Any) -> None:
        import openai

        self._client, self._is_async = client, isinstance(client, openai.AsyncOpenAI)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; a response of any status is returned. Raises ConfigError, Unauthorized, httpx2 errors."""
        if self._is_async:
            raise ConfigError(
                "This LLM was created with an AsyncOpenAI client, which supports only async methods, such as arun and "
                "acomplete. Pass client=OpenAI(...), which supports both."
            )
        with _CapturedFailure() as failure:
            return _require_httpx2(self._client.post(**self._post_arguments(request)))
        return failure.response()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Async version of `handle_request`."""
        if not self._is_async:
            response = await asyncio.to_thread(self.handle_request, request)
            response.stream = _ThreadedBody(response.stream)
            return response
        with _CapturedFailure() as failure:
            return _require_httpx2(await self._client.post(**self._post_arguments(request)))
        return failure.response()

    def close(self) -> None:
        """Do nothing: the user owns the client."""

    async def aclose(self) -> None:
        """Do nothing: the user owns the client."""

    def _post_arguments(self, request: httpx2.Request) -> dict[str, Any]:
        """Arguments of the client's `post`. Redirects are disabled: they could send the request to another host."""
        timeout = httpx2.Timeout(**request.extensions["timeout"])
        root = self._client.base_url.raw_path.decode().rstrip("/")
        return {
            "path": request.url.raw_path.decode().removeprefix(root),
            "cast_to": httpx2.Response,
            "content": request.read(),
            "options": {"timeout": timeout, "max_retries": 0, "follow_redirects": False},
            "stream": True,
        }


class _CapturedFailure:
    """Captures the exception of a client call. It is raised again outside the handler to preserve its own cause."""

    def __init__(self) -> None:
        self._error: Exception = RuntimeError("It did not fail.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Suppress and store any Exception."""
        if isinstance(error, Exception):
            self._error = error
        return isinstance(error, Exception)

    def response(self) -> httpx2.Response:
        """The response of a status error. Raises the translated exception for any other failure."""
        import openai

        if isinstance(self._error, openai.APIStatusError):
            return _decoded_copy(_require_httpx2(self._error.response))
        raise _http_error(self._error)


class _ThreadedBody(PassThroughStream):
    """A blocking body, read in worker threads by async code."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = iter(self.stream)
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            yield chunk

    async def aclose(self) -> None:
        """Release the connection."""
        await asyncio.to_thread(self.stream.close)


def _require_httpx2(response: object) -> httpx2.Response:
    """The client's response. Raises ConfigError if it comes from another HTTP library."""
    if isinstance(response, httpx2.Response):
        return response
    raise ConfigError("client= uses an httpx client: pass an httpx2 client as its http_client=, or omit http_client=.")


def _decoded_copy(response: httpx2.Response) -> httpx2.Response:
    """The same response, unread and without content encoding."""
    headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
    return httpx2.Response(response.status_code, headers=headers, content=response.content)


def _http_error(error: Exception) -> Exception:
    """Convert a client error to the underlying HTTP error, or to Unauthorized for failures such as a missing key."""
    import openai

    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        kind = httpx2.ReadTimeout if isinstance(error, openai.APITimeoutError) else httpx2.NetworkError
        return cause if isinstance(cause, httpx2.RequestError) else kind(str(cause or error))
    if isinstance(error, (httpx2.HTTPError, httpx2.InvalidURL, RuntimeError, AgentKitError)):
        return error
    return Unauthorized(f"The client given as client= could not send the request: {type(error).__name__}: {error}")
