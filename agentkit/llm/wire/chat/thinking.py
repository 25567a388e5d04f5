"""Which parts of an answer's content are thoughts, and how do they go back to their server? Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.llm.wire import reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentkit.messages import AssistantMessage

FIELD = "content"
"""Where the thoughts of a message are kept that came in its content."""

_LEVELS = 2
"""Thoughts are parts, which are texts or lists of parts."""

_READ = (("clear_thinking", False), ("preserve_thinking", True), ("keep", "all"))
_HOMES = ("thinking", "chat_template_kwargs")
"""How Z.ai, Qwen and Kimi are asked to read the thoughts of all answers, and where: there, or among the settings."""

_Parts = list[dict[str, Any]]


def thoughts_in(content: object) -> _Parts:
    """The parts of a content that are thoughts."""
    return [part for part in reading.dictionaries(content) if reading.is_thought(part)]


def joined(old: Sequence[Any], new: Sequence[Any], levels: int = _LEVELS) -> list[Any]:
    """The parts so far with those of the next piece, which continue the last part where they are of its type.

    A server that streams its thoughts sends a part for each word of them, and wants them back as the one that they are.
    """
    parts = list(old)
    for part in new:
        last = reading.dictionary(parts[-1] if parts else None)
        if last and isinstance(part, dict) and last.get("type") == part.get("type"):
            parts[-1] = last | {name: _grown(name, last.get(name), value, levels) for name, value in part.items()}
        else:
            parts.append(part)
    return parts


def _grown(name: str, old: object, new: Any, levels: int) -> Any:
    """A field with its next piece: what a model writes grows, and all else, such as a signature, comes whole."""
    if isinstance(old, list) and isinstance(new, list) and levels > 1:
        return joined(old, new, levels - 1)
    is_more = name in reading.THOUGHTS and isinstance(old, str) and isinstance(new, str)
    return f"{old}{new}" if is_more else new or old


def are_read(settings: Mapping[str, Any]) -> bool:
    """Whether the user asks the server to read the thoughts of all answers, and not only those beside calls."""
    homes = [settings, *(reading.dictionary(settings.get(name)) for name in _HOMES)]
    return any(home.get(name) == value for home in homes for name, value in _READ)


def with_thoughts(message: AssistantMessage, text: str | None) -> str | _Parts | None:
    """The content of a message, behind the thoughts that stood in it."""
    thoughts: Any = message.extra.get(FIELD)
    if not thoughts:
        return text
    return [*thoughts, {"type": "text", "text": text}] if text else [*thoughts]
