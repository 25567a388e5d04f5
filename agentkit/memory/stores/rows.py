"""How does an entry stand in a store? (pure)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from agentkit.errors import SessionError
from agentkit.memory.codec import decode, decode_seconds, encode, from_line, to_line
from agentkit.memory.store import START, Entry, Position, SessionSummary

Row = tuple[str, float, str]
"""The entry's run, its time and its milestone as a line of JSON."""

_ID_BITS = 62


def rows_of(entries: Iterable[Entry]) -> list[Row]:
    """The entries as they are kept. Raises SessionError for what cannot be kept."""
    return [(entry.run, entry.at, to_line(encode(entry.milestone))) for entry in entries]


def entries_in(rows: Iterable[Row]) -> list[Entry]:
    """The entries that are kept. Raises SessionError for what is none."""
    return [_entry(*row) for row in rows]


def _entry(run: Any, at: Any, line: Any) -> Entry:
    """The entry of a row; a database of others may hold values of any type."""
    if not isinstance(run, str) or not run or not isinstance(line, str):
        raise SessionError("An entry is damaged: its run or its milestone is no text.")
    return Entry(run, decode_seconds(at), decode(from_line(line)))


def entries_found(
    found: Sequence[tuple[int, int | None, str, float, str]], after: Position
) -> tuple[list[Entry], Position]:
    """What a database found behind `after`, and the position behind it: the session's id and place before each row.

    The session alone, without a place, says that nothing is new; no row at all that there is no such session.
    """
    if not found:
        return [], START
    session, place = found[0][0], found[-1][1]
    if place is None:
        return [], (session, after[1] if after[0] == session else 0)
    return entries_in((run, at, line) for _, _, run, at, line in found), (session, place)


def summary_of(name: Any, runs: Any, entries: Any, began: Any, changed: Any) -> SessionSummary:
    """The summary of a session from its row. Raises SessionError for values that no store of ours writes."""
    if not isinstance(name, str):
        raise SessionError(f"A session is damaged: its name {name!r:.80} is no text.")
    return SessionSummary(name, runs, entries, decode_seconds(began), decode_seconds(changed))


def new_id() -> int:
    """The id of a new session: none that was used before, not even in a place that was here before."""
    return 1 + secrets.randbits(_ID_BITS)
