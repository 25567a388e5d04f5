"""How are sessions, files and money said at a shell? (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentkit.memory.narration.words import day_text
from agentkit.wording import count_text

if TYPE_CHECKING:
    from agentkit.memory.store import SessionSummary
    from agentkit.usage import Usage


def summary_line(summary: SessionSummary, width: int) -> str:
    """A session that is kept: its name in so many columns, when it was changed, and how many runs it has."""
    return f"{summary.name:<{width}}  {day_text(summary.changed)}  {count_text(summary.runs, 'run')}"


def money(usage: Usage) -> str:
    """What was spent, in money, or that nobody knows."""
    from agentkit.llm.prices import cost_of
    from agentkit.usage import shown_cost

    return shown_cost(cost_of(usage))


def kind_of(header: Mapping[str, Any]) -> str:
    """What a file is, by its header."""
    return "Cassette" if "cassette" in header else "Session"


def heading(header: Mapping[str, Any]) -> str:
    """What a file is, and when and by which version it was written, on one line."""
    recorded = f", recorded {header['recorded']}" if "recorded" in header else ""
    by = f" with agentkit {header['agentkit']}" if "agentkit" in header else ""
    return f"{kind_of(header)}{recorded}{by}"
