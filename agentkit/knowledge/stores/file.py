"""How is knowledge kept in one SQLite file?"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentkit.errors import KnowledgeError, SessionError
from agentkit.knowledge.stores.store import SCHEMA_VERSION
from agentkit.memory.stores import database
from agentkit.memory.stores.database import IN_MEMORY, WAIT_SECONDS, Kind

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
    settings=("secure_delete = ON",),
)


class DatabaseFile(database.DatabaseFile):
    """A database in one file that holds knowledge."""

    def __init__(self, place: str, wait_seconds: float = WAIT_SECONDS) -> None:
        path = place if place == IN_MEMORY else str(Path(place).expanduser().absolute())
        super().__init__(path, _KNOWLEDGE, wait_seconds)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it consists of."""
        is_kept = self.place != IN_MEMORY
        return tuple(f"{self.place}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")) if is_kept else ()

    @contextmanager
    def using(self, check: Callable[[], object] = lambda: None) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone. Raises KnowledgeError for what goes wrong with the file."""
        try:
            with super().using(check) as connection:
                yield connection
        except SessionError as error:  # of what files of sessions and of knowledge have in common
            raise KnowledgeError(str(error)) from None

    def empty_log(self) -> None:
        """Let what was deleted vanish from the log, too, unless somebody is reading just now."""
        with self.using() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
