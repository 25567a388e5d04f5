"""Office documents as Markdown: format detection, limits of the text, and the slides of presentations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping

from agentkit.documents.archive import DAMAGED, Archive, Relationship, XMLEvent, texts_in
from agentkit.documents.open_document import open_document_paragraphs
from agentkit.documents.openxml import OpenXMLText, related_paragraphs
from agentkit.documents.spreadsheet import sheet_paragraphs
from agentkit.documents.word import word_paragraphs
from agentkit.errors import ToolError

MAX_TEXT_CHARS = 20_000_000

_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_CONTENT, _OPEN_DOCUMENT, _FIRST_BYTES = "content.xml", b"application/vnd.oasis.opendocument", 200

_METADATA_PARTS = ("docProps/core.xml", "meta.xml")
_ENCRYPTED = "the document is encrypted with a password; remove the password and try again"
_UNSUPPORTED = "it is encrypted, or of an old format; save it as DOCX, XLSX, PPTX or OpenDocument"


def office_text(body: bytes) -> tuple[str, str] | None:
    """Return the title of an office document and its content as Markdown; None for any other file.

    Raises ToolError if the document is damaged, encrypted, in an old format, too large, or contains no text.
    """
    if body.startswith(_OLE):
        raise ToolError(_ENCRYPTED if "EncryptedPackage".encode("utf-16-le") in body else _UNSUPPORTED)
    if not body.startswith(_ZIP):
        return None
    archive = None
    try:
        archive = Archive(body)
        part = next((name for name in _READERS if name in archive.names), "")
        if not part or (part == _CONTENT and _OPEN_DOCUMENT not in body[:_FIRST_BYTES]):
            return None
        text = _join(_READERS[part](archive))
        title = next((text for name in _METADATA_PARTS for text in texts_in(archive.events(name), "title")), "")
    except DAMAGED as error:
        if not any(name.encode() in body for name in _READERS):  # another kind of archive, or not an archive
            return None
        with contextlib.suppress(*DAMAGED):
            manifest = archive.events("META-INF/manifest.xml") if archive is not None else ()
            if any(event.name == "encryption-data" for event in manifest):
                raise ToolError(_ENCRYPTED) from error
        raise ToolError("the document is damaged or encrypted") from error
    if not text:
        raise ToolError("the document contains no text: it may consist of images, which are not read")
    return title[:300], text


def _join(paragraphs: Iterable[str]) -> str:
    """Join the paragraphs, up to the limit."""
    parts, room = list[str](), MAX_TEXT_CHARS
    for paragraph in paragraphs:
        if paragraph.strip():
            parts.append(paragraph[:room])
            room -= len(paragraph)
        if room <= 0:
            break
    return "\n\n".join(parts)


_PRESENTATION = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_SKIPPED_SHAPES = ("sldImg", "sldNum", "hdr", "ftr", "dt")


def slide_paragraphs(archive: Archive) -> Iterator[str]:
    """Yield the texts of all slides."""
    relationships = archive.relationships(_PRESENTATION)
    ids = [
        event.attributes for event in archive.events(_PRESENTATION) if event.name == "sldId" and event.kind == "start"
    ]
    slide_ids = [next((value for key, value in each.items() if key.endswith(":id")), "") for each in ids]
    for number, each in enumerate(slide_ids, 1):
        name = relationships[each].target if each in relationships else ""
        related = archive.relationships(name) if name else {}
        slide = _Slide(archive.events(name), related)
        title = " ".join(" ".join(slide.titles).split())
        yield f"## Slide {number}: {title}" if title else f"## Slide {number}"
        yield from slide.texts
        yield from related_paragraphs(archive, slide)
        for part in related.values():
            notes = _Slide(archive.events(part.target)).texts if part.kind == "notesSlide" else []
            yield "Notes: " + "\n".join(notes) if notes else ""


class _Slide(OpenXMLText):
    """The titles of a slide, and its other texts."""

    def __init__(self, events: Iterable[XMLEvent], relationships: Mapping[str, Relationship] | None = None) -> None:
        super().__init__(relationships)
        self.titles, self.texts = list[str](), list[str]()
        self._kind = ""
        for event in events:
            texts = list(self.handle(event))
            if self._kind not in _SKIPPED_SHAPES:
                (self.titles if self._kind in _TITLES and event.name == "p" else self.texts).extend(texts)

    def start_element(self, event: XMLEvent) -> None:
        """Detect the kind of the shape from its placeholder, such as a title or a slide number."""
        if event.name in ("sp", "ph"):
            self._kind = event.get("type")


_READERS: Mapping[str, Callable[[Archive], Iterable[str]]] = {
    "word/document.xml": word_paragraphs,
    "xl/workbook.xml": sheet_paragraphs,
    "ppt/presentation.xml": slide_paragraphs,
    _CONTENT: open_document_paragraphs,
}
"""The reader of a document, by the part that identifies its format."""
