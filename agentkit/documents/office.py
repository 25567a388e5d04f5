"""Word, Excel, PowerPoint and OpenDocument files as Markdown."""

from __future__ import annotations

import csv
import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar, NamedTuple, NoReturn
from xml.parsers import expat

from agentkit.errors import ToolError

MAX_BYTES, MAX_EVENTS = 100_000_000, 6_000_000
"""Limits of the unpacked bytes and of XML events per document; they correspond to about ten seconds."""

DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    expat.ExpatError,
    EOFError,
    KeyError,
    RuntimeError,
    ValueError,
)
"""Errors raised for an invalid or encrypted archive, and for invalid XML."""

_PIECE_BYTES, _MOST_TAG_BYTES = 262_144, 8_000_000

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The allowed compression methods: others can unpack gigabytes from a single read."""

TOO_LARGE = "the document is too large to be read: save a part of it, or as CSV"
_ENCODINGS = (None, "utf-8", "utf8", "us-ascii", "ascii")


class XMLEvent(NamedTuple):
    """The start or end of an element, or text: `name` has no prefix, and is empty for text."""

    kind: str
    name: str
    text: str = ""
    attributes: Mapping[str, str] = {}

    def get(self, name: str) -> str:
        """An attribute with any prefix; empty if it does not exist."""
        found = self.attributes.get(name)
        if found is None:
            return next((value for key, value in self.attributes.items() if key.endswith(f":{name}")), "")
        return found


class Archive:
    """The parts of a document by name."""

    def __init__(self, body: bytes, most_bytes: int = MAX_BYTES, most_events: int = MAX_EVENTS) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(body))
        self._bytes_left, self._events_left = most_bytes, most_events
        self.names = frozenset(self._archive.namelist())
        self._unread = set(self.names)

    def events(self, name: str) -> Iterator[XMLEvent]:
        """Yield the XML events of a part, in order. Raises ToolError and one of DAMAGED.

        Yields nothing for a part that does not exist or was read before: a malicious document can refer to one part a
        million times, and no office program writes such a file.
        """
        if name not in self._unread:
            return
        self._unread.discard(name)
        if self._archive.getinfo(name).compress_type not in _METHODS:
            raise ValueError("a part is packed as no office program does it")
        reading = _XMLParser()
        with self._archive.open(name) as part:
            while piece := part.read(_PIECE_BYTES):
                events = reading.read(piece)
                self._spend(len(piece), len(events))
                yield from events
        yield from reading.read(b"", is_last=True)

    def _spend(self, size_bytes: int, events: int) -> None:
        self._bytes_left -= size_bytes
        self._events_left -= events
        if self._bytes_left < 0 or self._events_left < 0:
            raise ToolError(TOO_LARGE)

    def related(self, name: str) -> dict[str, str]:
        """The parts that a part refers to, by relationship id."""
        folder, _, base = name.rpartition("/")
        events = self.events(f"{folder}/_rels/{base}.rels")
        return {
            event.get("Id"): posixpath.normpath(posixpath.join("/", folder, event.get("Target")))[1:]
            for event in events
            if event.name == "Relationship" and event.kind == "start"
        }


class _XMLParser:
    """Parses XML incrementally. Entities and encodings other than UTF-8 are rejected: no office program writes them."""

    def __init__(self) -> None:
        self._events: list[XMLEvent] = []
        self._read_bytes = 0
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text, parser.buffer_size = True, _PIECE_BYTES
        parser.XmlDeclHandler = _check_declaration
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text

    def read(self, piece: bytes, *, is_last: bool = False) -> list[XMLEvent]:
        """Parse the next piece. Raises ToolError within an overlong tag, which expat parses again with each piece."""
        self._parser.Parse(piece, is_last)
        self._read_bytes += len(piece)
        if self._read_bytes - self._parser.CurrentByteIndex > _MOST_TAG_BYTES:
            raise ToolError(TOO_LARGE)
        told, self._events = self._events, []
        return told

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._events.append(XMLEvent("start", _local(name), "", attributes))

    def _end(self, name: str) -> None:
        self._events.append(XMLEvent("end", _local(name)))

    def _text(self, text: str) -> None:
        self._events.append(XMLEvent("text", "", text))


@lru_cache(maxsize=1_000)
def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _check_declaration(_version: str, encoding: str | None, _standalone: int) -> None:
    if encoding is not None and encoding.lower() not in _ENCODINGS:
        raise ValueError(f"the XML is written in {encoding}")


def _refuse_doctype(*_: object) -> NoReturn:
    raise ValueError("the XML declares a document type")


def texts_in(events: Iterable[XMLEvent], name: str) -> Iterator[str]:
    """Yield the text of each element of this name; of nested ones, only the innermost."""
    text: list[str] | None = None
    for event in events:
        if event.name == name:
            if event.kind == "end" and text is not None:
                yield "".join(text).strip()
            text = [] if event.kind == "start" else None
        elif event.kind == "text" and text is not None:
            text.append(event.text)


_MOST_CELLS, _DEEPEST_TABLE, _MOST_FILLED_CELLS = 2_000_000, 20, 1_000_000


def _table(rows: list[list[str]]) -> str:
    """Render rows as a Markdown table with the first as header. Short rows are padded, unless that is too much."""
    width = max(map(len, rows))
    filled = width if width * len(rows) <= _MOST_FILLED_CELLS else 0
    lines = ["| " + " | ".join([*map(_in_cell, row), *[""] * (filled - len(row))]) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])


def _in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


class _TableRow:
    """A row being read.

    Empty cells are only counted until text follows: a few bytes can encode thousands of cells.
    """

    def __init__(self) -> None:
        self.cells: list[list[str]] = []  # the paragraphs of each cell
        self.begun = 0


class ParagraphBuilder:
    """Builds paragraphs and tables: the content of a cell becomes part of its row, a nested table its plain words."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._tables: list[list[_TableRow]] = []
        self._too_deep, self._cells_left = 0, _MOST_CELLS

    def add(self, text: str) -> None:
        """Add to the paragraph."""
        if text:
            self._text.append(text)

    def end(self, told: Callable[[str], str]) -> Iterator[str]:
        """End a paragraph, rendered by `told`; within a table it is added to the cell.

        Raises ToolError as in `_fill`.
        """
        text = "".join(self._text).strip()
        self._text.clear()
        if text and self._tables and self._tables[-1] and self._tables[-1][-1].begun:
            row = self._tables[-1][-1]
            self._fill(row)
            row.cells[-1].append(text)
        elif text:
            yield told(text)

    def begin_table(self) -> None:
        """Begin a table. A too deeply nested one becomes part of the surrounding cell."""
        if len(self._tables) == _DEEPEST_TABLE:
            self._too_deep += 1
        else:
            self._tables.append([])

    def begin_row(self) -> None:
        """Begin a row of the table."""
        if self._tables and not self._too_deep:
            self._tables[-1].append(_TableRow())

    def begin_cells(self, count: int = 1) -> None:
        """Begin a cell of the row, or several of which only the last can have content."""
        if self._tables and self._tables[-1] and not self._too_deep:
            self._tables[-1][-1].begun += count

    def _fill(self, row: _TableRow) -> None:
        """Create the pending cells of the row. Raises ToolError if there are too many."""
        more = row.begun - len(row.cells)
        self._cells_left -= more
        if self._cells_left < 0:
            raise ToolError(TOO_LARGE)
        row.cells.extend([] for _ in range(more))

    def end_table(self) -> Iterator[str]:
        """End the table; a nested one is rendered as words in its cell."""
        if self._too_deep:
            self._too_deep -= 1
            return
        table = self._tables.pop() if self._tables else []
        rows = [[" ".join(cell) for cell in row.cells] for row in table if row.cells]
        if rows and not self._tables:
            yield _table(rows)
        elif rows:
            self.add(" ".join(" ".join(row) for row in rows))
            yield from self.end(str)


class OpenXMLText:
    """Handles the events of a part that uses the elements of Word and PowerPoint for text, paragraphs and tables."""

    breaks: ClassVar[Mapping[str, str]] = {"br": "\n"}
    """The characters that an element stands for."""

    def __init__(self) -> None:
        self._built = ParagraphBuilder()
        self._is_text = False

    def take(self, event: XMLEvent) -> Iterator[str]:
        """Handle an event; yield the paragraphs and tables that end with it."""
        if event.kind == "text":
            self._built.add(event.text if self._is_text else "")
        elif event.name == "t":
            self._is_text = event.kind == "start"
        elif event.kind == "start":
            self._begin(event)
        elif event.name == "p":
            yield from self._built.end(self.told)
        elif event.name == "tbl":
            yield from self._built.end_table()

    def begun(self, event: XMLEvent) -> None:
        """Handle the start of any other element."""

    def told(self, text: str) -> str:
        """Render a paragraph."""
        return text

    def _begin(self, event: XMLEvent) -> None:
        match event.name:
            case "tbl":
                self._built.begin_table()
            case "tr":
                self._built.begin_row()
            case "tc":
                self._built.begin_cells()
            case name if name in self.breaks:
                self._built.add(self.breaks[name])
            case _:
                self.begun(event)


_HEADING = re.compile(r"heading (\d)")
_TOLD_TWICE = ("Fallback", "moveFrom")
"""Duplicate content: the fallback for old programs, and moved text at its former position."""

_DEEPEST_HEADING, _LISTED = 6, -1


def word_paragraphs(archive: Archive) -> Iterator[str]:
    """Yield the paragraphs and tables, then footnotes and endnotes."""
    levels = _levels(archive)
    for name in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml"):
        yield from _WordReader(levels).read(archive.events(name))


def _levels(archive: Archive) -> dict[str, int]:
    """The heading level of each style by id, -1 for lists; style names are English in all languages."""
    levels, style = dict[str, int](), ""
    for event in archive.events("word/styles.xml"):
        if event.kind == "start" and event.name == "style":
            style = event.get("styleId")
        elif event.kind == "start" and event.name == "name":
            name = event.get("val").lower()
            heading = _HEADING.fullmatch(name)
            if heading or name == "title":
                levels[style] = int(heading[1]) if heading else 1
            elif name.startswith("list"):
                levels[style] = _LISTED
    return levels


class _WordReader(OpenXMLText):
    """Reads the events of one part."""

    breaks: ClassVar[Mapping[str, str]] = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}

    def __init__(self, levels: dict[str, int]) -> None:
        super().__init__()
        self._levels = levels
        self._level, self._is_listed, self._left_out = 0, False, 0

    def read(self, events: Iterator[XMLEvent]) -> Iterator[str]:
        """Yield the paragraphs and tables."""
        for event in events:
            if event.name in _TOLD_TWICE:
                self._left_out += 1 if event.kind == "start" else -1
            elif not self._left_out:
                yield from self.take(event)

    def begun(self, event: XMLEvent) -> None:
        """Detect the style of the paragraph."""
        match event.name:
            case "p":
                self._level, self._is_listed = 0, False
            case "pStyle":
                self._level = self._levels.get(event.get("val"), 0)
                self._is_listed = self._level == _LISTED
            case "outlineLvl" if event.get("val").isdecimal() and int(event.get("val")) < _DEEPEST_HEADING:
                self._level = int(event.get("val")) + 1
            case "numPr":
                self._is_listed = True

    def told(self, text: str) -> str:
        """Render a paragraph as a heading, a list item, or plain text."""
        if self._level > 0:
            return f"{'#' * min(self._level, _DEEPEST_HEADING)} {' '.join(text.split())}"
        return f"- {text}" if self._is_listed else text


_SHOW = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")


def slide_paragraphs(archive: Archive) -> Iterator[str]:
    """Yield the texts of all slides."""
    places = archive.related(_SHOW)
    ids = [event.attributes for event in archive.events(_SHOW) if event.name == "sldId" and event.kind == "start"]
    shown = [next((value for key, value in each.items() if key.endswith(":id")), "") for each in ids]
    for number, each in enumerate(shown, 1):
        slide = _Slide()
        for event in archive.events(places.get(each, "")):
            slide.see(event)
        title = " ".join(" ".join(slide.titles).split())
        yield f"## Slide {number}: {title}" if title else f"## Slide {number}"
        yield from slide.texts


class _Slide(OpenXMLText):
    """Collects the titles of a slide, and its other texts."""

    def __init__(self) -> None:
        super().__init__()
        self.titles, self.texts = list[str](), list[str]()
        self._is_title = False

    def see(self, event: XMLEvent) -> None:
        """Handle an event."""
        (self.titles if self._is_title and event.name == "p" else self.texts).extend(self.take(event))

    def begun(self, event: XMLEvent) -> None:
        """Detect whether the following text is a title: a shape is one only if its placeholder says so."""
        if event.name in ("sp", "ph"):
            self._is_title = event.get("type") in _TITLES


MAX_SHEET_CHARS = 20_000_000
"""The maximum number of characters rendered per sheet."""

_BOOK = "xl/workbook.xml"
_COLUMN = re.compile(r"[A-Z]{1,3}")
_NO_CELL = XMLEvent("start", "c")
_MOST_COLUMNS = 1_000
_DAYS_FROM = datetime(1899, 12, 30)
_BUILT_IN_DATES = frozenset({*range(14, 23), 45, 46, 47})
_LITERAL = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_DATE = re.compile(r"[ymdhs]", re.IGNORECASE)


def sheet_paragraphs(archive: Archive) -> Iterator[str]:
    """Yield the sheets, each with its name and rows. A part that several sheets refer to is read once."""
    places, texts, dates = archive.related(_BOOK), _texts(archive), _dates(archive)
    for event in archive.events(_BOOK):
        if event.name == "sheet" and event.kind == "start":
            yield f"## {event.get('name')}"
            yield _csv(_rows(archive, places.get(event.get("id"), ""), texts, dates))


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


def _dates(archive: Archive) -> frozenset[int]:
    """The cell styles that format a number as a date or a time."""
    own, styles, is_of_cells = set[str](), list[str](), False
    for event in archive.events("xl/styles.xml"):
        if event.name == "numFmt" and _DATE.search(_LITERAL.sub("", event.get("formatCode"))):
            own.add(event.get("numFmtId"))
        elif event.name == "cellXfs":
            is_of_cells = event.kind == "start"
        elif event.name == "xf" and event.kind == "start" and is_of_cells:
            styles.append(event.get("numFmtId"))
    built_in = set(map(str, _BUILT_IN_DATES))
    return frozenset(number for number, style in enumerate(styles) if style in own | built_in)


def _rows(archive: Archive, name: str, texts: Sequence[str], dates: frozenset[int]) -> Iterator[list[str]]:
    row, value, cell, column, is_value = list[str](), list[str](), _NO_CELL, 0, False
    for event in archive.events(name):
        if event.name == "row" and event.kind == "end":
            yield row
            row, column = [], 0
        elif event.name == "c" and event.kind == "start":
            cell, column = event, _column(event.get("r"), column)
        elif event.name in ("v", "t"):
            is_value = event.kind == "start"
        elif event.kind == "text" and is_value:
            value.append(event.text)
        elif event.name == "c":
            told = _told("".join(value), cell, texts, dates)
            row += [*[""] * (column - len(row)), told] if told else []
            column += 1
            value.clear()


def _column(place: str, following: int) -> int:
    """The index of a cell's column, from 0; without a reference, the following column."""
    letters = _COLUMN.match(place)
    number = 0
    for letter in letters[0] if letters else "":
        number = number * 26 + ord(letter) - ord("A") + 1
    return min(max(number - 1 if letters else following, following), max(_MOST_COLUMNS, following))


def _told(value: str, cell: XMLEvent, texts: Sequence[str], dates: frozenset[int]) -> str:
    """Render the value of a cell."""
    kind, style = cell.get("t"), cell.get("s") or "0"
    if kind == "s":
        return texts[int(value)] if value.isdecimal() and int(value) < len(texts) else ""
    if kind == "b":
        return "true" if value == "1" else "false"
    if kind in ("", "n") and value and style.isdecimal() and int(style) in dates:
        return _date(float(value)) or value
    return value


def _date(days: float) -> str:
    """Render a number of days as a date, a time, or both; empty if it is out of range."""
    try:
        moment = _DAYS_FROM + timedelta(seconds=round(days * 86_400))
    except OverflowError:
        return ""
    if 0 <= days < 1:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%Y-%m-%d}" if days == int(days) else f"{moment:%Y-%m-%d %H:%M:%S}"


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


_MOST_REPEATED = 100
_DEEPEST_OUTLINE = 6


def open_document_paragraphs(archive: Archive) -> Iterator[str]:
    """Yield the paragraphs and tables; sheets and slides get headings."""
    yield from _OpenDocumentReader().read(archive.events("content.xml"))


class _OpenDocumentReader:
    """Reads the events of the content."""

    def __init__(self) -> None:
        self._built = ParagraphBuilder()
        self._level, self._depth, self._slides, self._left_out = 0, 0, 0, 0
        self._is_sheet = False

    def read(self, events: Iterator[XMLEvent]) -> Iterator[str]:
        """Yield the paragraphs and tables."""
        for event in events:
            if event.name in ("tracked-changes", "annotation", "automatic-styles"):
                self._left_out += 1 if event.kind == "start" else -1
            elif self._left_out:
                continue
            elif event.kind == "start":
                yield from self._start(event)
            elif event.kind == "text":
                self._built.add(event.text if self._depth else "")
            else:
                yield from self._end(event)

    def _start(self, event: XMLEvent) -> Iterator[str]:
        match event.name:
            case "spreadsheet":
                self._is_sheet = True
            case "page":
                self._slides += 1
                yield f"## Slide {self._slides}"
            case "table":
                yield from [f"## {event.get('name')}"] if self._is_sheet else []
                self._built.begin_table()
            case "table-row":
                self._built.begin_row()
            case "table-cell" | "covered-table-cell":
                self._cells(event)
            case "h" | "p":
                self._level = _level(event) if event.name == "h" else 0
                self._depth += 1
            case "s" | "tab" | "line-break":
                self._built.add({"tab": "\t", "line-break": "\n"}.get(event.name, " "))

    def _cells(self, event: XMLEvent) -> None:
        """Begin a cell. Repeated cells are created without content: they are usually empty."""
        repeated = event.get("number-columns-repeated")
        self._built.begin_cells(min(int(repeated), _MOST_REPEATED) if repeated.isdecimal() else 1)

    def _end(self, event: XMLEvent) -> Iterator[str]:
        if event.name in ("h", "p"):
            self._depth -= 1
            yield from self._built.end(self._told)
        elif event.name == "table":
            yield from self._built.end_table()

    def _told(self, text: str) -> str:
        return f"{'#' * self._level} {' '.join(text.split())}" if self._level else text


def _level(event: XMLEvent) -> int:
    level = event.get("outline-level")
    return min(int(level), _DEEPEST_OUTLINE) if level.isdecimal() and int(level) else 1


MAX_TEXT_CHARS = 20_000_000

_ZIP, _OLD = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_CONTENT, _OPEN_DOCUMENT, _FIRST_BYTES = "content.xml", b"application/vnd.oasis.opendocument", 200
_READERS: Mapping[str, Callable[[Archive], Iterable[str]]] = {
    "word/document.xml": word_paragraphs,
    "xl/workbook.xml": sheet_paragraphs,
    "ppt/presentation.xml": slide_paragraphs,
    _CONTENT: open_document_paragraphs,
}
"""The reader of a document, by the part that identifies its format."""

_ABOUT = ("docProps/core.xml", "meta.xml")


def text_of_office(body: bytes) -> tuple[str, str] | None:
    """Return the title of an office document and its content as Markdown; None for any other file.

    Raises ToolError if the document is damaged, encrypted, in an old format, too large, or contains no text.
    """
    if body.startswith(_OLD):
        raise ToolError("it is encrypted, or of an old format; save it as DOCX, XLSX, PPTX or OpenDocument")
    if not body.startswith(_ZIP):
        return None
    try:
        archive = Archive(body)
        part = next((name for name in _READERS if name in archive.names), "")
        if not part or (part == _CONTENT and _OPEN_DOCUMENT not in body[:_FIRST_BYTES]):
            return None
        text = _joined(_READERS[part](archive))
        title = next((text for name in _ABOUT for text in texts_in(archive.events(name), "title")), "")
    except DAMAGED as error:
        if not any(name.encode() in body for name in _READERS):  # another kind of archive, or not an archive
            return None
        raise ToolError("the document is damaged or encrypted") from error
    if not text:
        raise ToolError("the document holds no text: it may be pictures, which are not read")
    return title[:300], text


def _joined(paragraphs: Iterable[str]) -> str:
    """Join the paragraphs, up to the limit."""
    told, room = list[str](), MAX_TEXT_CHARS
    for paragraph in paragraphs:
        if paragraph.strip():
            told.append(paragraph[:room])
            room -= len(paragraph)
        if room <= 0:
            break
    return "\n\n".join(told)
