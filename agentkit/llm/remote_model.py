"""A model behind HTTP: protocol, compatibility adjustments, continuation and connection."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from agentkit.errors import BadResponse, ModelError, Rejected
from agentkit.events import Event, ResponseReceived, TextDelta, deltas_of
from agentkit.llm import compat
from agentkit.llm.compat.adjustments import Adjustment, joined
from agentkit.llm.compat.content_fallback import advise
from agentkit.llm.compat.conversion import Converter, Restoration
from agentkit.llm.compat.receivers import Receiver, receiver_of
from agentkit.llm.embeddings import RemoteEmbedding
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.http.attempts import AttemptCounter
from agentkit.llm.pricing import tariff_of
from agentkit.llm.protocols import StreamReader, WireProtocol, wire_named
from agentkit.llm.protocols.anthropic import is_paused
from agentkit.llm.protocols.encoding import EncodingCache, written
from agentkit.llm.protocols.error_mapping import json_object
from agentkit.llm.protocols.sse import EventStream
from agentkit.messages import Request, Response
from agentkit.usage import Price

if TYPE_CHECKING:
    from agentkit.llm.http.transport import Transport
    from agentkit.llm.protocols.reasoning import ParagraphJoiner


class Continuation:
    """Assembles a response from consecutive parts: one part, unless the server pauses the turn."""

    @abstractmethod
    def complete_part(self, request: Request) -> Response:
        """Send one request and return its response, blocking."""

    @abstractmethod
    async def acomplete_part(self, request: Request) -> Response:
        """Async version of `complete_part`."""

    @abstractmethod
    def stream_part(self, request: Request) -> Generator[Event]:
        """Streaming version of `complete_part`; the last event is ResponseReceived."""

    @abstractmethod
    def astream_part(self, request: Request) -> AsyncGenerator[Event]:
        """Async version of `stream_part`."""

    @abstractmethod
    def restoration(self, request: Request) -> Restoration | None:
        """The restoration of names in the response to a request; None if no name was changed."""

    def complete(self, request: Request) -> Response:
        """Answer one request, blocking."""
        parts = _Parts(request, self.restoration)
        while parts.asked:
            parts.take(self.complete_part(parts.asked))
        return parts.answer

    async def acomplete(self, request: Request) -> Response:
        """Answer one request, async."""
        parts = _Parts(request, self.restoration)
        while parts.asked:
            parts.take(await self.acomplete_part(parts.asked))
        return parts.answer

    def stream(self, request: Request) -> Iterator[Event]:
        """Stream the response to one request, blocking."""
        parts = _Parts(request, self.restoration)
        while parts.asked:
            with closing(self.stream_part(parts.asked)) as events:
                for event in events:
                    yield from parts.told(event)

    async def astream(self, request: Request) -> AsyncIterator[Event]:
        """Stream the response to one request, async."""
        parts = _Parts(request, self.restoration)
        while parts.asked:
            async with aclosing(self.astream_part(parts.asked)) as events:
                async for event in events:
                    for told in parts.told(event):
                        yield told


class _Parts:
    """The parts of one response. `asked` is the next request to send, None once `answer` is complete."""

    answer: Response

    def __init__(self, request: Request, restoration: Callable[[Request], Restoration | None]) -> None:
        self._request, self._restoration = request, restoration
        self._names: Restoration | None = None
        self.asked: Request | None = request
        self._paragraphs: ParagraphJoiner | None = None
        self._pauses = 0

    def take(self, part: Response) -> None:
        """Add a part. If the server only paused, the part is sent back with the next request to be continued."""
        is_over = not is_paused(part.raw)
        if is_over and not self._pauses:
            self._end(part)
            return
        from agentkit.llm.protocols import anthropic

        self.answer = anthropic.joined(self.answer, part) if self._pauses else part
        self._pauses += 1
        if is_over or self._pauses > anthropic.MOST_PAUSES:
            self._end(anthropic.ended(self.answer))
            return
        self.asked = replace(self._request, messages=[*self._request.messages, self.answer.message])
        self._paragraphs = anthropic.paragraphs_behind(self.answer)

    def _end(self, answer: Response) -> None:
        names = self._restoration(self._request)
        self.asked, self.answer = None, names.response(answer) if names else answer

    def told(self, event: Event) -> Iterable[Event]:
        """The events to emit for the whole response; none for the end of a part that is not the last."""
        if isinstance(event, ResponseReceived):
            self.take(event.response)
            last = ResponseReceived(self.answer)
            return () if self.asked else self._names.events(last) if self._names else (last,)
        if self._paragraphs is not None and isinstance(event, TextDelta):
            event = TextDelta(self._paragraphs.add(event.text))
        # Read at the first event, because a refusal of the request can change its names.
        self._names = self._names or self._restoration(self._request)
        return self._names.events(event) if self._names else (event,)


_MAX_ADAPTATIONS = 8
_MAX_ERROR_CHARS, _END_CHARS = 2_200, 100

_STREAM_STARTS = ("data:", "event:", ":", "id:", "retry:")

_Attempts = Generator[dict[str, Any], None, None]


class RemoteModel(Continuation, RemoteEmbedding):
    """A provider over HTTP. Adjustments learnt from status 400 are remembered for the lifetime of the object.

    `price` is the price set by the user.
    """

    def __init__(
        self, endpoint: Endpoint, timeout_seconds: float, max_retries: int, price: Price | None = None
    ) -> None:
        self._endpoint, self._origin = endpoint, endpoint.origin
        self._receiver = receiver_of(endpoint)
        self._tariff = tariff_of(endpoint, price)
        self._timeout_seconds, self._max_retries = timeout_seconds, max_retries
        self._wire = wire_named(endpoint.protocol)
        self._converters: dict[Receiver, tuple[Converter, EncodingCache]] = {}
        self._learnt: dict[str, Adjustment] = {}
        self._is_hasty = False

    @cached_property
    def _transport(self) -> Transport:
        """The transport, created on first use because it loads the HTTP library."""
        from agentkit.llm.http.transport import Transport

        return Transport(self._endpoint, self._timeout_seconds, self._max_retries, self._wire.headers)

    @property
    def adjustments(self) -> tuple[str, ...]:
        """The names of the adjustments made to requests because the server rejected the original form."""
        return tuple(self._learnt)

    def in_haste(self) -> Self:
        """A copy that shares the connections but gives up sooner, for callers with another model to fall back to."""
        _ = self._transport  # created before the copy, so that both share it
        hasty = copy(self)
        vars(hasty)["_is_hasty"] = True
        return hasty

    def prepare(self) -> None:
        """Load the client of the blocking methods. Nothing is sent."""
        self._transport.prepare()

    def close(self) -> None:
        """Close the connections of the blocking methods; a later request opens new ones."""
        if "_transport" in vars(self):
            self._transport.close()

    async def aclose(self) -> None:
        """Close the connections that belong to the running event loop; a later request opens new ones."""
        if "_transport" in vars(self):
            await self._transport.aclose()

    def complete_part(self, request: Request) -> Response:
        """Send one request and return its response, blocking."""
        with self._scrubbed() as sent:
            attempts = self._attempts(request)
            body = next(attempts)
            while True:
                try:
                    text = self._transport.post(self._url(streaming=False), written(body), sent)
                    return sent.told_in(self._decode(text))
                except Rejected as refusal:
                    body = attempts.throw(refusal)

    async def acomplete_part(self, request: Request) -> Response:
        """Send one request and return its response, async."""
        with self._scrubbed() as sent:
            attempts = self._attempts(request)
            body = await self._afirst(attempts)
            while True:
                try:
                    text = await self._transport.apost(self._url(streaming=False), written(body), sent)
                    return sent.told_in(self._decode(text))
                except Rejected as refusal:
                    body = await _apart(attempts.throw, refusal)

    def stream_part(self, request: Request) -> Generator[Event]:
        """Stream the response to a single request, blocking."""
        with self._scrubbed() as sent:
            attempts = self._attempts(request, streaming=True)
            body = next(attempts)
            while True:
                reading, content = self._reading(sent), written(body)
                try:
                    answer = self._transport.stream(self._url(streaming=True), content, reading, sent)
                    with closing(answer) as pieces:
                        for piece in pieces:
                            yield from reading.feed(piece)
                    yield from reading.finish()
                except Rejected as refusal:
                    if reading.told:
                        raise
                    body = attempts.throw(refusal)
                else:
                    return

    async def astream_part(self, request: Request) -> AsyncGenerator[Event]:
        """Stream the response to a single request, async."""
        with self._scrubbed() as sent:
            attempts = self._attempts(request, streaming=True)
            body = await self._afirst(attempts)
            while True:
                reading, content = self._reading(sent), written(body)
                try:
                    answer = self._transport.astream(self._url(streaming=True), content, reading, sent)
                    async with aclosing(answer) as pieces:
                        async for piece in pieces:
                            for event in reading.feed(piece):
                                yield event
                    for event in reading.finish():
                        yield event
                except Rejected as refusal:
                    if reading.told:
                        raise
                    body = await _apart(attempts.throw, refusal)
                else:
                    return

    def _url(self, *, streaming: bool) -> str:
        return self._wire.url(self._endpoint.model, streaming=streaming)

    def _reading(self, sent: AttemptCounter) -> _StreamedAnswer:
        return _StreamedAnswer(self._wire, self._decode, self._own, self._transport.scrub, sent)

    def _attempts(self, request: Request, *, streaming: bool = False) -> _Attempts:
        """Yield request bodies; a Rejected thrown in yields an adjusted body, or is raised if no adjustment applies."""
        # Copied, because other threads can add adjustments during the iteration.
        learnt = dict(self._learnt)
        body = self._body(request, learnt, streaming=streaming)
        for _ in range(_MAX_ADAPTATIONS):
            try:
                yield body
            except Rejected as refusal:
                adjustment = compat.learnt(body, refusal, request.settings)
                if adjustment is None:
                    advise(refusal, body)
                    raise
                adjustment = joined(adjustment, self._learnt.get(adjustment.name))
                learnt = {**learnt, **self._learnt, adjustment.name: adjustment}
                adjusted = self._body(request, learnt, streaming=streaming)
                if adjusted == body:
                    raise
                body = adjusted
                if adjustment.is_lasting:
                    self._learnt[adjustment.name] = adjustment
        yield body

    async def _afirst(self, attempts: _Attempts) -> dict[str, Any]:
        """The first body; slow adjustments run in a worker thread so that the event loop is not blocked."""
        is_slow = any(adjustment.is_slow for adjustment in [*self._learnt.values()])
        return await _apart(next, attempts) if is_slow else next(attempts)

    def _body(self, request: Request, learnt: Mapping[str, Adjustment], *, streaming: bool) -> dict[str, Any]:
        strict = self._endpoint.strict and all(adjustment.keeps_strict for adjustment in learnt.values())
        converter, encoded = self._converter(learnt)
        body = self._wire.encode(converter.request(request), self._endpoint.model, strict=strict, before=encoded)
        if streaming:
            body = {**self._wire.streaming, **body}
        body = compat.known(body, self._endpoint.model, self._wire.name)
        for adjustment in learnt.values():
            body = adjustment.apply(body)
        return body

    def restoration(self, request: Request) -> Restoration | None:
        """The restoration of names in the response to a request; None if no name was changed."""
        return self._converter(dict(self._learnt))[0].restoration(request)

    def _converter(self, learnt: Mapping[str, Adjustment]) -> tuple[Converter, EncodingCache]:
        """The converter for the rules that are known so far, and the cache of its encoded messages."""
        receiver = self._receiver
        for adjustment in learnt.values():
            receiver = receiver.learning(adjustment.rules) if adjustment.rules else receiver
        found = self._converters.get(receiver)
        if found is None:
            converter = Converter(receiver, self._origin)
            found = self._converters.setdefault(receiver, (converter, EncodingCache(converter.message)))
        return found

    def _decode(self, text: str) -> Response:
        """Parse a response. On failure the scrubbed text is parsed again, because errors quote parts of the text."""
        try:
            return self._own(self._read(text))
        except ModelError as error:
            failed = error
        self._read(self._transport.scrub(text))
        raise failed

    def _read(self, text: str) -> Response:
        """Parse a response from JSON; some servers send an event stream even when it was not requested."""
        if not text.lstrip().startswith(_STREAM_STARTS):
            return self._wire.decode(json_object(text))
        stream, reader = EventStream(self._transport.scrub), self._wire.reader()
        for chunk in _readable(chain(stream.feed(text.encode()), stream.flush()), reader):
            tuple(reader.feed(chunk))
        return reader.finish(closed=stream.closed)

    def _own(self, response: Response) -> Response:
        """The response with the origin of its message and the tariff of its usage set."""
        tariff = self._tariff.of_request(response.model, response.usage.input_tokens)
        message = replace(response.message, origin=self._origin)
        return replace(response, message=message, usage=response.usage.under(tariff))

    @contextmanager
    def _scrubbed(self) -> Iterator[AttemptCounter]:
        """Scrub keys from errors, shorten their texts, and record the number of unanswered attempts in them."""
        sent = AttemptCounter(is_hasty=self._is_hasty)
        try:
            yield sent
        except ModelError as error:
            sent.tell(error)
            error.args = tuple(_shortened(self._transport.scrub(str(text))) for text in error.args)
            error.code = error.code and self._transport.scrub(error.code)
            error.parameter = error.parameter and self._transport.scrub(error.parameter)
            raise
        except UnicodeEncodeError:
            told = "The request has text that is no Unicode (half a character), so that it cannot be sent."
            raise Rejected(told) from None


async def _apart(function: Callable[..., dict[str, Any]], *arguments: object) -> dict[str, Any]:
    """Call a slow function in a worker thread."""
    import asyncio

    return await asyncio.to_thread(function, *arguments)


class _StreamedAnswer:
    """Converts the bytes of one streamed response to events. A server that does not stream sends a single JSON body."""

    def __init__(
        self,
        wire: WireProtocol,
        decode: Callable[[str], Response],
        own: Callable[[Response], Response],
        scrub: Callable[[str], str],
        sent: AttemptCounter,
    ) -> None:
        self.told: set[type[Event]] = set()
        self._decode, self._own, self._sent = decode, own, sent
        self._reader = wire.reader()
        self._stream = EventStream(scrub)
        self._begun = False
        self._unstreamed: list[bytes] = []

    def is_whole(self) -> bool:
        """Whether the response is complete; anything after it is ignored."""
        return self._stream.closed or self._reader.is_whole

    def is_answered(self) -> bool:
        """Whether the response can be used as it is: only token counts could still follow."""
        return self.is_whole() or self._reader.is_answered

    def feed(self, piece: bytes) -> Iterable[Event]:
        """The events in the next chunk of bytes."""
        is_json = bool(self._unstreamed)
        if not self._begun:
            start = piece.lstrip(b"\xef\xbb\xbf \t\r\n")
            is_json, self._begun = start.startswith((b"{", b"[")), bool(start)
        if is_json:
            self._unstreamed.append(piece)
            return ()
        return self._feed(self._stream.feed(piece))

    def finish(self) -> Iterator[Event]:
        """The last events: deltas of types that were not streamed, and the response."""
        if self._unstreamed:
            response = self._decode(b"".join(self._unstreamed).decode("utf-8-sig", "replace"))
        else:
            yield from self._feed(self._stream.flush())
            response = self._own(self._reader.finish(closed=self._stream.closed))
        yield from (event for event in deltas_of(response) if type(event) not in self.told)
        yield ResponseReceived(self._sent.told_in(response))

    def _feed(self, chunks: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
        for chunk in _readable(chunks, self._reader):
            for event in self._reader.feed(chunk):
                self.told.add(type(event))
                yield event


def _readable(chunks: Iterable[Mapping[str, Any]], reader: StreamReader) -> Iterator[Mapping[str, Any]]:
    """The chunks; an unreadable chunk is skipped if the response is already complete."""
    try:
        yield from chunks
    except BadResponse:
        if not reader.is_answered:
            raise


def _shortened(text: str) -> str:
    """Cut the middle out of a very long text: the server's message is at the start, our advice at the end."""
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[: _MAX_ERROR_CHARS - _END_CHARS]} … {text[-_END_CHARS:]}"
