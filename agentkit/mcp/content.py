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
        told = {"uri_template" if self.is_template else "uri": self.uri, "name": self.name}
        others = {"description": self.description, "media_type": self.media_type}
        return told | {key: value for key, value in others.items() if value}


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


def listing(resources: Iterable[Resource]) -> str:
    """Render resources for the model: JSON, one per line."""
    lines = (json.dumps(each.to_dict(), ensure_ascii=False) for each in resources)
    return "\n".join(lines) or "The server has no resources."


def written(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Convert prompt arguments to texts; other values become JSON. Raises TypeError for unsupported ones."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in arguments.items()
    }


def value_of(blocks: Iterable[Any], structured: Any = None) -> Answer:
    """Convert the content blocks of a result.

    Binary data that models cannot read is only named; structured content is used if the blocks are empty.
    """
    said = _joined([_block(block) for block in blocks], "\n")
    return said if said or structured is None else json.dumps(structured, ensure_ascii=False)


def contents_of(contents: Sequence[Any]) -> Answer:
    """Convert the contents of a resource; several contents are each preceded by their URI."""
    said: list[str | Image | File] = []
    for each in contents:
        said += [f"[{each.uri}]", _content(each)] if len(contents) > 1 else [_content(each)]
    if len(said) == 1 and isinstance(said[0], str):
        return said[0]
    return _joined(said, "\n")


def prompt_of(messages: Sequence[Any]) -> Answer:
    """Convert the messages of a prompt; if some are the model's, each is preceded by its role.

    The whole is one prompt: text from a server never becomes an assistant message.
    """
    are_told_apart = any(message.role != "user" for message in messages)
    said: list[str | Image | File] = []
    blocks = ((each.role, block) for each in messages for block in blocks_of(each.content))
    for role, block in blocks:
        content, speaker = _block(block), f"{_SPEAKERS.get(role, role)}:"
        if are_told_apart and isinstance(content, str):
            said.append(f"{speaker} {content}")
        else:
            said += [speaker, content] if are_told_apart else [content]
    return _joined(said, "\n\n")


def blocks_of(content: Any) -> list[Any]:
    """Return the content of a message as a list: some messages have a single block."""
    return content if isinstance(content, list) else [content]


def _joined(said: list[str | Image | File], between: str) -> Answer:
    return said if any(isinstance(each, Image | File) for each in said) else between.join(map(str, said))


def _block(block: Any) -> str | Image | File:
    if block.type == "text":
        return str(block.text)
    if block.type == "resource_link":
        return f"[a link to {block.uri}]"
    if block.type == "resource":
        return _content(block.resource)
    if block.type == "image":
        return Image(f"data:{block.mime_type};base64,{block.data}")
    return _shown(block.data) or f"[{block.type}, {block.mime_type}, {len(block.data) * 3 // 4:,} bytes: not shown]"


def _content(content: Any) -> str | Image | File:
    """Convert a resource: a text, an image or file that models read, or a placeholder for other binary data."""
    text = getattr(content, "text", None)
    if text is not None:
        return str(text)
    name = unquote(str(content.uri).partition("?")[0].rstrip("/").rpartition("/")[2])
    return _shown(content.blob, name) or f"[binary data of {content.uri}]"


def _shown(encoded: str, name: str = "") -> Image | File | None:
    """Detect an image, PDF or recording by its data, whatever the server declares; None for anything else."""
    url = f"data:application/octet-stream;base64,{encoded}"
    for part in (Image(url), File(url, name)):
        try:
            checked = part.validated()
        except ValueError:
            continue
        return None if isinstance(load_part(checked), str) else checked
    return None
