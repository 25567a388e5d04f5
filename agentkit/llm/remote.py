"""One model behind HTTP: its wire protocol, its quirks and its connection, put together."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

from agentkit.errors import Rejected
from agentkit.events import Event, ResponseReceived, TextDelta
from agentkit.llm import quirks
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.transport import Transport
from agentkit.llm.wire import Wire, wire_named
from agentkit.llm.wire.sse import EventStream
from agentkit.messages import AssistantMessage, Message, Request, Response, without_extra

_MAX_ADAPTATIONS = 8

_Attempts = Generator[dict[str, Any], None, None]


class RemoteModel:
    """A provider over HTTP. What a 400 teaches is remembered for as long as the object lives."""

    def __init__(self, endpoint: Endpoint, timeout_seconds: float, max_retries: int) -> None:
        self.endpoint = endpoint
        self.transport = Transport(endpoint, timeout_seconds, max_retries)
        self._wire = wire_named(endpoint.protocol)
        self._learnt: dict[str, quirks.Adjustment] = {}

    def complete(self, request: Request) -> Response:
        """Answer one request, blocking."""
        attempts = self._attempts(request)
        body = next(attempts)
        while True:
            try:
                return self._own(self._wire.decode(self.transport.post(self._wire.path, body)))
            except Rejected as refusal:
                body = attempts.throw(refusal)

    async def acomplete(self, request: Request) -> Response:
        """Answer one request, awaiting."""
        attempts = self._attempts(request)
        body = next(attempts)
        while True:
            try:
                return self._own(self._wire.decode(await self.transport.apost(self._wire.path, body)))
            except Rejected as refusal:
                body = attempts.throw(refusal)

    def stream(self, request: Request) -> Iterator[Event]:
        """Answer one request piece by piece, blocking."""
        attempts = self._attempts(request, streaming=True)
        body = next(attempts)
        while True:
            reading = _Reading(self._wire, self._own)
            try:
                with self.transport.open(self._wire.path, body) as pieces:
                    for piece in pieces:
                        yield from reading.feed(piece)
                yield from reading.finish()
            except Rejected as refusal:
                body = attempts.throw(refusal)
            else:
                return

    async def astream(self, request: Request) -> AsyncIterator[Event]:
        """Answer one request piece by piece, awaiting."""
        attempts = self._attempts(request, streaming=True)
        body = next(attempts)
        while True:
            reading = _Reading(self._wire, self._own)
            try:
                async with self.transport.aopen(self._wire.path, body) as pieces:
                    async for piece in pieces:
                        for event in reading.feed(piece):
                            yield event
                for event in reading.finish():
                    yield event
            except Rejected as refusal:
                body = attempts.throw(refusal)
            else:
                return

    def _attempts(self, request: Request, *, streaming: bool = False) -> _Attempts:
        """Yield bodies to send; a refusal thrown in is answered with the next body, or raised when nothing helps."""
        body = self._body(request, streaming=streaming)
        for _ in range(_MAX_ADAPTATIONS):
            try:
                yield body
            except Rejected as refusal:
                adjustment = quirks.learnt(body, refusal)
                if adjustment is None:
                    raise
                self._learnt[adjustment.name] = adjustment
                body = adjustment.apply(body)
        yield body

    def _body(self, request: Request, *, streaming: bool) -> dict[str, Any]:
        request = replace(request, messages=[self._sendable(message) for message in request.messages])
        body = self._wire.encode(request, self.endpoint.model, strict=self.endpoint.strict)
        if streaming:
            body["stream"] = True
            if self._wire.name == "chat":
                body["stream_options"] = {"include_usage": True}
        body = quirks.known(body, self.endpoint.model, self._wire.name)
        for adjustment in self._learnt.values():
            body = adjustment.apply(body)
        return body

    def _sendable(self, message: Message) -> Message:
        """What another provider keeps for itself is sent to that provider only."""
        is_own = not isinstance(message, AssistantMessage) or message.origin == self.endpoint.origin
        return message if is_own else without_extra(message)

    def _own(self, response: Response) -> Response:
        return replace(response, message=replace(response.message, origin=self.endpoint.origin))


class _Reading:
    """One streamed answer on its way from bytes to events. A server that does not stream answers with one JSON."""

    def __init__(self, wire: Wire, own: Callable[[Response], Response]) -> None:
        self._wire, self._own = wire, own
        self._reader = wire.reader()
        self._stream = EventStream()
        self._unstreamed = b""
        self._begun = False

    def feed(self, piece: bytes) -> Iterator[Event]:
        if not self._begun and piece.strip():
            self._begun = True
            self._unstreamed = b"{" if piece.lstrip().startswith(b"{") else b""
            piece = piece.lstrip()[len(self._unstreamed) :]
        if self._unstreamed:
            self._unstreamed += piece
            return
        for chunk in self._stream.feed(piece):
            yield from self._reader.feed(chunk)

    def finish(self) -> Iterator[Event]:
        if self._unstreamed:
            response = self._wire.decode(json.loads(self._unstreamed))
            yield TextDelta(response.text)
        else:
            for chunk in self._stream.flush():
                yield from self._reader.feed(chunk)
            response = self._reader.finish(closed=self._stream.closed)
        yield ResponseReceived(self._own(response))
