"""The Chat Completions protocol, as OpenAI describes it and as real servers speak it (pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.llm.wire import reading
from agentkit.llm.wire.chat.answers import ChatReader, decode_answer
from agentkit.llm.wire.chat.thinking import FIELD, are_read, with_thoughts
from agentkit.llm.wire.hosted import declared
from agentkit.llm.wire.parts import Forms
from agentkit.llm.wire.reading import REASONING_FIELDS
from agentkit.llm.wire.writing import Entry, Written
from agentkit.messages import AssistantMessage, ToolMessage, UserMessage, well_formed
from agentkit.parts import File, Image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentkit.messages import Message, OutputSchema, Request, Response, ToolCall, ToolSpec

_LEFT_OUT = {"audio", "executed_tools", "channel", FIELD}
"""Fields of an answer that tell of it, and are no part of a conversation: OpenAI's sound, Groq's own tools.

Thoughts that stood in the content go back in it.
"""

BESIDE = "[What follows stands beside the result of"
"""How a message begins that shows the pictures and files of a tool's result."""


class ChatCompletions:
    """The protocol that nearly every server speaks."""

    name = "chat"
    path = "/chat/completions"
    headers: Mapping[str, str] = {}
    streaming: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}

    def encode(self, request: Request, model: str, *, strict: bool, before: Written | None = None) -> dict[str, Any]:
        """The request as the body of a POST to `path`."""
        before = before or Written()
        encode = _encode_with_thoughts if are_read(request.settings) else _encode_message
        messages = before.entries(request.messages, encode)
        if len(messages) > len(request.messages):
            messages = _with_shown_last(request.messages, messages)
        if request.instruction:
            messages.insert(0, Entry({"role": "system", "content": well_formed(request.instruction)}))
        body: dict[str, Any] = {"model": model, "messages": messages}
        if request.tools:
            body["tools"] = before.entries(request.tools, _strict_tool if strict else _plain_tool)
        if request.output_schema:
            body["response_format"] = _response_format(request.output_schema)
        for name, value in request.settings.items():
            body[name] = _tool_choice(value) if name == "tool_choice" else value
        return body

    def decode(self, data: Mapping[str, Any]) -> Response:
        """The response in a whole body. Raises ModelError when there is none."""
        return decode_answer(data)

    def reader(self) -> ChatReader:
        """A reader for one streamed response."""
        return ChatReader()


def encode_message(message: Message) -> dict[str, Any]:
    """A message as a plain dictionary in the chat format."""
    match message:
        case UserMessage(content):
            return {"role": "user", "content": _FORMS.content(content)}
        case AssistantMessage():
            return _encode_answer(message, has_thoughts=bool(message.tool_calls))
        case ToolMessage(call_id):
            return {"role": "tool", "tool_call_id": call_id, "content": _FORMS.content(message.shown)}
    return {"role": "system", "content": well_formed(message.text)}


def _encode_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _encode_image(image: Image) -> dict[str, Any]:
    detail = {"detail": image.detail} if image.detail else {}
    return {"type": "image_url", "image_url": {"url": image.url, **detail}}


def _encode_file(file: File) -> dict[str, Any]:
    """OpenAI takes no address here; others do where the data would stand."""
    return {"type": "file", "file": {"filename": file.file_name, "file_data": file.url}}


_FORMS = Forms(_encode_text, _encode_image, _encode_file)


def _encode_answer(message: AssistantMessage, *, has_thoughts: bool) -> dict[str, Any]:
    """Reasoning goes back only beside tool calls: some servers demand it there and refuse it elsewhere.

    What only tells of the answer does not: servers forget or refuse it.
    """
    dropped = _LEFT_OUT if has_thoughts else _LEFT_OUT.union(REASONING_FIELDS)
    kept = {name: value for name, value in message.extra.items() if name not in dropped}
    text = well_formed(message.text) or (None if message.tool_calls else "")
    content = with_thoughts(message, text) if has_thoughts else text
    calls = {"tool_calls": [_encode_call(call) for call in message.tool_calls]} if message.tool_calls else {}
    return {"role": "assistant", "content": content, **kept, **calls}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": reading.sendable_name(call.name), "arguments": reading.sendable_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function, **call.extra}


def _encode_message(message: Message) -> tuple[dict[str, Any], ...]:
    """The message as it is sent: in the results of tools this protocol has text only; what is shown is a user's."""
    if not isinstance(message, ToolMessage) or not message.beside:
        return (encode_message(message),)
    told = f"{BESIDE} the call {message.call_id} of {message.name or 'a tool'}, in its order. No user said this.]"
    shown = UserMessage((told, *message.beside))
    return encode_message(replace(message, images=(), files=())), encode_message(shown)


def _encode_with_thoughts(message: Message) -> tuple[dict[str, Any], ...]:
    """The same for a server that reads the thoughts of every answer."""
    if isinstance(message, AssistantMessage):
        return (_encode_answer(message, has_thoughts=True),)
    return _encode_message(message)


def _with_shown_last(messages: Sequence[Message], entries: Sequence[Entry]) -> list[Entry]:
    """The entries, of which what results show stands behind the last result in a row: nothing may part those."""
    ordered: list[Entry] = []
    waiting: list[Entry] = []
    rest = iter(entries)
    for message in messages:
        if not isinstance(message, ToolMessage):
            ordered += waiting
            waiting = []
        ordered.append(next(rest))
        if isinstance(message, ToolMessage) and message.beside:
            waiting.append(next(rest))
    return ordered + waiting


def _plain_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    if tool.hosted is not None:
        return (declared(tool, ChatCompletions.name),)
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return ({"type": "function", "function": function},)


def _strict_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    if tool.strict_parameters is None:
        return _plain_tool(tool)
    function = {"name": tool.name, "description": tool.description, "parameters": tool.strict_parameters}
    return ({"type": "function", "function": {**function, "strict": True}},)


def _response_format(output: OutputSchema) -> dict[str, Any]:
    strict = {"strict": True} if output.strict else {}
    return {"type": "json_schema", "json_schema": {"name": output.name, "schema": output.schema, **strict}}


def _tool_choice(choice: object) -> object:
    if isinstance(choice, str) and choice not in {"auto", "none", "required"}:
        return {"type": "function", "function": {"name": choice}}
    return choice
