"""What does the last event of a run tell? Its result, as far as a listener needs to know it."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Protocol, cast

from agentkit.events import Event, RunStatus, ToolCallFinished
from agentkit.usage import Cost, Usage


class Ending(Protocol):
    """What a run has come to: what `RunFinished.result` says."""

    status: RunStatus
    usage: Usage
    cost: Cost | None
    iterations: int
    tool_calls: Sized
    error: Exception | None
    value: Any


def ending_in(event: Event) -> Ending | None:
    """The result in RunFinished, which lives with the agents; None in any other event."""
    result = None if isinstance(event, ToolCallFinished) else getattr(event, "result", None)
    return cast("Ending | None", result)


def text_of(value: object) -> str:
    """An answer as text."""
    return value if isinstance(value, str) else "" if value is None else str(value)
