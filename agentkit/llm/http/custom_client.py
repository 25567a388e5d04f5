"""Requests over an `openai` client that the user supplies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import httpx2

from agentkit.errors import AgentKitError, ConfigError, Unauthorized
from agentkit.llm.http.response_limits import PassThroughStream


class CustomClient:
    """A client of the openai package in the place of connections. It is the user's, who closes it.

    Each attempt is one `post`: when another follows, and how long an answer may take, is decided as everywhere. An
    OpenAI can be awaited, too, in threads; an AsyncOpenAI belongs to one event loop, and can only be awaited.
    """

    def __init__(self, client: Any) -> None:
        import openai

        self._client, self._is_awaited = client, isinstance(client, openai.AsyncOpenAI)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """What answers a request, a refusal as well. Raises ConfigError, Unauthorized, and httpx2's errors."""
        if self._is_awaited:
            raise ConfigError(
                "This LLM was given an AsyncOpenAI, which can only be awaited, as by arun and acomplete. Give "
                "client=OpenAI(...), which can do both."
            )
        with _Failing() as failing:
            return _checked(self._client.post(**self._said(request)))
        return failing.refusal()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Like `handle_request`, awaiting."""
        if not self._is_awaited:
            response = await asyncio.to_thread(self.handle_request, request)
            response.stream = _Threaded(response.stream)
            return response
        with _Failing() as failing:
            return _checked(await self._client.post(**self._said(request)))
        return failing.refusal()

    def close(self) -> None:
        """Nothing: the client is the user's."""

    async def aclose(self) -> None:
        """Nothing: the client is the user's."""

    def _said(self, request: httpx2.Request) -> dict[str, Any]:
        """The same request in the client's terms. It follows no redirect: that could carry it to another host."""
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
    """Holds back what a client raises. Raised outside of any handler, what is behind it keeps its own cause."""

    def __init__(self) -> None:
        self._error: Exception = RuntimeError("It did not fail.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Whether the exception is held back."""
        if isinstance(error, Exception):
            self._error = error
        return isinstance(error, Exception)

    def refusal(self) -> httpx2.Response:
        """The answer that the client made an error of. Raises what kept it from getting one."""
        import openai

        if isinstance(self._error, openai.APIStatusError):
            return _reread(_checked(self._error.response))
        raise _cause(self._error)


class _Threaded(PassThroughStream):
    """A body that blocks, read in threads where it is awaited."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = iter(self.stream)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece

    async def aclose(self) -> None:
        """Let go of the connection."""
        await asyncio.to_thread(self.stream.close)


def _checked(response: object) -> httpx2.Response:
    """The client's answer, unless it is of another library. Raises ConfigError."""
    if isinstance(response, httpx2.Response):
        return response
    raise ConfigError("The client that was given stands on httpx: give its http_client= one of httpx2, or none.")


def _reread(response: httpx2.Response) -> httpx2.Response:
    """The same answer as if it was not read yet, and unpacked already."""
    headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
    return httpx2.Response(response.status_code, headers=headers, content=response.content)


def _cause(error: Exception) -> Exception:
    """What an error of the client's means: the HTTP library's own that is behind it, or that there is no credential."""
    import openai

    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        kind = httpx2.ReadTimeout if isinstance(error, openai.APITimeoutError) else httpx2.NetworkError
        return cause if isinstance(cause, httpx2.RequestError) else kind(str(cause or error))
    if isinstance(error, (httpx2.HTTPError, httpx2.InvalidURL, RuntimeError, AgentKitError)):
        return error
    return Unauthorized(f"The client that was given could not send: {type(error).__name__}: {error}")
