"""PostgreSQL connections, schema creation and sharing between threads."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.errors import MissingExtra, SessionError

if TYPE_CHECKING:
    import psycopg

_SETTINGS = "SELECT set_config('search_path', %s, false), set_config('client_min_messages', 'error', false)"
_IS_MADE = "SELECT to_regclass(%s) IS NOT NULL"
_SETUP_LOCK = "SELECT pg_advisory_xact_lock(%s)"
_SET_VERSION = "INSERT INTO schema_version SELECT %s WHERE NOT EXISTS (SELECT FROM schema_version)"
_VERSION = "SELECT version FROM schema_version"


@dataclass(frozen=True, slots=True)
class SchemaDefinition:
    """A database schema: a word for its contents, its name, version, SQL statements, and the table created last."""

    contents: str
    schema: str
    version: int
    statements: tuple[str, ...]
    last: str


class PostgresDatabase:
    """A database, connected to on first use. One connection serves all threads of a process.

    `on_loss` is called when a connection was lost; `on_end` then, and whenever a connection is closed.
    """

    def __init__(
        self,
        url: str,
        tables: SchemaDefinition,
        *,
        on_end: Callable[[], object],
        on_loss: Callable[[], object] | None = None,
    ) -> None:
        self.url, self._tables, self._on_end, self._on_loss = url, tables, on_end, on_loss or on_end
        self.lock = threading.RLock()
        self.process = 0
        self._connection: psycopg.Connection[Any] | None = None
        self._inherited: list[object] = []

    @property
    def display_url(self) -> str:
        """The URL without user, password and settings, for display."""
        return re.sub(r"(?<=://)[^/]*@|\?.*", "", self.url, flags=re.DOTALL)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection, locked for this thread. Raises SessionError for database errors."""
        psycopg = self._psycopg()
        with self.lock:
            try:
                yield self._connect()
            except psycopg.Error as error:
                if self._connection is not None and self._connection.closed:
                    self._on_loss()
                    self.close()
                problem = f"The {self._tables.contents} in {self.display_url} cannot be read or written"
                raise SessionError(f"{problem}: {error}") from None

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction."""
        with self.connection() as connection, connection.transaction():
            yield connection

    def close(self) -> None:
        """Close the connection; the next use reconnects."""
        with self.lock:
            self._on_end()
            connection, self._connection = self._connection, None
            if connection is not None and self.process == os.getpid():
                connection.close()

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is not None and self.process == os.getpid():
            return self._connection
        if self._connection is not None:  # the parent's connection: closing it here would end it there
            self._inherited.append(self._connection)
            self._on_end()
        self._connection = None
        connection: psycopg.Connection[Any] = self._psycopg().connect(self.url, autocommit=True)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self.process = connection, os.getpid()
        weakref.finalize(self, _close, connection, os.getpid())
        os.register_at_fork(after_in_child=partial(_leave_to_parent, weakref.ref(connection)))
        return connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Create the tables if they do not exist. Raises SessionError if a newer version created them."""
        tables = self._tables
        connection.execute(_SETTINGS, (f"{tables.schema}, public",))
        if not connection.execute(_IS_MADE, (f"{tables.schema}.{tables.last}",)).fetchall()[0][0]:
            with connection.transaction():
                connection.execute(_SETUP_LOCK, (lock_number(tables.schema),))
                for statement in tables.statements:
                    connection.execute(statement)
                connection.execute(_SET_VERSION, (tables.version,))
        version = connection.execute(_VERSION).fetchall()[0][0]
        if version > tables.version:
            raise SessionError(
                f"{self.display_url} was written by a newer version of agentkit: its {tables.contents} have schema "
                f"version {version}, and this version reads up to {tables.version}. Update agentkit, or name another "
                "database."
            )

    def _psycopg(self) -> Any:
        """Import psycopg. Raises MissingExtra if it is not installed."""
        try:
            import psycopg
        except ImportError:
            raise MissingExtra("postgres", f"A PostgreSQL database of {self._tables.contents}") from None
        return psycopg


def lock_number(name: str) -> int:
    """The number of the advisory lock of that name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


def _close(connection: psycopg.Connection[Any], process: int) -> None:
    if process == os.getpid():
        connection.close()


def _leave_to_parent(connection: weakref.ref[psycopg.Connection[Any]]) -> None:
    """Close the inherited file descriptor in a forked child, so that the parent's connection ends with the parent."""
    inherited = connection()
    if inherited is not None and not inherited.closed:
        os.close(inherited.fileno())
