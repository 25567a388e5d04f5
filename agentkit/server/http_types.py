"""Requests, responses and errors as plain data, streams of responses, and the limit of concurrent runs."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import field
from typing import Any, TypeVar

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.usage import is_whole

MAX_BYTES = 8_000_000
"""Maximum size of a completion request in bytes: enough for a few images."""

BODY_SECONDS = 30.0
"""Seconds within which a body must arrive."""

_SHOULD_NOT_RETRY = {"x-should-retry": "false"}
"""Header for the openai package: a failed run can have had side effects and must not be retried blindly."""

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
"""Returns the next ASGI message of a connection."""


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A request: its body in chunks, query and path parameters, and the ASGI receive callable to detect disconnects.

    `origin` is the address under which the client reached the server, such as `http://127.0.0.1:8080`, and `scope` the
    ASGI scope.
    """

    chunks: AsyncIterator[bytes]
    content_type: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)
    receive: Receive | None = None
    is_secure: bool = False
    origin: str = ""
    scope: Mapping[str, Any] = field(default_factory=dict)

    async def document(self, max_bytes: int = MAX_BYTES, seconds: float = BODY_SECONDS) -> dict[str, Any]:
        """Parse the body as a JSON object. Raises HTTPError if it is invalid, too long or too slow."""
        if self.content_type.partition(";")[0].strip().lower() != "application/json":
            raise HTTPError(415, "The body must be JSON: send Content-Type: application/json.", code="content_type")
        try:
            async with asyncio.timeout(seconds):
                body = await self._body(max_bytes)
        except TimeoutError:
            raise HTTPError(408, f"The body did not arrive within {seconds:g} seconds.", code="too_slow") from None
        try:
            document = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise HTTPError(400, "The body is not valid JSON.", code="invalid_json") from None
        if not isinstance(document, dict):
            raise HTTPError(400, "The body must be a JSON object.", code="invalid_json")
        return document

    async def _body(self, max_bytes: int) -> bytes:
        body = bytearray()
        async for chunk in self.chunks:
            body += chunk
            if len(body) > max_bytes:
                text = f"The body is longer than {max_bytes:,} bytes."
                raise HTTPError(413, text, code="too_large", headers={"connection": "close"})
        return bytes(body)


def _refuse_constant(constant: str) -> None:
    """Reject NaN and Infinity, which are not valid JSON and which clients could not parse in a response."""
    raise ValueError(constant)


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """A response: a whole body, or an iterator of chunks to stream.

    `beat` is sent between chunks, as a keep-alive, and `last` as the last chunk if the server stops. `on_close` is
    called when the response has been sent or abandoned. `asgi_response` is a Starlette response of another package that
    is sent instead.
    """

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: AsyncIterator[bytes] | None = None
    beat: bytes = b"\n"
    last: bytes = b""
    on_close: Callable[[], object] = lambda: None
    asgi_response: Any = None


def server_stopped() -> HTTPError:
    """The error for requests that are in progress when the server stops."""
    return HTTPError(503, "The server has stopped.", code="stopped")


def json_response(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    """Build a JSON response that must not be cached."""
    return HTTPResponse(json_bytes(document), status, headers={"cache-control": "no-store", **(headers or {})})


def json_bytes(document: object) -> bytes:
    """Serialise a document as one line of JSON; lone surrogates, which UTF-8 cannot encode, are replaced."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class HTTPError(Exception):
    """An error response in the format of an OpenAI error."""

    def __init__(
        self,
        status: int,
        text: str,
        *,
        code: str,
        parameter: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(text)
        self.status, self.code, self.parameter = status, code, parameter
        self.headers = dict(headers or {})

    @property
    def document(self) -> dict[str, Any]:
        """The error in the format that OpenAI clients expect."""
        kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.parameter, "code": self.code}}

    @property
    def reply(self) -> HTTPResponse:
        """The error as a response."""
        retry_headers = {} if self.status in {408, 429} else _SHOULD_NOT_RETRY
        return json_response(self.document, self.status, {**retry_headers, **self.headers})


Send = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends an ASGI message over a connection."""

SSE_BEAT = b": still at work\n\n"
"""The keep-alive of server-sent events, a comment."""

BEAT_SECONDS = 15.0
"""Seconds without output before a keep-alive is sent."""

SEND_SECONDS = 30.0
"""Seconds that a client can leave a chunk unread before it counts as disconnected."""

_MAX_WAITING = 64
_Value = TypeVar("_Value")


def invalid_value(text: str, parameter: str | None = None) -> HTTPError:
    """The error for a request with an invalid value, of this parameter if it is only one."""
    return HTTPError(400, text, code="invalid_value", parameter=parameter)


class ClientDisconnected(Exception):
    """The client has closed the connection, so that the response has no reader."""


async def cancel_on_disconnect(receive: Receive | None, work: Coroutine[Any, Any, _Value]) -> _Value:
    """Return the result of the work. If the client disconnects first, cancel it and raise ClientDisconnected."""
    task = asyncio.create_task(work)
    watching = [] if receive is None else [asyncio.create_task(_wait_for_disconnect(receive))]
    try:
        await asyncio.wait({task, *watching}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnected
        return task.result()
    finally:
        await cancel_tasks(task, *watching)


async def deliver(
    chunks: AsyncIterator[bytes], start: Mapping[str, Any], send: Send, *, beat: bytes, beat_seconds: float
) -> None:
    """Send each chunk when it arrives, and a keep-alive while none does; the chunks are always closed at the end.

    `start` is the first message of the response. Raises ClientDisconnected if the client does not read.
    """
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_WAITING)
    pump = asyncio.create_task(_pump(chunks, waiting))
    try:
        await _send(send, dict(start))
        while (chunk := await _next(waiting, pump, beat, beat_seconds)) is not None:
            await _send(send, {"type": "http.response.body", "body": chunk, "more_body": True})
        await pump
        await _send(send, {"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await cancel_tasks(pump)


async def _pump(chunks: AsyncIterator[bytes], waiting: asyncio.Queue[bytes | None]) -> None:
    """Forward chunks to the queue. A single task runs the iterator, so that it is closed where it was opened."""
    try:
        if isinstance(chunks, AsyncGenerator):
            async with aclosing(chunks):
                async for chunk in chunks:
                    await waiting.put(chunk)
        else:
            async for chunk in chunks:
                await waiting.put(chunk)
    finally:
        with suppress(asyncio.QueueFull):  # the reader then sees that the pump has ended
            waiting.put_nowait(None)


async def _next(
    waiting: asyncio.Queue[bytes | None], pump: asyncio.Task[None], beat: bytes, beat_seconds: float
) -> bytes | None:
    """The next chunk, or a keep-alive; None at the end."""
    if pump.done() and waiting.empty():
        return None
    try:
        async with asyncio.timeout(beat_seconds):
            return await waiting.get()
    except TimeoutError:
        return beat


async def _send(send: Send, message: dict[str, Any]) -> None:
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await send(message)
    except (TimeoutError, OSError):
        raise ClientDisconnected from None


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class ConcurrencyLimit:
    """A limit on concurrent runs; one more is rejected with a retry header, before it starts."""

    def __init__(self, maximum: int) -> None:
        if not is_whole(maximum, 1):
            raise ConfigError(f"max_runs= takes a whole number of at least 1. Got {maximum!r:.200}.")
        self._maximum, self._used, self._lock = maximum, 0, threading.Lock()

    def acquire(self) -> None:
        """Acquire a slot, which must be released. Raises HTTPError if all are taken."""
        with self._lock:
            if self._used >= self._maximum:
                text = f"The maximum number of runs is in progress ({self._maximum}). Try again when one has ended."
                raise HTTPError(429, text, code="too_many_runs", headers={"retry-after": "1"})
            self._used += 1

    def release(self) -> None:
        """Release a slot."""
        with self._lock:
            self._used -= 1

    @contextmanager
    def header(self) -> Iterator[None]:
        """Hold a slot for the block. Raises HTTPError if all are taken."""
        self.acquire()
        try:
            yield
        finally:
            self.release()


def stream_response(
    chunks: AsyncIterator[bytes],
    content_type: str,
    limit: ConcurrencyLimit,
    *,
    beat: bytes = b"\n",
    headers: Mapping[str, str] | None = None,
) -> HTTPResponse:
    """Build a streamed response that takes a slot until its end. Raises HTTPError if all slots are taken."""
    limit.acquire()
    headers = {"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})}
    return HTTPResponse(content_type=content_type, headers=headers, chunks=chunks, beat=beat, on_close=limit.release)
