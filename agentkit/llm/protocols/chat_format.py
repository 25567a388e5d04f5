"""Conversion of chat-format dictionaries to messages (pure)."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentkit.content import File, Image, files_in, images_in, worded
from agentkit.llm.protocols.chat_completions import read_message
from agentkit.llm.protocols.encoding import MOST_BYTES, OVERHEAD_BYTES
from agentkit.llm.protocols.parsing import dictionary, text_of, word
from agentkit.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentkit.messages import Content, Message


_FILES = frozenset(("file", "input_audio", "file_data", "file_url", "file_id"))
_SOUNDS = {"mp3": "mpeg", "m4a": "mp4"}
_SHOWN = _FILES | {"image_url"}
"""What tells the parts of a content that are no text, in either protocol."""


def typed(entry: Mapping[str, Any]) -> Message:
    """A message from a plain dictionary in the chat format. Raises ValueError for what is unknown in it."""
    role, content = entry.get("role"), entry.get("content")
    match role:
        case "user":
            return UserMessage(_content(content))
        case "system" | "developer":
            return SystemMessage(text_of(content))
        case "assistant":
            return read_message(entry)
        case "tool":
            call_id, name = word(entry.get("tool_call_id")), word(entry.get("name"))
            return _result(call_id, name, content)
    raise ValueError(f"A message's role is user, system, developer, assistant or tool, not {role!r}")


def typed_messages(
    prompt: str | Iterable[Message | Mapping[str, Any]], read: Callable[[Mapping[str, Any]], Message] = typed
) -> tuple[Message, ...]:
    """Messages from a text, from messages, or from plain dictionaries in the chat format, which `read` reads.

    Raises ValueError for a role or a part of a content that is unknown, TypeError for what is no message.
    """
    if isinstance(prompt, str):
        return (UserMessage(prompt),)
    if isinstance(prompt, Mapping):
        return (read(prompt),)
    if not hasattr(prompt, "__iter__"):
        raise TypeError(f"Messages are a text, or a list of messages or dictionaries, not {type(prompt).__name__}")
    return tuple([_message(entry, read) for entry in prompt])


class Rereading:
    """Reads a dictionary of role and text that says what another said before as the very same message.

    That one was encoded then, and its encoding is found by its identity. A dictionary may be changed at any time, so
    what counts is what it says now. Any thread may use it.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Message] = {}
        self._bytes = 0

    def read(self, entry: Mapping[str, Any]) -> Message:
        """The message. Raises ValueError for what is unknown in it."""
        role, content = entry.get("role"), entry.get("content")
        if len(entry) != 2 or type(role) is not str or type(content) is not str:
            return typed(entry)
        found = self._known.get((role, content))
        if found is None:
            found = typed(entry)
            self._keep((role, content), found)
        return found

    def _keep(self, said: tuple[str, str], message: Message) -> None:
        if self._bytes > MOST_BYTES:
            self._known, self._bytes = {}, 0
        self._bytes += len(said[1]) + OVERHEAD_BYTES
        self._known[said] = message


def _message(entry: object, read: Callable[[Mapping[str, Any]], Message]) -> Message:
    if isinstance(entry, (dict, Mapping)):  # most are of the class that is known at a glance
        return read(entry)
    if isinstance(entry, SystemMessage | UserMessage | AssistantMessage | ToolMessage):
        return entry
    raise TypeError(f"A message is a dictionary or one of agentkit's messages, not {type(entry).__name__}")


def _content(content: object) -> Content:
    if not isinstance(content, list | tuple):
        return text_of(content)
    return tuple(_part(part) for part in content)


def _result(call_id: str, name: str, content: object) -> ToolMessage:
    """What a tool has said, and shows; other parts of its result were never told."""
    said: Iterable[object] = content if isinstance(content, list) else ()
    shown = [_part(part) for part in said if isinstance(part, Image | File) or not _SHOWN.isdisjoint(dictionary(part))]
    texts = [part for part in shown if isinstance(part, str)]
    said = "\n".join([text_of(content), *texts])
    return ToolMessage(call_id, name, said, images=images_in(shown), files=files_in(shown))


def _part(part: object) -> str | Image | File:
    """A part of a content: text, an image or a file as either protocol has it; a file that is a text as its words."""
    if isinstance(part, str | Image | File):
        return worded(part)
    fields = dictionary(part)
    if not _FILES.isdisjoint(fields):
        return worded(_file(fields))
    image = fields.get("image_url")
    url, detail = (image.get("url"), image.get("detail")) if isinstance(image, dict) else (image, fields.get("detail"))
    if isinstance(url, str):
        return Image(url, detail)
    if isinstance(fields.get("text"), str):
        return str(fields["text"])
    told = fields.get("type", part)
    raise ValueError(f"A part of a message is a text, an image_url, a file or an input_audio, not {told!r:.99}")


def _file(fields: Mapping[str, Any]) -> File:
    """The file of a part. Raises ValueError for one that only its server knows."""
    sound = dictionary(fields.get("input_audio"))
    if sound:
        kind, data = word(sound.get("format")), word(sound.get("data"))
        return File(f"data:audio/{_SOUNDS.get(kind, kind)};base64,{data}")
    told = dictionary(fields.get("file")) or fields
    url, name = word(told.get("file_data") or told.get("file_url")), word(told.get("filename"))
    if not url:
        raise ValueError(
            "A file in a message has file_data or file_url; what is behind a file_id, only its server knows"
        )
    return File(url, name) if ":" in url else File.read(a2b_base64(url), name)
