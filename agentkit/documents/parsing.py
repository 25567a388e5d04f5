"""`parse_document`: text extraction in the isolated worker, within time and memory limits.

The package parses such files only through `parse_document`. The parsers run in a process without network, without the
user's files and without environment variables; see `agentkit.sandbox.python`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Literal

from agentkit._dataclass import dataclass
from agentkit.errors import MissingExtra, SandboxError, ToolError
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.python import Status, run_module
from agentkit.sandbox.watchdog import MEGABYTE, ProcessLimits

MAX_DOCUMENT_BYTES = 50_000_000
MAX_MEMORY_BYTES = 1024 * MEGABYTE
MAX_OUTPUT_BYTES = 100_000_000
READ_SECONDS: Mapping[str, float] = {"office": 10.0, "pdf": 30.0, "rtf": 10.0, "notebook": 10.0, "mail": 10.0}
"""The time limits. pypdf needs about 20 to 50 milliseconds per page."""

_MAX_EXPANSION, _SMALL_DOCUMENT_CHARS = 100, 1_000_000
"""Maximum characters per byte of the file, for documents of more than `_SMALL_DOCUMENT_CHARS` characters.

Ordinary documents have about five. The time of later processing, such as indexing, grows with the characters.
"""

_REQUEST_BYTES = 2 * MAX_DOCUMENT_BYTES + 1_000  # a byte takes up to two bytes in UTF-8
_WORKER = "agentkit.documents.worker"
_PACKAGES = {"pdf": "pypdf", "mail": "turbohtml"}
"""The packages that the reader of a kind imports."""
_PDF, _ZIP, _OLE, _RTF = b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf"
_NOTEBOOK = re.compile(rb'"nbformat"\s*:\s*[0-9]')
_HEADERS = re.compile(rb"(?:[A-Za-z][A-Za-z0-9-]{1,60}:[^\n]{0,2000}\n(?:[ \t][^\n]{0,2000}\n){0,100}){3,200}?\r?\n")
_HEADER = re.compile(rb"^([A-Za-z][A-Za-z0-9-]{1,60}):", re.MULTILINE)
_MAIL_HEADERS = frozenset({b"message-id", b"mime-version", b"received", b"return-path", b"delivered-to"})
_MAX_PREFIX_BYTES, _END_OF_PDF = 1_024, b"startxref"
"""Readers of PDF accept other bytes before the header, such as those of an e-mail or a web form."""

_ADVICE = "Save a part of it as a separate file, or all of it as plain text or CSV"
_LIMIT_ERRORS: Mapping[Status, str] = {
    "timed_out": f"the document could not be read in {{seconds:g}} seconds. {_ADVICE}",
    "memory": f"the document needs more than {MAX_MEMORY_BYTES // MEGABYTE:,} MB of memory to be read. {_ADVICE}",
    "flood": f"the document holds more than {MAX_OUTPUT_BYTES // MEGABYTE:,} MB of text. {_ADVICE}",
}
_DAMAGED = "the document is damaged, encrypted, or too large to be read. Open it and save it again"
_NO_TEXT = "the document contains no text: its pages may be images, which are not read"

Kind = Literal["pdf", "office", "rtf", "notebook", "mail"]


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A parsed document: its kind, its title, and the text of each page.

    The text of other documents than PDF is Markdown, and all of it is one page. `note` says what is missing.
    """

    kind: Kind
    title: str
    pages: tuple[str, ...]
    note: str = ""

    @property
    def text(self) -> str:
        """The text of all pages; those of a PDF are numbered."""
        if self.kind != "pdf":
            return self.pages[0]
        return "\n\n".join(f"[Page {number}]\n{text}" for number, text in enumerate(self.pages, 1))


def parse_document(
    body: bytes, seconds: float | None = None, *, available: frozenset[str] = MECHANISMS
) -> ParsedDocument | None:
    """Parse a document in the isolated worker, within limits of time, memory and output.

    Args:
        body: The content of the file.
        seconds: The time limit; by default the one of its kind in `READ_SECONDS`.
        available: The isolation mechanisms that can be used; tests remove some.

    Returns:
        The document, or None for any other file.

    Raises:
        ToolError: The document is damaged, encrypted, contains no text, or exceeds a limit.
        MissingExtra: It is a PDF, and pypdf is not installed.
    """
    kind = document_kind(body)
    if kind is None:
        return None
    if len(body) > MAX_DOCUMENT_BYTES:
        raise ToolError(f"the document has {len(body):,} bytes; at most {MAX_DOCUMENT_BYTES:,} are read. {_ADVICE}")
    limit = READ_SECONDS[kind] if seconds is None else seconds
    limits = ProcessLimits(
        timeout_seconds=limit,
        memory_bytes=MAX_MEMORY_BYTES,
        processes=8,
        output_bytes=10_000,
        file_bytes=MEGABYTE,
        scratch_bytes=MEGABYTE,
        open_files=64,
        flood_bytes=MAX_OUTPUT_BYTES,
    )
    request = {"kind": kind, "body": body.decode("latin-1")}
    found = find_spec(_PACKAGES[kind]) if kind in _PACKAGES else None
    packages = tuple(map(os.path.realpath, (found and found.submodule_search_locations) or ()))
    if kind == "pdf" and not packages:
        raise MissingExtra("pdf", "Reading a PDF")
    try:
        outcome = run_module(
            _WORKER, request, limits, packages=packages, request_bytes=_REQUEST_BYTES, available=available
        )
    except SandboxError as error:
        raise ToolError(f"the document cannot be parsed: {error}") from error
    if outcome.status != "ok":
        raise ToolError(_LIMIT_ERRORS.get(outcome.status, _DAMAGED).format(seconds=limit))
    document = _document(kind, outcome.frames)
    count = 0 if document is None else sum(map(len, document.pages))
    if count > max(_SMALL_DOCUMENT_CHARS, _MAX_EXPANSION * len(body)):
        raise ToolError(f"the document is packed to hide its size: {len(body):,} bytes hold {count:,} characters")
    return document


def document_kind(body: bytes) -> Kind | None:
    """Detect the kind of document by its first bytes; None for any other file."""
    if body.startswith((_ZIP, _OLE)):
        return "office"
    if body.startswith(_RTF):
        return "rtf"
    head = body[:_MAX_PREFIX_BYTES]
    if body.startswith(_PDF) or (_PDF in head and _END_OF_PDF in body):
        return "pdf"
    if head.lstrip()[:1] == b"{" and _NOTEBOOK.search(body) and b'"cells"' in body:
        return "notebook"
    found = _HEADERS.match(body, body.find(b"\n", 0, _MAX_PREFIX_BYTES) + 1 if body.startswith(b"From ") else 0)
    names = {name.lower() for name in _HEADER.findall(found[0])} if found else set()
    return "mail" if b"from" in names and names & _MAIL_HEADERS else None


def _document(kind: Kind, frames: list[dict[str, str]]) -> ParsedDocument | None:
    """Build the document from the worker's frames. Raises ToolError for an error that they report."""
    if not frames:
        return None
    error = next((frame["error"] for frame in frames if "error" in frame), None)
    if error is not None:
        raise ToolError(error)
    pages = tuple(frame["page"] for frame in frames if "page" in frame)
    if not any(page.strip() for page in pages):
        raise ToolError(_NO_TEXT)
    note = " ".join(frame["note"] for frame in frames if "note" in frame)
    return ParsedDocument(kind, frames[0].get("title", ""), pages, note)
