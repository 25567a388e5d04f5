"""How is what real servers send read, whatever its shape? Tolerant readers that both protocols share (pure)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentkit.errors import Rejected
from agentkit.messages import AssistantMessage, Image, SystemMessage, ToolMessage, UserMessage, with_distinct_ids
from agentkit.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentkit.messages import Content, Message, ToolCall


def text_of(content: object) -> str:
    """The text in a content field: a string, null, or a list of parts of which only those with text count."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(_part_text(part) for part in content)


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def arguments_text(arguments: object) -> str:
    """Tool-call arguments as JSON text: servers send text, objects, null, or text encoded twice."""
    if arguments is None:
        return ""
    if not isinstance(arguments, str):
        return json.dumps(arguments, ensure_ascii=False)
    if arguments.startswith('"'):
        inner = _loaded(arguments)
        return inner if isinstance(inner, str) else arguments
    return arguments


def sendable_arguments(arguments: str) -> str:
    """Arguments as the JSON object that servers demand in history, also when the model wrote something else."""
    parsed = _loaded(arguments or "{}")
    return (arguments or "{}") if isinstance(parsed, dict) else json.dumps({"malformed_arguments": arguments})


def is_complete_json(text: str) -> bool:
    """Whether `text` is a whole JSON value."""
    return _loaded(text) is not _BROKEN


_BROKEN = object()


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return _BROKEN


def usage_of(usage: object, names: tuple[str, str], details: tuple[str, str]) -> Usage:
    """Token counts from a usage object whose input and output fields bear `names`, their parts `details`."""
    if not isinstance(usage, dict):
        return Usage(requests=1, unreported=1)
    return Usage(
        input_tokens=_count(usage.get(names[0])),
        output_tokens=_count(usage.get(names[1])),
        cached_tokens=_count(_inside(usage, details[0], "cached_tokens")),
        reasoning_tokens=_count(_inside(usage, details[1], "reasoning_tokens")),
        requests=1,
    )


def _inside(data: Mapping[str, Any], outer: str, inner: str) -> object:
    nested = data.get(outer)
    return nested.get(inner) if isinstance(nested, dict) else None


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def assistant_message(
    text: str, calls: Iterable[ToolCall], reasoning: str, extra: Mapping[str, Any]
) -> AssistantMessage:
    """A message whose tool calls all have an id of their own."""
    return with_distinct_ids(AssistantMessage(text, tuple(calls), reasoning, extra), set())


def refuse(refusal: str) -> Rejected:
    """The error for a model that declines to answer."""
    return Rejected(f"The model refused to answer: {refusal}", code="refusal")


def filtered() -> Rejected:
    """The error for an answer that the provider's content filter withheld."""
    return Rejected(
        "The provider's content filter withheld the answer. Change the wording, or the filter's settings.",
        code="content_filter",
    )


def typed_messages(prompt: str | Iterable[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """Messages from a text, from plain dictionaries in the chat format, or from messages.

    Raises ValueError for a dictionary whose role is unknown.
    """
    if isinstance(prompt, str):
        return (UserMessage(prompt),)
    return tuple(_typed(entry) if isinstance(entry, dict) else entry for entry in prompt)  # type: ignore[misc]


def _typed(entry: Mapping[str, Any]) -> Message:
    role = entry.get("role")
    match role:
        case "user":
            return UserMessage(_content(entry.get("content")))
        case "system" | "developer":
            return SystemMessage(text_of(entry.get("content")))
        case "assistant":
            from agentkit.llm.wire.chat import read_message

            return read_message(entry)
        case "tool":
            call_id, name = str(entry.get("tool_call_id", "")), str(entry.get("name", ""))
            return ToolMessage(call_id, name, text_of(entry.get("content")))
    raise ValueError(f"A message's role is user, system, developer, assistant or tool, not {role!r}")


def _content(content: object) -> Content:
    if not isinstance(content, list):
        return text_of(content)
    return tuple(_read_part(part) for part in content)


def _read_part(part: object) -> str | Image:
    if isinstance(part, dict) and part.get("type") == "image_url":
        image = part["image_url"]
        return Image(image["url"], image.get("detail")) if isinstance(image, dict) else Image(image)
    return _part_text(part)
