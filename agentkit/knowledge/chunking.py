"""Splitting of documents along their structure, with overlap (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.knowledge.chunks import ChunkDraft, DocumentBlock
from agentkit.text_encoding import split_lines

_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|cf|etc|vs|Mr|Mrs|Ms|Dr|Prof|St|No|Fig|vol|pp|TP|PGS|TS)|\b[A-Z])\.$")
_SENTENCE_END = re.compile(
    "(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\\]*_`]*+(?=\\s)"
    "|[\u3002\uff01\uff1f]+[\u300d\u300f\uff09]*"  # Chinese and Japanese, without a following space
    r"|\n(?=\s*[-*+\u2022|]|\s*\d+[.)]\s)"  # a list item or table row
)
_FEWEST_CHARS = 100
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
        if self.passage_chars < _FEWEST_CHARS:
            raise ConfigError(f"passage_chars= must be at least {_FEWEST_CHARS}. Got {self.passage_chars!r}.")
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


def cut(blocks: Iterable[DocumentBlock], lengths: ChunkSize) -> list[ChunkDraft]:
    """Split a document into chunks. Blocks of one section stay together; consecutive small sections are joined."""
    sections = [list(group) for _, group in groupby(blocks, key=lambda block: (block.section, block.page))]
    return [piece for group in _joined(sections, lengths) for piece in _pieces(group, lengths)]


def _joined(sections: Iterable[list[DocumentBlock]], lengths: ChunkSize) -> Iterator[list[DocumentBlock]]:
    """Join neighbouring sections of one page as long as they fit in one chunk.

    A small section alone has too little content to be found: measured by `benchmarks/knowledge`.
    """
    held: list[DocumentBlock] = []
    for section in sections:
        if held and _fits(held, section, lengths.passage_chars):
            held = held + section
            continue
        if held:
            yield held
        held = section
    if held:
        yield held


def _fits(held: Sequence[DocumentBlock], section: Sequence[DocumentBlock], most: int) -> bool:
    """Whether a section is small enough, and related to the held ones, to share their chunk."""
    related = held[0].section[:1] == section[0].section[:1] or not held[0].section
    size = sum(len(block.text) for block in (*held, *section))
    return related and held[-1].page == section[0].page and size <= most


def _pieces(blocks: Sequence[DocumentBlock], lengths: ChunkSize) -> Iterator[ChunkDraft]:
    """Split blocks that belong together into chunks."""
    section = " > ".join(_shared([block.section for block in blocks]))
    units = [unit for block in blocks for unit in _units(block, lengths.passage_chars)]
    taken: list[_Unit] = []
    fresh = size = 0
    for unit in units:
        if fresh and size + _size([unit]) > lengths.passage_chars:
            yield _piece(taken, section, blocks[0].page)
            taken, fresh = _beginning(taken, unit, lengths), 0
            size = _size(taken)
        taken.append(unit)
        size += _size([unit])
        fresh += 1
    if fresh:
        yield _piece(taken, section, blocks[0].page)


def _beginning(taken: Sequence[_Unit], unit: _Unit, lengths: ChunkSize) -> list[_Unit]:
    """The units to repeat before a unit in a new chunk: the header of its table, or the end of the previous chunk."""
    if not unit.header:
        return _overlap(taken, unit, lengths)
    if len(unit.header) + len(unit.text) > lengths.passage_chars:
        return []
    return [_Unit(unit.header, unit.first_line, unit.first_line, unit.gap)]


def _shared(sections: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The common leading headings of the sections."""
    for same in zip(*sections, strict=False):
        if len(set(same)) > 1:
            return
        yield same[0]


def _overlap(taken: Sequence[_Unit], following: _Unit, lengths: ChunkSize) -> list[_Unit]:
    """The last units, as far as they fit in the overlap before the following one."""
    room = min(lengths.overlap_chars, lengths.passage_chars - _size([following]))
    count = 0
    while (size := _size([taken[-count - 1]])) <= room:  # ends before all units are taken: together they were too long
        room -= size
        count += 1
    return list(taken[len(taken) - count :])


def _size(units: Sequence[_Unit]) -> int:
    return sum(len(unit.text) + len(unit.gap) for unit in units)


def _piece(units: Sequence[_Unit], section: str, page: int | None) -> ChunkDraft:
    text = units[0].text + "".join(unit.gap + unit.text for unit in units[1:])
    first, last = units[0].first_line, units[-1].last_line
    return ChunkDraft(text.rstrip(), section, first or None, last or None, page)


def _units(block: DocumentBlock, most: int) -> Iterator[_Unit]:
    """Split a block into sentences or lines of code, and overlong ones into pieces."""
    line, gap, read_chars = block.line, "\n\n", 0
    for part in _parts(block):
        for piece in _short(part, most):
            text = piece.strip("\n") if block.is_code else piece.strip()
            skipped = piece[: piece.find(text)].count("\n") if text else 0
            if text:
                first = line + skipped if block.line else 0
                header = block.header if read_chars >= len(block.header) else ""
                yield _Unit(text, first, first + text.count("\n") if first else 0, gap, header)
                gap = "\n" if block.is_code or piece.endswith("\n") else " "
            line += piece.count("\n")
            read_chars += len(piece)


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


def _short(part: str, most: int) -> Iterator[str]:
    """Split a part into pieces of at most `most` characters, at blanks if possible."""
    begin = 0
    while len(part) - begin > most:
        end = begin + most
        at = max(part.rfind(" ", begin + 1, end), part.rfind("\n", begin + 1, end)) + 1 or end
        yield part[begin:at]
        begin = at
    yield part[begin:]
