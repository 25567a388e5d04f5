"""The bytes of answers: Chat Completions and Responses, whole or streamed, with headers of realistic size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from benchmarks.server.script import Script

MODEL = "gpt-4.1-mini-2025-04-14"
_CREATED = 1_795_305_600
_WORD = "word"
_HEADERS = """\
Date: Sun, 22 Nov 2026 12:00:00 GMT
Connection: keep-alive
access-control-expose-headers: X-Request-ID
openai-organization: org-0123456789abcdefghijklmn
openai-processing-ms: 412
openai-project: proj_0123456789abcdefghijklmn
openai-version: 2020-10-01
x-envoy-upstream-service-time: 431
x-ratelimit-limit-requests: 30000
x-ratelimit-limit-tokens: 150000000
x-ratelimit-remaining-requests: 29999
x-ratelimit-remaining-tokens: 149999987
x-ratelimit-reset-requests: 2ms
x-ratelimit-reset-tokens: 0s
x-request-id: req_0123456789abcdef0123456789abcdef
cf-cache-status: DYNAMIC
Set-Cookie: __cf_bm=0123456789abcdefghijklmnopqrstuvwxyz.ABCDEFGHIJKLMNOP-1795305600-1.0.1.1-0123456789abcdefghij\
klmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz; path=/; expires=Sun, 22-Nov-26 12:30:00 GMT; HttpOnly
Set-Cookie: _cfuvid=0123456789abcdefghijklmnopqrstuvwxyz-1795305600000-0.0.1.1-604800000; path=/; HttpOnly
Strict-Transport-Security: max-age=31536000; includeSubDomains; preload
X-Content-Type-Options: nosniff
Server: cloudflare
CF-RAY: 0123456789abcdef-AMS
alt-svc: h3=":443"; ma=86400
"""
_CHAT_USAGE = {
    "prompt_tokens": 61,
    "completion_tokens": 12,
    "total_tokens": 73,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
_RESPONSES_USAGE = {
    "input_tokens": 61,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 73,
}


class ResponseFormat(NamedTuple):
    """The requested format of an answer."""

    is_responses: bool
    is_streamed: bool
    includes_usage: bool


@cache
def answer(script: Script, turn: int, format_: ResponseFormat) -> bytes:
    """Head and body of the answer after a number of turns; cached."""
    if not format_.is_streamed:
        make = _response if format_.is_responses else _completion
        return whole(json.dumps(make(script, turn), indent=2).encode())
    frames = _response_frames(script, turn) if format_.is_responses else _completion_frames(script, turn, format_)
    head = _head("200 OK", "Transfer-Encoding: chunked\r\nContent-Type: text/event-stream; charset=utf-8\r\n")
    return head + b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames) + b"0\r\n\r\n"


def whole(body: bytes, status: str = "200 OK") -> bytes:
    """Head and body of a JSON answer."""
    return _head(status, f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n") + body


@cache
def page() -> bytes:
    """Head and body of a page of 20 KB."""
    paragraphs = "".join(f"<p>Paragraph {number} says <a href='/{number}'>this</a>.</p>\n" for number in range(400))
    body = f"<!doctype html><html><head><title>A page</title></head><body>{paragraphs}</body></html>".encode()
    return _head("200 OK", f"Content-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n") + body


def failure(text: str, status: str = "400 Bad Request") -> bytes:
    """Head and body of an error in OpenAI's format."""
    error = {"message": text, "type": "invalid_request_error", "param": None, "code": None}
    return whole(json.dumps({"error": error}).encode(), status)


def _head(status: str, own: str) -> bytes:
    return f"HTTP/1.1 {status}\r\n{own}{_HEADERS}\n".replace("\r\n", "\n").replace("\n", "\r\n").encode()


def _calls(script: Script, turn: int) -> list[tuple[str, str, str]]:
    """The calls of a turn: id, name, arguments."""
    if turn == script.turns:
        final = (f"call_final{turn:014}", script.final, json.dumps({"answer": _text(script)}))
        return [final] if script.final else []
    numbers = range(turn * script.width, (turn + 1) * script.width)
    return [(f"call_{number:020}", script.tool, json.dumps({"number": number})) for number in numbers]


def _text(script: Script) -> str:
    return " ".join([_WORD] * script.words)


def _pieces(script: Script) -> Iterator[str]:
    yield _WORD
    yield from (f" {_WORD}" for _ in range(script.words - 1))


def _completion(script: Script, turn: int) -> dict[str, Any]:
    calls = _chat_calls(script, turn)
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else _text(script)}
    message |= {"tool_calls": calls} if calls else {}
    message |= {"refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop"}
    return {
        **_chat_envelope("chat.completion", turn),
        "choices": [choice],
        "usage": _CHAT_USAGE,
    }


def _completion_frames(script: Script, turn: int, format_: ResponseFormat) -> Iterator[bytes]:
    shared = _chat_envelope("chat.completion.chunk", turn)
    usage = {"usage": None} if format_.includes_usage else {}

    def frame(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return _frame({**shared, "choices": [choice], **usage, "obfuscation": "aB3dE6gH9"})

    calls = _chat_calls(script, turn)
    yield frame({"role": "assistant", "content": None if calls else "", "refusal": None})
    for index, call in enumerate(calls):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield frame({"tool_calls": [{"index": index, **call, "function": function}]})
        yield frame({"tool_calls": [{"index": index, "function": {"arguments": call["function"]["arguments"]}}]})
    if not calls:
        yield from (frame({"content": piece}) for piece in _pieces(script))
    yield frame({}, "tool_calls" if calls else "stop")
    if format_.includes_usage:
        yield _frame({**shared, "choices": [], "usage": _CHAT_USAGE})
    yield b"data: [DONE]\n\n"


def _chat_envelope(kind: str, turn: int) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{turn:029}",
        "object": kind,
        "created": _CREATED,
        "model": MODEL,
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
    }


def _chat_calls(script: Script, turn: int) -> list[dict[str, Any]]:
    return [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id_, name, arguments in _calls(script, turn)
    ]


def _response(script: Script, turn: int, *, done: bool = True) -> dict[str, Any]:
    return {
        "id": f"resp_{turn:048}",
        "object": "response",
        "created_at": _CREATED,
        "status": "completed" if done else "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": MODEL,
        "output": _items(script, turn) if done else [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _RESPONSES_USAGE if done else None,
        "user": None,
        "metadata": {},
    }


def _items(script: Script, turn: int) -> list[dict[str, Any]]:
    calls = [
        {
            "id": f"fc_{number:048}",
            "type": "function_call",
            "status": "completed",
            "arguments": arguments,
            "call_id": id_,
            "name": name,
        }
        for number, (id_, name, arguments) in enumerate(_calls(script, turn))
    ]
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": _text(script)}
    shared = {"id": f"msg_{turn:048}", "type": "message", "status": "completed"}
    return calls or [{**shared, "role": "assistant", "content": [part]}]


def _response_frames(script: Script, turn: int) -> Iterator[bytes]:
    """The numbered events of a streamed response."""
    for number, (kind, rest) in enumerate(_response_events(script, turn)):
        yield f"event: {kind}\n".encode() + _frame({"type": kind, "sequence_number": number, **rest})


def _response_events(script: Script, turn: int) -> Iterator[tuple[str, dict[str, Any]]]:
    begun = {"response": _response(script, turn, done=False)}
    yield "response.created", begun
    yield "response.in_progress", begun
    for index, item in enumerate(_items(script, turn)):
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "function_call":
            yield "response.output_item.added", {"output_index": index, "item": {**item, "arguments": ""}}
            yield "response.function_call_arguments.delta", {**place, "delta": item["arguments"], "obfuscation": "a1"}
            yield "response.function_call_arguments.done", {**place, "arguments": item["arguments"]}
        else:
            yield "response.output_item.added", {"output_index": index, "item": {**item, "content": []}}
            yield from _text_events(script, {**place, "content_index": 0}, item["content"][0])
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield "response.completed", {"response": _response(script, turn)}


def _text_events(script: Script, place: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
    for piece in _pieces(script):
        yield "response.output_text.delta", {**place, "delta": piece, "logprobs": [], "obfuscation": "aB3dE6gH9"}
    yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**place, "part": part}


def _frame(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n".encode()
