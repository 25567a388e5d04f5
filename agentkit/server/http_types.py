"""Requests, responses and errors as plain data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from agentkit._dataclass import dataclass

MOST_BYTES = 8_000_000
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

    pieces: AsyncIterator[bytes]
    content_type: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)
    receive: Receive | None = None
    is_secure: bool = False
    origin: str = ""
    scope: Mapping[str, Any] = field(default_factory=dict)

    async def document(self, most_bytes: int = MOST_BYTES, seconds: float = BODY_SECONDS) -> dict[str, Any]:
        """Parse the body as a JSON object. Raises HTTPError if it is invalid, too long or too slow."""
        if self.content_type.partition(";")[0].strip().lower() != "application/json":
            raise HTTPError(415, "The body must be JSON: send Content-Type: application/json.", code="content_type")
        try:
            async with asyncio.timeout(seconds):
                body = await self._body(most_bytes)
        except TimeoutError:
            raise HTTPError(408, f"The body did not arrive within {seconds:g} seconds.", code="too_slow") from None
        try:
            document = json.loads(body, parse_constant=_refused)
        except (ValueError, RecursionError):
            raise HTTPError(400, "The body is not valid JSON.", code="invalid_json") from None
        if not isinstance(document, dict):
            raise HTTPError(400, "The body must be a JSON object.", code="invalid_json")
        return document

    async def _body(self, most_bytes: int) -> bytes:
        body = bytearray()
        async for piece in self.pieces:
            body += piece
            if len(body) > most_bytes:
                text = f"The body is longer than {most_bytes:,} bytes."
                raise HTTPError(413, text, code="too_large", headers={"connection": "close"})
        return bytes(body)


def _refused(constant: str) -> None:
    """Reject NaN and Infinity, which are not valid JSON and which clients could not parse in a response."""
    raise ValueError(constant)


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """A response: a whole body, or an iterator of chunks to stream.

    `beat` is sent while there is no chunk, as a keep-alive. `ended` is called when the response has been sent or
    abandoned. `made` is a Starlette response of another package that is sent instead.
    """

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: AsyncIterator[bytes] | None = None
    beat: bytes = b"\n"
    ended: Callable[[], object] = lambda: None
    made: Any = None


def reply_of(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> HTTPResponse:
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
        again = {} if self.status in {408, 429} else _SHOULD_NOT_RETRY
        return reply_of(self.document, self.status, {**again, **self.headers})
