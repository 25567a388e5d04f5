"""The Responses protocol of OpenAI and Azure, used without storage at the server (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.llm.wire import reading
from agentkit.llm.wire.hosted import declared
from agentkit.llm.wire.parts import Forms
from agentkit.llm.wire.responses.answers import ITEMS, ResponsesReader, decode_answer, is_call, said_in
from agentkit.llm.wire.responses.hosted import with_callers
from agentkit.llm.wire.writing import Written
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolMessage, UserMessage, well_formed
from agentkit.parts import File, Image

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentkit.messages import Message, OutputSchema, Request, ToolSpec

_RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
_NESTED = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}


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
            "input": with_callers(before.entries(request.messages, _encode_message)),
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if request.instruction:
            body["instructions"] = well_formed(request.instruction)
        if request.tools:
            body["tools"] = before.entries(request.tools, _strict_tool if strict else _plain_tool)
        if request.output_schema:
            body["text"] = {"format": _format(request.output_schema)}
        for name, value in request.settings.items():
            _set(body, name, value)
        return body

    def decode(self, data: Mapping[str, Any]) -> Response:
        """The response in a whole body. Raises ModelError when there is none."""
        return decode_answer(data)

    def reader(self) -> ResponsesReader:
        """A reader for one streamed response."""
        return ResponsesReader()


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
    if tool.hosted is not None:
        return (declared(tool, Responses.name),)
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
            return [{"role": "user", "content": _FORMS.content(content)}]
        case AssistantMessage():
            return _encode_answer(message)
        case ToolMessage(call_id):
            return [{"type": "function_call_output", "call_id": call_id, "output": _FORMS.content(message.shown)}]
    return [{"role": "system", "content": well_formed(message.text)}]


def _encode_text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _encode_image(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": image.url, "detail": image.detail or "auto"}


def _encode_file(file: File) -> dict[str, Any]:
    if not file.media_type:
        return {"type": "input_file", "file_url": file.url}
    return {"type": "input_file", "filename": file.file_name, "file_data": file.url}


_FORMS = Forms(_encode_text, _encode_image, _encode_file)


def _encode_answer(message: AssistantMessage) -> list[dict[str, Any]]:
    """The original items, with the current ids of the calls; rebuilt if the message was changed since."""
    items = message.extra.get(ITEMS, ())
    if items and said_in(items)[0] == message.text and sum(map(is_call, items)) == len(message.tool_calls):
        calls = iter(message.tool_calls)
        return [{**item, **_call_fields(next(calls))} if is_call(item) else item for item in items]
    text = [{"role": "assistant", "content": well_formed(message.text)}] if message.text else []
    return text + [{**call.extra, "type": "function_call", **_call_fields(call)} for call in message.tool_calls]


def _call_fields(call: ToolCall) -> dict[str, Any]:
    arguments = reading.sendable_arguments(call.arguments)
    return {"call_id": call.id, "name": reading.sendable_name(call.name), "arguments": arguments}
