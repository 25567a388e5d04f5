"""How do plain dictionaries in the chat format become messages? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentkit.llm.wire.chat_answers import read_message
from agentkit.llm.wire.reading import dictionary, text_of, word
from agentkit.messages import AssistantMessage, Image, SystemMessage, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentkit.messages import Content, Message


def typed_messages(prompt: str | Iterable[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """Messages from a text, from messages, or from plain dictionaries in the chat format.

    Raises ValueError for a role or a part of a content that is unknown, TypeError for what is no message.
    """
    if isinstance(prompt, str):
        return (UserMessage(prompt),)
    if isinstance(prompt, Mapping):
        return (_typed(prompt),)
    if not hasattr(prompt, "__iter__"):
        raise TypeError(f"Messages are a text, or a list of messages or dictionaries, not {type(prompt).__name__}")
    return tuple(_message(entry) for entry in prompt)


def _message(entry: object) -> Message:
    if isinstance(entry, Mapping):
        return _typed(entry)
    if isinstance(entry, SystemMessage | UserMessage | AssistantMessage | ToolMessage):
        return entry
    raise TypeError(f"A message is a dictionary or one of agentkit's messages, not {type(entry).__name__}")


def _typed(entry: Mapping[str, Any]) -> Message:
    role, content = entry.get("role"), entry.get("content")
    match role:
        case "user":
            return UserMessage(_content(content))
        case "system" | "developer":
            return SystemMessage(text_of(content))
        case "assistant":
            return read_message(entry)
        case "tool":
            return ToolMessage(word(entry.get("tool_call_id")), word(entry.get("name")), text_of(content))
    raise ValueError(f"A message's role is user, system, developer, assistant or tool, not {role!r}")


def _content(content: object) -> Content:
    if not isinstance(content, list | tuple):
        return text_of(content)
    return tuple(_part(part) for part in content)


def _part(part: object) -> str | Image:
    """A part of a content: text, or an image as either protocol has it."""
    if isinstance(part, str | Image):
        return part
    fields = dictionary(part)
    image = fields.get("image_url")
    url, detail = (image.get("url"), image.get("detail")) if isinstance(image, dict) else (image, fields.get("detail"))
    if isinstance(url, str):
        return Image(url, detail)
    if isinstance(fields.get("text"), str):
        return str(fields["text"])
    raise ValueError(f"A part of a message is a text or an image_url, not {fields.get('type', part)!r}")
