"""How is a PostgreSQL server reached, and what is said when it cannot be?"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from agentkit.errors import MissingExtra, SessionError
from agentkit.knowledge.stores.store import SCHEMA_VERSION

if TYPE_CHECKING:
    import psycopg

_SCHEMA = (
    "CREATE SCHEMA IF NOT EXISTS agentkit_knowledge",
    "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS documents (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, space TEXT NOT NULL,"
    " source TEXT NOT NULL, title TEXT NOT NULL, kind TEXT NOT NULL, fingerprint TEXT NOT NULL,"
    " added DOUBLE PRECISION NOT NULL, metadata JSONB NOT NULL, UNIQUE (space, source))",
    "CREATE TABLE IF NOT EXISTS passages (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, document BIGINT NOT NULL"
    " REFERENCES documents ON DELETE CASCADE, text TEXT NOT NULL, section TEXT NOT NULL, first_line INTEGER,"
    " last_line INTEGER, page INTEGER, words TSVECTOR NOT NULL)",
    "CREATE INDEX IF NOT EXISTS passages_of_document ON passages (document)",
    "CREATE INDEX IF NOT EXISTS words_of_passages ON passages USING gin (words)",
    "CREATE TABLE IF NOT EXISTS places (space TEXT NOT NULL, place TEXT NOT NULL, metadata JSONB NOT NULL,"
    " PRIMARY KEY (space, place))",
)
_VECTORS = (
    "CREATE EXTENSION IF NOT EXISTS vector SCHEMA public",
    "CREATE TABLE IF NOT EXISTS vectors (passage BIGINT PRIMARY KEY REFERENCES passages ON DELETE CASCADE,"
    " vector vector NOT NULL)",
)
_SETTINGS = ("SET search_path = agentkit_knowledge, public", "SET client_min_messages = error")
_IS_MADE = "SELECT to_regclass('agentkit_knowledge.places') IS NOT NULL"
_SET_VERSION = "INSERT INTO schema_version SELECT %s WHERE NOT EXISTS (SELECT FROM schema_version)"
_SETUP_LOCK = "SELECT pg_advisory_xact_lock(4707250)"


class Server:
    """A database of a PostgreSQL server, connected to when it is first used. One connection serves all threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None
        self._process = 0
        self._inherited: list[object] = []
        self._prepared: set[str] = set()

    @property
    def shown(self) -> str:
        """The URL without what must not be shown: users, passwords and settings."""
        return re.sub(r"(?<=://)[^/]*@|\?.*", "", self.url, flags=re.DOTALL)

    @contextmanager
    def using(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection, for this thread alone. Raises SessionError for what goes wrong with the server."""
        psycopg = _psycopg()
        with self._lock:
            try:
                yield self._connected()
            except psycopg.Error as error:
                if self._connection is not None and self._connection.closed:
                    self.close()
                raise SessionError(f"The knowledge in {self.shown} cannot be read or written: {error}") from None

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction: all of it or nothing."""
        with self.using() as connection, connection.transaction():
            yield connection

    def prepare_vectors(self, index: str = "") -> None:
        """Make the table of vectors, and the index for those of one length, when they are not there.

        Raises SessionError when the server does not have the extension, or this user may not turn it on.
        """
        wanted = [statement for statement in (*_VECTORS, index) if statement]
        if self._prepared.issuperset(wanted):
            return
        with self.writing() as connection:
            connection.execute(_SETUP_LOCK)
            for statement in wanted:
                connection.execute(statement)
        self._prepared.update(wanted)

    def close(self) -> None:
        """End the connection; the next use makes another."""
        with self._lock:
            self._prepared.clear()
            connection, self._connection = self._connection, None
            if connection is not None and self._process == os.getpid():
                connection.close()

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        if self._connection is not None:  # a parent's; ending it here would end it there
            self._inherited.append(self._connection)
        self._connection = None
        connection: psycopg.Connection[Any] = _psycopg().connect(self.url, autocommit=True)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._process = connection, os.getpid()
        weakref.finalize(self, _close, connection, os.getpid())
        os.register_at_fork(after_in_child=partial(_leave_to_parent, weakref.ref(connection)))
        return connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Make the tables when they are not there. Raises SessionError when they are those of a newer version."""
        for statement in _SETTINGS:
            connection.execute(statement)
        if not connection.execute(_IS_MADE).fetchall()[0][0]:
            with connection.transaction():
                connection.execute(_SETUP_LOCK)
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute(_SET_VERSION, (SCHEMA_VERSION,))
        version = connection.execute("SELECT version FROM schema_version").fetchall()[0][0]
        if version > SCHEMA_VERSION:
            raise SessionError(
                f"{self.shown} was written by a newer version of agentkit: its knowledge has schema version {version},"
                f" and this version reads up to {SCHEMA_VERSION}. Update agentkit, or name another database."
            )


def _psycopg() -> Any:
    """The package, when it is there."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("postgres", "Knowledge in a PostgreSQL database") from None
    return psycopg


def _close(connection: psycopg.Connection[Any], process: int) -> None:
    if process == os.getpid():
        connection.close()


def _leave_to_parent(connection: weakref.ref[psycopg.Connection[Any]]) -> None:
    """In a child that was forked off: let the parent's connection end with the parent."""
    inherited = connection()
    if inherited is not None and not inherited.closed:
        os.close(inherited.fileno())
