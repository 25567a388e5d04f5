"""What are the parts of a document? An archive of XML: unpacked within bounds, read in pieces, without entities."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, NoReturn, TypeVar
from xml.parsers import expat

from agentkit.errors import ToolError

MAX_BYTES, MAX_EVENTS = 100_000_000, 6_000_000
"""How much of a document is unpacked in all, and how many starts, ends and texts are read: some ten seconds' worth."""

DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    expat.ExpatError,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
"""What goes wrong with an archive that is none, or is encrypted, and with XML that is none."""

_PIECE_BYTES, _MOST_TAG_BYTES = 262_144, 8_000_000
_OPENED_EVENTS = 100
"""How many events take as long as to open a part does: a document may refer to one part a million times."""

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How parts may be packed: others unpack at once all that a piece holds, and it may hold gigabytes."""

_MOST_CELLS, _DEEPEST_TABLE, _MOST_FILLED_CELLS = 2_000_000, 20, 1_000_000
_TOO_LARGE = "the document is too large to be read: save a part of it, or as CSV"
_ENCODINGS = (None, "utf-8", "utf8", "us-ascii", "ascii")

Cell = TypeVar("Cell")


class Event(NamedTuple):
    """A start or an end of an element, or text: `name` is without its prefix, and empty for text."""

    kind: str
    name: str
    text: str = ""
    attributes: Mapping[str, str] = {}

    def get(self, name: str) -> str:
        """An attribute, whatever prefix it has; empty where there is none."""
        found = self.attributes.get(name)
        if found is None:
            return next((value for key, value in self.attributes.items() if key.endswith(f":{name}")), "")
        return found


class Archive:
    """The parts of a document by their names."""

    def __init__(self, body: bytes, most_bytes: int = MAX_BYTES, most_events: int = MAX_EVENTS) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(body))
        self._bytes_left, self._events_left = most_bytes, most_events
        self.names = frozenset(self._archive.namelist())

    def events(self, name: str) -> Iterator[Event]:
        """What stands in a part, in order; nothing where there is no such part. Raises ToolError and one of DAMAGED."""
        if name not in self.names:
            return
        if self._archive.getinfo(name).compress_type not in _METHODS:
            raise ValueError("a part is packed as no office program does it")
        reading = _Reading()
        self._spend(0, _OPENED_EVENTS)
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
            raise ToolError(_TOO_LARGE)

    def related(self, name: str) -> dict[str, str]:
        """The parts that a part refers to, by the ids that it has for them."""
        folder, _, base = name.rpartition("/")
        events = self.events(f"{folder}/_rels/{base}.rels")
        return {
            event.get("Id"): posixpath.normpath(posixpath.join("/", folder, event.get("Target")))[1:]
            for event in events
            if event.name == "Relationship" and event.kind == "start"
        }


class _Reading:
    """Reads XML piece by piece. Entities and other encodings than UTF-8 are refused: no office program writes them."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._read_bytes = 0
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text, parser.buffer_size = True, _PIECE_BYTES
        parser.XmlDeclHandler = _check_declaration
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text

    def read(self, piece: bytes, *, is_last: bool = False) -> list[Event]:
        """What the next piece tells. Raises ToolError within an endless tag, which is read anew with each piece."""
        self._parser.Parse(piece, is_last)
        self._read_bytes += len(piece)
        if self._read_bytes - self._parser.CurrentByteIndex > _MOST_TAG_BYTES:
            raise ToolError(_TOO_LARGE)
        told, self._events = self._events, []
        return told

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._events.append(Event("start", _local(name), "", attributes))

    def _end(self, name: str) -> None:
        self._events.append(Event("end", _local(name)))

    def _text(self, text: str) -> None:
        self._events.append(Event("text", "", text))


@lru_cache(maxsize=1_000)
def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _check_declaration(_version: str, encoding: str | None, _standalone: int) -> None:
    if encoding is not None and encoding.lower() not in _ENCODINGS:
        raise ValueError(f"the XML is written in {encoding}")


def _refuse_doctype(*_: object) -> NoReturn:
    raise ValueError("the XML declares a document type")


def texts_in(events: Iterable[Event], name: str) -> Iterator[str]:
    """The text of each element of this name, without that of elements within it that `name` does not hold."""
    text: list[str] | None = None
    for event in events:
        if event.name == name:
            if event.kind == "end" and text is not None:
                yield "".join(text).strip()
            text = [] if event.kind == "start" else None
        elif event.kind == "text" and text is not None:
            text.append(event.text)


def _table(rows: list[list[str]]) -> str:
    """Rows as a table of Markdown; the first is its head. Short rows are filled up, if that is no great deal."""
    width = max(map(len, rows))
    filled = width if width * len(rows) <= _MOST_FILLED_CELLS else 0
    lines = ["| " + " | ".join([*map(_in_cell, row), *[""] * (filled - len(row))]) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])


def _in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


class Paragraphs:
    """Builds paragraphs and tables: what a cell holds is told in its row, a table within one as its words."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._tables: list[list[list[list[str]]]] = []  # in each its rows, their cells, the paragraphs of these
        self._too_deep, self._cells_left = 0, _MOST_CELLS

    def add(self, text: str) -> None:
        """Add to the paragraph."""
        if text:
            self._text.append(text)

    def end(self, told: Callable[[str], str]) -> Iterator[str]:
        """End a paragraph, which is told so; within a table it belongs to its cell."""
        text = "".join(self._text).strip()
        self._text.clear()
        if text and self._tables and self._tables[-1] and self._tables[-1][-1]:
            self._tables[-1][-1][-1].append(text)
        elif text:
            yield told(text)

    def begin(self, name: str) -> None:
        """Begin a table, row or cell, as Word and PowerPoint call them; nothing for any other name."""
        match name:
            case "tbl":
                self.begin_table()
            case "tr":
                self.begin_row()
            case "tc":
                self.begin_cell()

    def begin_table(self) -> None:
        """Begin a table. What stands far within others belongs to the cell around it."""
        if len(self._tables) == _DEEPEST_TABLE:
            self._too_deep += 1
        else:
            self._tables.append([])

    def begin_row(self) -> None:
        """Begin a row of the table."""
        if self._tables and not self._too_deep:
            self._end_row()
            self._tables[-1].append([])

    def begin_cell(self) -> None:
        """Begin a cell of the row. Raises ToolError for more of them than are held."""
        if self._tables and self._tables[-1] and not self._too_deep:
            self._cells_left -= 1
            if self._cells_left < 0:
                raise ToolError(_TOO_LARGE)
            self._tables[-1][-1].append([])

    def _end_row(self) -> None:
        """Let go of the empty cells at a row's end: spreadsheets have them by the hundred."""
        row: list[list[str]] = self._tables[-1][-1] if self._tables[-1] else []
        self._cells_left += len(row)
        self._cells_left -= len(trimmed(row))

    def end_table(self) -> Iterator[str]:
        """End the table; one within a cell is told as the words in it."""
        if self._too_deep:
            self._too_deep -= 1
            return
        told = [[" ".join(cell) for cell in row] for row in (self._tables.pop() if self._tables else [])]
        rows = [row for row in map(trimmed, told) if row]
        if rows and not self._tables:
            yield _table(rows)
        elif rows:
            self.add(" ".join(" ".join(row) for row in rows))
            yield from self.end(str)


def trimmed(row: list[Cell]) -> list[Cell]:
    """A row without the empty cells at its end."""
    while row and not row[-1]:
        row.pop()
    return row
