"""The PostgreSQL store, with full-text search and pgvector."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from agentkit.documents.search_terms import Terms, index_terms
from agentkit.errors import KnowledgeError, SessionError
from agentkit.knowledge.chunks import Between, SearchScope, accepted_values
from agentkit.knowledge.stores.store import (
    NEIGHBOUR_SHARE,
    SCHEMA_VERSION,
    RankedChunks,
    SQLChunkStore,
    StoredDocument,
    Vector,
    check_length,
    chunk_heading,
)
from agentkit.sessions.stores import postgres_database
from agentkit.sessions.stores.postgres_database import SchemaDefinition, lock_number

_KNOWLEDGE = SchemaDefinition(
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
_REMEDY = "\nCheck that the server is running, and that this user can read and write its schema agentkit_knowledge."
_SETUP_LOCK = "SELECT pg_advisory_xact_lock(%s)"


class KnowledgeDatabase(postgres_database.PostgresDatabase):
    """The database of a PostgreSQL server that stores knowledge."""

    def __init__(self, url: str) -> None:
        self._prepared: set[str] = set()
        super().__init__(url, _KNOWLEDGE, on_end=self._prepared.clear)

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """The connection, locked for this thread. Raises KnowledgeError for database errors."""
        try:
            with super().connection() as connection:
                yield connection
        except SessionError as error:  # from the code shared with session databases
            remedy = "" if error.__context__ is None else _REMEDY  # errors of the server itself contain no remedy
            raise KnowledgeError(f"{error}{remedy}") from None

    def prepare_vectors(self, index: str = "") -> None:
        """Create the table of vectors, and the index for vectors of one length, if they do not exist.

        Raises KnowledgeError if the extension is not available, or this user is not allowed to enable it.
        """
        wanted = [statement for statement in (*_VECTORS, index) if statement]
        if self._prepared.issuperset(wanted):
            return
        with self.transaction() as connection:
            connection.execute(_SETUP_LOCK, (lock_number(_KNOWLEDGE.schema),))
            for statement in wanted:
                connection.execute(statement)
        self._prepared.update(wanted)


MAX_INDEXED = 2_000
"""The longest vectors that pgvector can index; longer ones are scanned sequentially."""

_FORGET = "DELETE FROM documents WHERE space = %s AND source = ANY(%s) RETURNING source"
_PUT = (
    "INSERT INTO documents (space, source, title, kind, fingerprint, added, metadata)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING id"
)
_PUT_PASSAGE = (
    "INSERT INTO passages (document, text, section, first_line, last_line, page, words) VALUES (%s, %s, %s, %s, %s, %s,"
    " setweight(to_tsvector('english', %s), 'A') || setweight(to_tsvector('english', %s), 'B')"
    " || setweight(to_tsvector('simple', %s), 'C')) RETURNING id"
)
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
# Words are weighted as in BM25, by their rarity, which ts_rank alone does not support.
_FIND_WORDS = """
    WITH terms AS (SELECT phraseto_tsquery(config::regconfig, term) AS query
        FROM unnest(%s::text[], %s::text[]) AS given (config, term)),
    counted AS (SELECT query, (SELECT count(*) FROM passages WHERE words @@ query) AS holding FROM terms),
    weighed AS (SELECT query, ln(1 + (greatest(total - holding, 0) + 0.5) / (holding + 0.5)) AS weight
        FROM counted, (SELECT count(*) AS total FROM passages) AS all_passages),
    found AS MATERIALIZED (SELECT passages.id AS number, document,
            sum(weight * ts_rank('{{0.1, 0.6, 0.6, 1.0}}', words, query, 1))::float8 AS score
        FROM weighed JOIN passages ON words @@ query JOIN documents ON documents.id = document
        WHERE {} GROUP BY passages.id ORDER BY score DESC, passages.id LIMIT %s)
    SELECT number, score + %s * coalesce((SELECT max(neighbour.score) FROM found AS neighbour
        WHERE abs(neighbour.number - found.number) = 1 AND neighbour.document = found.document), 0) AS total
        FROM found ORDER BY total DESC, number"""
_LENGTH = (
    "SELECT vector_dims(vector) FROM vectors JOIN passages ON passages.id = passage"
    " JOIN documents ON documents.id = document WHERE space = %s LIMIT 1"
)
_FIND_VECTORS = """
    SELECT passage, 1 - (vector::vector({length}) <=> %s::vector({length})) AS score
        FROM vectors JOIN passages ON passages.id = passage JOIN documents ON documents.id = document
        WHERE vector_dims(vector) = {length} AND {condition}
        ORDER BY vector::vector({length}) <=> %s::vector({length}) LIMIT %s"""
_INDEX = (
    "CREATE INDEX IF NOT EXISTS vectors_of_{length} ON vectors"
    " USING hnsw ((vector::vector({length})) vector_cosine_ops)"
    " WHERE vector_dims(vector) = {length}"
)
_WITHOUT_VECTOR = (
    "SELECT passages.id, title, section, text FROM passages JOIN documents ON documents.id = document"
    " WHERE space = ? AND NOT EXISTS (SELECT FROM vectors WHERE passage = passages.id) LIMIT ?"
)
_DROP_VECTORS = (
    "DELETE FROM vectors USING passages, documents"
    " WHERE passages.id = passage AND documents.id = document AND space = %s"
)
# The chunk can have been removed while its vector was made.
_GIVE_VECTOR = (
    "INSERT INTO vectors (passage, vector) SELECT id, %s::vector FROM passages WHERE id = %s"
    " ON CONFLICT (passage) DO UPDATE SET vector = excluded.vector"
)


class PostgresChunkStore(SQLChunkStore):
    """Stores chunks in the schema `agentkit_knowledge` of a database. Only vectors need the extension pgvector."""

    placeholder, collation, pattern_test = "%s", '"C"', "LIKE"

    def __init__(self, url: str) -> None:
        self._server = KnowledgeDatabase(url)
        super().__init__(self._server)

    def __repr__(self) -> str:
        return f"PostgresStore({self._server.display_url!r})"

    def put(self, space: str, stored: StoredDocument) -> None:
        """Store a document, replacing the one of the same source, in one transaction."""
        document = stored.document
        if stored.vectors:
            self._server.prepare_vectors(_index_statement(stored.vectors))
        with self._server.transaction() as connection:
            connection.execute(_LOCK, (f"{space}\n{document.source}",))
            connection.execute(_FORGET, (space, [document.source]))
            row = connection.execute(_PUT, (space, *stored.row)).fetchall()[0][0]
            for number, piece in enumerate(stored.chunks):
                heading, text = index_terms(chunk_heading(document, piece)), index_terms(piece.text)
                place = (piece.section, piece.first_line, piece.last_line, piece.page)
                words = (heading.words, text.words, f"{heading.variants} {text.variants}")
                number_of_chunk = connection.execute(_PUT_PASSAGE, (row, piece.text, *place, *words)).fetchall()[0][0]
                if stored.vectors:
                    connection.execute(_GIVE_VECTOR, (_vector_text(stored.vectors[number]), number_of_chunk))

    def remove(self, space: str, sources: Iterable[str]) -> list[str]:
        """Remove documents; return the sources of those that existed."""
        with self._server.transaction() as connection:
            return sorted(row[0] for row in connection.execute(_FORGET, (space, list(sources))).fetchall())

    def find_words(self, scope: SearchScope, terms: Terms, limit: int) -> RankedChunks:
        """Find chunks that contain some of the words, ranked by their number and rarity."""
        condition, values = self._condition(scope)
        configs = ["english"] * len(terms.words) + ["simple"] * len(terms.variants)
        parameters = (configs, [*terms.words, *terms.variants], *values, limit, NEIGHBOUR_SHARE)
        with self._server.connection() as connection:
            found: RankedChunks = connection.execute(_FIND_WORDS.format(condition), parameters).fetchall()
        return found

    def find_vector(self, scope: SearchScope, vector: Vector, limit: int) -> RankedChunks:
        """Find the chunks with the nearest vectors by cosine; approximate for large collections."""
        self._server.prepare_vectors()
        condition, values = self._condition(scope)
        statement = _FIND_VECTORS.format(length=len(vector), condition=condition)
        wanted = _vector_text(vector)
        with self._server.transaction() as connection:
            found = connection.execute(_LENGTH, (scope.space,)).fetchone()
            if found is None:
                return []
            check_length(len(vector), found[0])
            # The index scan continues if the first results are outside the scope.
            connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
            return connection.execute(statement, (wanted, *values, wanted, limit)).fetchall()

    def without_vector(self, space: str, limit: int) -> dict[int, str]:
        """Some chunks without a vector."""
        self._server.prepare_vectors()
        return self._texts_to_embed(_WITHOUT_VECTOR, space, limit)

    def set_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store the vectors of chunks."""
        self._server.prepare_vectors(_index_statement(list(vectors.values())))
        with self._server.transaction() as connection, connection.cursor() as cursor:
            cursor.executemany(_GIVE_VECTOR, [(_vector_text(vector), number) for number, vector in vectors.items()])

    def drop_vectors(self, space: str) -> None:
        """Delete all vectors of a space."""
        self._server.prepare_vectors()
        with self._server.transaction() as connection:
            connection.execute(_DROP_VECTORS, (space,))

    def _pattern(self, source: str) -> str:
        escaped = source.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return escaped.replace("*", "%")

    def _test(self, key: str, wanted: Any) -> tuple[str, list[Any]]:
        if not isinstance(wanted, Between):
            choices = [json.dumps({key: value}) for value in accepted_values(wanted)]
            return "documents.metadata @> ANY(?::jsonb[])", [choices]
        bounds = [(sign, end) for sign, end in ((">=", wanted.low), ("<=", wanted.high)) if end is not None]
        is_text = isinstance(bounds[0][1], str)
        value = "(documents.metadata ->> ?)" + (' COLLATE "C"' if is_text else "::numeric")
        tests = " AND ".join(f"{value} {sign} ?" for sign, _ in bounds)
        compared = [each for _, end in bounds for each in (key, end)]
        kind = "string" if is_text else "number"
        test = f"CASE jsonb_typeof(documents.metadata -> ?) WHEN '{kind}' THEN {tests} ELSE false END"
        return test, [key, *compared]


def _index_statement(vectors: Sequence[Vector]) -> str:
    """The statement that creates the index for vectors of this length; empty if they are too long."""
    length = len(vectors[0])
    return _INDEX.format(length=length) if length <= MAX_INDEXED else ""


def _vector_text(vector: Vector) -> str:
    return json.dumps([float(f"{number:.8g}") for number in vector])
