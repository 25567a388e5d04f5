"""A model behind HTTP: protocol, compatibility adjustments, continuation and connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse, ModelError, Rejected
from agentkit.events import Event, response_deltas
from agentkit.llm.compat.anthropic import ResponseParts
from agentkit.llm.compat.content_fallback import add_file_advice
from agentkit.llm.compat.conversion import Converter, ReceiverNames
from agentkit.llm.compat.request_adjustments import adjustment_for, apply_known_adjustments
from agentkit.llm.compat.rules import Adjustment, Receiver, joined, receiver_of
from agentkit.llm.embeddings import BatchLimits, embedding_steps, read_vectors
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.pipeline import (
    ABANDONED_USAGE,
    IOCall,
    Stage,
    StageSteps,
    arun,
    map_events,
    partial_answer,
    pause,
    run,
)
from agentkit.llm.pricing import tariff_of
from agentkit.llm.protocols import Framing, StreamReader, WireProtocol, wire_named
from agentkit.llm.protocols.encoding import EncodingCache, serialise_body
from agentkit.llm.protocols.error_mapping import as_sentence, json_object
from agentkit.llm.protocols.parsing import UnopenedReasoningHolder, split_unopened_reasoning
from agentkit.llm.protocols.sse import EventStream
from agentkit.messages import EmbeddingAnswer, Request, Response
from agentkit.usage import NO_USAGE, Price, Usage, unreported

if TYPE_CHECKING:
    from agentkit.llm.embeddings import Embeddings
    from agentkit.llm.http.retry import Retries
    from agentkit.llm.http.transport import Transport


_MAX_ADAPTATIONS = 8
_MAX_ERROR_CHARS, _END_CHARS = 2_200, 100

_NEEDS_VERSION = re.compile(r"enabled only for api[- ]?versions?|api[- ]?version.{0,40} not supported", re.IGNORECASE)
_VERSION_ADVICE = "Pass a newer azure_api_version=, or 'v1', or set AZURE_OPENAI_API_VERSION."

_STREAM = re.compile(r"\s*(?:[a-zA-Z][\w-]*(?::[^\n]*)?\n\s*){0,9}(?:data|event|id|retry|):")
"""The start of an event stream, which can have a few unknown fields."""


_UNOPENED_REASONING_MODELS = re.compile(
    r"\bqwq|deepseek-?r1|\br1-distill|[-_]thinking\b|\bphi-?4-reasoning", re.IGNORECASE
)
"""Models whose chat templates put the opening tag of reasoning into the prompt, so that answers have the closing one.

For any other model the first such answer shows it; its stream has shown the reasoning as text by then.
"""


class RemoteModel(Stage):
    """A provider over HTTP. Adjustments learnt from refusals are remembered for the lifetime of the object.

    `price` is the price set by the user. `wire` replaces the protocol that the endpoint names.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        timeout_seconds: float,
        max_retries: int,
        price: Price | None = None,
        wire: WireProtocol | None = None,
    ) -> None:
        self._endpoint, self._origin = endpoint, endpoint.origin
        self._receiver = receiver_of(endpoint)
        self._tariff = tariff_of(endpoint, price)
        self._timeout_seconds, self._max_retries = timeout_seconds, max_retries
        self._wire = wire or wire_named(endpoint.protocol)
        converter = Converter(self._receiver, self._origin, is_strict=endpoint.strict)
        self._own_converter = converter, EncodingCache(converter.message)
        self._converters: dict[Receiver, tuple[Converter, EncodingCache]] = {}
        """Those for rules learnt from refusals."""
        self._learned: dict[str, Adjustment] = {}
        self._batches = BatchLimits()
        self._has_unopened_reasoning = _UNOPENED_REASONING_MODELS.search(endpoint.model) is not None

    @cached_property
    def _transport(self) -> Transport:
        """The transport, created on first use because it loads the HTTP library."""
        from agentkit.llm.http.transport import Transport

        return Transport(self._endpoint, self._timeout_seconds, self._max_retries, self._wire)

    @property
    def adjustments(self) -> tuple[str, ...]:
        """The names of the adjustments made to requests because the server rejected the original form."""
        return tuple(self._learned)

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

    def steps(self, request: Request, *, streaming: bool, has_fallback: bool = False) -> StageSteps[Response]:
        """The steps that answer a request."""
        if self._wire.can_pause:
            return self._continued(request, streaming=streaming, has_fallback=has_fallback)
        return self._part(request, streaming=streaming, has_fallback=has_fallback)

    def embed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Embed texts, one vector each, blocking."""
        return run(embedding_steps(texts, settings, self._tariff, self._batches, self._vectors))

    async def aembed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Async version of `embed`."""
        return await arun(embedding_steps(texts, settings, self._tariff, self._batches, self._vectors))

    def _continued(self, request: Request, *, streaming: bool, has_fallback: bool) -> StageSteps[Response]:
        """Answer a request in consecutive parts: one part, unless the server pauses the turn."""
        parts = ResponseParts(request)
        while parts.next_request:
            steps = self._part(parts.next_request, streaming=streaming, has_fallback=has_fallback)
            try:
                parts.take((yield from map_events(steps, parts.joined) if parts.paragraphs else steps))
            except ModelError as error:
                error.partial = parts.with_rest(error.partial) if streaming else None
                raise
        return parts.answer

    def _part(self, request: Request, *, streaming: bool, has_fallback: bool) -> StageSteps[Response]:
        """Send one request, adjusted to what the server refuses, and return its response."""
        # Each round encodes the request with all known adjustments and sends it. A refusal adds an adjustment for the
        # next round, which is stored for later requests once it has changed the body. The loop ends with a response,
        # with a refusal that no adjustment fits, or when an adjustment leaves the body as it was.
        retries, learned = self._transport.retries(has_fallback=has_fallback), dict(self._learned)
        body: dict[str, Any] = {}
        adjustment: Adjustment | None = None
        with self._scrubbed(retries):
            for _ in range(_MAX_ADAPTATIONS + 1):
                before = body
                body, names = self._encoded(request, learned, streaming=streaming)
                for each in learned.values():
                    apply = partial(each.apply, body)
                    body = (yield IOCall(apply, partial(_in_thread, apply))) if each.is_slow else apply()
                if body == before:
                    break
                if adjustment is not None and adjustment.is_lasting:
                    self._learned[adjustment.name] = adjustment
                try:
                    steps = self._exchange(body, retries, streaming=streaming)
                    return (yield from names.restored(steps, streaming=streaming) if names else steps)
                except Rejected as error:
                    refusal = error
                adjustment = None if refusal.partial else adjustment_for(body, refusal, request.settings)
                if adjustment is None:
                    add_file_advice(refusal, body)
                    break
                adjustment = joined(adjustment, self._learned.get(adjustment.name))
                learned = {**learned, **self._learned, adjustment.name: adjustment}  # other threads learn meanwhile
            raise refusal

    def _exchange(self, body: dict[str, Any], retries: Retries, *, streaming: bool) -> StageSteps[Response]:
        """Send one body and return the response; a temporary error inside a response with status 200 is retried."""
        path, content = self._wire.url(self._endpoint.model, streaming=streaming), serialise_body(body)
        while True:
            streamed = self._streamed_answer() if streaming else None
            try:
                if streamed is None:
                    received = yield from self._transport.request(path, content, retries)
                    response = self._decode(received.text)
                else:
                    yield from self._transport.stream(path, content, streamed, retries)
                    response = yield from streamed.finish()
            except GeneratorExit:
                count = ABANDONED_USAGE.get()
                if count is not None:
                    known = NO_USAGE if streamed is None else streamed.usage
                    count(replace(known + unreported(retries.unanswered), unreported=1).with_tariff(self._tariff))
                raise
            except ModelError as error:
                error.partial = streamed and partial_answer(streamed.emitted)
                seconds = retries.after_response_error(error)
                if seconds is None:
                    raise
            else:
                return retries.with_unanswered(response) if retries.unanswered else response
            yield pause(seconds)

    def _streamed_answer(self) -> _StreamedAnswer:
        holder = UnopenedReasoningHolder() if self._has_unopened_reasoning else None
        framing = self._wire.framing(self._transport.scrub)
        return _StreamedAnswer(framing, self._wire.reader(), self._decode, self._attribute, holder)

    def _encoded(
        self, request: Request, learned: Mapping[str, Adjustment], *, streaming: bool
    ) -> tuple[dict[str, Any], ReceiverNames | None]:
        """The body of a request under the rules that are known so far, and the names that were changed in it."""
        receiver, is_strict = self._receiver, self._endpoint.strict
        for adjustment in learned.values():
            receiver = receiver.learning(adjustment.rules) if adjustment.rules else receiver
            is_strict = is_strict and adjustment.keeps_strict
        found = self._own_converter if receiver is self._receiver else self._converters.get(receiver)
        if found is None:
            converter = Converter(receiver, self._origin, is_strict=self._endpoint.strict)
            found = self._converters.setdefault(receiver, (converter, EncodingCache(converter.message)))
        sent, names = found[0].request(request)
        body = self._wire.encode(sent, self._endpoint.model, strict=is_strict, cache=found[1])
        if streaming:
            body = {**self._wire.streaming, **body}
        model, wire = self._endpoint.model, self._wire.name
        return apply_known_adjustments(body, model, wire, strict_order=receiver.strict_order), names

    def _decode(self, text: str) -> Response:
        """Parse a response. On failure the scrubbed text is parsed again, because errors quote parts of the text."""
        with suppress(ModelError):
            return self._attribute(self._read(text))
        return self._attribute(self._read(self._transport.scrub(text)))

    def _read(self, text: str) -> Response:
        """Parse a response from JSON; some servers send an event stream even when it was not requested."""
        if not _STREAM.match(text):
            return self._wire.decode(json_object(text))
        stream, reader = EventStream(self._transport.scrub), self._wire.reader()
        for chunk in _readable(chain(stream.feed(text.encode()), stream.flush()), reader):
            tuple(reader.feed(chunk))
        return reader.finish(closed=stream.closed)

    def _attribute(self, response: Response) -> Response:
        """The response with the origin of its message and the tariff of its usage set."""
        tariff = self._tariff.of_request(response.model, response.usage.input_tokens)
        message = replace(response.message, origin=self._origin)
        if (parts := split_unopened_reasoning(message.text)) is not None:
            self._has_unopened_reasoning = True
            message = replace(
                message, reasoning="\n\n".join(filter(None, (message.reasoning, parts[0]))), text=parts[1]
            )
        return replace(response, message=message, usage=response.usage.with_tariff(tariff))

    def _vectors(self, body: dict[str, Any], count: int) -> StageSteps[tuple[EmbeddingAnswer, int]]:
        """Send one request for vectors; returns the answer and the number of unanswered attempts."""
        retries = self._transport.retries()
        with self._scrubbed(retries):
            text = (yield from self._transport.request(self._wire.embeddings_path, serialise_body(body), retries)).text
            with suppress(ModelError):
                return read_vectors(text, count), retries.unanswered
            return read_vectors(self._transport.scrub(text), count), retries.unanswered

    @contextmanager
    def _scrubbed(self, retries: Retries) -> Iterator[None]:
        """Scrub keys from errors, shorten their texts, and record the number of unanswered attempts in them."""
        try:
            yield
        except ModelError as error:
            retries.record(error)
            if self._endpoint.provider == "azure" and _NEEDS_VERSION.search(str(error)):
                error.args = (f"{as_sentence(str(error))} {_VERSION_ADVICE}",)
            error.args = tuple(_cut_middle(self._transport.scrub(str(text))) for text in error.args)
            error.code = error.code and self._transport.scrub(error.code)
            error.parameter = error.parameter and self._transport.scrub(error.parameter)
            raise
        except UnicodeEncodeError:
            message = "The request contains a lone surrogate, which cannot be sent. Remove it."
            raise Rejected(message) from None


async def _in_thread(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Call a slow function in a worker thread."""
    import asyncio

    return await asyncio.to_thread(function)


class _StreamedAnswer:
    """Converts the bytes of one streamed response to events."""

    def __init__(
        self,
        framing: Framing,
        reader: StreamReader,
        decode: Callable[[str], Response],
        attribute: Callable[[Response], Response],
        holder: UnopenedReasoningHolder | None,
    ) -> None:
        self.emitted: list[Event] = []
        self._framing, self._reader = framing, reader
        self._decode, self._attribute, self._holder = decode, attribute, holder

    @property
    def usage(self) -> Usage:
        """The token counts received so far."""
        return self._reader.usage

    def is_whole(self) -> bool:
        """Whether the response is complete; anything after it is ignored."""
        return self._framing.closed or self._reader.is_whole

    def is_answered(self) -> bool:
        """Whether the response can be used as it is: only token counts could still follow."""
        return self.is_whole() or self._reader.is_answered

    def feed(self, piece: bytes) -> Iterable[Event]:
        """The events in the next chunk of bytes."""
        return self._feed(self._framing.feed(piece))

    def finish(self) -> StageSteps[Response]:
        """Emit the last events, and deltas of types that were not streamed; returns the response."""
        if self._framing.body:
            response = self._decode(self._framing.body.decode("utf-8-sig", "replace"))
        else:
            yield from self._feed(self._framing.flush())
            response = self._attribute(self._reader.finish(closed=self._framing.closed))
        kinds = set(map(type, self.emitted))
        yield from (event for event in response_deltas(response) if type(event) not in kinds)
        return response

    def _feed(self, chunks: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
        for chunk in _readable(chunks, self._reader):
            for event in self._reader.feed(chunk):
                for each in (event,) if self._holder is None else self._holder.events(event):
                    self.emitted.append(each)
                    yield each


def _readable(chunks: Iterable[Mapping[str, Any]], reader: StreamReader) -> Iterator[Mapping[str, Any]]:
    """The chunks; an unreadable chunk is skipped if the response is already complete."""
    try:
        yield from chunks
    except BadResponse:
        if not reader.is_answered:
            raise


def _cut_middle(text: str) -> str:
    """Cut the middle out of a very long text: the server's message is at the start, our advice at the end."""
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[: _MAX_ERROR_CHARS - _END_CHARS]} … {text[-_END_CHARS:]}"
