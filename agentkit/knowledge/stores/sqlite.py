"""The SQLite store, with FTS5 full-text search."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from heapq import nlargest
from itertools import accumulate
from math import isfinite
from operator import mul
from pathlib import Path
from sqlite3 import Connection
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
    check_row,
    chunk_heading,
    damage_error,
)
from agentkit.sessions.stores import sqlite_database
from agentkit.sessions.stores.sqlite_database import IN_MEMORY, WAIT_SECONDS, DatabaseFormat

_KNOWLEDGE = DatabaseFormat(
    "knowledge",
    application=0x41_4B_4B_4E,  # AKKN
    version=SCHEMA_VERSION,
    tables=(
        "CREATE TABLE documents (id INTEGER PRIMARY KEY, space TEXT NOT NULL, source TEXT NOT NULL,"
        " title TEXT NOT NULL, kind TEXT NOT NULL, fingerprint TEXT NOT NULL, added REAL NOT NULL,"
        " metadata TEXT NOT NULL, UNIQUE (space, source))",
        # Numbers are not reused, so that a search result cannot refer to another chunk later.
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


class KnowledgeFile(sqlite_database.DatabaseFile):
    """A database in one file that stores knowledge."""

    def __init__(self, place: str, wait_seconds: float = WAIT_SECONDS) -> None:
        path = place if place == IN_MEMORY else str(Path(place).expanduser().absolute())
        super().__init__(path, _KNOWLEDGE, wait_seconds)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the database."""
        is_file = self.place != IN_MEMORY
        return tuple(f"{self.place}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")) if is_file else ()

    @contextmanager
    def connection(self, check: Callable[[], object] = lambda: None) -> Iterator[sqlite3.Connection]:
        """The connection, locked for this thread. Raises KnowledgeError for errors of the database or the file."""
        try:
            with super().connection(check) as connection:
                yield connection
        except SessionError as error:  # from the code shared with session files
            raise KnowledgeError(str(error)) from None


WEIGHTS = (4.0, 1.0, 1.0)
"""The weight of a word in the headings above a chunk, in its text, and in another spelling."""

_COLUMNS = "heading text variants"
_MAX_SCORED = 5_000
"""The most chunks that are scored for a query. More take over 10 ms of CPU time."""

_MAX_USUAL = 2
"""The most words that are scored of those that most chunks contain."""

_PUT = "INSERT INTO documents (space, source, title, kind, fingerprint, added, metadata) VALUES (?, ?, ?, ?, ?, ?, ?)"
_PUT_PASSAGE = (
    "INSERT INTO passages (document, text, section, first_line, last_line, page, vector) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_PUT_WORDS = "INSERT INTO words (rowid, heading, text, variants) VALUES (?, ?, ?, ?)"
_FORGET = (
    "DELETE FROM words WHERE rowid IN (SELECT id FROM passages WHERE document = ?)",
    "DELETE FROM passages WHERE document = ?",
    "DELETE FROM documents WHERE id = ?",
)
_FIND_WORDS = """
    WITH found AS MATERIALIZED (SELECT number, document, score FROM (SELECT words.rowid AS number, document,
        -bm25(words, ?, ?, ?) AS score FROM words JOIN passages ON passages.id = words.rowid
        JOIN documents ON documents.id = passages.document WHERE words MATCH ? AND {} LIMIT ?)
        ORDER BY score DESC, number LIMIT ?)
    SELECT number, score + ? * coalesce((SELECT max(neighbour.score) FROM found AS neighbour
        WHERE abs(neighbour.number - found.number) = 1 AND neighbour.document = found.document), 0) AS total
        FROM found ORDER BY total DESC, number"""
_FIND_VECTORS = (
    "SELECT passages.id, vector FROM passages JOIN documents ON documents.id = passages.document"
    " WHERE vector IS NOT NULL AND "
)
_WITHOUT_VECTOR = (
    "SELECT passages.id, title, section, text FROM passages JOIN documents ON documents.id = passages.document"
    " WHERE vector IS NULL AND space = ? LIMIT ?"
)
_DROP_VECTORS = (
    "UPDATE passages SET vector = NULL WHERE document IN (SELECT id FROM documents WHERE space = ?)"
    " AND vector IS NOT NULL"
)
_HAS = "EXISTS (SELECT 1 FROM json_each(documents.metadata) WHERE key = ? AND {})"


class SQLiteChunkStore(SQLChunkStore):
    """Stores chunks in one file, or in memory with `:memory:`. Vectors are compared one by one."""

    collation, pattern_test = "BINARY", "GLOB"

    def __init__(self, place: str) -> None:
        self._file = KnowledgeFile(place)
        super().__init__(self._file)

    def __repr__(self) -> str:
        return f"SqliteStore({self._file.place!r})"

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the database, which must not be added as documents."""
        return self._file.files

    def put(self, space: str, stored: StoredDocument) -> None:
        """Store a document, replacing the one of the same source, in one transaction."""
        document = stored.document
        words = [(chunk_heading(document, piece), index_terms(piece.text)) for piece in stored.chunks]
        vectors = [_pack(vector) for vector in stored.vectors] if stored.vectors else [None] * len(words)
        with self._file.transaction() as connection:
            _forget(connection, space, document.source)
            row = connection.execute(_PUT, (space, *stored.row)).lastrowid
            for piece, (heading, text), vector in zip(stored.chunks, words, vectors, strict=True):
                place = (piece.section, piece.first_line, piece.last_line, piece.page)
                number = connection.execute(_PUT_PASSAGE, (row, piece.text, *place, vector)).lastrowid
                above = index_terms(heading)
                variants = f"{above.variants} {text.variants}"
                connection.execute(_PUT_WORDS, (number, above.words, text.words, variants))

    def remove(self, space: str, sources: Iterable[str]) -> list[str]:
        """Remove documents; return the sources of those that existed. No trace of their texts remains in the file."""
        with self._file.transaction() as connection:
            removed = [source for source in sources if _forget(connection, space, source)]
            if removed:
                connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        if removed:
            with self._file.connection() as connection:  # from the log, too, unless another connection is reading
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return removed

    def find_words(self, scope: SearchScope, terms: Terms, limit: int) -> RankedChunks:
        """Find chunks that contain some of the words, ranked by BM25."""
        if not terms:
            return []
        condition, values = self._condition(scope)
        query = _FIND_WORDS.format(condition)
        found: dict[int, float] = {}
        with self._file.connection() as connection:
            for match, maximum in (*_query_stages(connection, terms, limit), (terms.fts_query(_COLUMNS), -1)):
                parameters = (*WEIGHTS, match, *values, maximum, limit, NEIGHBOUR_SHARE)
                for number, score in (
                    check_row(row, (int,), (float, int)) for row in connection.execute(query, parameters)
                ):
                    found.setdefault(number, score)
                if len(found) >= limit:
                    break
        return nlargest(limit, found.items(), key=lambda each: (each[1], -each[0]))

    def find_vector(self, scope: SearchScope, vector: Vector, limit: int) -> RankedChunks:
        """Find the chunks with the nearest vectors by cosine."""
        condition, values = self._condition(scope)
        wanted = array("f", vector)
        with self._file.connection() as connection:
            rows = connection.execute(f"{_FIND_VECTORS}{condition}", values).fetchall()
        return nlargest(limit, _cosine_scores(rows, wanted), key=lambda found: (found[1], -found[0]))

    def without_vector(self, space: str, limit: int) -> dict[int, str]:
        """Some chunks without a vector."""
        return self._texts_to_embed(_WITHOUT_VECTOR, space, limit)

    def set_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store the vectors of chunks."""
        rows = [(_pack(vector), number) for number, vector in vectors.items()]
        with self._file.transaction() as connection:
            connection.executemany("UPDATE passages SET vector = ? WHERE id = ?", rows)

    def drop_vectors(self, space: str) -> None:
        """Delete all vectors of a space."""
        with self._file.transaction() as connection:
            connection.execute(_DROP_VECTORS, (space,))

    def _pattern(self, source: str) -> str:
        return source.replace("[", "[[]").replace("?", "[?]")

    def _test(self, key: str, wanted: Any) -> tuple[str, list[Any]]:
        if isinstance(wanted, Between):
            ends = [(sign, end) for sign, end in ((">=", wanted.low), ("<=", wanted.high)) if end is not None]
            types = "'text'" if isinstance(ends[0][1], str) else "'integer', 'real'"
            test = f"type IN ({types})" + "".join(f" AND value {sign} ?" for sign, _ in ends)
            compared = [end if isinstance(end, str) else _number(end) for _, end in ends]
        else:
            tests = [_equality_test(value) for value in accepted_values(wanted)]
            test = f"({' OR '.join(test for test, _ in tests) or '0'})"
            compared = [value for _, values in tests for value in values]
        return _HAS.format(test), [key, *compared]


def _query_stages(connection: Connection, terms: Terms, limit: int) -> Iterator[tuple[str, int]]:
    """Queries that find the best chunks for common words without scoring every chunk that contains one.

    Each comes with the most chunks to score. First the chunks with one of the rarer words, then those with several of
    the common words together, then some with the words that most chunks contain: these tell chunks hardly apart.
    """
    total = connection.execute("SELECT count(*) FROM passages").fetchone()[0]
    if total <= _MAX_SCORED:
        return
    counts = {word: _estimate(connection, _phrase(word), total) for word in terms.words}
    if sum(counts.values()) <= _MAX_SCORED:
        return
    known = sorted((word for word in counts if counts[word]), key=counts.__getitem__)
    distinctive = [word for word in known if counts[word] <= total // 2]
    sums = accumulate(counts[word] for word in distinctive)
    rare = [word for word, reached in zip(distinctive, sums, strict=True) if reached <= _MAX_SCORED]
    if rare:
        any_rare = " OR ".join(map(_phrase, rare))
        rest = len(distinctive) > len(rare) or terms.variants
        scored = Terms(tuple(distinctive), terms.variants).fts_query(_COLUMNS)
        yield (f"({any_rare}) AND ({scored})" if rest else any_rare), _MAX_SCORED
    for words in (distinctive[len(rare) :], known[len(distinctive) :][:_MAX_USUAL]):
        for size in range(len(words), 0, -1):
            together = " AND ".join(map(_phrase, words[:size]))
            if _count(connection, together, limit) == limit:
                yield together, _MAX_SCORED
                break


def _phrase(word: str) -> str:
    return f'({{{_COLUMNS}}} : "{word}")'


def _count(connection: Connection, query: str, maximum: int) -> int:
    """Count the chunks that a query finds, up to a maximum."""
    counted = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)", (query, maximum)
    ).fetchone()
    return int(counted[0])


def _estimate(connection: Connection, query: str, total: int) -> int:
    """Count the chunks that a query finds; beyond a maximum, estimate from how far into the file the count got."""
    counted = connection.execute(
        "SELECT count(*), max(rowid) FROM (SELECT rowid FROM words WHERE words MATCH ? LIMIT ?)",
        (query, _MAX_SCORED + 1),
    ).fetchone()
    count, reached = int(counted[0]), int(counted[1] or 1)
    if count <= _MAX_SCORED:
        return count
    last = connection.execute("SELECT max(id) FROM passages").fetchone()[0]
    return max(count, min(total, count * int(last) // max(reached, 1)))


def _forget(connection: Connection, space: str, source: str) -> bool:
    """Delete a document; return whether it existed."""
    row = connection.execute("SELECT id FROM documents WHERE space = ? AND source = ?", (space, source)).fetchone()
    for statement in _FORGET if row else ():
        connection.execute(statement, row)
    return row is not None


def _equality_test(value: Any) -> tuple[str, list[Any]]:
    """The SQL test that a metadata value equals this one; a plain comparison would treat true as 1."""
    if value is None or isinstance(value, bool):
        return f"type = '{json.dumps(value)}'", []
    if isinstance(value, str):
        return "(type = 'text' AND value = ?)", [value]
    return "(type IN ('integer', 'real') AND value = ?)", [_number(value)]


def _number(value: Any) -> Any:
    """Convert integers that SQLite cannot represent to float."""
    return value if isinstance(value, float) or -(2**63) <= value < 2**63 else float(value)


def _cosine_scores(rows: Iterable[tuple[int, Any]], wanted: array[float]) -> Iterator[tuple[int, float]]:
    for number, packed in rows:
        if not isinstance(packed, bytes) or len(packed) % wanted.itemsize:
            raise damage_error(f"{packed!r:.80} is not a vector")
        vector = memoryview(packed).cast("f")
        check_length(len(wanted), len(vector))
        cosine = sum(map(mul, wanted, vector))
        if not isfinite(cosine):
            raise damage_error("a vector has a number that is not finite")
        yield number, cosine


def _pack(vector: Vector) -> bytes:
    return array("f", vector).tobytes()
