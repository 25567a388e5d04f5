"""The Responses protocol of OpenAI and Azure (pure).

Output items, including those of hosted tools, keep their order and are sent back unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.content import File, Image
from agentkit.errors import BadResponse
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.protocols import WireProtocol, parsing
from agentkit.llm.protocols.encoding import EncodedEntry, EncodingCache, PartEncoders
from agentkit.llm.protocols.error_mapping import (
    FILTERED,
    cut_short_error,
    error_from_body,
    filtered_error,
    missing_field_error,
    raise_error_in,
    refusal_error,
    unfinished_error,
)
from agentkit.llm.protocols.hosted_tools import declaration_of, raise_unanswerable, uses_in_items
from agentkit.llm.protocols.parsing import ParagraphJoiner, ReasoningSplitter, move_reasoning
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolMessage, UserMessage, well_formed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentkit.events import Event
    from agentkit.messages import FinishReason, Message, OutputSchema, Request, ToolSpec
    from agentkit.usage import Usage


def is_reasoning_item(item: object) -> bool:
    """Whether an output item is reasoning."""
    return isinstance(item, dict) and item.get("type") == "reasoning"


def without_trailing_reasoning(items: Sequence[Any]) -> tuple[Any, ...]:
    """The items without trailing reasoning items: servers reject those that no other item follows."""
    return tuple(items[: next((at for at in range(len(items), 0, -1) if not is_reasoning_item(items[at - 1])), 0)])


def with_callers(entries: list[EncodedEntry]) -> list[EncodedEntry]:
    """The entries, with the `caller` of programmatic tool calls copied to their results."""
    program_calls = (entry for entry in entries if parsing.dictionary(entry.get("caller")).get("type") == "program")
    callers = {entry.get("call_id"): entry["caller"] for entry in program_calls}
    if not callers:
        return entries
    result_flags = (entry.get("type") == "function_call_output" and entry["call_id"] in callers for entry in entries)
    pairs = zip(entries, result_flags, strict=True)
    return [
        EncodedEntry({**entry, "caller": callers[entry["call_id"]]}) if is_result else entry
        for entry, is_result in pairs
    ]


ITEMS = "output"
"""The key in `AssistantMessage.extra` for the original output items."""

_NAMESPACE = "namespace"
"""A field that is sent back with a call even without its items: the namespace of its tool."""

_FINISHED = {"completed", "complete", "done"}
_UNFINISHED = {"", "in_progress", "queued"}
_ENDINGS = {
    "response.completed",
    "response.done",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
}
_REASONING_EVENTS = tuple(
    f"response.{name}.{end}" for name in ("reasoning_summary_text", "reasoning_text") for end in ("delta", "done")
)


def decode_answer(data: Mapping[str, Any]) -> Response:
    """Decode a complete body. Raises ModelError if it contains no response."""
    raise_error_in(data)
    items = data.get("output")
    if not isinstance(items, list):
        raise missing_field_error("output", data)
    return _response(data, items)


def is_call(item: object) -> bool:
    """Whether an output item is a tool call."""
    return isinstance(item, dict) and item.get("type") == "function_call"


def _usage(data: Mapping[str, Any]) -> Usage:
    names, details = ("input_tokens", "output_tokens"), ("input_tokens_details", "output_tokens_details")
    return parsing.usage_of(data.get("usage"), names, details)


def _response(data: Mapping[str, Any], items: Sequence[Any]) -> Response:
    finish = _finish_reason(data)
    text, refusal = text_and_refusal(items)
    if refusal:
        raise refusal_error(refusal)
    calls = [_read_call(item) for item in items if is_call(item)]
    if calls and finish == "stop":
        finish = "tool_calls"
    message = parsing.assistant_message(text, calls, _reasoning(items), {ITEMS: without_trailing_reasoning(items)})
    model, raw = parsing.word(data.get("model")), parsing.well_formed_json(data)
    output = parsing.dictionaries(items)
    if not text and not calls:
        raise_unanswerable(output)
    hosted = uses_in_items(output)
    return Response(move_reasoning(message), finish, _usage(data), model, raw, hosted=hosted)


def _finish_reason(data: Mapping[str, Any]) -> FinishReason:
    """The finish reason. Raises ModelError if the response failed."""
    status = parsing.word(data.get("status")) or "completed"
    if data.get("error"):
        raise error_from_body(data)
    if status in _FINISHED:
        return "stop"
    if status != "incomplete":
        raise unfinished_error(status)
    if parsing.dictionary(data.get("incomplete_details")).get("reason") == FILTERED:
        raise filtered_error()
    return "length"


def text_and_refusal(items: Iterable[Any]) -> tuple[str, str]:
    """The text of all messages, joined as paragraphs, and the refusal, if any."""
    messages = (item for item in items if isinstance(item, dict) and item.get("type", "message") == "message")
    contents = [message.get("content") for message in messages]
    parts = [part for content in contents for part in parsing.dictionaries(content)]
    refusal = "".join(parsing.word(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    paragraphs, texts = ParagraphJoiner(), []
    for content in contents:
        paragraphs.interrupt()
        texts.append(paragraphs.add(parsing.text_of(content)))
    return "".join(texts), refusal


def _read_call(item: Mapping[str, Any]) -> ToolCall:
    call_id = parsing.word(item.get("call_id") or item.get("id"))
    extra = {_NAMESPACE: item[_NAMESPACE]} if item.get(_NAMESPACE) else {}
    return ToolCall(call_id, parsing.word(item.get("name")), parsing.arguments_text(item.get("arguments")), extra)


def _reasoning(items: Iterable[Any]) -> str:
    reasoning = filter(is_reasoning_item, items)
    return "\n".join(filter(None, (parsing.text_of(item.get("summary") or item.get("content")) for item in reasoning)))


class _StreamedItem:
    """An output item being streamed: its first version, its arguments, and its final version."""

    def __init__(self, key: str, initial: dict[str, Any] | None = None) -> None:
        self.key, self.initial = key, initial
        self.done: dict[str, Any] | None = None
        self.arguments = parsing.TextBuffer()

    def assembled(self) -> dict[str, Any]:
        """The item. Some servers finish a call under another type, and some never finish it."""
        if self.done is not None or not is_call(self.initial):
            return self.done or {}
        initial = parsing.dictionary(self.initial)
        return {**initial, "arguments": str(self.arguments) or initial.get("arguments"), "status": "completed"}


class ResponsesReader:
    """Collects the events of one streamed response."""

    def __init__(self) -> None:
        self._text, self._reasoning, self._refusal = parsing.TextBuffer(), parsing.TextBuffer(), parsing.TextBuffer()
        self._splitter, self._paragraphs = ReasoningSplitter(), ParagraphJoiner()
        self._outputs: list[_StreamedItem] = []
        self._by_key: dict[str, _StreamedItem] = {}
        self._calls: list[_StreamedItem] = []
        self._final: Mapping[str, Any] | None = None
        self._feeds: dict[str, Callable[[Mapping[str, Any]], Event | None]] = {
            **dict.fromkeys(("response.output_text.delta", "response.output_text.done"), self._feed_text),
            **dict.fromkeys(_REASONING_EVENTS, self._feed_reasoning),
            **dict.fromkeys(("response.refusal.delta", "response.refusal.done"), self._feed_refusal),
            "response.content_part.done": self._end_part,
            "response.function_call_arguments.delta": self._feed_arguments,
            "response.function_call_arguments.done": self._end_arguments,
            "response.output_item.added": self._begin_item,
            "response.output_item.done": self._end_item,
            **dict.fromkeys(_ENDINGS, self._end),
        }

    @property
    def is_whole(self) -> bool:
        """Whether the response is complete and nothing can follow."""
        return self._final is not None

    @property
    def is_answered(self) -> bool:
        """Whether the response is complete; the final event includes the token counts."""
        return self.is_whole

    @property
    def usage(self) -> Usage:
        """The token counts received so far."""
        return _usage(self._final or {})

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk. Raises ModelError if it is an error."""
        kind = parsing.word(chunk.get("type"))
        if kind in self._feeds:
            event = self._feeds[kind](chunk)
            if isinstance(event, TextDelta):
                return self._splitter.events(event.text)
            return () if event is None else (event,)
        if not kind.startswith("response.") or kind == "response.error":
            raise_error_in(chunk)
        if not kind and isinstance(chunk.get("output"), list):
            self._final = chunk  # from a server that ignores the stream setting
        return ()

    def _feed_text(self, chunk: Mapping[str, Any]) -> Event | None:
        text = self._text.add(_text_in_chunk(self._text, chunk, chunk.get("text")))
        return TextDelta(self._paragraphs.add(text)) if text else None

    def _feed_reasoning(self, chunk: Mapping[str, Any]) -> Event | None:
        text = self._reasoning.add(_text_in_chunk(self._reasoning, chunk, chunk.get("text")))
        return ReasoningDelta(text) if text else None

    def _feed_refusal(self, chunk: Mapping[str, Any]) -> Event | None:
        self._refusal.add(_text_in_chunk(self._refusal, chunk, chunk.get("refusal")))
        return None

    def _end_part(self, chunk: Mapping[str, Any]) -> Event | None:
        part = parsing.dictionary(chunk.get("part"))
        return self._feed_text({**chunk, "text": part.get("text")}) if part.get("type") == "output_text" else None

    def _begin(self, key: str, item: dict[str, Any] | None = None) -> _StreamedItem:
        """Begin an item; it can replace an earlier one, since some servers give all items the same number."""
        output = self._by_key[key] = _StreamedItem(key, item)
        self._outputs.append(output)
        return output

    def _call_of(self, chunk: Mapping[str, Any]) -> _StreamedItem:
        """The call for a chunk of arguments: by its key, otherwise the last one."""
        announced = [call for call in self._calls[-1:] if call.initial is not None]
        output = self._by_key.get(_item_key(chunk)) or (announced[0] if announced else self._begin(_item_key(chunk)))
        if output not in self._calls:
            self._calls.append(output)
        return output

    def _feed_arguments(self, chunk: Mapping[str, Any]) -> Event | None:
        output = self._call_of(chunk)
        return ToolCallDelta(self._calls.index(output), "", output.arguments.add(parsing.text_of(chunk.get("delta"))))

    def _end_arguments(self, chunk: Mapping[str, Any]) -> Event | None:
        received = parsing.TextBuffer()
        received.add(parsing.arguments_text(chunk.get("arguments")))
        if received:
            self._call_of(chunk).arguments = received
        return None

    def _begin_item(self, chunk: Mapping[str, Any]) -> Event | None:
        item = parsing.dictionary(chunk.get("item"))
        output = self._begin(_item_key(chunk), item)
        self._paragraphs.interrupt()
        if not is_call(item):
            return None
        self._calls.append(output)
        return ToolCallDelta(len(self._calls) - 1, parsing.word(item.get("name")), "")

    def _end_item(self, chunk: Mapping[str, Any]) -> Event | None:
        if not isinstance(item := chunk.get("item"), dict):
            return None
        output = self._by_key.get(_item_key(chunk)) or self._unfinished_item(item) or self._begin(_item_key(chunk))
        output = output if output.done is None else self._begin(output.key)
        output.done = item
        return None if output.initial is not None or not is_call(item) else self._unannounced_call(output, item)

    def _unfinished_item(self, item: Mapping[str, Any]) -> _StreamedItem | None:
        """The unfinished item of the same type, for servers that change an item's id at its end."""
        candidates = (output for output in self._outputs if output.done is None and output.initial)
        return next((output for output in candidates if (output.initial or {}).get("type") == item.get("type")), None)

    def _unannounced_call(self, output: _StreamedItem, item: Mapping[str, Any]) -> Event:
        """The event for a call whose beginning was not sent."""
        if output not in self._calls:
            self._calls.append(output)
        arguments = "" if output.arguments else parsing.arguments_text(item.get("arguments"))
        return ToolCallDelta(self._calls.index(output), parsing.word(item.get("name")), arguments)

    def _end(self, chunk: Mapping[str, Any]) -> Event | None:
        """End the response. Its status is taken from the event if the response has none or is still in progress."""
        response = parsing.dictionary(chunk.get("response"))
        status = parsing.word(response.get("status"))
        final_status = chunk["type"].removeprefix("response.") if status in _UNFINISHED else status
        self._final = {**response, "status": final_status}
        return None

    def finish(self, *, closed: bool) -> Response:
        """The complete response. Raises BadResponse if the stream was cut short."""
        if self._final is None and closed:
            raise BadResponse("The stream ended without its completion event. Try again.")
        if self._final is None:
            raise cut_short_error(len(str(self._text)))
        response = _response(self._final, self._items(self._final.get("output")))
        if self._reasoning and not response.message.reasoning:
            response = replace(response, message=replace(response.message, reasoning=str(self._reasoning)))
        return response

    def _items(self, output: object) -> list[dict[str, Any]]:
        """The output items of the final event, otherwise those that were streamed, including unfinished calls."""
        finished = sorted((output for output in self._outputs if output.done), key=_index_key)
        items = parsing.dictionaries(output) or [output.assembled() for output in finished]
        if not any(map(is_call, items)):
            items += filter(is_call, (call.assembled() for call in self._calls))
        if not any(text_and_refusal(items)) and (self._text or self._refusal):
            text = {"type": "output_text", "text": str(self._text)}
            parts = [{"type": "refusal", "refusal": str(self._refusal)}] if self._refusal else [text]
            items.append({"type": "message", "role": "assistant", "content": parts})
        return items


def _text_in_chunk(received: parsing.TextBuffer, chunk: Mapping[str, Any], full_text: object) -> str:
    """The text in a chunk: its delta, or a whole text that was not streamed before."""
    if "delta" in chunk:
        return parsing.text_of(chunk["delta"])
    text = parsing.text_of(full_text)
    return "" if text in str(received) else text


def _index_key(output: _StreamedItem) -> tuple[int, str]:
    """Sort key for output items by index; items without an index keep their order."""
    return (len(output.key), output.key) if output.key.isdecimal() else (0, "")


def _item_key(chunk: Mapping[str, Any]) -> str:
    """The key of an output item in a stream: its index, otherwise its id."""
    item_id = chunk.get("item_id") or parsing.dictionary(chunk.get("item")).get("id")
    index = chunk.get("output_index")
    return parsing.word(item_id if index is None else index)


_RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
_NESTED = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}


class Responses(WireProtocol):
    """The Responses protocol, which sends reasoning items back with the conversation."""

    name = "responses"
    headers: Mapping[str, str] = {}
    streaming: Mapping[str, Any] = {"stream": True}
    error = staticmethod(error_from_body)

    def url(self, _model: str, /, **_streaming: bool) -> str:
        """The path of a request, relative to the base URL."""
        return "/responses"

    def encode(
        self, request: Request, model: str, *, strict: bool, cache: EncodingCache | None = None
    ) -> dict[str, Any]:
        """Encode a request as the body of a POST. Reasoning is requested in encrypted form, since nothing is stored."""
        cache = cache or EncodingCache()
        body: dict[str, Any] = {
            "model": model,
            "input": with_callers(cache.entries(request.messages, _encode_message)),
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if request.instruction:
            body["instructions"] = well_formed(request.instruction)
        if request.tools:
            body["tools"] = cache.entries(request.tools, _strict_tool if strict else _plain_tool)
        if request.output_schema:
            body["text"] = {"format": _format(request.output_schema)}
        for name, value in request.settings.items():
            _apply_setting(body, name, value)
        return body

    def decode(self, data: Mapping[str, Any]) -> Response:
        """Decode a complete body. Raises ModelError if it contains no response."""
        return decode_answer(data)

    def reader(self) -> ResponsesReader:
        """Create a reader for one streamed response."""
        return ResponsesReader()


def _apply_setting(body: dict[str, Any], name: str, value: object) -> None:
    """Set a setting under its name in this protocol, merged with an existing value."""
    outer, inner = _NESTED.get(name, (_RENAMED.get(name, name), ""))
    value = {inner: value} if inner else value
    if outer == "tool_choice" and isinstance(value, str) and value not in {"auto", "none", "required"}:
        value = {"type": "function", "name": value}
    existing = body.get(outer)
    if isinstance(existing, dict) and isinstance(value, dict):
        value = {**existing, **value}
    elif isinstance(existing, list) and isinstance(value, list):
        value = [*existing, *(entry for entry in value if entry not in existing)]
    body[outer] = value


def _plain_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    if tool.hosted is not None:
        return (declaration_of(tool, Responses.name),)
    return (_function(tool, tool.parameters, strict=False),)


def _strict_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    if (strict := tool.strict) is None:
        return _plain_tool(tool)
    return (_function(tool, strict, strict=True),)


def _function(tool: ToolSpec, parameters: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    """Encode a function tool. `strict` is always sent, because this protocol defaults to true."""
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
            return [{"role": "user", "content": _ENCODERS.content(content)}]
        case AssistantMessage():
            return _encode_answer(message)
        case ToolMessage(call_id):
            return [
                {"type": "function_call_output", "call_id": call_id, "output": _ENCODERS.content(message.parts_content)}
            ]
    return [{"role": "system", "content": well_formed(message.text)}]


def _encode_text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _encode_image(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": image.url, "detail": image.detail or "auto"}


def _encode_file(file: File) -> dict[str, Any]:
    if not file.media_type:
        return {"type": "input_file", "file_url": file.url}
    return {"type": "input_file", "filename": file.file_name, "file_data": file.url}


_ENCODERS = PartEncoders(_encode_text, _encode_image, _encode_file)


def _encode_answer(message: AssistantMessage) -> list[dict[str, Any]]:
    """The original items with the current call ids; rebuilt if the message was changed since."""
    items = message.extra.get(ITEMS, ())
    if items and text_and_refusal(items)[0] == message.text and sum(map(is_call, items)) == len(message.tool_calls):
        calls = iter(message.tool_calls)
        return [{**item, **_call_fields(next(calls))} if is_call(item) else item for item in items]
    text = [{"role": "assistant", "content": well_formed(message.text)}] if message.text else []
    return text + [{**call.extra, "type": "function_call", **_call_fields(call)} for call in message.tool_calls]


def _call_fields(call: ToolCall) -> dict[str, Any]:
    arguments = parsing.sendable_arguments(call.arguments)
    return {"call_id": call.id, "name": parsing.sendable_name(call.name), "arguments": arguments}
