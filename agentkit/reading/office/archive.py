"""What are the parts of a document? An archive of XML: unpacked within bounds, read in pieces, without entities."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, NoReturn
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
    RuntimeError,
    ValueError,
)
"""What goes wrong with an archive that is none, or is encrypted, and with XML that is none."""

_PIECE_BYTES, _MOST_TAG_BYTES = 262_144, 8_000_000

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How parts may be packed: others unpack at once all that a piece holds, and it may hold gigabytes."""

TOO_LARGE = "the document is too large to be read: save a part of it, or as CSV"
_ENCODINGS = (None, "utf-8", "utf8", "us-ascii", "ascii")


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
        self._unread = set(self.names)

    def events(self, name: str) -> Iterator[Event]:
        """The events of a part, in order. Raises ToolError and one of DAMAGED.

        Yields nothing for a part that does not exist or was read before: a document may refer to one part a million
        times, and no office program does.
        """
        if name not in self._unread:
            return
        self._unread.discard(name)
        if self._archive.getinfo(name).compress_type not in _METHODS:
            raise ValueError("a part is packed as no office program does it")
        reading = _Reading()
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
            raise ToolError(TOO_LARGE)
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
