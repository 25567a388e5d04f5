"""Archives of office documents: parts read as XML events, within limits of size and number."""

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
"""Limits of the unpacked bytes and of XML events per document; they correspond to about ten seconds."""

DAMAGED = (zipfile.BadZipFile, zlib.error, expat.ExpatError, EOFError, KeyError, RuntimeError, ValueError)
"""Errors raised for an invalid or encrypted archive, and for invalid XML."""

_PIECE_BYTES, _MAX_TAG_BYTES = 262_144, 8_000_000

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


class Relationship(NamedTuple):
    """A reference from one part to another, or to an address outside the document."""

    kind: str
    target: str
    is_external: bool


class Archive:
    """The parts of a document by name."""

    def __init__(self, body: bytes, max_bytes: int = MAX_BYTES, max_events: int = MAX_EVENTS) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(body))
        self._bytes_left, self._events_left = max_bytes, max_events
        self.names = frozenset(self._archive.namelist())
        self._available = set(self.names)

    def events(self, name: str) -> Iterator[XMLEvent]:
        """Yield the XML events of a part, in order. Raises ToolError and one of DAMAGED.

        Yields nothing for a part that does not exist or was read before: a malicious document can refer to one part a
        million times, and no office program writes such a file.
        """
        if name not in self._available:
            return
        self._available.discard(name)
        if self._archive.getinfo(name).compress_type not in _METHODS:
            raise ValueError("a part is packed as no office program does it")
        parser = _XMLParser()
        with self._archive.open(name) as part:
            while block := part.read(_PIECE_BYTES):
                events = parser.read(block)
                self._bytes_left -= len(block)
                self._events_left -= len(events)
                if self._bytes_left < 0 or self._events_left < 0:
                    raise ToolError(TOO_LARGE)
                yield from events
        yield from parser.read(b"", is_last=True)

    def relationships(self, name: str) -> dict[str, Relationship]:
        """The parts and addresses that a part refers to, by relationship id."""
        folder, _, base = name.rpartition("/")
        found = {}
        for event in self.events(f"{folder}/_rels/{base}.rels" if folder else f"_rels/{base}.rels"):
            if event.name == "Relationship" and event.kind == "start":
                target, is_external = event.get("Target"), event.get("TargetMode") == "External"
                if not is_external:
                    target = posixpath.normpath(posixpath.join("/", folder, target))[1:]
                kind = event.get("Type").rpartition("/")[2]
                found[event.get("Id")] = Relationship(kind, target, is_external=is_external)
        return found


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

    def read(self, block: bytes, *, is_last: bool = False) -> list[XMLEvent]:
        """Parse the next piece. Raises ToolError within an overlong tag, which expat parses again with each piece."""
        self._parser.Parse(block, is_last)
        self._read_bytes += len(block)
        if self._read_bytes - self._parser.CurrentByteIndex > _MAX_TAG_BYTES:
            raise ToolError(TOO_LARGE)
        events, self._events = self._events, []
        return events

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
