"""How does Anthropic's server shape an answer over Messages? Pure."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from agentkit.messages import ToolCall
from agentkit.testing.recorded import RecordedRequest
from agentkit.testing.replies import Answer
from agentkit.testing.script import pieces
from agentkit.usage import Usage

Event = dict[str, Any]

_FINISHED = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def message(answer: Answer, request: RecordedRequest, number: int) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    is_refused = bool(answer.refusal) or answer.filtered
    details = {"type": "refusal", "category": None, "explanation": answer.refusal or None}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": answer.response.model or request.model,
        "content": _blocks(answer, number),
        "stop_reason": "refusal" if is_refused else _FINISHED[answer.response.finish_reason],
        "stop_sequence": None,
        "stop_details": details if is_refused else None,
        "usage": _usage(answer.response.usage),
    }


def events(answer: Answer, request: RecordedRequest, number: int) -> Iterator[Event]:
    """The events of a streamed answer, from `message_start` to `message_stop`."""
    whole = message(answer, request, number)
    stop = {name: whole[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    begun = {**whole, **dict.fromkeys(stop), "content": []}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    calls = iter(answer.response.tool_calls)
    for index, block in enumerate(whole["content"]):
        written = next(calls).arguments if block["type"] == "tool_use" else ""
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **_EMPTY[block["type"]]}}
        for delta in _deltas(block, written):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": stop, "usage": whole["usage"]}
    yield {"type": "message_stop"}


def is_delta(event: Mapping[str, Any]) -> bool:
    """Whether an event carries a piece of the answer."""
    return bool(event["type"] == "content_block_delta")


_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
"""The fields of a block that are empty when it begins."""


def _blocks(answer: Answer, number: int) -> list[dict[str, Any]]:
    said, usage = answer.response.message, answer.response.usage
    blocks: list[dict[str, Any]] = []
    if said.reasoning or usage.reasoning_tokens:
        signature = b64encode(f"signature {number}".encode()).decode("ascii")
        blocks.append({"type": "thinking", "thinking": said.reasoning, "signature": signature})
    if said.text:
        blocks.append({"type": "text", "text": said.text, "citations": None})
    return blocks + [_call_block(call) for call in said.tool_calls]


def _call_block(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments), **call.extra}


def _input(arguments: str) -> object:
    """What a call is made with; the text itself where it is no JSON."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def _deltas(block: Mapping[str, Any], written: str) -> Iterator[dict[str, Any]]:
    """The pieces of a block, the arguments of a call as they were written."""
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(written)))


def _usage(usage: Usage) -> dict[str, Any] | None:
    """The figures, of which those of the cache are no part of the input here."""
    if usage.unreported:
        return None
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.written_tokens,
        "cache_creation_input_tokens": usage.written_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }
