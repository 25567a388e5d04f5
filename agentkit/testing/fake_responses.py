"""Response bodies of the fake server for each protocol (pure)."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, BinaryIO, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from agentkit._dataclass import dataclass
from agentkit.messages import AssistantMessage, Response, ToolCall
from agentkit.testing.scripted_llm import (
    LINE_USAGE,
    VECTOR_LENGTH,
    ModelAnswer,
    count_words,
    describe,
    deterministic_vector,
    split_words,
    to_response,
)
from agentkit.usage import Usage

WHOLE_PATH, STREAM_PATH = GEMINI_PATHS = (":generateContent", ":streamGenerateContent")
"""Ends of the paths of Gemini's protocol."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A received request. Header names are in lower case; `json` is None if the body is not JSON."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    json: Any = None

    @property
    def is_azure(self) -> bool:
        """Whether it was sent to an Azure deployment, whose responses include content filter results."""
        return "/openai/deployments/" in self.path

    @property
    def is_streamed(self) -> bool:
        """Whether a streamed response is requested: by a field of the body, or by the path."""
        return self.path.endswith(STREAM_PATH) or bool(isinstance(self.json, dict) and self.json.get("stream"))

    @property
    def model(self) -> str:
        """The requested model, or else the one in the path, as in Azure's and Gemini's; empty if neither is given."""
        if self.path.endswith(GEMINI_PATHS):
            return self.path.rpartition("/")[2].partition(":")[0]
        deployment = self.path.partition("/deployments/")[2].partition("/")[0]
        return str((isinstance(self.json, dict) and self.json.get("model")) or deployment)

    @property
    def keeps_alive(self) -> bool:
        """Whether the client wants to reuse the connection."""
        return self.headers.get("connection", "").lower() != "close"

    @property
    def question(self) -> str:
        """The address and the last message, for a readable error."""
        body = self.json if isinstance(self.json, dict) else {}
        messages = body.get("messages") or body.get("input") or body.get("contents") or ""
        last = messages[-1] if isinstance(messages, list) else messages
        return f"{self.method} {self.path} {json.dumps(last, ensure_ascii=False)}"


def read_request(stream: BinaryIO) -> RecordedRequest | None:
    """Read the next request on a connection; None at its end. Raises ValueError for an invalid request."""
    start = stream.readline()
    if not start.strip():
        return None
    words = start.decode("latin-1").split()
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise ValueError(f"Not an HTTP/1.1 request: {start[:80]!r}")
    method, target, version = words[0], words[1], words[2]
    headers = _read_headers(stream)
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isdecimal():
        raise ValueError("The fake server reads a body by its Content-Length, which must be a number")
    if version == "HTTP/1.0":
        headers.setdefault("connection", "close")
    body = stream.read(int(length))
    if len(body) < int(length):
        return None
    address = urlsplit(target)
    query = dict(parse_qsl(address.query, keep_blank_values=True))
    return RecordedRequest(method, unquote(address.path), query, headers, body, _json_or_none(body))


def _read_headers(stream: BinaryIO) -> dict[str, str]:
    headers = {}
    while line := stream.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers


def _json_or_none(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


Ending = Literal["whole", "cut", "dropped", "silent"]

CREATED_AT = 1_780_000_000
"""The creation time of every answer, in seconds since 1970: constant, so that tests can compare."""

_ERROR_TYPES = {403: "request_forbidden", 429: "requests"}


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """The model's answer, for any protocol. A refusal replaces the text."""

    response: Response
    refusal: str = ""
    filtered: bool = False

    def __str__(self) -> str:
        answered = f"refuses: {self.refusal!r}" if self.refusal else describe(self.response)
        return f"{answered}, filtered" if self.filtered else answered


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes that are sent unchanged, in any protocol."""

    chunks: tuple[bytes, ...]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.status} {b''.join(self.chunks)!r}"


@dataclass(frozen=True, slots=True, repr=False)
class ScriptedReply:
    """One line of a FakeServer: the content and its delivery. Created by the functions of this module.

    `after` is the number of deltas that are sent before an `ending` other than "whole"; None sends all of them.
    """

    content: ScriptedAnswer | Raw
    delay_seconds: float = 0.0
    pause_seconds: float = 0.0
    ending: Ending = "whole"
    after: int | None = None

    def __repr__(self) -> str:
        return f"Reply({self.content}, {self.ending})"


ServerLine = ModelAnswer | ScriptedReply | Callable[[RecordedRequest], "ServerLine"]
"""A line of a FakeServer."""


def to_reply(line: object) -> ScriptedReply:
    """Convert a line to a reply. Raises TypeError if the line is invalid."""
    return line if isinstance(line, ScriptedReply) else ScriptedReply(ScriptedAnswer(to_response(line)))


def refuse(reason: str) -> ScriptedReply:
    """The model declines to answer and gives a reason."""
    return ScriptedReply(ScriptedAnswer(Response(AssistantMessage(), "stop", LINE_USAGE), refusal=reason))


def filtered(text: str = "") -> ScriptedReply:
    """The content filter stops the answer after `text`."""
    return ScriptedReply(ScriptedAnswer(Response(AssistantMessage(text), "stop", LINE_USAGE), filtered=True))


def fail(
    status: int = 500,
    message: str = "The server had an error while processing your request",
    *,
    code: str | None = None,
    parameter: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> ScriptedReply:
    """An error in OpenAI's format: `fail(429, headers={"Retry-After": "1"})`; status 200 hides it in a success."""
    import json

    if not isinstance(status, int):
        raise TypeError(f'fail() takes the status first, as in fail(429, "slow down"). Got {status!r:.200}')
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if 400 <= status < 500 else "server_error")
    error = {"message": message, "type": kind, "param": parameter, "code": code}
    body = json.dumps({"error": error}).encode()
    return ScriptedReply(Raw((body,), status, {"Content-Type": "application/json", **(headers or {})}))


def raw(
    *pieces: bytes | str | Mapping[str, Any],
    status: int = 200,
    content_type: str = "text/event-stream",
    headers: Mapping[str, str] | None = None,
) -> ScriptedReply:
    r"""Bytes that are sent unchanged, in chunks, to simulate servers that violate the protocol.

    A dictionary is sent as one server-sent event, a text as UTF-8. `raw("<html>…", content_type="text/html")`.
    """
    import json

    encoded = tuple(
        piece
        if isinstance(piece, bytes)
        else piece.encode()
        if isinstance(piece, str)
        else f"data: {json.dumps(piece)}\n\n".encode()
        for piece in pieces
    )
    return ScriptedReply(Raw(encoded, status, {"Content-Type": content_type, **(headers or {})}))


def slow(line: ServerLine, *, before_seconds: float = 0.0, between_seconds: float = 0.0) -> ScriptedReply:
    """The line, delayed before the first byte and between the chunks of the body."""
    return replace(to_reply(line), delay_seconds=before_seconds, pause_seconds=between_seconds)


def cut(line: ServerLine, *, after: int | None = None) -> ScriptedReply:
    """The line without its end: no finish reason, no [DONE], no `response.completed`, but a correctly ended body.

    `after` is the number of deltas that are sent, all of them by default. A JSON answer is cut in the middle.
    """
    return replace(to_reply(line), ending="cut", after=after)


def drop(line: ServerLine | None = None, *, after: int | None = None) -> ScriptedReply:
    """Close the connection: without a response, or in the middle of a line's body, after `after` deltas."""
    if line is None:
        return ScriptedReply(Raw(()), ending="silent")
    return replace(to_reply(line), ending="dropped", after=after)


_HARMLESS = {
    category: {"filtered": False, "severity": "safe"} for category in ("hate", "self_harm", "sexual", "violence")
}


def completion(answer: ScriptedAnswer, request: RecordedRequest, number: int) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    message = answer.response.message
    body: dict[str, Any] = {
        "role": "assistant",
        "content": message.text or (None if message.tool_calls or answer.refusal else ""),
        "refusal": answer.refusal or None,
        "annotations": [],
        **message.extra,
    }
    if message.reasoning:
        body["reasoning_content"] = message.reasoning
    if message.tool_calls:
        body["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    choice = {"index": 0, "message": body, "logprobs": None, "finish_reason": _finish_reason(answer)}
    if request.is_azure:
        choice["content_filter_results"] = _HARMLESS
    shared = _common_fields(answer, request, number, "chat.completion")
    return {**shared, "choices": [choice], **_prompt_filter(request), **_chat_usage(answer.response.usage)}


def chunks(answer: ScriptedAnswer, request: RecordedRequest, number: int) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed answer: role, deltas, finish reason, and usage if requested."""
    options, usage = request.json.get("stream_options"), answer.response.usage
    wants_usage = bool(options and options.get("include_usage")) and not usage.unreported
    shared = _common_fields(answer, request, number, "chat.completion.chunk") | ({"usage": None} if wants_usage else {})
    if request.is_azure:
        yield {**shared, "id": "", "model": "", "choices": [], **_prompt_filter(request)}
    for delta in _chat_deltas(answer):
        yield {**shared, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}
    ending = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _finish_reason(answer)}
    yield {**shared, "choices": [ending]}
    if wants_usage:
        yield {**shared, "choices": [], **_chat_usage(usage)}


def is_chat_delta(chunk: Mapping[str, Any]) -> bool:
    """Whether a chunk contains a part of the answer, and not the role, the finish reason or the usage."""
    choices = chunk["choices"]
    return bool(choices) and choices[0]["finish_reason"] is None and "role" not in choices[0]["delta"]


def _chat_deltas(answer: ScriptedAnswer) -> Iterator[dict[str, Any]]:
    message = answer.response.message
    only_calls = message.tool_calls and not message.text
    yield {"role": "assistant", "content": None if only_calls else "", "refusal": None, **message.extra}
    for name, text in _texts(message, answer.refusal).items():
        for piece in split_words(text):
            yield {name: piece}
    for index, call in enumerate(message.tool_calls):
        whole = _tool_call(call)
        yield {"tool_calls": [{"index": index, **whole, "function": {"name": call.name, "arguments": ""}}]}
        for piece in split_words(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _texts(message: AssistantMessage, refusal: str) -> dict[str, str]:
    return {"reasoning_content": message.reasoning, "content": message.text, "refusal": refusal}


def _tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function, **call.extra}


def _finish_reason(answer: ScriptedAnswer) -> str:
    return "content_filter" if answer.filtered else answer.response.finish_reason


def _common_fields(answer: ScriptedAnswer, request: RecordedRequest, number: int, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number}",
        "object": kind,
        "created": CREATED_AT,
        "model": answer.response.model or request.model,
        "service_tier": "default",
        "system_fingerprint": None,
    }


def _prompt_filter(request: RecordedRequest) -> dict[str, Any]:
    results = [{"prompt_index": 0, "content_filter_results": _HARMLESS}]
    return {"prompt_filter_results": results} if request.is_azure else {}


def _chat_usage(usage: Usage) -> dict[str, Any]:
    if usage.unreported:
        return {}
    return {
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": usage.reasoning_tokens,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }
    }


MessagesEvent = dict[str, Any]

_STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def message(answer: ScriptedAnswer, request: RecordedRequest, number: int) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    is_refused = bool(answer.refusal) or answer.filtered
    details = {"type": "refusal", "category": None, "explanation": answer.refusal or None}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": answer.response.model or request.model,
        "content": _blocks(answer, number),
        "stop_reason": "refusal" if is_refused else _STOP_REASONS[answer.response.finish_reason],
        "stop_sequence": None,
        "stop_details": details if is_refused else None,
        "usage": _messages_usage(answer.response.usage),
    }


def messages_events(answer: ScriptedAnswer, request: RecordedRequest, number: int) -> Iterator[MessagesEvent]:
    """The events of a streamed answer, from `message_start` to `message_stop`."""
    whole = message(answer, request, number)
    stop = {name: whole[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    start = {**whole, **dict.fromkeys(stop), "content": []}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    calls = iter(answer.response.tool_calls)
    for index, block in enumerate(whole["content"]):
        arguments = next(calls).arguments if block["type"] == "tool_use" else ""
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **_EMPTY[block["type"]]}}
        for delta in _messages_deltas(block, arguments):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": stop, "usage": whole["usage"]}
    yield {"type": "message_stop"}


def is_messages_delta(event: Mapping[str, Any]) -> bool:
    """Whether an event contains a part of the answer."""
    return bool(event["type"] == "content_block_delta")


_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
"""The fields of a block that are empty in its start event."""


def _blocks(answer: ScriptedAnswer, number: int) -> list[dict[str, Any]]:
    answered, usage = answer.response.message, answer.response.usage
    blocks: list[dict[str, Any]] = []
    if answered.reasoning or usage.reasoning_tokens:
        signature = b64encode(f"signature {number}".encode()).decode("ascii")
        blocks.append({"type": "thinking", "thinking": answered.reasoning, "signature": signature})
    if answered.text:
        blocks.append({"type": "text", "text": answered.text, "citations": None})
    return blocks + [_call_block(call) for call in answered.tool_calls]


def _call_block(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments), **call.extra}


def _input(arguments: str) -> object:
    """The arguments of a call; the text itself if it is not JSON."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def _messages_deltas(block: Mapping[str, Any], arguments: str) -> Iterator[dict[str, Any]]:
    """Yield the deltas of a block; the arguments of a call are sent as written."""
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in split_words(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in split_words(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in ("", *split_words(arguments)))


def _messages_usage(usage: Usage) -> dict[str, Any] | None:
    """The usage in Anthropic's format, in which input tokens exclude cached ones."""
    if usage.unreported:
        return None
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.written_tokens,
        "cache_creation_input_tokens": usage.written_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


_ECHOED_SETTINGS: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}
"""Settings that a response echoes, with their values if the request does not set them."""

ResponsesEvent = dict[str, Any]


def response(answer: ScriptedAnswer, request: RecordedRequest, number: int) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    reason = _incomplete_reason(answer)
    return {
        **_unfinished(answer, request, number),
        "status": "incomplete" if reason else "completed",
        "completed_at": None if reason else CREATED_AT,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": _items(answer, number),
        "usage": _responses_usage(answer.response.usage),
    }


def responses_events(answer: ScriptedAnswer, request: RecordedRequest, number: int) -> Iterator[ResponsesEvent]:
    """The events of a streamed answer, numbered, from `response.created` to `response.completed`."""
    for position, event in enumerate(_events(answer, request, number)):
        yield {**event, "sequence_number": position}


def is_responses_delta(event: Mapping[str, Any]) -> bool:
    """Whether an event contains a part of the answer."""
    return str(event["type"]).endswith(".delta")


def _events(answer: ScriptedAnswer, request: RecordedRequest, number: int) -> Iterator[ResponsesEvent]:
    whole, unfinished = response(answer, request, number), _unfinished(answer, request, number)
    yield {"type": "response.created", "response": unfinished}
    yield {"type": "response.in_progress", "response": unfinished}
    for index, item in enumerate(whole["output"]):
        start = {
            **item,
            "status": "in_progress",
            **{name: type(item[name])() for name in _EMPTY_AT_START[item["type"]]},
        }
        yield {"type": "response.output_item.added", "output_index": index, "item": start}
        for event in _ITEM_EVENTS[item["type"]](item):
            yield {"item_id": item["id"], "output_index": index, **event}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _reasoning_events(item: Mapping[str, Any]) -> Iterator[ResponsesEvent]:
    for at, part in enumerate(item["summary"]):
        place = {"summary_index": at}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
        for piece in split_words(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def _message_events(item: Mapping[str, Any]) -> Iterator[ResponsesEvent]:
    for at, part in enumerate(item["content"]):
        field = "refusal" if part["type"] == "refusal" else "text"
        place: ResponsesEvent = {"content_index": at} | ({"logprobs": []} if field == "text" else {})
        kind = f"response.{part['type']}"
        yield {"type": "response.content_part.added", "content_index": at, "part": {**part, field: ""}}
        for piece in split_words(part[field]):
            yield {"type": f"{kind}.delta", **place, "delta": piece}
        yield {"type": f"{kind}.done", **place, field: part[field]}
        yield {"type": "response.content_part.done", "content_index": at, "part": part}


def _call_events(item: Mapping[str, Any]) -> Iterator[ResponsesEvent]:
    for piece in split_words(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    yield {"type": "response.function_call_arguments.done", "name": item["name"], "arguments": item["arguments"]}


_ITEM_EVENTS = {"reasoning": _reasoning_events, "message": _message_events, "function_call": _call_events}
_EMPTY_AT_START = {"reasoning": ("summary",), "message": ("content",), "function_call": ("arguments",)}
"""The fields of an item that are empty in its start event."""


def _items(answer: ScriptedAnswer, number: int) -> list[dict[str, Any]]:
    message, usage = answer.response.message, answer.response.usage
    items = []
    if message.reasoning or usage.reasoning_tokens:
        items.append(_reasoning_item(message.reasoning, number))
    if message.text or answer.refusal or not message.tool_calls:
        items.append(_message_item(answer, number))
    return items + [_call_item(call, number, at) for at, call in enumerate(message.tool_calls, start=1)]


def _reasoning_item(reasoning: str, number: int) -> dict[str, Any]:
    return {
        "id": f"rs_{number}",
        "type": "reasoning",
        "status": "completed",
        "summary": [{"type": "summary_text", "text": reasoning}] if reasoning else [],
        "encrypted_content": b64encode(f"encrypted reasoning {number}".encode()).decode("ascii"),
    }


def _message_item(answer: ScriptedAnswer, number: int) -> dict[str, Any]:
    text = {"type": "output_text", "text": answer.response.text, "annotations": [], "logprobs": []}
    refusal = {"type": "refusal", "refusal": answer.refusal}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "status": "incomplete" if _incomplete_reason(answer) else "completed",
        "role": "assistant",
        "content": [refusal if answer.refusal else text],
    }


def _call_item(call: ToolCall, number: int, position: int) -> dict[str, Any]:
    return {
        "id": f"fc_{number}_{position}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        **call.extra,
    }


def _incomplete_reason(answer: ScriptedAnswer) -> str | None:
    if answer.filtered:
        return "content_filter"
    return "max_output_tokens" if answer.response.finish_reason == "length" else None


def _unfinished(answer: ScriptedAnswer, request: RecordedRequest, number: int) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED_AT,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": answer.response.model or request.model,
        "output": [],
        "usage": None,
        "user": None,
        **{name: request.json.get(name, default) for name, default in _ECHOED_SETTINGS.items()},
    }


def _responses_usage(usage: Usage) -> dict[str, Any] | None:
    if usage.unreported:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def gemini_body(answer: ScriptedAnswer, request: RecordedRequest, number: int) -> dict[str, Any]:
    """The body of an answer that is not streamed, in Gemini's protocol."""
    parts = _gemini_parts(answer, number)
    return _gemini_chunk(answer, request, number, parts, is_last=True)


def gemini_chunks(answer: ScriptedAnswer, request: RecordedRequest, number: int) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed answer in Gemini's protocol: whole responses with the next parts."""
    for part in _gemini_parts(answer, number):
        texts = split_words(part["text"]) if "text" in part else []
        for piece in texts:
            yield _gemini_chunk(answer, request, number, [{**part, "text": piece}], is_last=False)
        if not texts:
            yield _gemini_chunk(answer, request, number, [part], is_last=False)
    yield _gemini_chunk(answer, request, number, [], is_last=True)


def is_gemini_delta(chunk: Mapping[str, Any]) -> bool:
    """Whether a chunk contains a part of the answer."""
    return "finishReason" not in chunk["candidates"][0]


def _gemini_parts(answer: ScriptedAnswer, number: int) -> list[dict[str, Any]]:
    message = answer.response.message
    signature = {"thoughtSignature": b64encode(f"signature {number}".encode()).decode("ascii")}
    parts: list[dict[str, Any]] = [{"text": message.reasoning, "thought": True}] if message.reasoning else []
    has_thought = bool(message.reasoning or answer.response.usage.reasoning_tokens)
    if message.text:
        parts.append({"text": message.text, **(signature if has_thought and not message.tool_calls else {})})
    for position, call in enumerate(message.tool_calls):
        function = {"id": call.id, "name": call.name, "args": _input(call.arguments)}
        parts.append({"functionCall": function, **({} if position else signature), **call.extra})
    return parts


def _gemini_chunk(
    answer: ScriptedAnswer, request: RecordedRequest, number: int, parts: list[dict[str, Any]], *, is_last: bool
) -> dict[str, Any]:
    is_blocked = answer.filtered or bool(answer.refusal)
    reason = "SAFETY" if is_blocked else _GEMINI_REASONS.get(answer.response.finish_reason, "STOP")
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    return {
        "candidates": [{**candidate, **({"finishReason": reason} if is_last else {})}],
        "modelVersion": answer.response.model or request.model,
        "responseId": f"resp_{number}",
        **_gemini_usage(answer.response.usage),
    }


_GEMINI_REASONS = {"length": "MAX_TOKENS"}


def _gemini_usage(usage: Usage) -> dict[str, Any]:
    """The usage in Gemini's format, in which thoughts are counted apart from the output."""
    if usage.unreported:
        return {}
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "totalTokenCount": usage.total_tokens,
    }
    return {"usageMetadata": counts}


PATH = "/embeddings"
_MAX_TEXTS = 2_048


def embeddings_reply(request: RecordedRequest) -> ScriptedReply:
    """Embed the texts in a request, or return an error if the request is invalid."""
    import json

    texts = request.json.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        return fail(400, "'$.input' is invalid. Please check the API reference.", parameter="input")
    if len(texts) > _MAX_TEXTS:
        answered = (
            f"Invalid 'input': array too long. Expected at most {_MAX_TEXTS} entries, but got {len(texts)} instead."
        )
        return fail(400, answered, code="array_above_max_length", parameter="input")
    length = request.json.get("dimensions", VECTOR_LENGTH)
    if not isinstance(length, int) or length < 1:
        return fail(400, f"Invalid value for 'dimensions' = {length}. Must be 1 or more.", parameter="dimensions")
    body = json.dumps(_answer(texts, length, request)).encode()
    return ScriptedReply(Raw((body,), 200, {"Content-Type": "application/json"}))


def _answer(texts: list[str], length: int, request: RecordedRequest) -> Mapping[str, Any]:
    is_packed = request.json.get("encoding_format") == "base64"
    vectors = [deterministic_vector(text, length) for text in texts]
    data = [
        {"object": "embedding", "index": index, "embedding": _pack(vector) if is_packed else vector}
        for index, vector in enumerate(vectors)
    ]
    tokens = sum(map(count_words, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.model, "usage": usage}


def _pack(vector: list[float]) -> str:
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
