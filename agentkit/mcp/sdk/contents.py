"""What does a server offer beside its tools, and what do its contents say? As texts, pictures and files (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from agentkit.parts import File, Image, worded
from agentkit.slotted import dataclass

Answer = str | list[str | Image | File]
"""What a server says: a text, or texts, pictures and files in order. A run takes it as a prompt."""

_SPEAKERS = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True)
class Resource:
    """What a server offers to read: `uri` is what `read` takes.

    Of a template the URI has places in braces, such as `notes://{name}`, for whoever reads to fill in.
    """

    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    is_template: bool = False

    def to_dict(self) -> dict[str, str]:
        """What there is of it, JSON-ready: `uri` or `uri_template`, `name`, `description`, `media_type`."""
        told = {"uri_template" if self.is_template else "uri": self.uri, "name": self.name}
        others = {"description": self.description, "media_type": self.media_type}
        return told | {key: value for key, value in others.items() if value}


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """A text that a prompt takes by this name."""

    name: str
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that a server offers to write, with what it must be told for that."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


def listing(resources: Iterable[Resource]) -> str:
    """What there is to read, as a model is told it: JSON, one a line."""
    lines = (json.dumps(each.to_dict(), ensure_ascii=False) for each in resources)
    return "\n".join(lines) or "The server offers nothing to read."


def written(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The arguments of a prompt, which are texts: other values as JSON. Raises TypeError for what is none."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in arguments.items()
    }


def value_of(blocks: Iterable[Any], structured: Any = None) -> Answer:
    """What the blocks of a result say.

    Binary data that no model reads are only named; structured content counts where there is nothing else.
    """
    said = _joined([_block(block) for block in blocks], "\n")
    return said if said or structured is None else json.dumps(structured, ensure_ascii=False)


def contents_of(contents: Sequence[Any]) -> Answer:
    """What a resource says; where it has several contents, the URI of each stands before it."""
    said: list[str | Image | File] = []
    for each in contents:
        said += [f"[{each.uri}]", _content(each)] if len(contents) > 1 else [_content(each)]
    if len(said) == 1 and isinstance(said[0], str):
        return said[0]
    return _joined(said, "\n")


def prompt_of(messages: Sequence[Any]) -> Answer:
    """What the messages of a prompt say; where some are a model's, it is named who says what.

    All of it is the prompt: no words of a stranger become an answer that a model has given.
    """
    are_told_apart = any(message.role != "user" for message in messages)
    said: list[str | Image | File] = []
    for message in messages:
        content = _block(message.content)
        speaker = f"{_SPEAKERS.get(message.role, message.role)}:"
        if are_told_apart and isinstance(content, str):
            said.append(f"{speaker} {content}")
        else:
            said += [speaker, content] if are_told_apart else [content]
    return _joined(said, "\n\n")


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
    """A text, a picture or file that models read, or what is said of other binary data."""
    text = getattr(content, "text", None)
    if text is not None:
        return str(text)
    name = unquote(str(content.uri).partition("?")[0].rstrip("/").rpartition("/")[2])
    return _shown(content.blob, name) or f"[binary data of {content.uri}]"


def _shown(encoded: str, name: str = "") -> Image | File | None:
    """A picture, a PDF or a recording, told by its data, whatever the server calls it; None for anything else."""
    url = f"data:application/octet-stream;base64,{encoded}"
    for part in (Image(url), File(url, name)):
        try:
            checked = part.checked()
        except ValueError:
            continue
        return None if isinstance(worded(checked), str) else checked
    return None
