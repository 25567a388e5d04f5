"""The store interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from agentkit._dataclass import dataclass
from agentkit.documents.search_terms import Terms
from agentkit.errors import ConfigError, KnowledgeError
from agentkit.event_rendering import is_shallow
from agentkit.knowledge.chunks import Chunk, ChunkDraft, Document, SearchScope

SCHEMA_VERSION = 1
BESIDE = 0.1
"""The share of its better neighbour's score added to a chunk in word searches.

Content often continues in the next chunk: measured by `benchmarks/knowledge`.
"""

Vector = Sequence[float]
"""A unit vector."""

Found = list[tuple[int, float]]
"""Numbers of chunks with their scores, the best first."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with its chunks as stored; `vectors` is None, or contains one for each chunk."""

    document: Document
    pieces: Sequence[ChunkDraft]
    vectors: Sequence[Vector] | None = None


class ChunkStore(Protocol):
    """Stores documents in independent spaces. Any thread and process can use it at any time.

    All methods raise KnowledgeError if stored data cannot be read or written.
    """

    def documents(self, space: str, prefix: str = "") -> list[Document]:
        """The documents of a space whose source has the prefix, ordered by source."""
        ...

    def put(self, space: str, kept: StoredDocument) -> None:
        """Store a document, replacing the one of the same source, in one transaction."""
        ...

    def remove(self, space: str, sources: Iterable[str]) -> list[str]:
        """Remove documents; return the sources of those that existed."""
        ...

    def find_words(self, scope: SearchScope, terms: Terms, limit: int) -> Found:
        """Find chunks that contain some of the words, ranked by their number and rarity."""
        ...

    def find_vector(self, scope: SearchScope, vector: Vector, limit: int) -> Found:
        """Find the chunks with the nearest vectors. Raises ConfigError if the stored vectors have another length."""
        ...

    def passages(self, numbers: Sequence[int]) -> dict[int, Chunk]:
        """Load the chunks of these numbers that still exist."""
        ...

    def texts(self, space: str, sources: Sequence[str]) -> dict[str, str]:
        """The texts of single-chunk documents, by source."""
        ...

    def without_vector(self, space: str, limit: int) -> dict[int, str]:
        """Some chunks without a vector, by number: the text to embed, built by `embedded_text`."""
        ...

    def give_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store the vectors of chunks."""
        ...

    def drop_vectors(self, space: str) -> None:
        """Delete all vectors of a space."""
        ...

    def keep_place(self, space: str, place: str, metadata: Mapping[str, object]) -> None:
        """Store a place that was added, with the metadata of its documents."""
        ...

    def drop_places(self, space: str, places: Iterable[str]) -> None:
        """Delete places."""
        ...

    def places(self, space: str) -> dict[str, Mapping[str, object]]:
        """The places that were added."""
        ...

    def close(self) -> None:
        """Close the file or connection; the next use reopens it."""
        ...


def damaged(what: str) -> KnowledgeError:
    """Build the error for a stored value that our stores do not write."""
    return KnowledgeError(
        f"The knowledge is damaged: {what}. Restore it from a backup, or add the documents again, to another file."
    )


def checked_row(row: Sequence[Any], *kinds: tuple[type, ...]) -> Sequence[Any]:
    """Return the row if its values have these types. Raises KnowledgeError: a foreign database can contain anything."""
    for value, kind in zip(row, kinds, strict=True):
        if type(value) not in kind:
            raise damaged(f"it holds {value!r:.80} where {kind[0].__name__} is expected")
    return row


def checked_metadata(value: Any) -> dict[str, Any]:
    """Validate stored metadata. Raises KnowledgeError if it is not a JSON object."""
    if not isinstance(value, dict) or not is_shallow(value):
        raise damaged(f"{value!r:.80} is no metadata")
    return value


def check_length(given: int, kept: int) -> None:
    """Raise ConfigError if vectors differ in length from the stored ones."""
    if given != kept:
        raise ConfigError(
            f"embed= returns vectors of {given} numbers, and the stored ones have {kept}."
            " Use the function that made them, or replace all with embed_again()."
        )


def embedded_text(title: str, section: str, text: str) -> str:
    """Build the text to embed for a chunk."""
    heading = " > ".join(part for part in (title, section) if part)
    return f"{heading}\n\n{text}" if heading else text


def heading_of(document: Document, piece: ChunkDraft) -> str:
    """The heading of a chunk for word search: the last part of its source, its title, and its section."""
    name = document.source.rstrip("/").rpartition("/")[2]
    return f"{name} {document.title} {piece.section}"
