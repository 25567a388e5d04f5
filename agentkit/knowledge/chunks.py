"""Documents, chunks, queries and filters, and the splitting of documents into chunks (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from itertools import groupby
from typing import Any, NamedTuple

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.event_rendering import escape_invisible
from agentkit.text_encoding import split_lines

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


MetadataFilter = Mapping[str, Scalar | Sequence[Scalar] | Between]
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
        remarks = {f"outside {place}": "not read; refresh(outside=True) reads it" for place in self.outside}
        remarks |= {f"skipped {source}": reason for source, reason in self.skipped.items()}
        remarks |= {f"note on {source}": note for source, note in self.notes.items()}
        lines = [escape_invisible(f"{subject}: {why}").replace("\n", "\\n") for subject, why in remarks.items()]
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
    metadata: MetadataFilter = field(default_factory=dict)
    source: str | None = None
    """A source, with `*` as wildcard."""
    kind: str | None = None

    def __post_init__(self) -> None:
        for key, accepted in self.metadata.items():
            values = [] if isinstance(accepted, Between) else accepted_values(accepted)
            if not is_text(key) or not all(is_text(value) or isinstance(value, _NUMBERS) for value in values):
                raise ConfigError(
                    f"where= takes strings, numbers, lists of them, or Between(low, high). Got {accepted!r}."
                )


def check_filter(where: MetadataFilter | None) -> MetadataFilter:
    """Validate `where=` and return it as a dictionary. Raises ConfigError if it is not a mapping."""
    value: object = where
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(f"where= takes a dictionary, as in where={{'year': 2024}}; not {value!r:.200}.")
    return dict(where or {})


def is_text(value: object) -> bool:
    """Whether the value is a text that can be stored; file names can contain any bytes."""
    return isinstance(value, str) and "\0" not in value and value.encode("utf-8", "replace").decode() == value


def accepted_values(accepted: Scalar | Sequence[Scalar]) -> list[Scalar]:
    """The values of which a document must have one."""
    if isinstance(accepted, Sequence) and not isinstance(accepted, str):
        return list(accepted)
    return [accepted]


_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|cf|etc|vs|Mr|Mrs|Ms|Dr|Prof|St|No|Fig|vol|pp|TP|PGS|TS)|\b[A-Z])\.$")
_SENTENCE_END = re.compile(
    "(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\\]*_`]*+(?=\\s)"
    "|[\u3002\uff01\uff1f]+[\u300d\u300f\uff09]*"  # Chinese and Japanese, without a following space
    r"|\n(?=\s*[-*+\u2022|]|\s*\d+[.)]\s)"  # a list item or table row
)
_MIN_CHUNK_CHARS = 100
_MAX_ROW_CHARS = 5_000
"""Longer rows end at a line break even within quotes, which may be unbalanced."""


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """The maximum length of a chunk and the overlap with the previous one, in characters.

    Raises ConfigError for invalid lengths.
    """

    passage_chars: int = 1_200
    overlap_chars: int = 150

    def __post_init__(self) -> None:
        if self.passage_chars < _MIN_CHUNK_CHARS:
            raise ConfigError(f"passage_chars= must be at least {_MIN_CHUNK_CHARS}. Got {self.passage_chars!r}.")
        if not 0 <= self.overlap_chars <= self.passage_chars // 2:
            raise ConfigError(
                f"overlap_chars= must be between 0 and half of passage_chars. Got {self.overlap_chars!r}."
            )


class _Unit(NamedTuple):
    """An atomic unit: a sentence, a line of code or a row. `gap` is the separator from the previous unit.

    `header` is that of the table of a row, except for the rows of the header themselves.
    """

    text: str
    first_line: int
    last_line: int
    gap: str
    header: str = ""


def split_into_chunks(blocks: Iterable[DocumentBlock], lengths: ChunkSize) -> list[ChunkDraft]:
    """Split a document into chunks. Blocks of one section stay together; consecutive small sections are joined."""
    sections = [list(group) for _, group in groupby(blocks, key=lambda block: (block.section, block.page))]
    return [piece for group in _join_sections(sections, lengths) for piece in _chunks_of(group, lengths)]


def _join_sections(sections: Iterable[list[DocumentBlock]], lengths: ChunkSize) -> Iterator[list[DocumentBlock]]:
    """Join neighbouring sections of one page as long as they fit in one chunk.

    A small section alone has too little content to be found: measured by `benchmarks/knowledge`.
    """
    group: list[DocumentBlock] = []
    for section in sections:
        if group and _fits(group, section, lengths.passage_chars):
            group = group + section
            continue
        if group:
            yield group
        group = section
    if group:
        yield group


def _fits(group: Sequence[DocumentBlock], section: Sequence[DocumentBlock], max_chars: int) -> bool:
    """Whether a section is small enough, and related to the held ones, to share their chunk."""
    is_related = group[0].section[:1] == section[0].section[:1] or not group[0].section
    size = sum(len(block.text) for block in (*group, *section))
    return is_related and group[-1].page == section[0].page and size <= max_chars


def _chunks_of(blocks: Sequence[DocumentBlock], lengths: ChunkSize) -> Iterator[ChunkDraft]:
    """Split blocks that belong together into chunks."""
    section = " > ".join(_common_headings([block.section for block in blocks]))
    units = [unit for block in blocks for unit in _units(block, lengths.passage_chars)]
    chunk: list[_Unit] = []
    new_units = size = 0
    for unit in units:
        if new_units and size + _size([unit]) > lengths.passage_chars:
            yield _make_chunk(chunk, section, blocks[0].page)
            chunk, new_units = _repeated_units(chunk, unit, lengths), 0
            size = _size(chunk)
        chunk.append(unit)
        size += _size([unit])
        new_units += 1
    if new_units:
        yield _make_chunk(chunk, section, blocks[0].page)


def _repeated_units(previous: Sequence[_Unit], unit: _Unit, lengths: ChunkSize) -> list[_Unit]:
    """The units to repeat before a unit in a new chunk: the header of its table, or the end of the previous chunk."""
    if not unit.header:
        return _overlap(previous, unit, lengths)
    if len(unit.header) + len(unit.text) > lengths.passage_chars:
        return []
    return [_Unit(unit.header, unit.first_line, unit.first_line, unit.gap)]


def _common_headings(sections: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The common leading headings of the sections."""
    for same in zip(*sections, strict=False):
        if len(set(same)) > 1:
            return
        yield same[0]


def _overlap(previous: Sequence[_Unit], next_unit: _Unit, lengths: ChunkSize) -> list[_Unit]:
    """The last units, as far as they fit in the overlap before the following one."""
    room = min(lengths.overlap_chars, lengths.passage_chars - _size([next_unit]))
    count = 0
    while (
        size := _size([previous[-count - 1]])
    ) <= room:  # ends before all units are taken: together they were too long
        room -= size
        count += 1
    return list(previous[len(previous) - count :])


def _size(units: Sequence[_Unit]) -> int:
    return sum(len(unit.text) + len(unit.gap) for unit in units)


def _make_chunk(units: Sequence[_Unit], section: str, page: int | None) -> ChunkDraft:
    text = units[0].text + "".join(unit.gap + unit.text for unit in units[1:])
    first, last = units[0].first_line, units[-1].last_line
    return ChunkDraft(text.rstrip(), section, first or None, last or None, page)


def _units(block: DocumentBlock, max_chars: int) -> Iterator[_Unit]:
    """Split a block into sentences or lines of code, and overlong ones into pieces."""
    line, gap, read_chars = block.line, "\n\n", 0
    for part in _parts(block):
        for part_text in _split_long(part, max_chars):
            text = part_text.strip("\n") if block.is_code else part_text.strip()
            skipped = part_text[: part_text.find(text)].count("\n") if text else 0
            if text:
                first = line + skipped if block.line else 0
                header = block.header if read_chars >= len(block.header) else ""
                yield _Unit(text, first, first + text.count("\n") if first else 0, gap, header)
                gap = "\n" if block.is_code or part_text.endswith("\n") else " "
            line += part_text.count("\n")
            read_chars += len(part_text)


def _parts(block: DocumentBlock) -> list[str]:
    """Split the text into parts, each with its trailing white space."""
    if block.header:
        return list(table_rows(block.text))
    if block.is_code:
        return split_lines(block.text, keepends=True)
    parts, begin = [], 0
    for found in _SENTENCE_END.finditer(block.text):
        end = found.end()
        if found[0] != "." or not _ABBREVIATION.search(block.text[max(begin, end - 6) : end]):
            while end < len(block.text) and block.text[end] in " \t\n":
                end += 1
            parts.append(block.text[begin:end])
            begin = end
    return [*parts, block.text[begin:]]


def table_rows(text: str) -> Iterator[str]:
    """The rows of a table, each with its line break; quoted cells can contain several lines."""
    row = ""
    for line in split_lines(text, keepends=True):
        row += line
        if row.count('"') % 2 == 0 or row.startswith("|") or len(row) > _MAX_ROW_CHARS:
            yield row
            row = ""
    if row:
        yield row


def _split_long(part: str, max_chars: int) -> Iterator[str]:
    """Split a part into pieces of at most `max_chars` characters, at blanks if possible."""
    begin = 0
    while len(part) - begin > max_chars:
        end = begin + max_chars
        at = max(part.rfind(" ", begin + 1, end), part.rfind("\n", begin + 1, end)) + 1 or end
        yield part[begin:at]
        begin = at
    yield part[begin:]
