"""How is one SQLite file shared by threads and processes, and what is said when it cannot be?"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentkit.errors import KnowledgeError, SessionError
from agentkit.knowledge.stores.store import SCHEMA_VERSION
from agentkit.memory.stores.database import Kind, close_in, connect, identity, make_file, told, transaction

WAIT_SECONDS = 30.0
_REMEDY = "Name a file in a folder that you may write in."
_KNOWLEDGE = Kind(
    "knowledge",
    application=0x41_4B_4B_4E,  # AKKN
    version=SCHEMA_VERSION,
    tables=(
        "CREATE TABLE documents (id INTEGER PRIMARY KEY, space TEXT NOT NULL, source TEXT NOT NULL,"
        " title TEXT NOT NULL, kind TEXT NOT NULL, fingerprint TEXT NOT NULL, added REAL NOT NULL,"
        " metadata TEXT NOT NULL, UNIQUE (space, source))",
        # A number is never given twice, so that one that was found cannot mean another passage a moment later.
        "CREATE TABLE passages (id INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL REFERENCES documents,"
        " text TEXT NOT NULL, section TEXT NOT NULL, first_line INTEGER, last_line INTEGER, page INTEGER, vector BLOB)",
        "CREATE INDEX passages_of_document ON passages (document)",
        "CREATE TABLE places (space TEXT NOT NULL, place TEXT NOT NULL, metadata TEXT NOT NULL,"
        " PRIMARY KEY (space, place))",
        "CREATE VIRTUAL TABLE words USING fts5 (heading, text, variants,"
        " tokenize = 'porter unicode61 remove_diacritics 0')",
    ),
)


class DatabaseFile:
    """A database in one file, opened when it is first used. One connection serves all threads of a process."""

    def __init__(self, place: str, wait_seconds: float = WAIT_SECONDS) -> None:
        self.place = place if place == ":memory:" else str(Path(place).expanduser().absolute())
        self._wait_seconds = wait_seconds
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int, int] = (0, 0, 0)
        self._inherited: list[sqlite3.Connection] = []

    @property
    def is_kept(self) -> bool:
        """Whether there is a file at all."""
        return self.place != ":memory:"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it consists of."""
        return tuple(f"{self.place}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")) if self.is_kept else ()

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone. Raises KnowledgeError for what goes wrong with the file."""
        with self._lock:
            try:
                yield self._connected()
            except sqlite3.Error as error:
                fault = f"The knowledge in {self.place} cannot be read or written: {told(error)}."
                raise KnowledgeError(fault) from None
            except OSError as error:
                fault = f"The knowledge in {self.place} cannot be kept: {error.strerror}. {_REMEDY}"
                raise KnowledgeError(fault) from None
            except SessionError as error:  # of what files of sessions and of knowledge have in common
                raise KnowledgeError(str(error)) from None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it or nothing."""
        with self.using() as connection, transaction(connection):
            yield connection

    def empty_log(self) -> None:
        """Let what was deleted vanish from the log, too, unless somebody is reading just now."""
        with self.using() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the file; the next use opens it again, except that what was in memory is lost."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and self._opened[0] == os.getpid():
                connection.close()

    def _connected(self) -> sqlite3.Connection:
        """The connection of this process to the file that is there now."""
        found = self._found()
        if self._connection is not None and self._opened != found:
            if self._opened[0] == os.getpid():  # the file was removed, or another put in its place
                self.close()
            else:
                self._inherited.append(self._connection)  # closing it here would harm the parent
                self._connection = None
        if self._connection is None:
            if self.is_kept:
                make_file(Path(self.place))
            connection = connect(self.place, _KNOWLEDGE, self._wait_seconds)
            connection.execute("PRAGMA secure_delete = ON").fetchall()
            self._connection, self._opened = connection, self._found()
            weakref.finalize(self, close_in, connection, os.getpid())
        return self._connection

    def _found(self) -> tuple[int, int, int]:
        """Which process, and which file."""
        return (identity(self.place) if self.is_kept else None) or (os.getpid(), 0, 0)
