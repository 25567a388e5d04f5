"""What stands in a document of an office program? Word, Excel, PowerPoint and OpenDocument, told as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from agentkit.errors import ToolError
from agentkit.reading.office import open_document, sheets, slides, word
from agentkit.reading.office.archive import DAMAGED, Archive, texts_in

MAX_TEXT_CHARS = 20_000_000

_ZIP, _OLD = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_CONTENT, _OPEN_DOCUMENT, _FIRST_BYTES = "content.xml", b"application/vnd.oasis.opendocument", 200
_READERS: Mapping[str, Callable[[Archive], Iterable[str]]] = {
    "word/document.xml": word.paragraphs,
    "xl/workbook.xml": sheets.paragraphs,
    "ppt/presentation.xml": slides.paragraphs,
    _CONTENT: open_document.paragraphs,
}
"""What reads a document, by the part that it has."""

_ABOUT = ("docProps/core.xml", "meta.xml")


def text_of_office(body: bytes) -> tuple[str, str] | None:
    """The title of a document, and what stands in it as Markdown; None for what no office program writes.

    Raises ToolError for one that is damaged, encrypted, of an old format or larger than is read, or holds no text.
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
        if not any(name.encode() in body for name in _READERS):  # an archive of something else, or none
            return None
        raise ToolError("the document is damaged or encrypted") from error
    if not text:
        raise ToolError("the document holds no text: it may be pictures, which are not read")
    return title[:300], text


def _joined(paragraphs: Iterable[str]) -> str:
    """The paragraphs as one text, as far as there is room for them."""
    told, room = list[str](), MAX_TEXT_CHARS
    for paragraph in paragraphs:
        if paragraph.strip():
            told.append(paragraph[:room])
            room -= len(paragraph)
        if room <= 0:
            break
    return "\n\n".join(told)
