"""How are a question and its answer written down, and read again?"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from agentkit import errors
from agentkit.decisions import Decision
from agentkit.errors import ModelError, SessionError
from agentkit.events import Approved, Milestone, ResponseReceived, ToolCallFinished
from agentkit.memory.cassettes.forms import Form, message_form, question_form, request_form
from agentkit.memory.cassettes.numbering import Numbered, Numbers
from agentkit.memory.codec import Data, decode, decode_message, decode_part, decode_seconds, encode, encode_part
from agentkit.messages import (
    Message,
    Missed,
    OutputSchema,
    Request,
    Response,
    ToolCall,
    ToolResult,
    ToolSpec,
    VectorsAsked,
    VectorsMade,
)
from agentkit.slotted import dataclass
from agentkit.tape import Answer, PersonAsked, Question
from agentkit.usage import Charge, Usage

_MOST_VALUE_CHARS = 100_000
_MOST_QUESTIONS = 10**12
_ERROR_FIELDS = ("status", "code", "parameter", "retry_after_seconds", "limit_tokens")
_MODEL_ERRORS: Mapping[str, type[ModelError]] = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ModelError)
}
_CONTENT = "content"
"""Says that a result's value is what its content says as JSON."""


@dataclass(frozen=True)
class RecordedAnswer:
    """A question with its answer, as a cassette has it. `at` is when the answer was there, in seconds since 1970.

    `number` tells it from others, `inside` is the number of the question in whose answering it was asked, or 0. One
    that `is_live` is asked again in a replay. `charge` is what the answering has cost, where that is written down.
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
    def form(self) -> Form:
        """What counts of the question."""
        if isinstance(self.question, Request) and self.parts is not None:
            return request_form(self.question, self.parts)
        return question_form(self.question)


@dataclass(frozen=True, slots=True)
class TimeUp:
    """The time of a run was up at that reading of its watch, counted from 1."""

    watch: str
    reading: int
    at: float


@dataclass(frozen=True, slots=True)
class Told:
    """A milestone of a run. `asking` is the question whose answer it tells of, when that is in the same file."""

    run: str
    at: float
    milestone: Milestone
    asking: RecordedAnswer | None = None
    inside: int = 0


Entry = RecordedAnswer | Told | TimeUp


def encode_question(question: Question, numbers: Numbers) -> Data:
    """A question as data; what was said before is named by its number."""
    if isinstance(question, PersonAsked):
        return {"ask": "person", "call": encode_part(question.call), "decision": encode_part(question.decision)}
    if isinstance(question, ToolCall):
        return {"ask": "tool", "call": encode_part(question)}
    if isinstance(question, VectorsAsked):
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


def encode_answer(answer: Answer, numbers: Numbers) -> Data:
    """An answer as data. That of a model is a message that has a number."""
    match answer:
        case Response():
            encoded = encode_part(answer)
            number, _ = numbers.enter(answer.message, encoded["message"])
            return {"answer": encoded, "number": number}
        case ToolResult():
            return {"answer": encode_part(answer), **_encode_value(answer)}
        case Approved():
            return {"answer": encode(answer)}
        case VectorsMade(vectors, model, usage):
            packed = [_packed(vector) for vector in vectors]
            return {"answer": {"vectors": packed, "model": model, "usage": encode_part(usage)}}
        case error:
            fields = {name: getattr(error, name, None) for name in _ERROR_FIELDS}
            told = {name: value for name, value in fields.items() if value is not None}
            lost: Data = {"unanswered": error.unanswered} if error.unanswered else {}
            lost |= {"missed": encode_part(error.missed)} if error.missed else {}
            return {"error": {"kind": type(error).__name__, "text": str(error), **told, **lost}}


def encode_told(run: str, at: float, milestone: Milestone, question: int) -> Data:
    """A milestone as data; without its response or result when that is the answer to the question of that number."""
    if not question:
        return {"run": run, "at": at, **encode(milestone)}
    event = "response_received" if isinstance(milestone, ResponseReceived) else "tool_call_finished"
    return {"run": run, "at": at, "event": event, "of": question}


def encode_charge(charge: Charge | None) -> Data:
    """What an answer has cost, when it has cost anything."""
    if charge is None:
        return {}
    counts = charge.input_tokens, charge.output_tokens, charge.tool_calls, *charge.dollars
    return {"charge": list(counts)} if any(counts) else {}


class Reader:
    """Reads the lines of a cassette, or of an exported session, in their order."""

    def __init__(self) -> None:
        self._numbered = Numbered()
        self._messages: dict[int, tuple[Message, str]] = {}
        self._askings: dict[int, RecordedAnswer] = {}

    def read(self, data: Data) -> Entry:
        """A line. Raises SessionError for what is none."""
        try:
            if "watch" in data:
                return TimeUp(str(data["watch"]), _number(data["up"]), decode_seconds(data["at"]))
            return self._asking(data) if "ask" in data else self._told(data)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            raise SessionError(f"A cassette is damaged: {str(data)[:80]}… cannot be read ({error!r:.80}).") from None

    def _asking(self, data: Data) -> RecordedAnswer:
        parts = None
        question: Question
        if data["ask"] == "model":
            question, parts = self._request(data)
        elif data["ask"] == "tool":
            question = decode_part(ToolCall, data["call"])
        elif data["ask"] == "person":
            question = PersonAsked(decode_part(ToolCall, data["call"]), decode_part(Decision, data["decision"]))
        elif data["ask"] == "vectors":
            question = VectorsAsked(tuple(map(str, data["texts"])), dict(data["settings"]))
        else:
            raise SessionError(f"The cassette asks {data['ask']!r:.80}; a newer version of agentkit may know it.")
        answer = self._answer(data, question)
        asking = RecordedAnswer(
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
        self._askings[asking.number] = asking
        return asking

    def _request(self, data: Data) -> tuple[Request, tuple[str, ...]]:
        known = self._messages.get
        said = [known(number) or self._message(number) for number in self._numbered.row(data["messages"])]
        schema = self._one(data, "output_schema", "schema")
        request = Request(
            messages=tuple(message for message, _ in said),
            instruction=self._one(data, "instruction", "text") or "",
            tools=tuple(ToolSpec(str(name), "", {}) for name in data.get("tools", ())),
            output_schema=None if schema is None else OutputSchema("answer", schema),
            settings=dict(data.get("settings", {})),
        )
        return request, tuple(form for _, form in said)

    def _one(self, data: Data, name: str, key: str) -> Any:
        return self._numbered[self._numbered.row([data[name]])[0]][key] if name in data else None

    def _message(self, number: int) -> tuple[Message, str]:
        if number not in self._messages:
            message = decode_message(self._numbered[number])
            self._messages[number] = message, message_form(message)
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
        if isinstance(question, VectorsAsked):
            vectors = [_unpacked(packed) for packed in answer["vectors"]]
            return VectorsMade(vectors, str(answer["model"]), decode_part(Usage, answer["usage"]))
        result = decode_part(ToolResult, answer)
        return replace(result, value=_decode_value(data, result.content))

    def _told(self, data: Data) -> Told:
        asking = self._askings[data["of"]] if "of" in data else None
        milestone = decode(data) if asking is None else _milestone_of(asking)
        at, inside = decode_seconds(data["at"]), _number(data.get("inside", 0))
        return Told(str(data["run"]), at, milestone, asking, inside)


def _number(data: Any) -> int:
    """The number of a question, or 0."""
    if type(data) is not int or not 0 <= data < _MOST_QUESTIONS:
        raise SessionError("A cassette is damaged: what should be the number of a question is none.")
    return data


def _decode_charge(data: Any) -> Charge | None:
    """What an answer has cost; None where it does not say so."""
    if data is None:
        return None
    input_tokens, output_tokens, tool_calls, *dollars = data
    counts = [_number(count) for count in (input_tokens, output_tokens, tool_calls)]
    return Charge(counts[0], counts[1], counts[2], tuple(decode_seconds(max(part, 0)) for part in dollars))


def _milestone_of(asking: RecordedAnswer) -> Milestone:
    """What a run tells when a question has its answer."""
    if isinstance(asking.answer, Response):
        return ResponseReceived(asking.answer)
    if isinstance(asking.answer, ToolResult) and isinstance(asking.question, ToolCall):
        return ToolCallFinished(asking.question, asking.answer)
    raise SessionError("A cassette is damaged: a run tells of an answer that is neither a response nor a result.")


def _packed(vector: Sequence[float]) -> str:
    """The numbers of a vector, of 32 bits each, in words that look like no secret."""
    return struct.pack(f"<{len(vector)}f", *vector).hex(" ", 4)


def _unpacked(text: str) -> list[float]:
    """The vector of such a text. Raises ValueError for another."""
    packed = bytes.fromhex(text)
    return list(struct.unpack(f"<{len(packed) // 4}f", packed[: len(packed) // 4 * 4]))


def _encode_value(result: ToolResult) -> Data:
    """A result's own value, when it is plain data of a moderate size."""
    if result.value is None:
        return {}
    try:
        if json.loads(result.content) == result.value and not isinstance(result.value, str):
            return {"value": _CONTENT}
    except (ValueError, RecursionError):
        pass
    return _plain(result.value)


def _plain(value: Any) -> Data:
    try:
        text = json.dumps(value)
        same = len(text) <= _MOST_VALUE_CHARS and json.loads(text) == value
    except (TypeError, ValueError, RecursionError):
        return {}
    return {"value": [value]} if same else {}


def _decode_value(data: Data, content: str) -> Any:
    value = data.get("value")
    if value != _CONTENT:
        return value[0] if value else None
    try:
        return json.loads(content)
    except ValueError:  # as when a secret was redacted from it
        return None


def _decode_error(data: Data) -> ModelError:
    kind = _MODEL_ERRORS.get(data["kind"], ModelError)
    fields = {name: data[name] for name in _ERROR_FIELDS if name in data}
    error = kind(str(data["text"]), **fields)
    if "unanswered" in data:
        error.unanswered = data["unanswered"]
    if "missed" in data:
        error.missed = tuple(decode_part(Missed, each) for each in data["missed"])
    return error
