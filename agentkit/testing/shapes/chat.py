"""How does an OpenAI server shape an answer over Chat Completions? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentkit.messages import AssistantMessage, ToolCall
from agentkit.testing.recorded import RecordedRequest
from agentkit.testing.replies import CREATED_AT, Answer
from agentkit.testing.script import pieces
from agentkit.usage import Usage

_HARMLESS = {
    category: {"filtered": False, "severity": "safe"} for category in ("hate", "self_harm", "sexual", "violence")
}


def completion(answer: Answer, request: RecordedRequest, number: int) -> dict[str, Any]:
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
    shared = _shared(answer, request, number, "chat.completion")
    return {**shared, "choices": [choice], **_prompt_filter(request), **_usage(answer.response.usage)}


def chunks(answer: Answer, request: RecordedRequest, number: int) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed answer: role, deltas, finish reason, and usage when it was asked for."""
    options, usage = request.json.get("stream_options"), answer.response.usage
    wants_usage = bool(options and options.get("include_usage")) and not usage.unreported
    shared = _shared(answer, request, number, "chat.completion.chunk") | ({"usage": None} if wants_usage else {})
    if request.is_azure:
        yield {**shared, "id": "", "model": "", "choices": [], **_prompt_filter(request)}
    for delta in _deltas(answer):
        yield {**shared, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}
    ending = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _finish_reason(answer)}
    yield {**shared, "choices": [ending]}
    if wants_usage:
        yield {**shared, "choices": [], **_usage(usage)}


def is_delta(chunk: Mapping[str, Any]) -> bool:
    """Whether a chunk carries a piece of the answer: not the role, the finish reason, or the usage."""
    choices = chunk["choices"]
    return bool(choices) and choices[0]["finish_reason"] is None and "role" not in choices[0]["delta"]


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    message = answer.response.message
    only_calls = message.tool_calls and not message.text
    yield {"role": "assistant", "content": None if only_calls else "", "refusal": None, **message.extra}
    for name, text in _texts(message, answer.refusal).items():
        for piece in pieces(text):
            yield {name: piece}
    for index, call in enumerate(message.tool_calls):
        whole = _tool_call(call)
        yield {"tool_calls": [{"index": index, **whole, "function": {"name": call.name, "arguments": ""}}]}
        for piece in pieces(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _texts(message: AssistantMessage, refusal: str) -> dict[str, str]:
    return {"reasoning_content": message.reasoning, "content": message.text, "refusal": refusal}


def _tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function, **call.extra}


def _finish_reason(answer: Answer) -> str:
    return "content_filter" if answer.filtered else answer.response.finish_reason


def _shared(answer: Answer, request: RecordedRequest, number: int, kind: str) -> dict[str, Any]:
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


def _usage(usage: Usage) -> dict[str, Any]:
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
