"""What do the tools that a server runs itself, and thoughts, leave in a conversation? Pure.

They are items like others: they stay where they stood in the answer, and go back as they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.llm.wire import reading
from agentkit.llm.wire.writing import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_thought(item: object) -> bool:
    """Whether an output item is what a model thought."""
    return isinstance(item, dict) and item.get("type") == "reasoning"


def settled(items: Sequence[Any]) -> tuple[Any, ...]:
    """The items without thoughts at the end that nothing came of: they are refused in a conversation."""
    return tuple(items[: next((at for at in range(len(items), 0, -1) if not is_thought(items[at - 1])), 0)])


def with_callers(entries: list[Entry]) -> list[Entry]:
    """The entries, in which the results that a program waits for say which one, as their calls do."""
    made = (entry for entry in entries if reading.dictionary(entry.get("caller")).get("type") == "program")
    callers = {entry.get("call_id"): entry["caller"] for entry in made}
    if not callers:
        return entries
    results = (entry.get("type") == "function_call_output" and entry["call_id"] in callers for entry in entries)
    told = zip(entries, results, strict=True)
    return [Entry({**entry, "caller": callers[entry["call_id"]]}) if is_ours else entry for entry, is_ours in told]
