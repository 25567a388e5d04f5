"""The Responses protocol of OpenAI and Azure, used without storage at the server (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.wire import reading
from agentkit.llm.wire.failures import FILTERED, cut_short, declined, failure, filtered, raise_error_inside
from agentkit.llm.wire.writing import Written
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolMessage, UserMessage
from agentkit.parts import File, Image, worded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentkit.events import Event
    from agentkit.messages import Content, FinishReason, Message, OutputSchema, Request, ToolSpec
    from agentkit.usage import Usage

_ITEMS = "output"
"""The key in `AssistantMessage.extra` under which the output items stand as they came."""

_RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
_NESTED = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}
_FINISHED = {"completed", "complete", "done"}
_ENDINGS = {
    "response.completed",
    "response.done",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
}


class Responses:
    """The protocol whose reasoning items travel with the conversation."""

    name = "responses"
    path = "/responses"
    headers: Mapping[str, str] = {}
    streaming: Mapping[str, Any] = {"stream": True}

    def encode(self, request: Request, model: str, *, strict: bool, before: Written | None = None) -> dict[str, Any]:
        """The request as the body of a POST to `path`. Reasoning is asked for encrypted, since nothing is stored."""
        before = before or Written()
        body: dict[str, Any] = {
            "model": model,
            "input": before.entries(request.messages, _encode_message),
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if request.instruction:
            body["instructions"] = reading.well_formed(request.instruction)
        if request.tools:
            body["tools"] = before.entries(request.tools, _strict_tool if strict else _plain_tool)
        if request.output_schema:
            body["text"] = {"format": _format(request.output_schema)}
        for name, value in request.settings.items():
            _set(body, name, value)
        return body

    def decode(self, data: Mapping[str, Any]) -> Response:
        """The response in a whole body. Raises ModelError when there is none."""
        raise_error_inside(data)
        items = data.get("output")
        if not isinstance(items, list):
            raise BadResponse(f"The answer has no output: {str(data)[:200]}")
        return _response(data, items)

    def reader(self) -> _Reader:
        """A reader for one streamed response."""
        return _Reader()


def _set(body: dict[str, Any], name: str, value: object) -> None:
    """Enter a setting under its name in this protocol, beside what is there already."""
    outer, inner = _NESTED.get(name, (_RENAMED.get(name, name), ""))
    value = {inner: value} if inner else value
    if outer == "tool_choice" and isinstance(value, str) and value not in {"auto", "none", "required"}:
        value = {"type": "function", "name": value}
    there = body.get(outer)
    if isinstance(there, dict) and isinstance(value, dict):
        value = {**there, **value}
    elif isinstance(there, list) and isinstance(value, list):
        value = [*there, *(entry for entry in value if entry not in there)]
    body[outer] = value


def _plain_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    return (_function(tool, tool.parameters, strict=False),)


def _strict_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    if tool.strict_parameters is None:
        return _plain_tool(tool)
    return (_function(tool, tool.strict_parameters, strict=True),)


def _function(tool: ToolSpec, parameters: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    """`strict` is always said, because this protocol takes silence for yes."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": strict,
    }


def _format(output: OutputSchema) -> dict[str, Any]:
    strict = {"strict": True} if output.strict else {}
    return {"type": "json_schema", "name": output.name, "schema": output.schema, **strict}


def _encode_message(message: Message) -> list[dict[str, Any]]:
    match message:
        case UserMessage(content):
            return [{"role": "user", "content": _encode_content(content)}]
        case AssistantMessage():
            return _encode_answer(message)
        case ToolMessage(call_id):
            return [{"type": "function_call_output", "call_id": call_id, "output": _encode_content(message.shown)}]
    return [{"role": "system", "content": reading.well_formed(message.text)}]


def _encode_content(content: Content) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return reading.well_formed(content)
    return [_encode_part(worded(part)) for part in content]


def _encode_part(part: str | Image | File) -> dict[str, Any]:
    if isinstance(part, str):
        return _encode_text(part)
    return _encode_image(part) if isinstance(part, Image) else _encode_file(part)


def _encode_text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": reading.well_formed(text)}


def _encode_image(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": image.url, "detail": image.detail or "auto"}


def _encode_file(file: File) -> dict[str, Any]:
    """OpenAI refuses recordings here; what speaks its protocol may take them."""
    if file.sound:
        return {"type": "input_audio", "input_audio": {"data": file.url.partition(",")[2], "format": file.sound}}
    if not file.media_type:
        return {"type": "input_file", "file_url": file.url}
    return {"type": "input_file", "filename": file.file_name, "file_data": file.url}


def _encode_answer(message: AssistantMessage) -> list[dict[str, Any]]:
    """The items as they came, with the ids that the calls have now; rebuilt when they do not say the same any more."""
    items = message.extra.get(_ITEMS, ())
    if items and _said(items)[0] == message.text and sum(map(_is_call, items)) == len(message.tool_calls):
        calls = iter(message.tool_calls)
        return [{**item, **_call_fields(next(calls))} if _is_call(item) else item for item in items]
    text = [{"role": "assistant", "content": reading.well_formed(message.text)}] if message.text else []
    return text + [{"type": "function_call", **_call_fields(call)} for call in message.tool_calls]


def _call_fields(call: ToolCall) -> dict[str, Any]:
    arguments = reading.sendable_arguments(call.arguments)
    return {"call_id": call.id, "name": reading.sendable_name(call.name), "arguments": arguments}


def _is_call(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == "function_call"


def _usage(data: Mapping[str, Any]) -> Usage:
    names, details = ("input_tokens", "output_tokens"), ("input_tokens_details", "output_tokens_details")
    return reading.usage_of(data.get("usage"), names, details)


def _response(data: Mapping[str, Any], items: Sequence[Any]) -> Response:
    finish = _finish_reason(data)
    text, refusal = _said(items)
    if refusal:
        raise declined(refusal)
    calls = [_read_call(item) for item in items if _is_call(item)]
    if calls and finish == "stop":
        finish = "tool_calls"
    message = reading.assistant_message(text, calls, _reasoning(items), {_ITEMS: tuple(items)})
    return Response(message, finish, _usage(data), reading.word(data.get("model")), reading.well_formed_json(data))


def _finish_reason(data: Mapping[str, Any]) -> FinishReason:
    """How the answer ended. Raises ModelError when it did not end well."""
    status = reading.word(data.get("status")) or "completed"
    if data.get("error"):
        raise failure(data)
    if status in _FINISHED:
        return "stop"
    if status != "incomplete":
        raise BadResponse(f"The provider did not finish the answer: it is marked {status!r}. Try again.")
    if reading.dictionary(data.get("incomplete_details")).get("reason") == FILTERED:
        raise filtered()
    return "length"


def _said(items: Iterable[Any]) -> tuple[str, str]:
    """The text of all messages, and the refusal if there is one."""
    messages = (item for item in items if isinstance(item, dict) and item.get("type", "message") == "message")
    contents = [message.get("content") for message in messages]
    parts = [part for content in contents for part in reading.dictionaries(content)]
    refusal = "".join(reading.word(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    return "".join(reading.text_of(content) for content in contents), refusal


def _read_call(item: Mapping[str, Any]) -> ToolCall:
    call_id = reading.word(item.get("call_id") or item.get("id"))
    return ToolCall(call_id, reading.word(item.get("name")), reading.arguments_text(item.get("arguments")))


def _reasoning(items: Iterable[Any]) -> str:
    reasoning = [item for item in items if isinstance(item, dict) and item.get("type") == "reasoning"]
    return "\n".join(filter(None, (reading.text_of(item.get("summary") or item.get("content")) for item in reasoning)))


class _Reader:
    """Collects the events of one response."""

    def __init__(self) -> None:
        self._text, self._reasoning, self._refusal = reading.Pieces(), reading.Pieces(), reading.Pieces()
        self._calls: dict[str, reading.Pieces] = {}
        self._begun: dict[str, dict[str, Any]] = {}
        self._done: dict[str, dict[str, Any]] = {}
        self._final: Mapping[str, Any] | None = None
        self._feeds: dict[str, Callable[[Mapping[str, Any]], Event | None]] = {
            "response.output_text.delta": self._feed_text,
            "response.reasoning_summary_text.delta": self._feed_reasoning,
            "response.reasoning_text.delta": self._feed_reasoning,
            "response.refusal.delta": self._feed_refusal,
            "response.function_call_arguments.delta": self._feed_arguments,
            "response.function_call_arguments.done": self._end_arguments,
            "response.output_item.added": self._begin_item,
            "response.output_item.done": self._end_item,
            **dict.fromkeys(_ENDINGS, self._end),
        }

    @property
    def is_whole(self) -> bool:
        """Whether nothing can follow."""
        return self._final is not None

    @property
    def is_answered(self) -> bool:
        """Whether the answer is complete: the event that says so brings the token counts too."""
        return self.is_whole

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk. Raises ModelError when it is an error."""
        kind = reading.word(chunk.get("type"))
        if kind in self._feeds:
            event = self._feeds[kind](chunk)
            return () if event is None else (event,)
        if not kind.startswith("response.") or kind == "response.error":
            raise_error_inside(chunk)
        return ()

    def _feed_text(self, chunk: Mapping[str, Any]) -> Event | None:
        text = self._text.add(reading.text_of(chunk.get("delta")))
        return TextDelta(text) if text else None

    def _feed_reasoning(self, chunk: Mapping[str, Any]) -> Event | None:
        text = self._reasoning.add(reading.text_of(chunk.get("delta")))
        return ReasoningDelta(text) if text else None

    def _feed_refusal(self, chunk: Mapping[str, Any]) -> Event | None:
        self._refusal.add(reading.text_of(chunk.get("delta")))
        return None

    def _feed_arguments(self, chunk: Mapping[str, Any]) -> Event | None:
        place = _place(chunk)
        arguments = self._calls.setdefault(place, reading.Pieces()).add(reading.text_of(chunk.get("delta")))
        return ToolCallDelta(list(self._calls).index(place), "", arguments)

    def _end_arguments(self, chunk: Mapping[str, Any]) -> Event | None:
        whole = reading.Pieces()
        whole.add(reading.arguments_text(chunk.get("arguments")))
        if whole:
            self._calls[_place(chunk)] = whole
        return None

    def _begin_item(self, chunk: Mapping[str, Any]) -> Event | None:
        if not _is_call(chunk.get("item")):
            return None
        place = _place(chunk)
        self._calls[place], self._begun[place] = reading.Pieces(), chunk["item"]
        return ToolCallDelta(list(self._calls).index(place), reading.word(chunk["item"].get("name")), "")

    def _end_item(self, chunk: Mapping[str, Any]) -> Event | None:
        if isinstance(item := chunk.get("item"), dict):
            self._done[_place(chunk)] = item
        return None

    def _end(self, chunk: Mapping[str, Any]) -> Event | None:
        status = chunk["type"].removeprefix("response.")
        self._final = {"status": status, **reading.dictionary(chunk.get("response"))}
        return None

    def finish(self, *, closed: bool) -> Response:
        """The whole response. Raises BadResponse when the stream was cut short."""
        if self._final is None and closed:
            raise BadResponse("The stream ended without the event that completes the answer.")
        if self._final is None:
            raise cut_short(len(str(self._text)))
        return _response(self._final, self._items(self._final.get("output")))

    def _items(self, output: object) -> list[dict[str, Any]]:
        """The output items: those that the last event has, or else those that came before it, or were begun."""
        items = reading.dictionaries(output) or [item for _, item in sorted(self._done.items(), key=_in_order)]
        if not any(map(_is_call, items)):
            items += filter(_is_call, (self._whole(place) for place in self._begun))
        if not any(_said(items)) and (self._text or self._refusal):
            text = {"type": "output_text", "text": str(self._text)}
            parts = [{"type": "refusal", "refusal": str(self._refusal)}] if self._refusal else [text]
            items.append({"type": "message", "role": "assistant", "content": parts})
        return items

    def _whole(self, place: str) -> dict[str, Any]:
        """What became of a call that was begun: some servers end one that they made themselves as something else."""
        begun = {**self._begun[place], "arguments": str(self._calls[place]), "status": "completed"}
        return self._done.get(place, begun)


def _in_order(entry: tuple[str, object]) -> tuple[int, str]:
    """What puts output items into the order of their indexes; those without one stay as they came."""
    place = entry[0]
    return (len(place), place) if place.isdecimal() else (0, "")


def _place(chunk: Mapping[str, Any]) -> str:
    """What tells the output items of a stream apart: their index, or else their id."""
    item_id = chunk.get("item_id") or reading.dictionary(chunk.get("item")).get("id")
    return reading.word(chunk.get("output_index", item_id))
