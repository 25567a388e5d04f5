"""The in-memory session store."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.sessions.codec import Row, entries_in, new_id, rows_of
from agentkit.sessions.store import (
    START,
    Position,
    Release,
    SessionEntry,
    SessionSummary,
    in_use,
    name_taken_error,
    no_session,
)


@dataclass(slots=True)
class _StoredSession:
    id: int = field(default_factory=new_id)
    rows: list[Row] = field(default_factory=list)


class InMemorySessionStore:
    """Stores sessions for the lifetime of the object, serialised as in a file.

    A pickled store is a copy, since another process cannot access this one's memory.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, _StoredSession] = {}
        self._locked: dict[tuple[str, str], object] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {
                "_sessions": {
                    name: _StoredSession(stored.id, list(stored.rows)) for name, stored in self._sessions.items()
                }
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _locked={}, _lock=threading.Lock())

    def __repr__(self) -> str:
        return "MemoryStore()"

    def create(self, session: str, entries: Sequence[SessionEntry]) -> None:
        """Create a session with these entries."""
        rows = rows_of(entries)
        with self._lock:
            if session in self._sessions:
                raise name_taken_error(session)
            self._sessions[session] = _StoredSession(rows=rows)

    def append(self, session: str, entries: Sequence[SessionEntry]) -> None:
        """Append all entries or none."""
        rows = rows_of(entries)
        with self._lock:
            if rows:
                self._sessions.setdefault(session, _StoredSession()).rows.extend(rows)

    def read(self, session: str, after: Position = START) -> tuple[list[SessionEntry], Position]:
        """Read the entries after a position, and the position of the last."""
        with self._lock:
            stored = self._sessions.get(session)
            if stored is None:
                return [], START
            first = after[1] if after[0] == stored.id else 0
            rows, position = stored.rows[first:], (stored.id, len(stored.rows))
        return entries_in(rows), position

    def lock(self, session: str, run: str) -> Release | None:
        """Lock a run."""
        owner = object()
        with self._lock:
            if self._locked.setdefault((session, run), owner) is not owner:
                return None
        return partial(self._release, (session, run), owner)

    def _release(self, key: tuple[str, str], owner: object) -> None:
        with self._lock:
            if self._locked.get(key) is owner:
                del self._locked[key]

    def is_locked(self, session: str, run: str) -> bool:
        """Whether the run is locked."""
        with self._lock:
            return (session, run) in self._locked

    def summaries(self) -> list[SessionSummary]:
        """List all sessions, the most recently changed first."""
        with self._lock:
            listed = [(name, list(stored.rows)) for name, stored in self._sessions.items()]
        summaries = [_summary(name, rows) for name, rows in listed if rows]
        return sorted(summaries, key=lambda summary: summary.changed, reverse=True)

    def rename(self, old: str, new: str) -> None:
        """Rename a session."""
        with self._lock:
            self._check(old)
            if new in self._sessions:
                raise name_taken_error(new)
            self._sessions[new] = self._sessions.pop(old)

    def delete(self, session: str) -> None:
        """Delete a session."""
        with self._lock:
            self._check(session)
            del self._sessions[session]

    def close(self) -> None:
        """Do nothing: the store has no open resources."""

    def _check(self, session: str) -> None:
        if session not in self._sessions:
            raise no_session(session)
        if any(name == session for name, _ in self._locked):
            raise in_use(session)


def _summary(name: str, rows: list[Row]) -> SessionSummary:
    times = [at for _, at, _ in rows]
    return SessionSummary(name, len({run for run, _, _ in rows}), len(rows), min(times), max(times))
