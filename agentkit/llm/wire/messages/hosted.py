"""What do the tools that a server runs itself leave in an answer, for the next request? Pure.

Their calls and results are blocks like others: they stay where they stood in the answer, and go back as they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.messages import AssistantMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentkit.messages import Message

CONTAINER = "container"
"""The key, here and in requests and answers, of the id of the machine on which a server runs code."""

PAUSED = "pause_turn"
"""How an answer ends that the server goes on with when it is sent back: its tools took long."""


def is_paused(data: Mapping[str, Any]) -> bool:
    """Whether the server has more to say, once it is sent what it has said."""
    return data.get("stop_reason") == PAUSED


def settled(blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The blocks without calls of the server's own whose results never came: it refuses those in a conversation."""
    answered = {block.get("tool_use_id") for block in blocks}
    return [block for block in blocks if not _is_hosted_call(block) or block.get("id") in answered]


def container_entry(message: Message) -> tuple[dict[str, Any], ...]:
    """The machine that an answer's code runs on, if on any."""
    container = message.extra.get(CONTAINER) if isinstance(message, AssistantMessage) else None
    return ({CONTAINER: container},) if container else ()


def going_on(messages: Sequence[Message]) -> Sequence[Message]:
    """The answer that is not over yet at the end of a conversation, as it waits for results of tools or was paused.

    Later its machine may be gone, and nobody says so before code fails there; while the answer lasts, it is wanted.
    """
    at = next((at for at in range(len(messages), 0, -1) if not isinstance(messages[at - 1], ToolMessage)), 0)
    return messages[max(at - 1, 0) : at]


def _is_hosted_call(block: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind.endswith("_tool_use")
