"""How is knowledge kept on a PostgreSQL server?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentkit.errors import KnowledgeError, SessionError
from agentkit.knowledge.stores.store import SCHEMA_VERSION
from agentkit.memory.stores import server
from agentkit.memory.stores.server import Tables, lock_number

_KNOWLEDGE = Tables(
    "knowledge",
    schema="agentkit_knowledge",
    version=SCHEMA_VERSION,
    statements=(
        "CREATE SCHEMA IF NOT EXISTS agentkit_knowledge",
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)",
        "CREATE TABLE IF NOT EXISTS documents (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, space TEXT NOT NULL,"
        " source TEXT NOT NULL, title TEXT NOT NULL, kind TEXT NOT NULL, fingerprint TEXT NOT NULL,"
        " added DOUBLE PRECISION NOT NULL, metadata JSONB NOT NULL, UNIQUE (space, source))",
        "CREATE TABLE IF NOT EXISTS passages (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, document BIGINT"
        " NOT NULL REFERENCES documents ON DELETE CASCADE, text TEXT NOT NULL, section TEXT NOT NULL,"
        " first_line INTEGER, last_line INTEGER, page INTEGER, words TSVECTOR NOT NULL)",
        "CREATE INDEX IF NOT EXISTS passages_of_document ON passages (document)",
        "CREATE INDEX IF NOT EXISTS words_of_passages ON passages USING gin (words)",
        "CREATE TABLE IF NOT EXISTS places (space TEXT NOT NULL, place TEXT NOT NULL, metadata JSONB NOT NULL,"
        " PRIMARY KEY (space, place))",
    ),
    last="places",
)
_VECTORS = (
    "CREATE EXTENSION IF NOT EXISTS vector SCHEMA public",
    "CREATE TABLE IF NOT EXISTS vectors (passage BIGINT PRIMARY KEY REFERENCES passages ON DELETE CASCADE,"
    " vector vector NOT NULL)",
)
_REMEDY = "\nSee that the server runs, and that this user may read and write in its schema agentkit_knowledge."
_SETUP_LOCK = "SELECT pg_advisory_xact_lock(%s)"


class Server(server.Server):
    """A database of a PostgreSQL server that holds knowledge."""

    def __init__(self, url: str) -> None:
        self._prepared: set[str] = set()
        super().__init__(url, _KNOWLEDGE, on_end=self._prepared.clear)

    @contextmanager
    def using(self) -> Iterator[Any]:
        """The connection, for this thread alone. Raises KnowledgeError for what goes wrong with the server."""
        try:
            with super().using() as connection:
                yield connection
        except SessionError as error:  # of what databases of sessions and of knowledge have in common
            remedy = "" if error.__context__ is None else _REMEDY  # what the server itself says names none
            raise KnowledgeError(f"{error}{remedy}") from None

    def prepare_vectors(self, index: str = "") -> None:
        """Make the table of vectors, and the index for those of one length, when they are not there.

        Raises KnowledgeError when the server does not have the extension, or this user may not turn it on.
        """
        wanted = [statement for statement in (*_VECTORS, index) if statement]
        if self._prepared.issuperset(wanted):
            return
        with self.writing() as connection:
            connection.execute(_SETUP_LOCK, (lock_number(_KNOWLEDGE.schema),))
            for statement in wanted:
                connection.execute(statement)
        self._prepared.update(wanted)
