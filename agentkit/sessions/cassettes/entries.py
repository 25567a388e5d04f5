"""The entries of a cassette: encoding, deduplication and redaction.

A message is written in full once, with a number. Later entries refer to it by number; a range is written as `"3-17"`.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, cast

from agentkit import errors
from agentkit._dataclass import dataclass
from agentkit.decisions import Decision
from agentkit.errors import ModelError, SessionError
from agentkit.events import Approved, ResponseReceived, StoredEvent, ToolCallFinished
from agentkit.messages import (
    EmbeddingAnswer,
    EmbeddingQuery,
    FailedModel,
    Message,
    OutputSchema,
    Request,
    Response,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from agentkit.recording import Answer, PersonAsked, Question
from agentkit.redaction import may_name_secret, redact_data, redactor, spellings, stored_text_redactor
from agentkit.sessions.cassettes.request_matching import RequestKey, message_key, question_key, request_key
from agentkit.sessions.codec import (
    Data,
    decode,
    decode_message,
    decode_part,
    decode_seconds,
    encode,
    encode_part,
    to_line,
)
from agentkit.settings import secret_values
from agentkit.usage import Charge, Usage

_RUN = re.compile('"run":"[0-9a-f]{32}"')
"""The id of a run, which resembles a key."""

_ESCAPE = "\\u"
"""The escape prefix that lets JSON nested in a JSON string spell any character."""


class EntryRedactor:
    """Redacts entries. Most contain no secret and are skipped after a cheap check of the encoded line."""

    def __init__(self) -> None:
        self._secrets: tuple[str, ...] | None = None
        self._clean: Callable[[str], str] = str
        self._shapes: Callable[[str], str] = str
        self._spelled: tuple[str, ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Read the secrets of the environment again."""
        secrets = secret_values()
        if secrets is not self._secrets:
            self._secrets, self._clean, self._shapes = secrets, stored_text_redactor(), redactor()
            self._spelled = spellings(secrets)

    def line(self, data: Data) -> str:
        """Serialise one entry, without a line break. Raises SessionError."""
        return self.lines([data])[:-1]

    def lines(self, entries: Sequence[Data]) -> str:
        """Serialise entries to lines without secrets or texts that look like one. Raises SessionError.

        All lines are checked together, since each check has a constant cost.
        """
        lines = [to_line(data) for data in entries]
        text = _RUN.sub("", "\n".join(lines))
        is_suspect = _ESCAPE in text or may_name_secret(text) or any(secret in text for secret in self._spelled)
        if is_suspect or self._shapes(text) != text:
            lines = [to_line(self.redact(data)) for data in entries]
        return "".join([f"{line}\n" for line in lines])

    def redact(self, data: Data) -> Data:
        """Redact every text of the entry. JSON text in `arguments` stays valid JSON."""
        return cast(Data, redact_data(data, self._clean))


_Span = tuple[int, int]
_MAX_ROWS = 16
_MAX_IN_ROW, _MAX_DIGITS = 100_000, 12
_MAX_IN_ALL = 5_000_000
"""Limit of messages named by all requests of a cassette together: a span of a few bytes can name 100,000."""


class MessageNumbers:
    """Assigns numbers to messages when a cassette is written."""

    def __init__(self) -> None:
        self._of_object: dict[int, tuple[int, object]] = {}
        self._of_text: dict[bytes, int] = {}
        self._rows: deque[tuple[tuple[object, ...], list[_Span]]] = deque(maxlen=_MAX_ROWS)

    def row(self, items: Iterable[object]) -> list[Any]:
        """Encode the items in order: new ones in full, known ones by number."""
        row_items = tuple(items)
        count, spans = self._common_prefix(row_items)
        encoded: list[_Span | Data] = list(spans)
        for item in row_items[count:]:
            number, data = self.enter(item)
            _extend(spans, number)
            if data is None:
                _extend(encoded, number)
            else:
                encoded.append(data)
        self._rows.append((row_items, spans))
        return [part if isinstance(part, dict) else _format_span(part) for part in encoded]

    def _common_prefix(self, row_items: tuple[object, ...]) -> tuple[int, list[_Span]]:
        """Remove the earlier row that is a prefix of this one; return its length and the spans of its numbers."""
        for place, (earlier, spans) in reversed([*enumerate(self._rows)]):
            count = len(earlier)
            if count and earlier == row_items[:count]:
                del self._rows[place]  # by index: another, equal row keeps its own spans
                return count, spans
        return 0, []

    def one(self, item: object) -> Any:
        """Encode the item in full, or as its number if it is known."""
        number, data = self.enter(item)
        return str(number) if data is None else data

    def enter(self, item: object, encoded: Any = None) -> tuple[int, Data | None]:
        """Return the item's number, and its data if it is new. `encoded` avoids encoding it twice."""
        known = self._of_object.get(id(item))
        if known is not None:
            return known[0], None
        encoded = encode_part(item) if encoded is None else encoded
        data = encoded if "role" in encoded else {"text" if isinstance(encoded, str) else "schema": encoded}
        text = blake2b(repr(data).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if text in self._of_text:
            return self._of_text[text], None
        number = self._of_text[text] = len(self._of_text) + 1
        self._of_object[id(item)] = number, item  # holds a reference, so that the id is not reused
        return number, {"number": number, **data}


class NumberedMessages:
    """Resolves the numbers of messages when a cassette is read."""

    def __init__(self, max_in_all: int = _MAX_IN_ALL) -> None:
        self._items: dict[int, Data] = {}
        self._left = max_in_all

    def enter(self, data: Mapping[str, Any]) -> int:
        """Store an item that is written in full and return its number. Raises SessionError if it has no number."""
        number = data.get("number")
        if type(number) is not int:
            raise SessionError("A cassette is damaged: a message has no number.")
        self._items[number] = {key: value for key, value in data.items() if key != "number"}
        return number

    def __getitem__(self, number: int) -> Data:
        try:
            return self._items[number]
        except KeyError:
            raise SessionError(f"A cassette is damaged: it refers to number {number}, which does not exist.") from None

    def row(self, row: Sequence[Any]) -> list[int]:
        """Resolve a row to numbers. Raises SessionError if the row, or all rows together, exceed the limits."""
        numbers = list[int]()
        for part in row:
            span = (self.enter(part),) if isinstance(part, dict) else self._span(part)
            missing = next((number for number in span if number not in self._items), None)
            if missing is not None:
                self[missing]
            self._left -= len(span)
            if len(numbers) + len(span) > _MAX_IN_ROW:
                raise SessionError(f"A cassette is damaged: a request has more than {_MAX_IN_ROW:,} messages.")
            if self._left < 0:
                raise SessionError("A cassette is damaged: its requests refer to too many messages.")
            numbers += span
        return numbers

    def _span(self, part: Any) -> Sequence[int]:
        """Parse one number, or a range `first-last`."""
        first, _, last = part.partition("-") if isinstance(part, str) else ("", "", "")
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and max(len(first), len(last)) <= _MAX_DIGITS):
            raise SessionError(f"A cassette is damaged: {part!r:.80} is neither a message nor a number of one.")
        return range(int(first), int(last) + 1)


def _extend(row: list[Any], number: int) -> None:
    """Append a number to the row, extending the last span if it is adjacent."""
    if row and isinstance(row[-1], tuple) and row[-1][1] + 1 == number:
        row[-1] = (row[-1][0], number)
    else:
        row.append((number, number))


def _format_span(span: _Span) -> str:
    first, last = span
    return str(first) if first == last else f"{first}-{last}"


_MAX_VALUE_CHARS = 100_000
_MAX_QUESTIONS = 10**12
_ERROR_FIELDS = ("status", "code", "parameter", "retry_after_seconds", "limit_tokens")
_MODEL_ERRORS: Mapping[str, type[ModelError]] = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ModelError)
}
_CONTENT = "content"
"""Marks a result whose value equals its content parsed as JSON."""


@dataclass(frozen=True)
class RecordedAnswer:
    """A question with its recorded answer. `at` is the time of the answer, in seconds since 1970.

    `number` identifies the question; `inside` is the number of the question it was asked within, or 0. A question that
    `is_live` is executed again in a replay. `charge` is the cost of the answer, if it was recorded.
    """

    number: int
    question: Question
    answer: Answer
    at: float
    seconds: float = 0.0
    inside: int = 0
    is_live: bool = False
    parts: tuple[str, ...] | None = None
    charge: Charge | None = None

    @cached_property
    def key(self) -> RequestKey:
        """The matching key of the question."""
        if isinstance(self.question, Request) and self.parts is not None:
            return request_key(self.question, self.parts)
        return question_key(self.question)


@dataclass(frozen=True, slots=True)
class TimeUp:
    """The run's deadline was reached at the given reading of its clock, counted from 1."""

    watch: str
    reading: int
    at: float


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """A stored event of a run.

    `exchange` is the question whose answer it reports, if that is in the same file.
    """

    run: str
    at: float
    event: StoredEvent
    exchange: RecordedAnswer | None = None
    inside: int = 0


Entry = RecordedAnswer | RecordedEvent | TimeUp


def encode_question(question: Question, numbers: MessageNumbers) -> Data:
    """Encode a question; messages written earlier are encoded as their number."""
    if isinstance(question, PersonAsked):
        return {"ask": "person", "call": encode_part(question.call), "decision": encode_part(question.decision)}
    if isinstance(question, ToolCall):
        return {"ask": "tool", "call": encode_part(question)}
    if isinstance(question, EmbeddingQuery):
        return {"ask": "vectors", "texts": list(question.texts), "settings": encode_part(question.settings)}
    data: Data = {"ask": "model"}
    if question.instruction:
        data["instruction"] = numbers.one(question.instruction)
    data["messages"] = numbers.row(question.messages)
    if question.tools:
        data["tools"] = [tool.name for tool in question.tools]
    if question.settings:
        data["settings"] = encode_part(question.settings)
    if question.output_schema is not None:
        data["output_schema"] = numbers.one(question.output_schema.schema)
    return data


def encode_answer(answer: Answer, numbers: MessageNumbers) -> Data:
    """Encode an answer. The answer of a model is a message and gets a number."""
    match answer:
        case Response():
            encoded = encode_part(answer)
            number, _ = numbers.enter(answer.message, encoded["message"])
            return {"answer": encoded, "number": number}
        case ToolResult():
            return {"answer": encode_part(answer), **_encode_value(answer)}
        case Approved():
            return {"answer": encode(answer)}
        case EmbeddingAnswer(vectors, model, usage):
            # 32-bit floats in hex, in groups too short to look like a secret
            packed = [struct.pack(f"<{len(vector)}f", *vector).hex(" ", 4) for vector in vectors]
            return {"answer": {"vectors": packed, "model": model, "usage": encode_part(usage)}}
        case error:
            fields = {name: getattr(error, name, None) for name in _ERROR_FIELDS}
            known = {name: value for name, value in fields.items() if value is not None}
            lost: Data = {"unanswered": error.unanswered} if error.unanswered else {}
            lost |= {"missed": encode_part(error.missed)} if error.missed else {}
            return {"error": {"kind": type(error).__name__, "text": str(error), **known, **lost}}


def encode_event(run: str, at: float, event: StoredEvent, question: int) -> Data:
    """Encode a stored event. If `question` is set, its response or result is replaced by that number."""
    if not question:
        return {"run": run, "at": at, **encode(event)}
    kind = "response_received" if isinstance(event, ResponseReceived) else "tool_call_finished"
    return {"run": run, "at": at, "event": kind, "of": question}


def encode_charge(charge: Charge | None) -> Data:
    """Encode the cost of an answer; empty if it cost nothing."""
    if charge is None:
        return {}
    counts = {name: count for name, count in charge.counts.items() if count}
    amounts = charge.input_tokens, charge.output_tokens, counts, *charge.dollars
    return {"charge": list(amounts)} if any(amounts) else {}


class Reader:
    """Reads the lines of a cassette or of an exported session, in order."""

    def __init__(self) -> None:
        self._numbered = NumberedMessages()
        self._messages: dict[int, tuple[Message, str]] = {}
        self._exchanges: dict[int, RecordedAnswer] = {}

    def read(self, data: Data) -> Entry:
        """Parse a line. Raises SessionError if it is invalid."""
        try:
            if "watch" in data:
                return TimeUp(str(data["watch"]), _number(data["up"]), decode_seconds(data["at"]))
            if "ask" in data:
                return self._decode_question(data)
            exchange = self._exchanges[data["of"]] if "of" in data else None
            event = decode(data) if exchange is None else _event_of(exchange)
            at, inside = decode_seconds(data["at"]), _number(data.get("inside", 0))
            return RecordedEvent(str(data["run"]), at, event, exchange, inside)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError, struct.error) as error:
            raise SessionError(f"A cassette is damaged: {str(data)[:80]}… cannot be read ({error!r:.80}).") from None

    def _decode_question(self, data: Data) -> RecordedAnswer:
        parts = None
        question: Question
        if data["ask"] == "model":
            question, parts = self._request(data)
        elif data["ask"] == "tool":
            question = decode_part(ToolCall, data["call"])
        elif data["ask"] == "person":
            question = PersonAsked(decode_part(ToolCall, data["call"]), decode_part(Decision, data["decision"]))
        elif data["ask"] == "vectors":
            question = EmbeddingQuery(tuple(map(str, data["texts"])), dict(data["settings"]))
        else:
            raise SessionError(f"The cassette has a request of the unknown kind {data['ask']!r:.80}. Update agentkit.")
        answer = self._answer(data, question)
        exchange = RecordedAnswer(
            _number(data["id"]),
            question,
            answer,
            decode_seconds(data["at"]),
            decode_seconds(data.get("seconds", 0)),
            _number(data.get("inside", 0)),
            data.get("live") is True and isinstance(question, ToolCall),
            parts,
            _decode_charge(data.get("charge")),
        )
        self._exchanges[exchange.number] = exchange
        return exchange

    def _request(self, data: Data) -> tuple[Request, tuple[str, ...]]:
        known = self._messages.get
        rows = [known(number) or self._message(number) for number in self._numbered.row(data["messages"])]
        schema = self._one(data, "output_schema", "schema")
        request = Request(
            messages=tuple(message for message, _ in rows),
            instruction=self._one(data, "instruction", "text") or "",
            tools=tuple(ToolSpec(str(name), "", {}) for name in data.get("tools", ())),
            output_schema=None if schema is None else OutputSchema("answer", schema),
            settings=dict(data.get("settings", {})),
        )
        return request, tuple(key for _, key in rows)

    def _one(self, data: Data, name: str, key: str) -> Any:
        return self._numbered[self._numbered.row([data[name]])[0]][key] if name in data else None

    def _message(self, number: int) -> tuple[Message, str]:
        if number not in self._messages:
            message = decode_message(self._numbered[number])
            self._messages[number] = message, message_key(message)
        return self._messages[number]

    def _answer(self, data: Data, question: Question) -> Answer:
        if "error" in data:
            return _decode_error(data["error"])
        answer = data["answer"]
        if isinstance(question, Request):
            self._numbered.enter({"number": data["number"], **answer["message"]})
            return decode_part(Response, answer)
        if isinstance(question, PersonAsked):
            return decode_part(Approved, answer)
        if isinstance(question, EmbeddingQuery):
            vectors = [
                [number for (number,) in struct.iter_unpack("<f", bytes.fromhex(each))] for each in answer["vectors"]
            ]
            return EmbeddingAnswer(vectors, str(answer["model"]), decode_part(Usage, answer["usage"]))
        result = decode_part(ToolResult, answer)
        return replace(result, value=_decode_value(data, result.content))


def _number(data: Any) -> int:
    """Parse the number of a question, or 0."""
    if type(data) is not int or not 0 <= data < _MAX_QUESTIONS:
        raise SessionError("A cassette is damaged: the number of a request is invalid.")
    return data


def _decode_charge(data: Any) -> Charge | None:
    """Parse the cost of an answer; None if it was not recorded."""
    if data is None:
        return None
    input_tokens, output_tokens, counts, *dollars = data
    counts = {name: _number(count) for name, count in counts.items()}
    amounts = tuple(decode_seconds(max(part, 0)) for part in dollars)
    return Charge(_number(input_tokens), _number(output_tokens), counts, amounts)


def _event_of(exchange: RecordedAnswer) -> StoredEvent:
    """Build the stored event that a run emits for an answer."""
    if isinstance(exchange.answer, Response):
        return ResponseReceived(exchange.answer)
    if isinstance(exchange.answer, ToolResult) and isinstance(exchange.question, ToolCall):
        return ToolCallFinished(exchange.question, exchange.answer)
    raise SessionError("A cassette is damaged: an event refers to an answer that is neither a response nor a result.")


def _encode_value(result: ToolResult) -> Data:
    """Encode a result's value, if it is plain data of at most 100,000 characters."""
    if result.value is None:
        return {}
    if type(result.value) is str:
        return {"value": [result.value]} if len(result.value) <= _MAX_VALUE_CHARS else {}
    with contextlib.suppress(ValueError, RecursionError):
        if json.loads(result.content) == result.value:
            return {"value": _CONTENT}
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        text = json.dumps(result.value)
        if len(text) <= _MAX_VALUE_CHARS and json.loads(text) == result.value:
            return {"value": [result.value]}
    return {}


def _decode_value(data: Data, content: str) -> Any:
    value = data.get("value")
    if value != _CONTENT:
        return value[0] if value else None
    try:
        return json.loads(content)
    except ValueError:  # for example after redaction
        return None


def _decode_error(data: Data) -> ModelError:
    kind = _MODEL_ERRORS.get(data["kind"], ModelError)
    fields = {name: data[name] for name in _ERROR_FIELDS if name in data}
    error = kind(str(data["text"]), **fields)
    if "unanswered" in data:
        error.unanswered = data["unanswered"]
    if "missed" in data:
        error.missed = tuple(decode_part(FailedModel, each) for each in data["missed"])
    return error
