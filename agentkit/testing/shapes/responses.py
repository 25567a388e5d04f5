"""How does an OpenAI server shape an answer over Responses? Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from agentkit.messages import ToolCall
from agentkit.testing.recorded import RecordedRequest
from agentkit.testing.replies import CREATED_AT, Answer
from agentkit.testing.script import pieces
from agentkit.usage import Usage

_ECHOED: Mapping[str, Any] = {
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
"""Settings that an answer repeats, with their values when the request did not set them."""

Event = dict[str, Any]


def response(answer: Answer, request: RecordedRequest, number: int) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    reason = _incomplete_reason(answer)
    return {
        **_unfinished(answer, request, number),
        "status": "incomplete" if reason else "completed",
        "completed_at": None if reason else CREATED_AT,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": _items(answer, number),
        "usage": _usage(answer.response.usage),
    }


def events(answer: Answer, request: RecordedRequest, number: int) -> Iterator[Event]:
    """The events of a streamed answer, numbered, from `response.created` to `response.completed`."""
    for position, event in enumerate(_events(answer, request, number)):
        yield {**event, "sequence_number": position}


def is_delta(event: Mapping[str, Any]) -> bool:
    """Whether an event carries a piece of the answer."""
    return str(event["type"]).endswith(".delta")


def _events(answer: Answer, request: RecordedRequest, number: int) -> Iterator[Event]:
    whole, unfinished = response(answer, request, number), _unfinished(answer, request, number)
    yield {"type": "response.created", "response": unfinished}
    yield {"type": "response.in_progress", "response": unfinished}
    for index, item in enumerate(whole["output"]):
        begun = {**item, "status": "in_progress", **{name: type(item[name])() for name in _GROWING[item["type"]]}}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        for event in _ITEM_EVENTS[item["type"]](item):
            yield {"item_id": item["id"], "output_index": index, **event}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _reasoning_events(item: Mapping[str, Any]) -> Iterator[Event]:
    for at, part in enumerate(item["summary"]):
        place = {"summary_index": at}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def _message_events(item: Mapping[str, Any]) -> Iterator[Event]:
    for at, part in enumerate(item["content"]):
        field = "refusal" if part["type"] == "refusal" else "text"
        place: Event = {"content_index": at} | ({"logprobs": []} if field == "text" else {})
        kind = f"response.{part['type']}"
        yield {"type": "response.content_part.added", "content_index": at, "part": {**part, field: ""}}
        for piece in pieces(part[field]):
            yield {"type": f"{kind}.delta", **place, "delta": piece}
        yield {"type": f"{kind}.done", **place, field: part[field]}
        yield {"type": "response.content_part.done", "content_index": at, "part": part}


def _call_events(item: Mapping[str, Any]) -> Iterator[Event]:
    for piece in pieces(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    yield {"type": "response.function_call_arguments.done", "name": item["name"], "arguments": item["arguments"]}


_ITEM_EVENTS = {"reasoning": _reasoning_events, "message": _message_events, "function_call": _call_events}
_GROWING = {"reasoning": ("summary",), "message": ("content",), "function_call": ("arguments",)}
"""The fields of an item that are empty when it begins."""


def _items(answer: Answer, number: int) -> list[dict[str, Any]]:
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


def _message_item(answer: Answer, number: int) -> dict[str, Any]:
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


def _incomplete_reason(answer: Answer) -> str | None:
    if answer.filtered:
        return "content_filter"
    return "max_output_tokens" if answer.response.finish_reason == "length" else None


def _unfinished(answer: Answer, request: RecordedRequest, number: int) -> dict[str, Any]:
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
        **{name: request.json.get(name, default) for name, default in _ECHOED.items()},
    }


def _usage(usage: Usage) -> dict[str, Any] | None:
    if usage.unreported:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }
