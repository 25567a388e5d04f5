"""Which reader reads which document?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath

from agentkit.errors import ToolError
from agentkit.knowledge.passages import Block
from agentkit.knowledge.reading.prose import blocks_of_lines, blocks_of_markdown, blocks_of_text
from agentkit.knowledge.reading.source_code import blocks_of_code, blocks_of_python
from agentkit.reading.documents import parse_document
from agentkit.safety.addresses import Url, read_url
from agentkit.slotted import dataclass
from agentkit.tools.web.markdown import MAX_HTML_BYTES, read_html
from agentkit.tools.web.texts import decode, kind_of, without_controls

READING_VERSION = 1
"""Rises when documents are read otherwise than before, so that they are read again."""

_NOWHERE = Url("http", "file.invalid", 80, "/")
_LINK_NOWHERE = re.compile(r"\[([^\[\]]*)\]\(<?http://file\.invalid[^)]*\)")

Reader = Callable[[str], Iterable[Block]]
_READERS: Mapping[str, Reader] = {
    "markdown": blocks_of_markdown,
    "text": blocks_of_text,
    "data": blocks_of_lines,
    "python": blocks_of_python,
    "code": blocks_of_code,
}
KINDS = ("markdown", "text", "html", "pdf", "office", "python", "code", "data")
"""The formats that are read."""

_KINDS_OF_SUFFIXES: Mapping[str, str] = {
    "markdown": "md markdown mdx rst adoc",
    "html": "html htm xhtml",
    "pdf": "pdf",
    "python": "py pyi",
    "code": "c h cc cpp hpp cs go java js jsx mjs kt lua m php pl proto r rb rs scala sh bash sql swift ts tsx vue zig "
    "css scss",
    "data": "json jsonl csv tsv yaml yml toml ini cfg xml log",
}
_SUFFIXES = {suffix: kind for kind, suffixes in _KINDS_OF_SUFFIXES.items() for suffix in suffixes.split()}


@dataclass(frozen=True, slots=True)
class Content:
    """A document as it was read: its kind, its title, its blocks."""

    kind: str
    title: str
    blocks: tuple[Block, ...]


def read(body: bytes, name: str, content_type: str = "") -> Content:
    """Read a document by its name and what is in it.

    Raises ToolError for what holds no text that can be read, and MissingExtra for a PDF without pypdf.
    """
    document = parse_document(body)
    if document is not None and document.kind == "office":
        return Content("office", document.title, _without_lines(blocks_of_markdown(document.pages[0])))
    if document is not None:
        found = ((block.text, page) for page, text in enumerate(document.pages, 1) for block in blocks_of_text(text))
        return Content("pdf", document.title, tuple(Block(text, (), 0, page) for text, page in found))
    kind = _kind(body, name, content_type)
    text = without_controls(decode(body, content_type))
    return _read_html(text, name) if kind == "html" else read_text(text, kind)


def read_text(text: str, kind: str) -> Content:
    """Read a text of one of the kinds that are text. Lines count as in `text`."""
    blocks = tuple(_READERS[kind](text))
    title = blocks[0].section[0] if kind == "markdown" and blocks and blocks[0].section else ""
    return Content(kind, title, blocks)


def _kind(body: bytes, name: str, content_type: str) -> str:
    """The kind of a document: by its first bytes, its suffix, what the server says. Raises ToolError for no text."""
    told = _SUFFIXES.get(PurePath(name).suffix[1:].lower(), "")
    found = kind_of(content_type or ("text/plain" if told not in ("", "html") else ""), body)
    if found == "binary" or told == "pdf":
        raise ToolError(
            "it is no text; documents are Markdown, HTML, PDF, those of Word, Excel, PowerPoint and OpenDocument, "
            "plain text, source code and text data"
        )
    return "html" if found == "html" else told or "text"


def _read_html(text: str, name: str) -> Content:
    """A web page as Markdown; its lines are not those of its source, so that they are not told."""
    parsed = read_url(name)
    base = parsed if isinstance(parsed, Url) else _NOWHERE
    page = read_html(text[:MAX_HTML_BYTES], base)
    if page.remark:
        raise ToolError(page.remark)
    plain = _LINK_NOWHERE.sub(r"\1", page.text)
    return Content("html", page.title, _without_lines(blocks_of_markdown(plain)))


def _without_lines(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Blocks of a text that is not the document itself, so that its lines say nothing."""
    return tuple(Block(each.text, each.section, 0, None, each.is_code) for each in blocks)
