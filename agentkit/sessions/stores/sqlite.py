"""The SQLite session store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from agentkit.errors import SessionError
from agentkit.sessions.codec import Row, new_id, parse_entries, rows_of, summary_of
from agentkit.sessions.store import START, Position, Release, SessionEntry, SessionSummary, name_taken_error, no_session
from agentkit.sessions.stores.locks import RunLocks, lock_path_of
from agentkit.sessions.stores.sqlite_database import WAIT_SECONDS, DatabaseFile, DatabaseFormat

_SESSIONS = DatabaseFormat(
    "sessions",
    application=0x41_4B_49_54,  # AKIT
    version=1,
    tables=(
        "CREATE TABLE sessions (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
        "CREATE TABLE entries (position INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions,"
        " run TEXT NOT NULL, at REAL NOT NULL, event TEXT NOT NULL)",
        "CREATE INDEX entries_of_session ON entries (session)",
    ),
)
_READ = (
    "SELECT sessions.id, position, run, at, event FROM sessions LEFT JOIN entries"
    " ON session = sessions.id AND position > CASE WHEN sessions.id = ? THEN ? ELSE 0 END"
    " WHERE name = ? ORDER BY position"
)
_ADD = "INSERT INTO entries (session, run, at, event) VALUES (?, ?, ?, ?)"
_ADD_BY_NAME = "INSERT INTO entries (session, run, at, event) SELECT id, ?, ?, ? FROM sessions WHERE name = ?"
_SUMMARIES = (
    "SELECT name, COUNT(DISTINCT run), COUNT(*), MIN(at), MAX(at) FROM entries JOIN sessions ON session = sessions.id"
    " GROUP BY sessions.id ORDER BY MAX(at) DESC, MAX(position) DESC"
)


class SQLiteSessionStore:
    """Stores sessions in one SQLite file, created on demand and readable for its owner only.

    Stored entries survive the death of the process at any instant; after a power loss the newest entries can be
    missing, but never a part of an entry. One connection serves all threads; `wait_seconds` is how long it waits for
    other processes that are writing. If the file is removed or replaced, runs in progress are refused from then on, so
    that no file contains only a part of a run; later runs are stored in the new file.
    """

    def __init__(self, path: str | PathLike[str], wait_seconds: float = WAIT_SECONDS) -> None:
        self.path = Path(path).absolute()
        self._wait_seconds = wait_seconds
        self._run_locks = RunLocks(lock_path_of(self.path))
        self._locked: set[tuple[str, str]] = set()
        self._lost: set[tuple[str, str]] = set()
        on_removed = partial(self._lost.update, self._locked)
        self._file = DatabaseFile(str(self.path), _SESSIONS, wait_seconds, on_removed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self._wait_seconds)

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self.path)!r})"

    def create(self, session: str, entries: Sequence[SessionEntry]) -> None:
        """Create a session with these entries."""
        rows = rows_of(entries)
        with self._file.transaction() as connection:
            if _find(connection, session) is not None:
                raise name_taken_error(session)
            _add(connection, _make(connection, session), rows)

    def append(self, session: str, entries: Sequence[SessionEntry]) -> None:
        """Append all entries or none."""
        rows = rows_of(entries)
        if len(rows) == 1:  # to an existing session in a single statement, the most frequent case
            with self._file.connection(partial(self._refuse_lost, session, rows)) as connection:
                if connection.execute(_ADD_BY_NAME, (*rows[0], session)).rowcount == 1:
                    return
        if rows:
            with self._file.transaction(partial(self._refuse_lost, session, rows)) as connection:
                found = _find(connection, session)
                _add(connection, _make(connection, session) if found is None else found, rows)

    def read(self, session: str, after: Position = START) -> tuple[list[SessionEntry], Position]:
        """Read the entries after a position, and the position of the last."""
        with self._file.connection() as connection:
            rows = connection.execute(_READ, (*after, session)).fetchall()
        return parse_entries(rows, after)

    def lock(self, session: str, run: str) -> Release | None:
        """Lock a run until it is released or the process dies."""
        release = self._run_locks.lock(session, run)
        if release is None:
            return None
        with self._file.lock:
            self._locked.add((session, run))
        return partial(self._let_go, (session, run), release)

    def _let_go(self, key: tuple[str, str], release: Release) -> None:
        with self._file.lock:
            self._locked.discard(key)
            self._lost.discard(key)
        release()

    def is_locked(self, session: str, run: str) -> bool:
        """Whether a live process holds the lock on the run."""
        return self._run_locks.is_locked(session, run)

    def summaries(self) -> list[SessionSummary]:
        """List all sessions, the most recently changed first. A missing file is not created; the list is then empty."""
        if not os.path.lexists(self.path):
            return []
        with self._file.connection() as connection:
            return [summary_of(*row) for row in connection.execute(_SUMMARIES)]

    def rename(self, old: str, new: str) -> None:
        """Rename a session."""
        with self._run_locks.exclusive(old), self._file.transaction() as connection:
            found = _find(connection, old)
            if found is None:
                raise no_session(old)
            if _find(connection, new) is not None:
                raise name_taken_error(new)
            connection.execute("UPDATE sessions SET name = ? WHERE id = ?", (new, found))

    def delete(self, session: str) -> None:
        """Delete a session."""
        with self._run_locks.exclusive(session), self._file.transaction() as connection:
            found = _find(connection, session)
            if found is None:
                raise no_session(session)
            connection.execute("DELETE FROM entries WHERE session = ?", (found,))
            connection.execute("DELETE FROM sessions WHERE id = ?", (found,))

    def close(self) -> None:
        """Close the file; the next use reopens it."""
        self._file.close()

    def _refuse_lost(self, session: str, rows: Sequence[Row]) -> None:
        """Raise SessionError for entries of a run whose beginning is in another file."""
        if self._lost and not self._lost.isdisjoint((session, run) for run, _, _ in rows):
            raise SessionError(
                f"The file {self.path} was removed or replaced during this run, so the run cannot be stored. Its"
                " events until then are in the old file. Restore that file to resume the run, or run the prompt again."
            )


def _find(connection: Connection, session: str) -> int | None:
    row = connection.execute("SELECT id FROM sessions WHERE name = ?", (session,)).fetchone()
    return None if row is None else int(row[0])


def _make(connection: Connection, session: str) -> int:
    """Create a session."""
    made = new_id()
    connection.execute("INSERT INTO sessions (id, name) VALUES (?, ?)", (made, session))
    return made


def _add(connection: Connection, session: int, rows: Sequence[Row]) -> None:
    connection.executemany(_ADD, [(session, *row) for row in rows])
