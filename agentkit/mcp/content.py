"""Resources, prompts and answers of servers, and their conversion for models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from agentkit._dataclass import dataclass
from agentkit.content import File, Image, load_part

Answer = str | list[str | Image | File]
"""A server's answer: a text, or texts, images and files in order. It can be used as a prompt."""

_SPEAKERS = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource offered by a server: `uri` is the argument of `read`.

    The URI of a template has placeholders in braces, such as `notes://{name}`, which the reader fills in.
    """

    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    is_template: bool = False

    def to_dict(self) -> dict[str, str]:
        """Return the non-empty fields as JSON data: `uri` or `uri_template`, `name`, `description`, `media_type`."""
        data = {"uri_template" if self.is_template else "uri": self.uri, "name": self.name}
        others = {"description": self.description, "media_type": self.media_type}
        return data | {key: value for key, value in others.items() if value}


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """A named text argument of a prompt."""

    name: str
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt offered by a server, with the arguments it takes."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


def format_resources(resources: Iterable[Resource]) -> str:
    """Render resources for the model: JSON, one per line."""
    lines = (json.dumps(each.to_dict(), ensure_ascii=False) for each in resources)
    return "\n".join(lines) or "The server has no resources."


def argument_texts(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Convert prompt arguments to texts; other values become JSON. Raises TypeError for unsupported ones."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in arguments.items()
    }


def result_answer(blocks: Iterable[Any], structured: Any = None) -> Answer:
    """Convert the content blocks of a result.

    Binary data that models cannot read is only named; structured content is used if the blocks are empty.
    """
    parts = _join([_block(block) for block in blocks], "\n")
    return parts if parts or structured is None else json.dumps(structured, ensure_ascii=False)


def resource_answer(contents: Sequence[Any]) -> Answer:
    """Convert the contents of a resource; several contents are each preceded by their URI."""
    parts: list[str | Image | File] = []
    for each in contents:
        parts += [f"[{each.uri}]", _content(each)] if len(contents) > 1 else [_content(each)]
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0]
    return _join(parts, "\n")


def prompt_answer(messages: Sequence[Any]) -> Answer:
    """Convert the messages of a prompt; if some are the model's, each is preceded by its role.

    The whole is one prompt: text from a server never becomes an assistant message.
    """
    has_roles = any(message.role != "user" for message in messages)
    parts: list[str | Image | File] = []
    blocks = ((each.role, block) for each in messages for block in blocks_of(each.content))
    for role, block in blocks:
        content, speaker = _block(block), f"{_SPEAKERS.get(role, role)}:"
        if has_roles and isinstance(content, str):
            parts.append(f"{speaker} {content}")
        else:
            parts += [speaker, content] if has_roles else [content]
    return _join(parts, "\n\n")


def blocks_of(content: Any) -> list[Any]:
    """Return the content of a message as a list: some messages have a single block."""
    return content if isinstance(content, list) else [content]


def _join(parts: list[str | Image | File], between: str) -> Answer:
    return parts if any(isinstance(each, Image | File) for each in parts) else between.join(map(str, parts))


def _block(block: Any) -> str | Image | File:
    if block.type == "text":
        return str(block.text)
    if block.type == "resource_link":
        return f"[a link to {block.uri}]"
    if block.type == "resource":
        return _content(block.resource)
    if block.type == "image":
        return Image(f"data:{block.mime_type};base64,{block.data}")
    return _media(block.data) or f"[{block.type}, {block.mime_type}, {len(block.data) * 3 // 4:,} bytes: not shown]"


def _content(content: Any) -> str | Image | File:
    """Convert a resource: a text, an image or file that models read, or a placeholder for other binary data."""
    text = getattr(content, "text", None)
    if text is not None:
        return str(text)
    name = unquote(str(content.uri).partition("?")[0].rstrip("/").rpartition("/")[2])
    return _media(content.blob, name) or f"[binary data of {content.uri}]"


def _media(encoded: str, name: str = "") -> Image | File | None:
    """Detect an image, PDF or recording by its data, whatever the server declares; None for anything else."""
    url = f"data:application/octet-stream;base64,{encoded}"
    for part in (Image(url), File(url, name)):
        try:
            checked = part.validated()
        except ValueError:
            continue
        return None if isinstance(load_part(checked), str) else checked
    return None
