"""Conversion of chat-format dictionaries to messages (pure)."""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from agentkit.content import File, Image, files_in, images_in, load_part
from agentkit.llm.protocols.chat_completions import read_message
from agentkit.llm.protocols.encoding import MAX_BYTES, OVERHEAD_BYTES
from agentkit.llm.protocols.parsing import dictionaries, dictionary, text_of, word
from agentkit.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    well_formed,
    with_distinct_ids,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentkit.messages import Content, Message


_FILE_FIELDS = frozenset(("file", "input_audio", "file_data", "file_url", "file_id"))
_AUDIO_SUBTYPES = {"mp3": "mpeg", "m4a": "mp4"}
_ATTACHMENT_FIELDS = _FILE_FIELDS | {"image_url"}
"""Fields that identify parts other than text, in either protocol."""

_TEXT_FIELDS = frozenset({"type", "text", "annotations", "cache_control", "logprobs", "citations"})
"""Fields of a part that is a text; an object with other fields is a value."""

_PLAIN_FIELDS = {"role", "content"}


def typed(entry: Mapping[str, Any]) -> Message:
    """Convert a plain dictionary in the chat format to a message. Raises ValueError if its content is unknown."""
    role, content = entry.get("role"), entry.get("content")
    match role:
        case "user":
            return UserMessage(_content(content), name=word(entry.get("name")))
        case "system" | "developer":
            return SystemMessage(text_of(content))
        case "assistant":
            return _answer(entry)
        case "tool" | "function":  # a function has no call id
            call_id, name = word(entry.get("tool_call_id")), word(entry.get("name"))
            return _result(call_id, name, content)
    raise ValueError(f"The role of a message must be user, system, developer, assistant or tool, not {role!r}")


def typed_messages(
    prompt: str | Iterable[Message | Mapping[str, Any]], read: Callable[[Mapping[str, Any]], Message] = typed
) -> tuple[Message, ...]:
    """Convert a text, messages, or plain dictionaries in the chat format to messages; `read` converts dictionaries.

    Raises ValueError for an unknown role or content part, TypeError if an item is not a message.
    """
    if isinstance(prompt, str):
        return (UserMessage(prompt),)
    if isinstance(prompt, Mapping):
        return (read(prompt),)
    if not hasattr(prompt, "__iter__"):
        raise TypeError(
            f"Messages must be a string, or a list of messages or dictionaries, not {type(prompt).__name__}"
        )
    messages = [_message(plain, read) for entry in prompt for plain in _in_chat_format(entry)]
    has_blank = any(isinstance(message, ToolMessage) and not message.call_id for message in messages)
    return tuple(_with_call_ids(messages) if has_blank else messages)


def _in_chat_format(entry: object) -> Sequence[object]:
    """An entry of a history of the protocols Messages, Responses or Gemini, in the chat format; others unchanged.

    Reasoning is left out, because only the model that wrote it accepts it.
    """
    if not isinstance(entry, dict) or type(content := entry.get("content")) is str:
        return (entry,)
    match entry.get("type"):
        case "reasoning":
            return ()
        case "function_call":
            return ({"role": "assistant", "tool_calls": [{"id": entry.get("call_id"), "function": entry}]},)
        case "function_call_output":
            return ({"role": "tool", "tool_call_id": entry.get("call_id"), "content": entry.get("output")},)
    parts = dictionaries(entry.get("parts"))
    blocks = list(map(_block_of_part, parts)) if parts else dictionaries(content)
    if not parts and not any(block.get("type") in _BLOCKS for block in blocks):
        return (entry,)
    calls = [
        {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input")}}
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    results = [
        {
            **block,
            "role": "tool",
            "tool_call_id": block.get("tool_use_id"),
            "content": _convert_blocks(block.get("content")),
        }
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    others = [_convert_block(block) for block in blocks if block.get("type") not in _BLOCKS - {"image", "document"}]
    role = "assistant" if entry.get("role") == "model" else entry.get("role")
    message = {"role": role, "content": others, **({"tool_calls": calls} if calls else {})}
    return (*results, message) if others or calls or not results else results


_BLOCKS = frozenset({"tool_use", "tool_result", "image", "document", "thinking", "redacted_thinking"})
"""Types of content blocks in Anthropic's protocol that the chat format lacks."""


def _block_of_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part of Gemini's protocol as a block of Anthropic's."""
    call, response, data = (dictionary(part.get(name)) for name in ("functionCall", "functionResponse", "inlineData"))
    if call:
        return {"type": "tool_use", "id": call.get("id"), "name": call.get("name"), "input": call.get("args")}
    if response:
        result = {"name": response.get("name"), "content": response.get("response")}
        return {"type": "tool_result", "tool_use_id": response.get("id"), **result}
    if data:
        source = {"media_type": data.get("mimeType"), "data": data.get("data")}
        return {"type": "image" if str(data.get("mimeType")).startswith("image/") else "document", "source": source}
    return {"type": "thinking" if part.get("thought") else "text", "text": text_of(part)}


def _convert_blocks(content: object) -> object:
    blocks = dictionaries(content)
    return list(map(_convert_block, blocks)) if any(block.get("type") in _BLOCKS for block in blocks) else content


def _convert_block(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """An image or document of Anthropic's protocol in the chat format; any other block unchanged."""
    source = dictionary(block.get("source"))
    if block.get("type") not in ("image", "document") or not source:
        return block
    url = source.get("url") or f"data:{word(source.get('media_type'))};base64,{word(source.get('data'))}"
    if block["type"] == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"file_data": url, "filename": word(block.get("title"))}}


def _with_call_ids(messages: Sequence[Message]) -> list[Message]:
    """Assign the results without a call id, as some servers and programs store them, to the calls before them.

    A result belongs to the first call of its tool that has no result yet, or else to the first such call.
    """
    used_ids = {message.call_id for message in messages if isinstance(message, ToolMessage)}
    waiting: list[ToolCall] = []
    converted: list[Message] = []
    for place, message in enumerate(messages):
        new: Message = message
        if isinstance(message, AssistantMessage):
            results = takewhile(lambda each: isinstance(each, ToolMessage), messages[place + 1 :])
            answered_ids = {each.call_id for each in results if isinstance(each, ToolMessage)}
            new = with_distinct_ids(message, used_ids - answered_ids) if "" in answered_ids else message
            used_ids |= {call.id for call in new.tool_calls}
            waiting = [call for call in new.tool_calls if call.id not in answered_ids]
        elif isinstance(message, ToolMessage) and not message.call_id and waiting:
            call = next((call for call in waiting if call.name == message.name), waiting[0])
            waiting.remove(call)
            new = replace(message, call_id=call.id)
        converted.append(new)
    return converted


class MessageReader:
    """Converts dictionaries of role and text to messages, returning the same object for equal dictionaries.

    The encoding of a message is cached by identity, so that a repeated message is not encoded again. Lookup is by
    content, because the caller can modify a dictionary at any time. Thread-safe.
    """

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str], Message] = {}
        self._bytes = 0

    def read(self, entry: Mapping[str, Any]) -> Message:
        """The message. Raises ValueError if its content is unknown."""
        role, content = entry.get("role"), entry.get("content")
        if len(entry) != 2 or type(role) is not str or type(content) is not str:
            return typed(entry)
        message = self._messages.get((role, content))
        if message is None:
            message = typed(entry)
            self._store((role, content), message)
        return message

    def _store(self, key: tuple[str, str], message: Message) -> None:
        if self._bytes > MAX_BYTES:
            self._messages, self._bytes = {}, 0
        self._bytes += len(key[1]) + OVERHEAD_BYTES
        self._messages[key] = message


def _message(entry: object, read: Callable[[Mapping[str, Any]], Message]) -> Message:
    if isinstance(entry, (dict, Mapping)):  # dict first: its check is faster
        return read(entry)
    if isinstance(entry, SystemMessage | UserMessage | AssistantMessage | ToolMessage):
        return entry
    raise TypeError(f"A message must be a dictionary or one of agentkit's message classes, not {type(entry).__name__}")


def _content(content: object) -> Content:
    if not isinstance(content, list | tuple):
        return text_of(content)
    return tuple(_part(part) for part in content)


def _answer(entry: Mapping[str, Any]) -> AssistantMessage:
    """A model's message. Its refusal, if it has one, is its text."""
    content = entry.get("content")
    if type(content) is str and entry.keys() == _PLAIN_FIELDS:  # most messages of a history
        return AssistantMessage(well_formed(content))
    message = read_message(entry)
    refused_parts = "".join(word(part.get("refusal")) for part in dictionaries(entry.get("content")))
    refusal = refused_parts or text_of(entry.get("refusal"))
    text, name = message.text or refusal, word(entry.get("name"))
    return message if (text, name) == (message.text, message.name) else replace(message, text=text, name=name)


def _result(call_id: str, name: str, content: object) -> ToolMessage:
    """A tool result with its text, images and files. A value that is not a content is serialised as JSON."""
    parts: list[object] = [content] if isinstance(content, Mapping) else []
    if isinstance(content, list | tuple):
        parts = list(content)
    if content is None or isinstance(content, str) or not parts or not all(map(_is_part, parts)):
        text = content if isinstance(content, str) else "" if content is None else _to_json(content)
        return ToolMessage(call_id, name, text)
    loaded = [_part(part) for part in parts]
    texts = "".join(text_of(part) for part in parts if not _is_attachment(part))
    attachments = [part for part, original in zip(loaded, parts, strict=True) if _is_attachment(original)]
    worded_files = [part for part in attachments if isinstance(part, str)]
    return ToolMessage(
        call_id, name, "\n".join([texts, *worded_files]), images=images_in(attachments), files=files_in(attachments)
    )


def _is_attachment(part: object) -> bool:
    """Whether a part is an image or a file."""
    return isinstance(part, Image | File) or not _ATTACHMENT_FIELDS.isdisjoint(dictionary(part))


def _is_part(part: object) -> bool:
    """Whether a value is a content part: a text, an image or a file."""
    fields = dictionary(part)
    is_text = isinstance(fields.get("text"), str) and fields.keys() <= _TEXT_FIELDS
    return isinstance(part, str) or is_text or _is_attachment(part)


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _part(part: object) -> str | Image | File:
    """Convert a content part of either protocol to text, an image or a file; text files are converted to text."""
    if isinstance(part, str | Image | File):
        return load_part(part)
    fields = dictionary(part)
    if not _FILE_FIELDS.isdisjoint(fields):
        return load_part(_file(fields))
    image = fields.get("image_url")
    url, detail = (image.get("url"), image.get("detail")) if isinstance(image, dict) else (image, fields.get("detail"))
    if isinstance(url, str):
        return Image(url, detail)
    if isinstance(fields.get("text"), str):
        return str(fields["text"])
    kind = fields.get("type", part)
    raise ValueError(f"The type of a message part must be text, image_url, file or input_audio, not {kind!r:.99}")


def _file(fields: Mapping[str, Any]) -> File:
    """Convert a file part. Raises ValueError for a file_id, which is known to its server only."""
    audio = dictionary(fields.get("input_audio"))
    if audio:
        kind, data = word(audio.get("format")), word(audio.get("data"))
        return File(f"data:audio/{_AUDIO_SUBTYPES.get(kind, kind)};base64,{data}")
    inner = dictionary(fields.get("file")) or fields
    url, name = word(inner.get("file_data") or inner.get("file_url")), word(inner.get("filename"))
    if not url:
        raise ValueError("A file in a message needs file_data or file_url; a file_id is valid on its own server only")
    return File(url, name) if ":" in url else File.read(a2b_base64(url), name)
