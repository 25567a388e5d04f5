"""The Responses protocol of OpenAI and Azure, used without storage at the server (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.wire import reading
from agentkit.llm.wire.failures import failure, raise_error_inside
from agentkit.messages import AssistantMessage, Image, Response, SystemMessage, ToolCall, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentkit.events import Event
    from agentkit.messages import Content, FinishReason, Message, Request, ToolSpec
    from agentkit.usage import Usage

_ITEMS = "output"
"""The key in `AssistantMessage.extra` under which the output items stand as they came."""

_RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
_NESTED = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}


class Responses:
    """The protocol whose reasoning items travel with the conversation."""

    name = "responses"
    path = "/responses"

    def encode(self, request: Request, model: str, *, strict: bool) -> dict[str, Any]:
        """The request as the body of a POST to `path`. Reasoning is asked for encrypted, since nothing is stored."""
        items = [item for message in request.messages for item in _encode_message(message)]
        body: dict[str, Any] = {
            "model": model,
            "input": items,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if request.instruction:
            body["instructions"] = request.instruction
        if request.tools:
            body["tools"] = [_function(tool, strict=strict) for tool in request.tools]
        if request.output_schema:
            output = request.output_schema
            schema = {"name": output.name, "schema": output.schema, "strict": output.strict}
            body["text"] = {"format": {"type": "json_schema", **schema}}
        for name, value in request.settings.items():
            _set(body, name, value)
        return body

    def decode(self, data: Mapping[str, Any]) -> Response:
        """The response in a whole body."""
        raise_error_inside(data)
        items = data.get("output")
        if not isinstance(items, list):
            raise BadResponse(f"The answer has no output: {str(data)[:200]}")
        return _response(data, items)

    def reader(self) -> _Reader:
        """A reader for one streamed response."""
        return _Reader()


def _set(body: dict[str, Any], name: str, value: object) -> None:
    if name in _NESTED:
        outer, inner = _NESTED[name]
        body[outer] = {**body.get(outer, {}), inner: value}
    elif name == "tool_choice" and isinstance(value, str) and value not in {"auto", "none", "required"}:
        body[name] = {"type": "function", "name": value}
    else:
        body[_RENAMED.get(name, name)] = value


def _function(tool: ToolSpec, *, strict: bool) -> dict[str, Any]:
    """`strict` is always said, because this protocol takes silence for yes."""
    strictly = strict and tool.strict_parameters is not None
    parameters = tool.strict_parameters if strictly else tool.parameters
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": strictly,
    }


def _encode_message(message: Message) -> list[dict[str, Any]]:
    match message:
        case UserMessage(content):
            return [{"role": "user", "content": _encode_content(content)}]
        case AssistantMessage():
            return _encode_answer(message)
        case ToolMessage(call_id, _, text):
            return [{"type": "function_call_output", "call_id": call_id, "output": text}]
        case SystemMessage(text):
            return [{"role": "system", "content": text}]


def _encode_content(content: Content) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return [
        _encode_image(part) if isinstance(part, Image) else {"type": "input_text", "text": part} for part in content
    ]


def _encode_image(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": image.url, "detail": image.detail or "auto"}


def _encode_answer(message: AssistantMessage) -> list[dict[str, Any]]:
    """The items as they came, with the ids that the calls have now; rebuilt when they came from elsewhere."""
    if _ITEMS in message.extra:
        ids = iter(message.tool_calls)
        return [_with_call_id(item, ids) if _is_call(item) else item for item in message.extra[_ITEMS]]
    text = [{"role": "assistant", "content": message.text}] if message.text else []
    return text + [_encode_call(call) for call in message.tool_calls]


def _with_call_id(item: Mapping[str, Any], calls: Iterator[ToolCall]) -> dict[str, Any]:
    call = next(calls)
    return {**item, "call_id": call.id, "arguments": reading.sendable_arguments(call.arguments)}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    arguments = reading.sendable_arguments(call.arguments)
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _is_call(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == "function_call"


def _usage(data: Mapping[str, Any]) -> Usage:
    names, details = ("input_tokens", "output_tokens"), ("input_tokens_details", "output_tokens_details")
    return reading.usage_of(data.get("usage"), names, details)


def _response(data: Mapping[str, Any], items: Sequence[Any]) -> Response:
    if data.get("status") in {"failed", "cancelled"}:
        raise failure(data)
    finish = _finish_reason(data)
    text, refusal = _said(items)
    if refusal:
        raise reading.refuse(refusal)
    calls = [_read_call(item) for item in items if _is_call(item)]
    if calls and finish == "stop":
        finish = "tool_calls"
    message = reading.assistant_message(text, calls, _reasoning(items), {_ITEMS: tuple(items)})
    return Response(message, finish, _usage(data), str(data.get("model") or ""), data)


def _finish_reason(data: Mapping[str, Any]) -> FinishReason:
    if data.get("status") != "incomplete":
        return "stop"
    details = data.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason == "content_filter":
        raise reading.filtered()
    return "length"


def _said(items: Iterable[Any]) -> tuple[str, str]:
    """The text of all messages, and the refusal if there is one."""
    parts = [
        part
        for item in items
        if isinstance(item, dict) and item.get("type", "message") == "message"
        for part in _parts(item.get("content"))
    ]
    refusal = "".join(str(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    return "".join(reading.text_of([part]) for part in parts), refusal


def _parts(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _read_call(item: Mapping[str, Any]) -> ToolCall:
    call_id = str(item.get("call_id") or item.get("id") or "")
    return ToolCall(call_id, str(item.get("name") or ""), reading.arguments_text(item.get("arguments")))


def _reasoning(items: Iterable[Any]) -> str:
    reasoning = [item for item in items if isinstance(item, dict) and item.get("type") == "reasoning"]
    return "\n".join(reading.text_of(item.get("summary") or item.get("content")) for item in reasoning)


class _Reader:
    """Collects the events of one response."""

    def __init__(self) -> None:
        self._items: dict[int, Any] = {}
        self._final: Mapping[str, Any] | None = None
        self._chars = 0

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk."""
        kind = str(chunk.get("type", ""))
        if kind == "response.output_text.delta":
            self._chars += len(chunk["delta"])
            return (TextDelta(chunk["delta"]),)
        if kind == "response.function_call_arguments.delta":
            return (ToolCallDelta(self._call_position(chunk), "", chunk["delta"]),)
        if kind in {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}:
            return (ReasoningDelta(chunk["delta"]),)
        return self._feed_item(kind, chunk)

    def _feed_item(self, kind: str, chunk: Mapping[str, Any]) -> Iterable[Event]:
        if kind in {"response.output_item.added", "response.output_item.done"}:
            self._items[chunk.get("output_index", len(self._items))] = chunk["item"]
            if kind.endswith("added") and _is_call(chunk["item"]):
                return (ToolCallDelta(self._call_position(chunk), chunk["item"].get("name") or "", ""),)
        elif kind in {"response.completed", "response.incomplete", "response.failed"}:
            self._final = chunk["response"]
        elif kind == "error" or "error" in chunk:
            raise failure(chunk)
        return ()

    def _call_position(self, chunk: Mapping[str, Any]) -> int:
        """Which of the calls, not which of the items, a chunk belongs to."""
        index = chunk.get("output_index", 0)
        return sum(_is_call(item) for at, item in self._items.items() if at < index)

    def finish(self, *, closed: bool) -> Response:  # noqa: ARG002 - this protocol marks its end with an event
        """The whole response."""
        if self._final is None:
            raise BadResponse(
                f"The stream was cut short after {self._chars} characters of text, before the server said that the "
                "answer was complete. Try again."
            )
        items = [self._items[at] for at in sorted(self._items)]
        return _response(self._final, items or self._final.get("output") or [])
