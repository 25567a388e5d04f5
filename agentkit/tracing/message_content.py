"""Messages in the JSON format of the GenAI conventions (pure)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from agentkit.content import File, Image
from agentkit.messages import (
    AssistantMessage,
    Content,
    Message,
    Response,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    arguments_of,
    parts_of,
)
from agentkit.redaction import redact_data

Part = dict[str, Any]

_FINISH_REASONS = {"tool_calls": "tool_call"}
_END_REASONS = {"done": "stop", "limit": "length", "paused": "tool_call"}
"""The finish reason of a run's last message, by the status of the run."""


def written(value: Any, clean: Callable[[str], str]) -> str:
    """Serialise to JSON without secrets; `clean` is a `written_redactor`."""
    return json.dumps(redact_data(value, clean), ensure_ascii=False, default=str)


def of_messages(messages: Iterable[Message]) -> list[Part]:
    """Convert a conversation."""
    return [_message(message) for message in messages]


def of_user(content: Content) -> list[Part]:
    """Convert a prompt to a conversation of one message."""
    return [{"role": "user", "parts": _content(content)}]


def of_answer(text: str, status: str) -> list[Part]:
    """Convert the answer of a run to a conversation of one message; empty for an unfinished run without a text."""
    if not text and status != "done":
        return []
    return [{"role": "assistant", "parts": _text(text), "finish_reason": _END_REASONS.get(status, "error")}]


def of_response(response: Response) -> list[Part]:
    """Convert a response, including its finish reason."""
    finish_reason = _FINISH_REASONS.get(response.finish_reason, response.finish_reason)
    return [{**_message(response.message), "finish_reason": finish_reason}]


def of_instruction(instruction: str) -> list[Part]:
    """Convert the system instruction."""
    return _text(instruction)


def of_tools(tools: Iterable[ToolSpec]) -> list[Part]:
    """Convert the tool definitions offered to a model."""
    return [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in tools
    ]


def _message(message: Message) -> Part:
    match message:
        case AssistantMessage(text, tool_calls):
            return {"role": "assistant", "parts": [*_text(text), *map(_call, tool_calls)]}
        case ToolMessage(call_id, _, content):
            return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": content}]}
        case SystemMessage(text):
            return {"role": "system", "parts": _text(text)}
        case _:
            return {"role": "user", "parts": _content(message.content)}


def _content(content: Content) -> list[Part]:
    kinds = (_text(piece) if isinstance(piece, str) else [_shown(piece)] for piece in parts_of(content))
    return [part for parts in kinds for part in parts]


def _shown(part: Image | File) -> Part:
    """Convert an image or file to its URL; one given as bytes is described by type and size."""
    if part.url.startswith("data:"):
        return {"type": "text", "content": str(part)}
    return {"type": "uri", "modality": "image" if isinstance(part, Image) else "document", "uri": part.url}


def _text(text: str) -> list[Part]:
    return [{"type": "text", "content": text}] if text else []


def _call(call: ToolCall) -> Part:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments_of(call)}
