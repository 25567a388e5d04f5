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
"""How much of its better neighbour's score a passage gets, in the search for words.

What a document tells goes on from one passage to the next: measured by `benchmarks/knowledge`.
"""

Vector = Sequence[float]
"""A vector of length 1."""

Found = list[tuple[int, float]]
"""Numbers of passages with their scores, the best first."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with its passages as they are kept; `vectors` is None, or one for each passage."""

    document: Document
    pieces: Sequence[ChunkDraft]
    vectors: Sequence[Vector] | None = None


class ChunkStore(Protocol):
    """Keeps documents in spaces, which know nothing of each other. Any thread and process may use it at any time.

    All methods raise KnowledgeError when what is kept cannot be read or written.
    """

    def documents(self, space: str, prefix: str = "") -> list[Document]:
        """The documents of a space whose source begins so, in the order of their sources."""
        ...

    def put(self, space: str, kept: StoredDocument) -> None:
        """Keep a document in place of the one of its source: all of it, or nothing."""
        ...

    def remove(self, space: str, sources: Iterable[str]) -> list[str]:
        """Forget documents; the sources of those that there were."""
        ...

    def find_words(self, scope: SearchScope, terms: Terms, limit: int) -> Found:
        """The passages that hold some of the words, those with many and rare ones first."""
        ...

    def find_vector(self, scope: SearchScope, vector: Vector, limit: int) -> Found:
        """The passages whose vectors are nearest. Raises ConfigError when vectors of another length are kept."""
        ...

    def passages(self, numbers: Sequence[int]) -> dict[int, Chunk]:
        """The passages of these numbers, as far as they are still there."""
        ...

    def texts(self, space: str, sources: Sequence[str]) -> dict[str, str]:
        """The whole texts of documents of one passage, by their sources."""
        ...

    def without_vector(self, space: str, limit: int) -> dict[int, str]:
        """Some passages that have no vector, by their numbers: what stands for them, as `embedded_text` tells it."""
        ...

    def give_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Give passages their vectors."""
        ...

    def drop_vectors(self, space: str) -> None:
        """Forget all vectors of a space."""
        ...

    def keep_place(self, space: str, place: str, metadata: Mapping[str, object]) -> None:
        """Remember a place that was added, with the metadata of its documents."""
        ...

    def drop_places(self, space: str, places: Iterable[str]) -> None:
        """Forget places."""
        ...

    def places(self, space: str) -> dict[str, Mapping[str, object]]:
        """The places that were added."""
        ...

    def close(self) -> None:
        """Let go of file or connection; the next use opens it again."""
        ...


def damaged(what: str) -> KnowledgeError:
    """The error for a value in a database that no store of ours writes."""
    return KnowledgeError(
        f"The knowledge is damaged: {what}. Take it from a backup, or add the documents anew, to another file."
    )


def checked_row(row: Sequence[Any], *kinds: tuple[type, ...]) -> Sequence[Any]:
    """The row, if its values are of these kinds. Raises KnowledgeError: a database of others may hold anything."""
    for value, kind in zip(row, kinds, strict=True):
        if type(value) not in kind:
            raise damaged(f"it holds {value!r:.80} where {kind[0].__name__} is expected")
    return row


def checked_metadata(value: Any) -> dict[str, Any]:
    """Metadata of a database. Raises KnowledgeError for what is no JSON object."""
    if not isinstance(value, dict) or not is_shallow(value):
        raise damaged(f"{value!r:.80} is no metadata")
    return value


def check_length(given: int, kept: int) -> None:
    """Raise ConfigError for vectors of another length than those that are kept."""
    if given != kept:
        raise ConfigError(
            f"embed= gives vectors of {given} numbers, and those that are kept have {kept}."
            " Give the function that made them, or make all anew with embed_again()."
        )


def embedded_text(title: str, section: str, text: str) -> str:
    """What is told of a passage to the function that makes vectors."""
    heading = " > ".join(part for part in (title, section) if part)
    return f"{heading}\n\n{text}" if heading else text


def heading_of(document: Document, piece: ChunkDraft) -> str:
    """The words above a passage: the last part of its source, its title, and its section."""
    name = document.source.rstrip("/").rpartition("/")[2]
    return f"{name} {document.title} {piece.section}"
