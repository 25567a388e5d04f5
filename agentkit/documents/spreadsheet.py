"""Excel workbooks as Markdown: each sheet as CSV, with the values that Excel shows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from agentkit.documents.archive import Archive, Relationship, XMLEvent
from agentkit.documents.number_format import BUILT_IN_FORMATS, shown_value
from agentkit.documents.openxml import chart_paragraphs

MAX_SHEET_CHARS = 20_000_000
"""The maximum number of characters rendered per sheet."""

_BOOK = "xl/workbook.xml"
_COLUMN = re.compile(r"[A-Z]{1,3}")
_NO_CELL = XMLEvent("start", "c")
_MAX_COLUMNS = 1_000
_NO_VALUE = "(formula without a stored value)"


class _Book(NamedTuple):
    """What all sheets share: the texts of cells, the format codes of cell styles, and the date system."""

    texts: Sequence[str]
    formats: Sequence[str]
    is_1904: bool


def sheet_paragraphs(archive: Archive) -> Iterator[str]:
    """Yield the sheets, each with its name and rows, comments, links and charts.

    A part that several sheets refer to is read once.
    """
    relationships = archive.relationships(_BOOK)
    sheets: list[tuple[str, str]] = []
    is_1904 = False
    for event in archive.events(_BOOK):
        if event.kind == "start" and event.name == "sheet":
            hidden = " (hidden)" if event.get("state") in ("hidden", "veryHidden") else ""
            sheets.append((f"## {event.get('name')}{hidden}", event.get("id")))
        elif event.kind == "start" and event.name == "workbookPr":
            is_1904 = event.get("date1904") in ("1", "true")
    book = _Book(_texts(archive), _formats(archive), is_1904)
    for heading, number in sheets:
        yield heading
        part = relationships.get(number)
        if part is not None:
            yield from _sheet(archive, part.target, book)


def _sheet(archive: Archive, name: str, book: _Book) -> Iterator[str]:
    reader = _SheetReader(book)
    yield _csv(reader.rows(archive.events(name)))
    related = archive.relationships(name)
    yield "\n".join(_links(reader.links, related))
    for each in related.values():
        if each.kind == "comments":
            yield "\n".join(_comments(archive, each.target))
        elif each.kind == "drawing":
            charts = archive.relationships(each.target).values()
            for chart in charts:
                yield from chart_paragraphs(archive, chart.target) if chart.kind == "chart" else ()


def _texts(archive: Archive) -> list[str]:
    """The shared strings of cells, without phonetic hints."""
    texts, pieces, is_text, is_left_out = list[str](), list[str](), False, False
    for event in archive.events("xl/sharedStrings.xml"):
        if event.name == "si" and event.kind == "end":
            texts.append("".join(pieces))
            pieces.clear()
        elif event.name == "rPh":
            is_left_out = event.kind == "start"
        elif event.name == "t":
            is_text = event.kind == "start"
        elif event.kind == "text" and is_text and not is_left_out:
            pieces.append(event.text)
    return texts


def _formats(archive: Archive) -> list[str]:
    """The number format of each cell style."""
    codes, styles, is_of_cells = dict(BUILT_IN_FORMATS), list[str](), False
    for event in archive.events("xl/styles.xml"):
        if event.name == "numFmt":
            codes[event.get("numFmtId")] = event.get("formatCode")
        elif event.name == "cellXfs":
            is_of_cells = event.kind == "start"
        elif event.name == "xf" and event.kind == "start" and is_of_cells:
            styles.append(codes.get(event.get("numFmtId"), "General"))
    return styles


class _SheetReader:
    """Reads the rows of a sheet, and collects its links."""

    def __init__(self, book: _Book) -> None:
        self.links: list[tuple[str, str]] = []
        self._book = book
        self._cell, self._part = _NO_CELL, ""
        self._value: list[str] = []
        self._formula: list[str] = []
        self._has_formula = False

    def rows(self, events: Iterator[XMLEvent]) -> Iterator[list[str]]:
        """Yield the texts of each row."""
        row, column = list[str](), 0
        for event in events:
            if event.name == "row" and event.kind == "end":
                yield row
                row, column = [], 0
            elif event.name == "c" and event.kind == "start":
                self._cell, column = event, _column(event.get("r"), column)
            elif event.name == "c" and event.kind == "end":
                text = self._text()
                row += [*[""] * (column - len(row)), text] if text else []
                column += 1
            else:
                self._take(event)

    def _take(self, event: XMLEvent) -> None:
        if event.name in ("v", "t", "f"):
            self._part = event.name if event.kind == "start" else ""
            self._has_formula = self._has_formula or event.name == "f"
        elif event.kind == "text" and self._part:
            (self._formula if self._part == "f" else self._value).append(event.text)
        elif event.name == "hyperlink" and event.kind == "start" and event.get("id"):
            self.links.append((event.get("ref"), event.get("id")))

    def _text(self) -> str:
        """The text of the cell that ends."""
        value, formula = "".join(self._value), "".join(self._formula)
        has_formula = self._has_formula
        self._value.clear()
        self._formula.clear()
        self._has_formula = False
        if not value and has_formula:
            return f"={formula}" if formula else _NO_VALUE
        return _shown(value, self._cell, self._book)


def _shown(value: str, cell: XMLEvent, book: _Book) -> str:
    """Render the value of a cell."""
    kind, style = cell.get("t"), cell.get("s") or "0"
    if kind == "s":
        return book.texts[int(value)] if value.isdecimal() and int(value) < len(book.texts) else ""
    if kind == "b":
        return "true" if value == "1" else "false"
    if kind not in ("", "n") or not value:
        return value
    has_format = style.isdecimal() and int(style) < len(book.formats)
    return shown_value(value, book.formats[int(style)] if has_format else "General", is_1904=book.is_1904)


def _column(place: str, following: int) -> int:
    """The index of a cell's column, from 0; without a reference, the following column."""
    letters = _COLUMN.match(place)
    number = 0
    for letter in letters[0] if letters else "":
        number = number * 26 + ord(letter) - ord("A") + 1
    return min(max(number - 1 if letters else following, following), max(_MAX_COLUMNS, following))


def _links(links: Sequence[tuple[str, str]], related: dict[str, Relationship]) -> Iterator[str]:
    for place, number in links:
        if (found := related.get(number)) is not None and found.is_external:
            yield f"Link in {place}: {found.target}"


def _comments(archive: Archive, name: str) -> Iterator[str]:
    place, pieces, is_text = "", list[str](), False
    for event in archive.events(name):
        if event.name == "comment" and event.kind == "start":
            place = event.get("ref")
        elif event.name == "comment":
            yield f"Comment on {place}: {' '.join(''.join(pieces).split())}"
            pieces.clear()
        elif event.name == "t":
            is_text = event.kind == "start"
        elif event.kind == "text" and is_text:
            pieces.append(event.text)


def _csv(rows: Iterator[list[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        room = MAX_SHEET_CHARS - out.tell()
        if room <= 0:
            break
        if row:
            ends = accumulate(len(cell) + 1 for cell in row)  # many cells can refer to one long text
            writer.writerow([cell[:room] for cell, end in zip(row, ends, strict=True) if end - len(cell) <= room])
    return out.getvalue().rstrip("\n")
