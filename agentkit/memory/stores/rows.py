"""How does an entry stand in a store? (pure)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

from agentkit.memory.codec import decode, encode, from_line, to_line
from agentkit.memory.store import START, Entry, Position

Row = tuple[str, float, str]
"""The entry's run, its time and its milestone as a line of JSON."""

_ID_BITS = 62


def rows_of(entries: Iterable[Entry]) -> list[Row]:
    """The entries as they are kept. Raises SessionError for what cannot be kept."""
    return [(entry.run, entry.at, to_line(encode(entry.milestone))) for entry in entries]


def entries_in(rows: Iterable[Row]) -> list[Entry]:
    """The entries that are kept. Raises SessionError for what is none."""
    return [Entry(run, at, decode(from_line(line))) for run, at, line in rows]


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


def new_id() -> int:
    """The id of a new session: none that was used before, not even in a place that was here before."""
    return 1 + secrets.randbits(_ID_BITS)
