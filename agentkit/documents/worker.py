"""Text extraction in the isolated worker: PDFs, e-mail, notebooks, and the readers of other formats."""

from __future__ import annotations

import codecs
import contextlib
import email.charset
import email.header
import email.parser
import email.policy
import encodings.cp437
import encodings.idna
import encodings.latin_1  # noqa: F401 zipfile and `work` use them when files can no longer be opened freely
import html.parser
import io
import json
import logging
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from email.message import EmailMessage
from typing import Any

from agentkit.documents import office, rtf
from agentkit.documents.markdown import subscript, superscript
from agentkit.errors import ToolError
from agentkit.text_encoding import decode_text

with contextlib.suppress(ImportError):  # not needed for other documents
    import pypdf
    import pypdf.errors
_PDF_ERRORS: tuple[type[Exception], ...] = (
    *(ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError, RecursionError, OverflowError),
    *(NotImplementedError, zlib.error, *([pypdf.errors.PyPdfError] if "pypdf" in sys.modules else [])),
)
"""The exceptions that reading a damaged PDF raises."""

with contextlib.suppress(ImportError):
    decode_text("Größe und Maß".encode("latin-1"))  # imports the detection of encodings

_CHARSETS = (
    *("utf-8", "utf-16", "us-ascii", "latin-1", "iso8859-2", "iso8859-5", "iso8859-15", "koi8-r", "mac-roman"),
    *("cp437", "cp850", "cp866", "cp874", *(f"cp125{digit}" for digit in range(9)), "cp932", "cp949", "gb18030"),
    *("gb2312", "gbk", "big5", "shift_jis", "euc-jp", "euc-kr", "iso2022_jp", "unicode-escape", "quopri", "base64"),
)
for _name in _CHARSETS:  # loaded now, because later files cannot be opened freely
    with contextlib.suppress(LookupError):
        codecs.lookup(_name)

_TITLE_CHARS = 300
_REPLACEMENTS = {0xAD: "", 0xF0B7: "•", 0xF0A7: "▪"}
"""Soft hyphens, and bullets of the fonts Symbol and Wingdings."""


class PageNote(str):
    """A note about missing content, in place of a page."""

    __slots__ = ()


def work(request: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield a frame with the title, then one with the text of each page; or one frame with an `error`.

    Only a PDF has several pages. Yields nothing for a file that is not a document.
    """
    try:
        document = _READERS[request["kind"]](request["body"].encode("latin-1"))
        if document is not None:
            title, *pages = document
            for name, text in (("title", title[:_TITLE_CHARS]), *(("page", page) for page in pages)):
                whole = (
                    text.translate(_REPLACEMENTS).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
                )
                yield {"note" if isinstance(text, PageNote) else name: whole}
    except ToolError as error:
        yield {"error": str(error)}


_MAX_PDF_CHARS, _MAX_PREFIX_BYTES = 20_000_000, 1_024
_BROKEN_WORD = re.compile(r"(\w+)[-\u00ad\u2010][ \t]*\n[ \t]*(\w+)")
_SMALL, _MAX_RAISED_CHARS = 0.8, 12
"""The size of raised and lowered text, as a share of that of the text before, and its length."""

_MAX_OBJECTS = 1_000_000
_OBJECT = re.compile(rb"(?<!\d)(\d{1,7})\s+0\s+obj\b(?:(?!endobj).)*+endobj", re.DOTALL)
_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_STREAM = re.compile(rb"stream\r?\n")

_COMPOUND = re.compile(r"\w+(?:[-\u2010]\w+)+")


def _pdf(body: bytes) -> list[str]:
    """Return the title and the text of each page; words that are divided at the ends of lines are joined.

    Of a damaged file, the pages that are found are read, and the last item is a `PageNote`. Raises ToolError for a file
    that is encrypted, or without such pages.
    """
    logging.disable()
    body = body[max(body.find(b"%PDF-", 0, _MAX_PREFIX_BYTES), 0) :]
    notes = [] if b"%%EOF" in body[-_MAX_PREFIX_BYTES:] else ["The PDF is cut off: its end is missing."]
    try:
        reader = pypdf.PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):  # an empty password if only changes are protected
            raise ToolError("the PDF is encrypted with a password; remove the password and try again")
        pages = list(reader.pages)
    except pypdf.errors.DependencyError as error:
        raise ToolError("the PDF is encrypted with AES; save it without encryption") from error
    except _PDF_ERRORS as error:
        reader = _recover_pdf(body, error)
        pages = list(reader.pages)
        notes = [f"The PDF is damaged or cut off: {len(pages):,} pages were found, and others may be missing."]
    texts, unread = _texts(pages)
    notes += [f"Pages that could not be read: {', '.join(map(str, unread))}."] if unread else []
    title, fields = "", list[str]()
    with contextlib.suppress(*_PDF_ERRORS):
        title = str((reader.metadata.title if reader.metadata else None) or "")
        fields = [f"{name}: {value}" for name, value in (reader.get_form_text_fields() or {}).items() if value]
    texts[-1:] = ["\n".join([*texts[-1:], "Form fields:", *fields])] if fields else texts[-1:]
    return [title, *_join_broken_words(texts), *([PageNote(" ".join(notes))] if notes else [])]


def _recover_pdf(body: bytes, error: Exception) -> pypdf.PdfReader:
    """A reader of the pages in a damaged file, with a new table of its objects. Raises ToolError without pages."""
    objects = {int(found[1]): found[0] for found in _OBJECT.finditer(body) if int(found[1]) < _MAX_OBJECTS}
    for found in list(objects.values()):
        if b"/ObjStm" in found[:_MAX_PREFIX_BYTES]:
            objects |= {number: text for number, text in _packed_objects(found) if number not in objects}
    pages = [number for number, text in objects.items() if _PAGE.search(text[:_MAX_PREFIX_BYTES])]
    if not pages or b"/Encrypt" in body:
        problem = "encrypted and damaged" if b"/Encrypt" in body else "damaged" if b"%%EOF" in body else "cut off"
        raise ToolError(f"the PDF is {problem}: {str(error)[:200] or type(error).__name__}") from error
    tree, root = max(objects) + 1, max(objects) + 2
    kids = b" ".join(b"%d 0 R" % number for number in pages)
    objects[tree] = b"%d 0 obj\n<</Type/Pages/Count %d/Kids[%b]>>\nendobj\n" % (tree, len(pages), kids)
    objects[root] = b"%d 0 obj\n<</Type/Catalog/Pages %d 0 R>>\nendobj\n" % (root, tree)
    parts, table, end = [b"%PDF-1.7\n"], [b"xref\n0 1\n0000000000 65535 f \n"], 9
    for number, text in objects.items():
        parts.append(text + b"\n")
        table.append(b"%d 1\n%010d 00000 n \n" % (number, end))
        end += len(text) + 1
    trailer = b"trailer\n<</Size %d/Root %d 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (root + 1, root, end)
    return pypdf.PdfReader(io.BytesIO(b"".join([*parts, *table, trailer])))


def _packed_objects(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """The objects in a stream of objects; if it is damaged, those before the damage."""
    start = _STREAM.search(stream)
    sizes = [re.search(rb"/%b\s+(\d+)" % name, stream[:_MAX_PREFIX_BYTES]) for name in (b"First", b"N")]
    if not start or not all(sizes):
        return
    first, count = (int(size[1]) for size in sizes if size)
    data = zlib.decompressobj().decompress(stream[start.end() :], _MAX_PDF_CHARS)
    header = [int(word) for word in data[:first].split()[: 2 * count]]
    offsets = [*header[1::2], len(data) - first]
    for number, begin, end in zip(header[::2], offsets, offsets[1:], strict=False):
        if number < _MAX_OBJECTS:
            yield number, b"%d 0 obj\n%b\nendobj\n" % (number, data[first + begin : first + end])


def _texts(pages: list[pypdf.PageObject]) -> tuple[list[str], list[int]]:
    """The text of each page, and the numbers of those that could not be read."""
    remaining = _MAX_PDF_CHARS
    texts: list[str] = []
    unread: list[int] = []
    for number, page in enumerate(pages, 1):
        line = _LineBuilder()
        try:
            page.extract_text(visitor_text=line.add)
            unread += [number] if "/Contents" in page and page.get_contents() is None else []
        except _PDF_ERRORS:
            unread.append(number)
        texts.append("".join(line.pieces)[:remaining])
        remaining -= len(texts[-1])
    return texts, unread


def _join_broken_words(texts: list[str]) -> Iterator[str]:
    compounds = {word.replace("\u2010", "-").lower() for text in texts for word in _COMPOUND.findall(text)}

    def join(found: re.Match[str]) -> str:
        """Join the parts of a word; with their hyphen, if they are written with one elsewhere."""
        first, second = found[1], found[2]
        keeps = not second[0].islower() or not first[-1].isalpha() or f"{first}-{second}".lower() in compounds
        is_soft = found[0][len(first)] == "\u00ad"
        return f"{first}-{second}\n" if keeps and not is_soft else f"{first}{second}\n"

    for text in texts:
        yield re.sub(r"\n[ \t]+", "\n", _BROKEN_WORD.sub(join, text))


class _LineBuilder:
    """Joins the pieces of text of a page: cells of a row become one line, raised and lowered text is marked."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._x = self._y = self._size = 0.0

    def add(self, text: str, transform: list[float], matrix: list[float], _font: object, size: float) -> None:
        """Add a piece of text with the matrices that place it, as pypdf calls its visitors."""
        if text.strip():
            x = matrix[4] * transform[0] + matrix[5] * transform[2] + transform[4]
            y = matrix[4] * transform[1] + matrix[5] * transform[3] + transform[5]
            size *= abs(matrix[3] * transform[3])
            rise, is_new_line = y - self._y, self.pieces[-1:] == ["\n"] or "".join(self.pieces[-1:]).endswith("\n")
            is_small = size < _SMALL * self._size and not is_new_line and len(text.strip()) <= _MAX_RAISED_CHARS
            if is_small and 0.05 * self._size < abs(rise) < self._size:
                end = text[len(text.rstrip()) :]
                self.pieces.append((superscript if rise > 0 else subscript)(text.strip()) + end)
                return
            if is_new_line and self._size and abs(rise) < 0.1 * self._size and x > self._x:
                while self.pieces and not self.pieces[-1].strip():
                    self.pieces.pop()
                self.pieces[-1:] = [f"{each.rstrip()} " for each in self.pieces[-1:]]
                text = text.lstrip()
            self._x, self._y, self._size = x, y, size
        if text:
            self.pieces.append(text)


_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_MAILBOX = re.compile(rb"^From [^\n]{1,300}\n(?=[A-Za-z][A-Za-z0-9-]{1,60}:)", re.MULTILINE)
"""The line before each message in a mailbox file."""

_TEXT_PARTS = frozenset({"text/calendar", "message/delivery-status"})
_MAX_DEPTH, _MAX_ATTACHMENTS, _MAX_MESSAGES = 5, 100, 1_000
_HIDDEN_TAGS = frozenset({"script", "style", "head", "title"})
_BREAKING_TAGS = frozenset({"br", "p", "div", "tr", "li", "h1", "h2", "h3", "h4", "h5", "h6", "table", "blockquote"})
_MANY_BREAKS = re.compile(r"\n\s*\n\s*\n+")


def _mail(body: bytes) -> tuple[str, str]:
    """Return the subject and the content of a message, or of all messages in a mailbox; attached ones are read too."""
    sources = _MAILBOX.split(body)[1:] if _MAILBOX.match(body) else [body]
    parser = email.parser.BytesParser(EmailMessage, policy=email.policy.default)
    messages = [parser.parsebytes(source) for source in sources[:_MAX_MESSAGES]]
    text = "\n\n---\n\n".join("\n\n".join(_mail_parts(message, 0)) for message in messages)
    more = f"\n\n[{len(sources) - _MAX_MESSAGES:,} more messages]" if len(sources) > _MAX_MESSAGES else ""
    return _header(messages[0], "Subject"), text + more


def _mail_parts(message: EmailMessage, depth: int) -> Iterator[str]:
    yield "\n".join(f"{name}: {value}" for name in _HEADERS if (value := _header(message, name)))
    body = message.get_body(("plain", "html"))
    if isinstance(body, EmailMessage):
        text = _decode_part(body)
        text = _html_text(text) if body.get_content_subtype() == "html" else text
        yield _MANY_BREAKS.sub("\n\n", text).strip()
    attachments = list(message.iter_attachments()) if message.is_multipart() else []
    lines = []
    for part in attachments[:_MAX_ATTACHMENTS]:
        inner = part.get_payload(0) if part.get_content_type() == "message/rfc822" and part.is_multipart() else None
        if isinstance(inner, EmailMessage) and depth < _MAX_DEPTH:
            yield "Attached message:"
            yield from _mail_parts(inner, depth + 1)
        elif part.get_content_type() in _TEXT_PARTS:
            reports = part.get_payload() if part.is_multipart() else ()
            texts = [str(report).strip() for report in reports if isinstance(report, EmailMessage)]
            yield "\n".join(texts) or _decode_part(part).replace("\r\n", "\n").strip()
        else:
            data = part.get_payload(decode=True)
            size = len(data) if isinstance(data, bytes) else 0
            lines.append(f"- {part.get_filename() or 'without a name'} ({part.get_content_type()}, {size:,} bytes)")
    if lines:
        yield "Attachments:\n" + "\n".join(lines)


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except (ValueError, LookupError, IndexError, AttributeError, TypeError):  # a header that no parser accepts
        return ""


def _decode_part(part: EmailMessage) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    with contextlib.suppress(LookupError):
        if declared := part.get_content_charset():
            return data.decode(str(declared), "replace")
    try:
        decoded = decode_text(data)
    except ImportError:  # detection needs turbohtml
        decoded = None
    return data.decode("latin-1") if decoded is None else decoded.text


def _html_text(source: str) -> str:
    reader = _PlainText()
    reader.feed(source)
    reader.close()
    return "\n".join(line.strip().removeprefix("| ") for line in "".join(reader.pieces).split("\n"))


class _PlainText(html.parser.HTMLParser):
    """Collects the visible text of HTML: links with their addresses, list items, and the cells of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        self._hidden += tag in _HIDDEN_TAGS
        self.pieces.append("\n" if tag in _BREAKING_TAGS else " | " if tag in ("td", "th") else "")
        self.pieces.append("- " if tag == "li" else "")
        if tag == "a":
            address = dict(attrs).get("href") or ""
            self._links.append(address if address.startswith(("http://", "https://", "mailto:")) else "")
            self.pieces.append("[" if self._links[-1] else "")

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        self._hidden = max(self._hidden - (tag in _HIDDEN_TAGS), 0)
        link = self._links.pop() if tag == "a" and self._links else ""
        self.pieces.append(f"]({link})" if link else "\n" if tag in _BREAKING_TAGS else "")

    def handle_data(self, data: str) -> None:
        """Add text."""
        self.pieces.append("" if self._hidden else re.sub(r"\s+", " ", data))


_MAX_OUTPUT_CHARS = 2_000
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def _notebook(body: bytes) -> tuple[str, str]:
    """Return the title and the cells of a notebook as Markdown. Raises ToolError if it is damaged."""
    try:
        notebook = json.loads(body)
        cells = notebook.get("cells") or [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        metadata = notebook.get("metadata") or {}
        language = str((metadata.get("language_info") or metadata.get("kernelspec") or {}).get("name") or "python")
        text = "\n\n".join(part for cell in cells for part in _cell(cell, language) if part.strip())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ToolError("the notebook is damaged: it is not valid JSON of the notebook format") from error
    return str(metadata.get("title") or ""), text


def _cell(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _join_source(cell.get("source") or cell.get("input"))
    if cell.get("cell_type") != "code":
        yield source
        return
    if source.strip():
        yield f"```{language.removesuffix('3')}\n{source}\n```"
    for output in cell.get("outputs") or ():
        text = _COLOURS.sub("", _output(output)).rstrip()
        if len(text) > _MAX_OUTPUT_CHARS:
            text = f"{text[:_MAX_OUTPUT_CHARS]}\n[{len(text) - _MAX_OUTPUT_CHARS:,} more characters of output]"
        if text:
            yield f"Output:\n```\n{text}\n```"


def _output(output: dict[str, Any]) -> str:
    """The text of an output; pictures and other data are named by their type."""
    if output.get("output_type") in ("error", "pyerr"):
        return _join_source(output.get("traceback"), "\n") or f"{output.get('ename')}: {output.get('evalue')}"
    data = output.get("data") or {}
    text = _join_source(output.get("text") or data.get("text/plain") or data.get("text/markdown"))
    text = text or _join_source(data.get("text/latex"))
    if not text and "application/json" in data:
        text = json.dumps(data["application/json"], ensure_ascii=False)
    if not text and "text/html" in data:
        text = _MANY_BREAKS.sub("\n\n", _html_text(_join_source(data["text/html"]))).strip()
    pictures = [f"[{kind}]" for kind in data if not kind.startswith("text/") and not kind.endswith("json")]
    return "\n".join(filter(None, [text, *pictures]))


def _join_source(source: Any, separator: str = "") -> str:
    return separator.join(map(str, source)) if isinstance(source, list) else str(source or "")


_READERS: Mapping[str, Callable[[bytes], list[str] | tuple[str, str] | None]] = {
    "pdf": _pdf,
    "office": office.office_text,
    "rtf": lambda body: ("", rtf.rtf_text(body)),
    "notebook": _notebook,
    "mail": _mail,
}
"""The reader of each kind, which returns the title followed by the pages."""
