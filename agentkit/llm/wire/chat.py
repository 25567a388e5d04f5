"""The Chat Completions protocol, as OpenAI describes it and as real servers speak it (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.wire import reading
from agentkit.llm.wire.failures import failure, raise_error_inside
from agentkit.messages import AssistantMessage, Image, Response, SystemMessage, ToolCall, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from agentkit.events import Event
    from agentkit.messages import Content, FinishReason, Message, Request, ToolSpec
    from agentkit.usage import Usage

_KNOWN_MESSAGE_FIELDS = {"role", "content", "tool_calls", "refusal", "function_call", "name"}
_KNOWN_CALL_FIELDS = {"id", "type", "function", "index"}
_REASONING_FIELDS = {"reasoning_content", "reasoning"}
_FINISH_REASONS: dict[str, FinishReason] = {"length": "length", "max_tokens": "length", "model_length": "length"}
_MARKUP_OF_CALLS = {"index", "id", "type", "function"}


class ChatCompletions:
    """The protocol that nearly every server speaks."""

    name = "chat"
    path = "/chat/completions"

    def encode(self, request: Request, model: str, *, strict: bool) -> dict[str, Any]:
        """The request as the body of a POST to `path`."""
        messages = [encode_message(message) for message in request.messages]
        if request.instruction:
            messages.insert(0, {"role": "system", "content": request.instruction})
        body: dict[str, Any] = {"model": model, "messages": messages}
        if request.tools:
            body["tools"] = [{"type": "function", "function": _function(tool, strict=strict)} for tool in request.tools]
        if request.output_schema:
            output = request.output_schema
            schema = {"name": output.name, "schema": output.schema, "strict": output.strict}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        for name, value in request.settings.items():
            body[name] = _tool_choice(value) if name == "tool_choice" else value
        return body

    def decode(self, data: Mapping[str, Any]) -> Response:
        """The response in a whole body."""
        raise_error_inside(data)
        choices = data.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
            raise failure(data) if "message" in data else BadResponse(f"The answer has no choices: {str(data)[:200]}")
        message = choice["message"]
        if message.get("refusal"):
            raise reading.refuse(str(message["refusal"]))
        return _response(read_message(message), choice.get("finish_reason"), _usage(data, choice), data)

    def reader(self) -> _Reader:
        """A reader for one streamed response."""
        return _Reader()


def encode_message(message: Message) -> dict[str, Any]:
    """A message as a plain dictionary in the chat format."""
    match message:
        case UserMessage(content):
            return {"role": "user", "content": _encode_content(content)}
        case AssistantMessage():
            return _encode_answer(message)
        case ToolMessage(call_id, _, content):
            return {"role": "tool", "tool_call_id": call_id, "content": content}
        case SystemMessage(text):
            return {"role": "system", "content": text}


def _encode_content(content: Content) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return [_encode_image(part) if isinstance(part, Image) else {"type": "text", "text": part} for part in content]


def _encode_image(image: Image) -> dict[str, Any]:
    detail = {"detail": image.detail} if image.detail else {}
    return {"type": "image_url", "image_url": {"url": image.url, **detail}}


def _encode_answer(message: AssistantMessage) -> dict[str, Any]:
    """Reasoning goes back only beside tool calls: some servers demand it there and refuse it elsewhere."""
    extra = message.extra.items()
    kept = {name: value for name, value in extra if message.tool_calls or name not in _REASONING_FIELDS}
    body: dict[str, Any] = {"role": "assistant", "content": message.text or None, **kept}
    if message.tool_calls:
        body["tool_calls"] = [_encode_call(call) for call in message.tool_calls]
    elif not message.text:
        body["content"] = ""
    return body


def _encode_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": reading.sendable_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function, **call.extra}


def _function(tool: ToolSpec, *, strict: bool) -> dict[str, Any]:
    body = {"name": tool.name, "description": tool.description}
    if strict and tool.strict_parameters is not None:
        return {**body, "parameters": tool.strict_parameters, "strict": True}
    return {**body, "parameters": tool.parameters}


def _tool_choice(choice: object) -> object:
    if isinstance(choice, str) and choice not in {"auto", "none", "required"}:
        return {"type": "function", "function": {"name": choice}}
    return choice


def read_message(message: Mapping[str, Any]) -> AssistantMessage:
    """A model's message, in whatever shape; fields that are not ours are kept so that they can be sent back."""
    calls = message.get("tool_calls")
    whole = [_read_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if not whole and isinstance(message.get("function_call"), dict):
        whole = [_read_call({"function": message["function_call"]})]
    extra = {name: value for name, value in message.items() if name not in _KNOWN_MESSAGE_FIELDS and value}
    return reading.assistant_message(reading.text_of(message.get("content")), whole, _reasoning(message), extra)


def _read_call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    extra = {name: value for name, value in call.items() if name not in _KNOWN_CALL_FIELDS and value}
    arguments = reading.arguments_text(function.get("arguments"))
    return ToolCall(str(call.get("id") or ""), str(function.get("name") or ""), arguments, extra)


def _reasoning(message: Mapping[str, Any]) -> str:
    return reading.text_of(message.get("reasoning_content") or message.get("reasoning"))


def _usage(data: Mapping[str, Any], choice: Mapping[str, Any]) -> Usage:
    groq = data.get("x_groq")
    found = data.get("usage") or choice.get("usage") or (groq.get("usage") if isinstance(groq, dict) else None)
    names, details = ("prompt_tokens", "completion_tokens"), ("prompt_tokens_details", "completion_tokens_details")
    return reading.usage_of(found, names, details)


def _response(message: AssistantMessage, reason: object, usage: Usage, raw: Mapping[str, Any]) -> Response:
    if reason == "content_filter" and not message.tool_calls:
        raise reading.filtered()
    finish = _FINISH_REASONS.get(str(reason), "tool_calls" if message.tool_calls else "stop")
    return Response(message, finish, usage, str(raw.get("model") or ""), raw)


class _Reader:
    """Collects the deltas of one response."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._extra: dict[str, Any] = {}
        self._finish_reason: object = None
        self._ended = False
        self._usage: Mapping[str, Any] = {}
        self._choice: Mapping[str, Any] = {}
        self._raw: dict[str, Any] = {}

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk."""
        raise_error_inside(chunk)
        self._raw.update({name: value for name, value in chunk.items() if name != "choices"})
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if chunk.get("usage") or chunk.get("x_groq"):
            self._usage = chunk
            self._ended = self._ended or choice is None
        if not isinstance(choice, dict):
            if "choices" not in chunk and "message" in chunk:
                raise failure(chunk)
            return ()
        return self._feed_choice(choice)

    def _feed_choice(self, choice: Mapping[str, Any]) -> Iterator[Event]:
        self._choice = choice
        delta = choice.get("delta") or choice.get("message") or {}
        reason = choice.get("finish_reason")
        if reason or (reason == "" and not any(delta.get(name) for name in ("content", "tool_calls"))):
            self._finish_reason, self._ended = reason or self._finish_reason, True
        text = reading.text_of(delta.get("content"))
        if text:
            self._text.append(text)
            yield TextDelta(text)
        yield from self._feed_rest(delta)

    def _feed_rest(self, delta: Mapping[str, Any]) -> Iterator[Event]:
        for name, value in delta.items():
            if name == "tool_calls" and isinstance(value, list):
                for part in value:
                    yield self._feed_call(part)
            elif name == "refusal" and value:
                self._refusal.append(str(value))
            elif name not in _KNOWN_MESSAGE_FIELDS and value:
                self._extra[name] = _joined(self._extra.get(name), value)
        reasoning = _reasoning(delta)
        if reasoning:
            self._reasoning.append(reasoning)
            yield ReasoningDelta(reasoning)

    def _feed_call(self, part: Mapping[str, Any]) -> ToolCallDelta:
        function = part.get("function") or {}
        name, arguments = function.get("name") or "", reading.arguments_text(function.get("arguments"))
        position = self._position(part, name)
        if position == len(self._calls):
            self._calls.append({"index": part.get("index"), "id": "", "name": "", "arguments": "", "extra": {}})
        call = self._calls[position]
        call["id"] = call["id"] or part.get("id") or ""
        call["name"] = call["name"] or name
        call["arguments"] += arguments
        call["extra"] |= {key: value for key, value in part.items() if key not in _MARKUP_OF_CALLS and value}
        return ToolCallDelta(position, name, arguments)

    def _position(self, part: Mapping[str, Any], name: str) -> int:
        """Which call a piece belongs to. Indexes may be missing, and a second whole call may come under index 0."""
        index = part.get("index")
        if index is None:
            return len(self._calls) if name or not self._calls else len(self._calls) - 1
        same = [at for at, call in enumerate(self._calls) if call["index"] == index]
        if not same:
            return len(self._calls)
        call = self._calls[same[-1]]
        other_id = part.get("id") and part["id"] != call["id"]
        begins_anew = name and call["name"] and (other_id or reading.is_complete_json(call["arguments"]))
        return len(self._calls) if begins_anew else same[-1]

    def finish(self, *, closed: bool) -> Response:
        """The whole response."""
        if self._refusal:
            raise reading.refuse("".join(self._refusal))
        if not (self._ended or closed):
            raise BadResponse(
                f"The stream was cut short after {len(''.join(self._text))} characters of text, before the server "
                "said that the answer was complete. Try again."
            )
        if not self._raw and not self._text:
            raise BadResponse("The stream ended without an answer.")
        calls = [
            ToolCall(call["id"], call["name"], reading.arguments_text(call["arguments"]), call["extra"])
            for call in self._calls
        ]
        message = reading.assistant_message("".join(self._text), calls, "".join(self._reasoning), self._extra)
        return _response(message, self._finish_reason, _usage(self._usage, self._choice), self._raw)


def _joined(old: object, new: object) -> object:
    """Two pieces of a field that is not ours: texts and lists grow, anything else is replaced."""
    if isinstance(old, str) and isinstance(new, str):
        return old + new
    if isinstance(old, list) and isinstance(new, list):
        return old + new
    return new
