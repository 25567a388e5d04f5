"""The PostgreSQL session store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from agentkit.errors import SessionError
from agentkit.sessions.codec import Row, new_id, parse_entries, rows_of, summary_of
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
from agentkit.sessions.stores.postgres_database import PostgresDatabase, SchemaDefinition, lock_number

if TYPE_CHECKING:
    import psycopg

_SESSIONS = SchemaDefinition(
    "sessions",
    schema="agentkit",
    version=1,
    statements=(
        "CREATE SCHEMA IF NOT EXISTS agentkit",
        "CREATE TABLE IF NOT EXISTS agentkit.schema_version (version INTEGER NOT NULL)",
        "CREATE TABLE IF NOT EXISTS agentkit.sessions (id BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
        "CREATE TABLE IF NOT EXISTS agentkit.entries (session BIGINT NOT NULL REFERENCES agentkit.sessions,"
        " position BIGINT GENERATED ALWAYS AS IDENTITY, run TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,"
        " event TEXT NOT NULL, PRIMARY KEY (session, position))",
    ),
    last="entries",
)
_FIND = "SELECT id FROM agentkit.sessions WHERE name = %s FOR UPDATE"
_MAKE = "INSERT INTO agentkit.sessions (id, name) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING"
_ADD = "INSERT INTO agentkit.entries (session, run, at, event) VALUES (%s, %s, %s, %s)"
_READ = (
    "SELECT sessions.id, position, run, at, event FROM agentkit.sessions LEFT JOIN agentkit.entries"
    " ON session = sessions.id AND position > CASE WHEN sessions.id = %s THEN %s ELSE 0 END"
    " WHERE name = %s ORDER BY position"
)
_SUMMARIES = (
    "SELECT name, COUNT(DISTINCT run), COUNT(*), MIN(at), MAX(at) FROM agentkit.entries"
    " JOIN agentkit.sessions ON session = sessions.id GROUP BY sessions.id ORDER BY MAX(at) DESC, MAX(position) DESC"
)
_RENAME = "UPDATE agentkit.sessions SET name = %s WHERE id = %s"
_FORGET = ("DELETE FROM agentkit.entries WHERE session = %s", "DELETE FROM agentkit.sessions WHERE id = %s")
_SHARE = "SELECT pg_advisory_lock_shared(%s), pg_try_advisory_lock(%s)"
_UNSHARE = "SELECT pg_advisory_unlock_shared(%s)"
_UNLOCK = "SELECT pg_advisory_unlock(%s)"
_LOCK_ALONE = "SELECT pg_try_advisory_xact_lock(%s)"
_IS_LOCKED = (
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND ((classid::bigint << 32) | objid::bigint) = %s)"
)


class PostgresSessionStore:
    """Stores sessions in the schema `agentkit` of a PostgreSQL database, created on demand.

    Runs are locked by advisory locks of the store's connection, which the server releases when the connection ends: a
    proxy such as PgBouncer must therefore use one server connection per client. One connection serves all threads.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._locked: dict[str, object] = {}
        self._lost: set[str] = set()
        self._server = PostgresDatabase(
            url, _SESSIONS, on_end=self._locked.clear, on_loss=partial(self._lost.update, self._locked)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.url,)

    def __repr__(self) -> str:
        return f"PostgresStore({self._server.display_url!r})"

    def create(self, session: str, entries: Sequence[SessionEntry]) -> None:
        """Create a session with these entries."""
        rows = rows_of(entries)
        with self._server.transaction() as connection:
            made = _make(connection, session)
            if made is None:
                raise name_taken_error(session)
            _add(connection, made, rows)

    def append(self, session: str, entries: Sequence[SessionEntry]) -> None:
        """Append all entries or none."""
        rows = rows_of(entries)
        if rows:
            with self._server.transaction() as connection:
                if self._lost.intersection(_run_name(session, entry.run) for entry in entries):
                    raise SessionError(
                        f"The connection to {self._server.display_url} was lost, so this run of the session "
                        f"{session!r} may have been resumed elsewhere. Open the session again, and resume the run "
                        "from its stored state."
                    )
                # The session's row stays locked until the transaction ends, so that entries become visible in order.
                while (row := connection.execute(_FIND, (session,)).fetchone()) is None:
                    _make(connection, session)
                _add(connection, int(row[0]), rows)

    def read(self, session: str, after: Position = START) -> tuple[list[SessionEntry], Position]:
        """Read the entries after a position, and the position of the last."""
        with self._server.connection() as connection:
            rows = connection.execute(_READ, (*after, session)).fetchall()
        return parse_entries(rows, after)

    def lock(self, session: str, run: str) -> Release | None:
        """Lock a run until it is released or the connection ends. Waits while the session is being deleted."""
        name, owner = _run_name(session, run), object()
        with self._server.connection() as connection:
            if name in self._locked:
                return None
            if not connection.execute(_SHARE, (lock_number(session), lock_number(name))).fetchall()[0][1]:
                connection.execute(_UNSHARE, (lock_number(session),))
                return None
            self._locked[name] = owner
        return partial(self._release, session, name, owner)

    def _release(self, session: str, name: str, owner: object) -> None:
        with self._server.lock:
            self._lost.discard(name)
            if self._locked.get(name) is not owner or self._server.process != os.getpid():
                return
            del self._locked[name]
            with (
                suppress(SessionError),
                self._server.connection() as connection,
            ):  # if the connection is lost, the lock is released already
                connection.execute(_UNLOCK, (lock_number(name),))
                connection.execute(_UNSHARE, (lock_number(session),))

    def is_locked(self, session: str, run: str) -> bool:
        """Whether a live connection holds the lock on the run."""
        with self._server.connection() as connection:
            return bool(connection.execute(_IS_LOCKED, (lock_number(_run_name(session, run)),)).fetchall()[0][0])

    def summaries(self) -> list[SessionSummary]:
        """List all sessions, the most recently changed first."""
        with self._server.connection() as connection:
            return [summary_of(*row) for row in connection.execute(_SUMMARIES)]

    def rename(self, old: str, new: str) -> None:
        """Rename a session."""
        with self._exclusive(old) as (connection, found):
            if connection.execute(_FIND, (new,)).fetchone() is not None:
                raise name_taken_error(new)
            connection.execute(_RENAME, (new, found))

    def delete(self, session: str) -> None:
        """Delete a session."""
        with self._exclusive(session) as (connection, found):
            for statement in _FORGET:
                connection.execute(statement, (found,))

    def close(self) -> None:
        """Close the connection, which releases its locks; the next use reconnects."""
        self._server.close()

    @contextmanager
    def _exclusive(self, session: str) -> Iterator[tuple[psycopg.Connection[Any], int]]:
        """A transaction with exclusive access to a session."""
        with self._server.transaction() as connection:
            if any(name.startswith(f"{session}\n") for name in self._locked):
                raise in_use(session)
            if not connection.execute(_LOCK_ALONE, (lock_number(session),)).fetchall()[0][0]:
                raise in_use(session)
            row = connection.execute(_FIND, (session,)).fetchone()
            if row is None:
                raise no_session(session)
            yield connection, row[0]


def _make(connection: psycopg.Connection[Any], session: str) -> int | None:
    """Create a session; None if the name is taken."""
    made = new_id()
    return made if connection.execute(_MAKE, (made, session)).rowcount else None


def _add(connection: psycopg.Connection[Any], session: int, rows: Sequence[Row]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, [(session, *row) for row in rows])


def _run_name(session: str, run: str) -> str:
    return f"{session}\n{run}"
