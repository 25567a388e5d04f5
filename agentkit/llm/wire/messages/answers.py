"""How are the answers of this protocol read, whole and streamed? Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.wire import reading
from agentkit.llm.wire.failures import cut_short, declined, failure, no_answer, raise_error_inside
from agentkit.llm.wire.hosted import uses_in_blocks
from agentkit.llm.wire.messages.blocks import BLOCKS, encode_answer, is_call, said_in
from agentkit.llm.wire.messages.hosted import CONTAINER, PAUSED, is_paused, settled
from agentkit.llm.wire.paragraphs import Paragraphs
from agentkit.llm.wire.thoughts import Thoughts, without_thoughts
from agentkit.messages import FinishReason, Response, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agentkit.events import Event
    from agentkit.usage import Usage

_CUT = {*reading.CUT_SHORT, PAUSED}
"""What is said of an answer that is not whole."""

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that each type of error has where there is one: in the middle of a stream there is none."""

_INPUT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def decode_answer(data: Mapping[str, Any]) -> Response:
    """The response in a whole body. Raises ModelError when there is none."""
    _raise_error_in(data)
    content = data.get("content")
    if not isinstance(content, list | str):
        raise no_answer("content", data)
    return _response(data, blocks_in(content))


def blocks_in(content: object) -> list[dict[str, Any]]:
    """The blocks of a content, which some servers shorten to texts, as a request may."""
    parts = content if isinstance(content, list) else [content]
    blocks = [{"text": part} if isinstance(part, str) else part for part in parts]
    return [{"type": "text", **block} if "text" in block else block for block in reading.dictionaries(blocks)]


def _raise_error_in(data: Mapping[str, Any]) -> None:
    """Raise the error that a body or event is."""
    error = reading.dictionary(data.get("error"))
    if data.get("type") == "error" and error:
        raise failure(data, status=_STATUSES.get(reading.word(error.get("type"))))
    raise_error_inside(data)


def _response(data: Mapping[str, Any], blocks: list[dict[str, Any]]) -> Response:
    reason = reading.word(data.get("stop_reason"))
    if reason == "refusal":
        raise declined(_explained(data))
    calls = [_read_call(block) for block in blocks if is_call(block)]
    message = reading.assistant_message(said_in(blocks), calls, _reasoning(blocks), {})
    kept = blocks if calls or is_paused(data) else settled(blocks)
    extra = {CONTAINER: container} if (container := reading.dictionary(data.get(CONTAINER)).get("id")) else {}
    told = [{name: value for name, value in block.items() if value is not None} for block in kept]
    if encode_answer(message) != told:  # there is more than the message says
        extra = {BLOCKS: tuple(kept), **extra}
    message = without_thoughts(replace(message, extra=reading.well_formed_json(extra)))
    finish: FinishReason = "length" if reason.lower() in _CUT else "tool_calls" if message.tool_calls else "stop"
    usage = _usage(reading.dictionary(data.get("usage")))
    model, raw = reading.word(data.get("model")), reading.well_formed_json(data)
    return Response(message, finish, usage, model, raw, hosted=uses_in_blocks(blocks))


def _explained(data: Mapping[str, Any]) -> str:
    """Why a model declines to answer, as far as it is said."""
    details = reading.dictionary(data.get("stop_details"))
    category = reading.word(details.get("category"))
    return reading.word(details.get("explanation")) or (f"for {category}" if category else "no reason was given")


def _read_call(block: Mapping[str, Any]) -> ToolCall:
    arguments = reading.arguments_text(block.get("input"))
    return ToolCall(reading.word(block.get("id")), reading.word(block.get("name")), arguments)


def _reasoning(blocks: Iterable[Mapping[str, Any]]) -> str:
    thoughts = (reading.text_of(block.get("thinking")) for block in blocks if block.get("type") == "thinking")
    return "\n".join(filter(None, thoughts))


def _usage(figures: dict[str, Any]) -> Usage:
    """The figures, in which the input is counted without what was read from the cache or written to it.

    Where they come for each trip to a model, the sums leave out what it took to shorten the conversation and what
    another model was asked.
    """
    if trips := reading.dictionaries(figures.get("iterations")):
        names = {
            name for trip in trips for name in (*_INPUT_COUNTS, "output_tokens") if isinstance(trip.get(name), int)
        }
        figures = figures | {name: sum(trip.get(name) or 0 for trip in trips) for name in names}
    counts = [figures[name] for name in _INPUT_COUNTS if isinstance(figures.get(name), int)]
    whole = {"input_tokens": sum(counts)} if counts else {}
    return reading.usage_of({**figures, **whole}, ("input_tokens", "output_tokens"), ("", "output_tokens_details"))


class _Block:
    """A block of an answer that arrives in pieces, each a kind of its own."""

    def __init__(self, fields: Mapping[str, Any], index: object = None) -> None:
        self._fields, self.index = dict(fields), index
        self._pieces: dict[str, reading.Pieces] = {}
        for name in ("text", "thinking"):
            if isinstance(self._fields.get(name), str):
                self.add(name, self._fields[name])

    @property
    def kind(self) -> str:
        """What type of block it is."""
        return reading.word(self._fields.get("type"))

    @property
    def name(self) -> str:
        """Which tool it calls."""
        return reading.word(self._fields.get("name"))

    def add(self, name: str, piece: str) -> str:
        """Take in the next piece of a field; what of it can be shown."""
        return self._pieces.setdefault(name, reading.Pieces()).add(piece)

    def set(self, name: str, value: object) -> None:
        """Take in a field that comes whole."""
        self._fields[name] = value

    def merge(self, fields: Mapping[str, Any]) -> None:
        """Take in what a delta of a type of its own brings."""
        self._fields = reading.merged("", self._fields, {**fields, "type": None})

    def arguments(self) -> str:
        """What it is called with, where that came with its beginning and not in pieces."""
        given = self._fields.get("input")
        return reading.arguments_text(given) if given and not self._pieces.get("partial_json") else ""

    def append(self, name: str, value: object) -> None:
        """Take in an entry of a field that is a list."""
        self._fields[name] = [*(self._fields.get(name) or ()), value]

    def whole(self) -> dict[str, Any]:
        """The block. What a call is made with may be no JSON where the answer was cut."""
        fields = self._fields | {name: str(pieces) for name, pieces in self._pieces.items()}
        if arguments := reading.without_empty(fields.pop("partial_json", "")):
            parsed = reading.json_or_text(arguments)
            fields["input"] = parsed if isinstance(parsed, dict) else arguments
        return fields


class MessagesReader:
    """Collects the events of one streamed response. Those of unknown types, pings among them, are passed over."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._thoughts, self._paragraphs = Thoughts(), Paragraphs()
        self._content: list[dict[str, Any]] = []
        self._blocks: list[_Block] = []
        self._by_index: dict[object, _Block] = {}
        self._calls: dict[int, int] = {}
        self._has_begun = self._has_stopped = False
        self._feeds: dict[str, Callable[[Mapping[str, Any]], Event | None]] = {
            "message": self._take_whole,
            "message_start": self._begin,
            "content_block_start": self._begin_block,
            "content_block_delta": self._feed_block,
            "content_block_stop": self._end_block,
            "message_delta": self._feed_message,
            "message_stop": self._stop,
        }
        self._deltas: dict[str, Callable[[_Block, Mapping[str, Any]], Event | None]] = {
            "text": self._feed_text,
            "thinking": self._feed_thinking,
            "partial_json": self._feed_arguments,
            "signature": self._feed_signature,
            "citation": self._feed_citation,
        }

    @property
    def is_whole(self) -> bool:
        """Whether nothing can follow."""
        return self._has_stopped

    @property
    def is_answered(self) -> bool:
        """Whether the answer is complete: what says why it ended brings the token counts too."""
        return self._has_stopped or bool(self._message.get("stop_reason"))

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk. Raises ModelError when it is an error."""
        feed = self._feeds.get(reading.word(chunk.get("type")))
        if feed is None:
            _raise_error_in(chunk)
            return ()
        event = feed(chunk)
        if isinstance(event, TextDelta):
            return self._thoughts.events(event.text)
        return () if event is None else (event,)

    def _begin(self, chunk: Mapping[str, Any]) -> Event | None:
        message = reading.dictionary(chunk.get("message"))
        if self._blocks and message.get("id") != self._message.get("id"):
            raise BadResponse("The server began the answer anew in the midst of it. Try again.")
        self._has_begun = True
        self._merge(message)
        return None

    def _take_whole(self, chunk: Mapping[str, Any]) -> Event | None:
        """A message that a server has whole, and was asked to stream."""
        self._has_begun = self._has_stopped = True
        self._merge(chunk)
        return None

    def _merge(self, fields: Mapping[str, Any]) -> None:
        """Take in the fields of an event about the message; token counts are running totals, so the last one counts.

        A null or 0 never replaces a known value. A content that has text already counts where no block comes.
        """
        self._content = blocks_in(fields.get("content")) or self._content
        known = {name for name, value in self._message.items() if value is not None}
        told = {name: value for name, value in fields.items() if value is not None or name not in known}
        self._message |= {name: value for name, value in told.items() if name not in {"content", "usage"}}
        usage = reading.dictionary(fields.get("usage"))
        self._usage |= {name: value for name, value in usage.items() if value or self._usage.get(name) is None}

    def _begin_block(self, chunk: Mapping[str, Any]) -> Event | None:
        block = self._by_index[_key(chunk.get("index"))] = _Block(
            reading.dictionary(chunk.get("content_block")), chunk.get("index")
        )
        self._blocks.append(block)
        if block.kind == "text":
            return self._told(reading.word(block.whole().get("text")))
        self._paragraphs.interrupt()
        if block.kind == "thinking":
            return ReasoningDelta(thought) if (thought := reading.word(block.whole().get("thinking"))) else None
        if block.kind != "tool_use":
            return None
        self._calls[id(block)] = len(self._calls)
        return ToolCallDelta(self._calls[id(block)], block.name, "")

    def _end_block(self, chunk: Mapping[str, Any]) -> Event | None:
        block = self._by_index.get(_key(chunk.get("index")))
        number = self._calls.get(id(block))
        arguments = block.arguments() if block and number is not None else ""
        return ToolCallDelta(number or 0, "", arguments) if arguments else None

    def _told(self, text: str) -> Event | None:
        return TextDelta(self._paragraphs.add(text)) if text else None

    def _feed_block(self, chunk: Mapping[str, Any]) -> Event | None:
        delta = reading.dictionary(chunk.get("delta"))
        if not delta.get("type"):
            field = next(filter(delta.__contains__, self._deltas), "")
        else:
            field = _FIELDS.get(reading.word(delta["type"]), "")
        if not field:
            if block := self._by_index.get(_key(chunk.get("index"))):
                block.merge(delta)
            return None
        block = self._block(chunk.get("index"), field)
        return self._deltas[field](block, delta) if block else None

    def _block(self, index: object, field: str) -> _Block | None:
        """The block that a piece belongs to: that of its index, else the last, else a new one that was not begun."""
        kinds = _HOMES[field]
        known = (self._by_index.get(_key(index)), *self._blocks[-1:])
        block = next((block for block in known if block and block.kind.endswith(kinds)), None)
        if block is None and field in _UNNAMED:
            block = self._by_index[_key(index)] = _Block({"type": field})
            self._blocks.append(block)
            if field != "text":
                self._paragraphs.interrupt()
        return block

    def _feed_text(self, block: _Block, delta: Mapping[str, Any]) -> Event | None:
        return self._told(block.add("text", reading.text_of(delta.get("text"))))

    def _feed_thinking(self, block: _Block, delta: Mapping[str, Any]) -> Event | None:
        text = block.add("thinking", reading.text_of(delta.get("thinking")))
        return ReasoningDelta(text) if text else None

    def _feed_arguments(self, block: _Block, delta: Mapping[str, Any]) -> Event | None:
        text = block.add("partial_json", reading.arguments_piece(delta.get("partial_json")))
        number = self._calls.get(id(block))
        return ToolCallDelta(number, "", text) if text and number is not None else None

    def _feed_signature(self, block: _Block, delta: Mapping[str, Any]) -> Event | None:
        block.set("signature", delta.get("signature"))
        return None

    def _feed_citation(self, block: _Block, delta: Mapping[str, Any]) -> Event | None:
        block.append("citations", delta.get("citation"))
        return None

    def _feed_message(self, chunk: Mapping[str, Any]) -> Event | None:
        self._merge({**reading.dictionary(chunk.get("delta")), "usage": chunk.get("usage")})
        return None

    def _stop(self, _: Mapping[str, Any]) -> Event | None:
        self._has_stopped = True
        return None

    def finish(self, *, closed: bool) -> Response:
        """The whole response. Raises BadResponse when the stream was cut short, Rejected on a refusal."""
        blocks = [block.whole() for block in _in_order(self._blocks)] or self._content
        if not (self.is_answered or (closed and blocks)):
            raise cut_short(len(said_in(blocks)))
        if not (self._has_begun or blocks):
            raise BadResponse("The stream ended without an answer. Try again.")
        return _response({**self._message, "content": blocks, "usage": self._usage}, blocks)


def _in_order(blocks: list[_Block]) -> list[_Block]:
    """The blocks by their indexes, if each has one of its own, or else as they came."""
    indexes = [block.index for block in blocks if isinstance(block.index, int)]
    by_index = dict(zip(indexes, blocks, strict=False))
    return [by_index[index] for index in sorted(indexes)] if len(by_index) == len(blocks) else blocks


def _key(index: object) -> object:
    """What tells the blocks of a stream apart; a server may send anything for it."""
    return index if isinstance(index, int) else reading.word(index)


_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
    "signature_delta": "signature",
    "citations_delta": "citation",
}
"""What each type of delta brings."""

_HOMES = {
    "text": ("text",),
    "thinking": ("thinking",),
    "partial_json": ("tool_use",),
    "signature": ("thinking",),
    "citation": ("text",),
}
"""With what words the types of block end that it can be brought to."""

_UNNAMED = ("text", "thinking")
"""The types of block that a piece is enough to begin."""
