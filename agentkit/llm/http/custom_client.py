"""Requests over an `openai` client that the user supplies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import httpx2

from agentkit.errors import AgentKitError, ConfigError, Unauthorized
from agentkit.llm.http.connection_pool import PassThroughStream


class CustomClient:
    """Sends requests with a client of the openai package instead of a connection pool. The user owns and closes it.

    Each attempt is one `post`; retries and timeouts are handled by the transport as usual. An OpenAI client also works
    for async calls, in worker threads; an AsyncOpenAI client is bound to one event loop and works for async calls only.
    """

    def __init__(self, client: Any) -> None:
        import openai

        self._client, self._is_awaited = client, isinstance(client, openai.AsyncOpenAI)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; a response of any status is returned. Raises ConfigError, Unauthorized, httpx2 errors."""
        if self._is_awaited:
            raise ConfigError(
                "This LLM was given an AsyncOpenAI, which can only be awaited, as by arun and acomplete. Give "
                "client=OpenAI(...), which can do both."
            )
        with _Failing() as failing:
            return _checked(self._client.post(**self._said(request)))
        return failing.refusal()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Async version of `handle_request`."""
        if not self._is_awaited:
            response = await asyncio.to_thread(self.handle_request, request)
            response.stream = _Threaded(response.stream)
            return response
        with _Failing() as failing:
            return _checked(await self._client.post(**self._said(request)))
        return failing.refusal()

    def close(self) -> None:
        """Do nothing: the user owns the client."""

    async def aclose(self) -> None:
        """Do nothing: the user owns the client."""

    def _said(self, request: httpx2.Request) -> dict[str, Any]:
        """Arguments of the client's `post`. Redirects are disabled: they could send the request to another host."""
        times = httpx2.Timeout(**request.extensions["timeout"])
        root = self._client.base_url.raw_path.decode().rstrip("/")
        return {
            "path": request.url.raw_path.decode().removeprefix(root),
            "cast_to": httpx2.Response,
            "content": request.read(),
            "options": {"timeout": times, "max_retries": 0, "follow_redirects": False},
            "stream": True,
        }


class _Failing:
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

    def refusal(self) -> httpx2.Response:
        """The response of a status error. Raises the translated exception for any other failure."""
        import openai

        if isinstance(self._error, openai.APIStatusError):
            return _reread(_checked(self._error.response))
        raise _cause(self._error)


class _Threaded(PassThroughStream):
    """A blocking body, read in worker threads by async code."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = iter(self.stream)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece

    async def aclose(self) -> None:
        """Release the connection."""
        await asyncio.to_thread(self.stream.close)


def _checked(response: object) -> httpx2.Response:
    """The client's response. Raises ConfigError if it comes from another HTTP library."""
    if isinstance(response, httpx2.Response):
        return response
    raise ConfigError("The given client uses httpx: pass an httpx2 client as its http_client=, or omit it.")


def _reread(response: httpx2.Response) -> httpx2.Response:
    """The same response, unread and without content encoding."""
    headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
    return httpx2.Response(response.status_code, headers=headers, content=response.content)


def _cause(error: Exception) -> Exception:
    """Convert a client error to the underlying HTTP error, or to Unauthorized for failures such as a missing key."""
    import openai

    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        kind = httpx2.ReadTimeout if isinstance(error, openai.APITimeoutError) else httpx2.NetworkError
        return cause if isinstance(cause, httpx2.RequestError) else kind(str(cause or error))
    if isinstance(error, (httpx2.HTTPError, httpx2.InvalidURL, RuntimeError, AgentKitError)):
        return error
    return Unauthorized(f"The client that was given could not send: {type(error).__name__}: {error}")
