"""The interface of chunk stores, and the part that SQL databases share."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, ClassVar, Protocol

from agentkit._dataclass import dataclass
from agentkit.documents.search_terms import Terms
from agentkit.errors import ConfigError, KnowledgeError
from agentkit.event_rendering import is_shallow
from agentkit.knowledge.chunks import Chunk, ChunkDraft, Document, SearchScope

SCHEMA_VERSION = 1
NEIGHBOUR_SHARE = 0.1
"""The share of its better neighbour's score added to a chunk in word searches.

Content often continues in the next chunk: measured by `benchmarks/knowledge`.
"""

Vector = Sequence[float]
"""A unit vector."""

RankedChunks = list[tuple[int, float]]
"""Numbers of chunks with their scores, the best first."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with its chunks as stored; `vectors` is None, or contains one for each chunk."""

    document: Document
    chunks: Sequence[ChunkDraft]
    vectors: Sequence[Vector] | None = None

    @property
    def row(self) -> tuple[Any, ...]:
        """The values of the document's row after its space: source, title, kind, fingerprint, time, metadata."""
        each = self.document
        return each.source, each.title, each.kind, each.fingerprint, each.added, json.dumps(dict(each.metadata))


class ChunkStore(Protocol):
    """Stores documents in independent spaces. Any thread and process can use it at any time.

    All methods raise KnowledgeError if stored data cannot be read or written.
    """

    def documents(self, space: str, prefix: str = "") -> list[Document]:
        """The documents of a space whose source has the prefix, ordered by source."""

    def put(self, space: str, stored: StoredDocument) -> None:
        """Store a document, replacing the one of the same source, in one transaction."""

    def remove(self, space: str, sources: Iterable[str]) -> list[str]:
        """Remove documents; return the sources of those that existed."""

    def find_words(self, scope: SearchScope, terms: Terms, limit: int) -> RankedChunks:
        """Find chunks that contain some of the words, ranked by their number and rarity."""

    def find_vector(self, scope: SearchScope, vector: Vector, limit: int) -> RankedChunks:
        """Find the chunks with the nearest vectors. Raises ConfigError if the stored vectors have another length."""

    def passages(self, numbers: Sequence[int]) -> dict[int, Chunk]:
        """Load the chunks of these numbers that still exist."""

    def texts(self, space: str, sources: Sequence[str]) -> dict[str, str]:
        """The texts of single-chunk documents, by source."""

    def without_vector(self, space: str, limit: int) -> dict[int, str]:
        """Some chunks without a vector, by number: the text to embed, built by `text_to_embed`."""

    def set_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store the vectors of chunks."""

    def drop_vectors(self, space: str) -> None:
        """Delete all vectors of a space."""

    def add_place(self, space: str, place: str, metadata: Mapping[str, object]) -> None:
        """Store a place that was added, with the metadata of its documents."""

    def drop_places(self, space: str, places: Iterable[str]) -> None:
        """Delete places."""

    def places(self, space: str) -> dict[str, Mapping[str, object]]:
        """The places that were added."""

    def close(self) -> None:
        """Close the file or connection; the next use reopens it."""


def damage_error(problem: str) -> KnowledgeError:
    """Build the error for a stored value that our stores do not write."""
    return KnowledgeError(
        f"The knowledge store is damaged: {problem}. Restore it from a backup, or add the documents again to a new "
        "file."
    )


def check_row(row: Sequence[Any], *kinds: tuple[type, ...]) -> Sequence[Any]:
    """Return the row if its values have these types. Raises KnowledgeError: a foreign database can contain anything."""
    for value, kind in zip(row, kinds, strict=True):
        if type(value) not in kind:
            raise damage_error(f"it holds {value!r:.80} where {kind[0].__name__} is expected")
    return row


def parse_metadata(value: Any) -> dict[str, Any]:
    """Parse stored metadata, a text or a dictionary. Raises KnowledgeError if it is not a JSON object."""
    try:
        metadata = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict) or not is_shallow(metadata):
        raise damage_error(f"{value!r:.80} is not valid metadata")
    return metadata


def check_length(given: int, stored: int) -> None:
    """Raise ConfigError if vectors differ in length from the stored ones."""
    if given != stored:
        raise ConfigError(
            f"embed= returns vectors of length {given}, but the stored vectors have length {stored}. Use the model or "
            f"function that made them, or replace all with embed_again()."
        )


def text_to_embed(title: str, section: str, text: str) -> str:
    """Build the text to embed for a chunk."""
    heading = " > ".join(part for part in (title, section) if part)
    return f"{heading}\n\n{text}" if heading else text


def chunk_heading(document: Document, piece: ChunkDraft) -> str:
    """The heading of a chunk for word search: the last part of its source, its title, and its section."""
    name = document.source.rstrip("/").rpartition("/")[2]
    return f"{name} {document.title} {piece.section}"


_TEXT, _NUMBER, _LINE, _METADATA = (str,), (float, int), (int, NoneType), (str, dict)
_DOCUMENT_ROW = (_TEXT, _TEXT, _TEXT, _TEXT, _NUMBER, _METADATA, (int,))
_PASSAGE_ROW = ((int,), _TEXT, _TEXT, _TEXT, _TEXT, _TEXT, _LINE, _LINE, _LINE, _METADATA)
"""The expected column types: SQLite stores values of any type in any column."""

_DOCUMENTS = (
    "SELECT source, title, kind, fingerprint, added, metadata, (SELECT COUNT(*) FROM passages WHERE document ="
    " documents.id) FROM documents WHERE space = ? AND substr(source, 1, ?) = ? ORDER BY source COLLATE {}"
)
_PASSAGES = (
    "SELECT passages.id, text, source, title, kind, section, first_line, last_line, page, metadata FROM passages"
    " JOIN documents ON documents.id = document WHERE passages.id IN ({})"
)
_TEXTS = (
    "SELECT source, text FROM documents JOIN passages ON document = documents.id WHERE space = ? AND source IN ({})"
)
_KEEP_PLACE = (
    "INSERT INTO places (space, place, metadata) VALUES (?, ?, ?)"
    " ON CONFLICT (space, place) DO UPDATE SET metadata = excluded.metadata"
)


class SQLChunkStore(ABC):
    """The methods of a store that are alike in all SQL databases.

    Statements are written with `?`, which `placeholder` replaces; `collation` orders texts by code points.
    """

    placeholder: ClassVar[str] = "?"
    collation: ClassVar[str]
    pattern_test: ClassVar[str]
    """The test that a source matches a pattern, made by `_pattern`."""

    def __init__(self, database: Any) -> None:
        self._database = database

    def documents(self, space: str, prefix: str = "") -> list[Document]:
        """The documents of a space whose source has the prefix, ordered by source."""
        rows = self._rows(_DOCUMENTS.format(self.collation), (space, len(prefix), prefix))
        checked = (check_row(row, *_DOCUMENT_ROW) for row in rows)
        return [
            replace(Document(*known), metadata=parse_metadata(metadata), passages=passages)
            for *known, metadata, passages in checked
        ]

    def passages(self, numbers: Sequence[int]) -> dict[int, Chunk]:
        """Load the chunks of these numbers that still exist."""
        rows = self._rows(_PASSAGES.format(_placeholders(numbers)), numbers) if numbers else ()
        checked = (check_row(row, *_PASSAGE_ROW) for row in rows)
        return {
            number: replace(Chunk(*known), metadata=parse_metadata(metadata), number=number)
            for number, *known, metadata in checked
        }

    def texts(self, space: str, sources: Sequence[str]) -> dict[str, str]:
        """The texts of single-chunk documents, by source."""
        rows = self._rows(_TEXTS.format(_placeholders(sources)), (space, *sources)) if sources else ()
        return {row[0]: row[1] for row in rows if check_row(row, _TEXT, _TEXT)}

    def add_place(self, space: str, place: str, metadata: Mapping[str, object]) -> None:
        """Store a place that was added."""
        with self._database.transaction() as connection:
            connection.execute(self._sql(_KEEP_PLACE), (space, place, json.dumps(dict(metadata))))

    def drop_places(self, space: str, places: Iterable[str]) -> None:
        """Delete places."""
        with self._database.transaction() as connection:
            for place in places:
                connection.execute(self._sql("DELETE FROM places WHERE space = ? AND place = ?"), (space, place))

    def places(self, space: str) -> dict[str, Mapping[str, object]]:
        """The places that were added."""
        rows = self._rows("SELECT place, metadata FROM places WHERE space = ? ORDER BY place", (space,))
        checked = (check_row(row, _TEXT, _METADATA) for row in rows)
        return {place: parse_metadata(metadata) for place, metadata in checked}

    def close(self) -> None:
        """Close the file or connection; the next use reopens it."""
        self._database.close()

    def _sql(self, statement: str) -> str:
        return statement.replace("?", self.placeholder)

    def _rows(self, statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        with self._database.connection() as connection:
            rows: Sequence[Sequence[Any]] = connection.execute(self._sql(statement), values).fetchall()
        return rows

    def _texts_to_embed(self, statement: str, space: str, limit: int) -> dict[int, str]:
        """The texts to embed, by number, of the chunks that a statement finds without a vector."""
        checked = (check_row(row, (int,), _TEXT, _TEXT, _TEXT) for row in self._rows(statement, (space, limit)))
        return {number: text_to_embed(*texts) for number, *texts in checked}

    def _condition(self, scope: SearchScope) -> tuple[str, list[Any]]:
        """The SQL condition of a scope, with the marks of the database, and its values."""
        parts, values = ["documents.space = ?"], list[Any]([scope.space])
        if scope.source is not None:
            parts.append(f"documents.source {self.pattern_test} ?")
            values.append(self._pattern(scope.source))
        if scope.kind is not None:
            parts.append("documents.kind = ?")
            values.append(scope.kind)
        for key, wanted in scope.metadata.items():
            test, compared = self._test(key, wanted)
            parts.append(test)
            values += compared
        return self._sql(" AND ".join(parts)), values

    @abstractmethod
    def _pattern(self, source: str) -> str:
        """The pattern for a source with `*` as wildcard."""

    @abstractmethod
    def _test(self, key: str, wanted: Any) -> tuple[str, list[Any]]:
        """The SQL test of a metadata value. Numbers are compared with numbers, strings with strings."""


def _placeholders(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))
