"""Documents, chunks, queries and filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.event_rendering import visible

_NUMBERS = int | float | None
_MAX_LINES = 10

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Between:
    """An inclusive range of metadata values; None leaves an end open. Numbers, or texts such as dates."""

    low: str | float | None = None
    high: str | float | None = None

    def __post_init__(self) -> None:
        kinds = {isinstance(end, str) for end in (self.low, self.high) if end is not None}
        if len(kinds) != 1:
            raise ConfigError("Between takes one or two numbers, or one or two strings.")


Wanted = Mapping[str, Scalar | Sequence[Scalar] | Between]
"""Metadata conditions, all of which a document must meet: a value, one of several values, or a range."""


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A structural unit of a parsed document: a paragraph, a heading, a function.

    `section` contains the headings above it, outermost first; lines count from 1 in the document, 0 if it has no lines.
    `is_code` marks blocks that are split at lines rather than sentences. `header` is the beginning of a table, which is
    split at rows and repeats it in each chunk.
    """

    text: str
    section: tuple[str, ...] = ()
    line: int = 0
    page: int | None = None
    is_code: bool = False
    header: str = ""


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    """A chunk before it is stored: its text, the headings above it, and its position."""

    text: str
    section: str = ""
    first_line: int | None = None
    last_line: int | None = None
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document: its source, its kind, and the number of its chunks.

    `source` is a path, a URL or a name; `fingerprint` changes with the content and the chunking; `added` is in seconds
    since 1970.
    """

    source: str
    title: str = ""
    kind: str = "text"
    fingerprint: str = ""
    added: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    passages: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk found by a search. `score` is comparable within one search only: higher is better."""

    text: str
    source: str
    title: str = ""
    kind: str = "text"
    section: str = ""
    first_line: int | None = None
    last_line: int | None = None
    page: int | None = None
    score: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0
    """The number of the chunk in the store."""

    @property
    def position(self) -> str:
        """The position in the document: `page 3`, `lines 10-24`, or empty if it has neither pages nor lines."""
        if self.page is not None:
            return f"page {self.page}"
        if self.first_line is None:
            return ""
        return f"line {self.first_line}" if self.first_line == self.last_line else f"lines {self._span}"

    @property
    def citation(self) -> str:
        """Source and position as one text: `notes.md:10-24`, `report.pdf, page 3`."""
        if self.page is not None:
            return f"{self.source}, page {self.page}"
        return self.source if self.first_line is None else f"{self.source}:{self._span}"

    @property
    def _span(self) -> str:
        return f"{self.first_line}" if self.first_line == self.last_line else f"{self.first_line}-{self.last_line}"


@dataclass(frozen=True, slots=True)
class AddResult:
    """The result of adding documents: the sources by outcome; `skipped` maps the sources not added to the reason.

    `outside` are the places that `refresh` did not read because they lie outside the allowed folders. `notes` maps
    sources that were added to what was left out of them, or is uncertain about their encoding.
    """

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    passages: int = 0
    """The number of chunks created."""
    outside: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: AddResult) -> AddResult:
        pairs = {each.name: (getattr(self, each.name), getattr(other, each.name)) for each in fields(self)}
        return AddResult(**{name: a | b if isinstance(a, dict) else a + b for name, (a, b) in pairs.items()})

    def __str__(self) -> str:
        """Render the counts, followed by a line for each skipped source and each note, up to a maximum."""
        left = {f"outside {place}": "not read; refresh(outside=True) reads it" for place in self.outside}
        left |= {f"skipped {source}": reason for source, reason in self.skipped.items()}
        left |= {f"note on {source}": note for source, note in self.notes.items()}
        lines = [visible(f"{what}: {why}").replace("\n", "\\n") for what, why in left.items()]
        more = [f"and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []
        return "\n".join([self.counts, *lines[:_MAX_LINES], *more])

    @property
    def counts(self) -> str:
        """The counts in one line: `3 added, 1 updated, 12 unchanged, 0 removed, 2 skipped; 48 passages made`."""
        names = ("added", "updated", "unchanged", "removed", "skipped")
        counts = ", ".join(f"{len(getattr(self, name))} {name}" for name in names)
        return f"{counts}; {self.passages} passage{'' if self.passages == 1 else 's'} made"


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The scope of a search: a space of the store, and conditions on the documents."""

    space: str
    metadata: Wanted = field(default_factory=dict)
    source: str | None = None
    """A source, with `*` as wildcard."""
    kind: str | None = None

    def __post_init__(self) -> None:
        for key, wanted in self.metadata.items():
            values = [] if isinstance(wanted, Between) else wanted_values(wanted)
            if not is_text(key) or not all(is_text(value) or isinstance(value, _NUMBERS) for value in values):
                raise ConfigError(
                    f"where= takes strings, numbers, lists of them, or Between(low, high). Got {wanted!r}."
                )


def checked_wanted(where: Wanted | None) -> Wanted:
    """Validate `where=` and return it as a dictionary. Raises ConfigError if it is not a mapping."""
    given: object = where
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"where= takes a dictionary, as in where={{'year': 2024}}; not {given!r:.200}.")
    return dict(where or {})


def is_text(value: object) -> bool:
    """Whether the value is a text that can be stored; file names can contain any bytes."""
    return isinstance(value, str) and "\0" not in value and value.encode("utf-8", "replace").decode() == value


def wanted_values(wanted: Scalar | Sequence[Scalar]) -> list[Scalar]:
    """The values of which a document must have one."""
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return list(wanted)
    return [wanted]
