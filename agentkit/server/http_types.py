"""Requests, responses and errors as plain data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from agentkit._dataclass import dataclass

MOST_BYTES = 8_000_000
"""How long a request for a completion may be: room for a few pictures."""

BODY_SECONDS = 30.0
"""How long a body may take to come."""

_SHOULD_NOT_RETRY = {"x-should-retry": "false"}
"""What the openai package heeds: a run that failed has perhaps done something, and must not simply be made again."""

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
"""Gives the next message of a connection, as ASGI has it."""


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A request: its body in pieces, what stands in its address, and what tells that the client is gone."""

    pieces: AsyncIterator[bytes]
    content_type: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)
    receive: Receive | None = None
    is_secure: bool = False

    async def document(self, most_bytes: int = MOST_BYTES, seconds: float = BODY_SECONDS) -> dict[str, Any]:
        """The JSON object in the body. Raises Refusal when it is none, too long, or does not come in time."""
        if self.content_type.partition(";")[0].strip().lower() != "application/json":
            raise HTTPError(415, "The body must be JSON: send Content-Type: application/json.", code="content_type")
        try:
            async with asyncio.timeout(seconds):
                body = await self._body(most_bytes)
        except TimeoutError:
            raise HTTPError(408, f"The body did not come within {seconds:g} seconds.", code="too_slow") from None
        try:
            document = json.loads(body, parse_constant=_refused)
        except (ValueError, RecursionError):
            raise HTTPError(400, "The body is no JSON that can be read.", code="invalid_json") from None
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
    """NaN and Infinity are no JSON, and no client could read them in an answer."""
    raise ValueError(constant)


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """What is answered: a whole body, or the pieces of one that is sent as they come.

    `beat` is what is sent while there is no piece, so that everybody knows that the connection lives. `ended` is called
    when the reply has been sent or given up.
    """

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: AsyncIterator[bytes] | None = None
    beat: bytes = b"\n"
    ended: Callable[[], object] = lambda: None


def reply_of(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    """A JSON document as a reply that nobody stores."""
    return HTTPResponse(json_bytes(document), status, headers={"cache-control": "no-store", **(headers or {})})


def json_bytes(document: object) -> bytes:
    """A document as JSON on one line; half characters, which UTF-8 cannot say, are replaced."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class HTTPError(Exception):
    """A request that is not answered as it wishes, in the words and shape of an OpenAI error."""

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
        """The error as OpenAI's clients expect it."""
        kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.parameter, "code": self.code}}

    @property
    def reply(self) -> HTTPResponse:
        """The error as a reply."""
        again = {} if self.status in {408, 429} else _SHOULD_NOT_RETRY
        return reply_of(self.document, self.status, {**again, **self.headers})
