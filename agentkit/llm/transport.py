"""How do bytes get to a provider and back? Over the openai package; the only module that talks to models' servers."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from agentkit.errors import BadResponse, ModelError, Unreachable
from agentkit.llm.endpoint import Endpoint, shown_url
from agentkit.llm.wire.failures import failure, not_compatible

Body = Mapping[str, Any]


class Transport:
    """The connection to one endpoint: made when first used, kept alive, shared by threads, one per event loop."""

    def __init__(self, endpoint: Endpoint, timeout_seconds: float, max_retries: int) -> None:
        self._endpoint = endpoint
        self._options = {"timeout": timeout_seconds, "max_retries": max_retries}
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._client: tuple[int, Any] | None = None
        self._async_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    def post(self, path: str, body: Body) -> dict[str, Any]:
        """Send a request and read the JSON object that answers it."""
        with self._translated():
            return _checked(self._blocking().post(path, cast_to=object, body=body, options=self._headers()))

    async def apost(self, path: str, body: Body) -> dict[str, Any]:
        """Like `post`, awaiting."""
        with self._translated():
            return _checked(await self._awaiting().post(path, cast_to=object, body=body, options=self._headers()))

    @contextmanager
    def open(self, path: str, body: Body) -> Iterator[Iterator[bytes]]:
        """Send a request and read its answer as bytes while they arrive."""
        with self._translated():
            openai = _openai()
            stream = self._blocking().post(
                path, cast_to=object, body=body, options=self._headers(), stream=True, stream_cls=openai.Stream[object]
            )
            try:
                yield stream.response.iter_bytes()
            finally:
                stream.close()

    @asynccontextmanager
    async def aopen(self, path: str, body: Body) -> AsyncIterator[AsyncIterator[bytes]]:
        """Like `open`, awaiting."""
        with self._translated():
            openai = _openai()
            stream = await self._awaiting().post(
                path,
                cast_to=object,
                body=body,
                options=self._headers(),
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
            try:
                yield stream.response.aiter_bytes()
            finally:
                await stream.close()

    def close(self) -> None:
        """Close the blocking connections. The next request opens new ones."""
        with self._lock:
            made, self._client = self._client, None
        if made:
            _close_in(*made)

    async def aclose(self) -> None:
        """Close the connections that belong to the running event loop."""
        client = self._async_clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _blocking(self) -> Any:
        """The client of this process: a forked child must not use its parent's sockets."""
        with self._lock:
            if self._client is None or self._client[0] != os.getpid():
                openai = _openai()
                http_client = openai.DefaultHttpxClient(**self._http_options())
                credential = self._credential(self._endpoint.token_provider)
                client = openai.OpenAI(http_client=http_client, **credential, **self._options)
                self._client = (os.getpid(), client)
                weakref.finalize(self, _close_in, *self._client)
            return self._client[1]

    def _awaiting(self) -> Any:
        """The client of the running event loop, whose sockets no other loop could use."""
        loop = asyncio.get_running_loop()
        client = self._async_clients.get(loop)
        if client is None:
            openai = _openai()
            http_client = openai.DefaultAsyncHttpxClient(**self._http_options())
            credential = self._credential(_awaited(self._endpoint.token_provider))
            client = openai.AsyncOpenAI(http_client=http_client, **credential, **self._options)
            self._async_clients[loop] = client
        return client

    def _http_options(self) -> dict[str, Any]:
        """Without TLS no context is made, and redirects are not followed to where one would be needed."""
        is_secure = urlsplit(self._endpoint.base_url).scheme == "https"
        verify = _tls_context() if is_secure else False
        return {"verify": verify, "follow_redirects": is_secure, "timeout": self._timeout_seconds}

    def _credential(self, token_provider: object) -> dict[str, Any]:
        """What a client needs to know of the endpoint."""
        key = self._endpoint.api_key.reveal() if self._endpoint.api_key else "none"
        return {
            "base_url": self._endpoint.base_url,
            "api_key": token_provider or key,
            "default_query": dict(self._endpoint.query),
        }

    def _headers(self) -> dict[str, Any]:
        """Headers for each request: the key where the endpoint wants it, and nothing that it does not need."""
        omit, endpoint, headers = _openai().Omit(), self._endpoint, dict[str, Any]()
        if endpoint.api_key and endpoint.key_header:
            headers[endpoint.key_header] = endpoint.api_key.reveal()
        if endpoint.token_provider is None and (endpoint.key_header or not endpoint.api_key):
            headers["Authorization"] = omit
        if not endpoint.strict:
            headers |= {"OpenAI-Organization": omit, "OpenAI-Project": omit}
        return {"headers": headers}

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise our errors for the openai package's and for those of the HTTP library below it."""
        try:
            yield
        except ModelError:
            raise
        except Exception as error:
            ours = self._translation(error)
            if ours is None:
                raise
            raise ours from None

    def _translation(self, error: Exception) -> ModelError | None:
        openai = _openai()
        where = f"{self._endpoint.provider} at {shown_url(self._endpoint.base_url)}"
        if isinstance(error, openai.APIStatusError):
            response = error.response
            body = error.body if error.body is not None else response.text
            return self._scrubbed(failure(body, status=error.status_code, retry_after_seconds=_retry_after(response)))
        if isinstance(error, openai.APITimeoutError) or _is_http_error(error, "TimeoutException"):
            return Unreachable(f"No answer from {where} within {self._timeout_seconds:g} seconds.")
        if isinstance(error, openai.APIConnectionError):
            return Unreachable(f"Cannot reach {where}: {error.__cause__ or error}. Is the server running?")
        if _is_http_error(error, "HTTPError"):
            return Unreachable(f"The connection to {where} broke: {error}. Try again.")
        if isinstance(error, openai.APIResponseValidationError | ValueError):
            return BadResponse(f"{where} answered with broken JSON: {error}")
        return None

    def _scrubbed(self, error: ModelError) -> ModelError:
        """The error without the key: some servers quote it."""
        if self._endpoint.api_key:
            error.args = tuple(self._endpoint.api_key.scrub(str(text)) for text in error.args)
        return error


def _close_in(process: int, client: Any) -> None:
    """Close a client in the process that made it; its sockets are not a forked child's to close."""
    if process == os.getpid():
        client.close()


def _openai() -> Any:
    """The openai package, imported when the first request is made."""
    return import_module("openai")


@cache
def _tls_context() -> Any:
    """One TLS context for all clients: making it costs a hundred times more than the client itself."""
    return import_module("httpx2").create_ssl_context()


def _checked(data: object) -> dict[str, Any]:
    if isinstance(data, dict):
        return data
    if isinstance(data, str):
        raise not_compatible(data)
    raise failure(data) if isinstance(data, list) else BadResponse(f"The answer is no JSON object: {data!r:.200}")


def _retry_after(response: Any) -> float | None:
    try:
        return float(response.headers.get("retry-after", ""))
    except ValueError:
        return None


def _is_http_error(error: Exception, name: str) -> bool:
    """Whether an error is of that class of the HTTP library: openai 3 stands on httpx2, openai 2 on httpx."""
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
    return bool(kinds & {f"httpx.{name}", f"httpx2.{name}"})


def _awaited(token_provider: Callable[[], str] | None) -> Callable[[], Awaitable[str]] | None:
    if token_provider is None:
        return None
    provider = token_provider

    async def token() -> str:
        return await asyncio.to_thread(provider)

    return token
