"""Decoding of text and selection of lines (pure)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from agentkit._dataclass import dataclass
from agentkit.errors import ToolError
from agentkit.redaction import redact
from agentkit.settings import secret_values

MAX_SHOWN_BYTES = 256_000
"""Maximum size of one read result."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,100}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,100}-----|\Z)", re.DOTALL
)
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SAMPLE_BYTES = 8_000
_STRIDE = 65_536  # characters counted at once
_MAX_CONTROL_BYTES = 0.02


@dataclass(frozen=True, slots=True)
class Text:
    """Decoded text: `encoding` is the codec's name, `mark` the byte order mark before the text."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """Encode another text in the same way. Raises ToolError if the encoding lacks a character."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise ToolError(f"The file is encoded as {self.encoding}, which has no {character!r}.") from None


@dataclass(frozen=True, slots=True)
class LineRange:
    """A range of lines. `next_offset` is the first line after it, None at the end of the text."""

    content: str
    total_lines: int
    next_offset: int | None = None
    note: str = ""


def decode(content: bytes, name: str, size: int | None = None) -> Text:
    """Decode bytes by byte order mark, as UTF-8, or by heuristics.

    `size` is that of the whole file if the bytes are only its beginning. Raises ToolError for binary content.
    """
    cut = size is not None and size > len(content)
    marked = next(((mark, encoding) for mark, encoding in _BOMS if content.startswith(mark)), None)
    if marked:
        mark, encoding = marked
        return Text(content[len(mark) :].decode(encoding, "replace"), encoding, mark)
    if b"\0" not in content:
        text = _utf8(content, cut=cut)
        if text is not None:
            return Text(text)
        if len(_NO_TEXT.findall(content[:_SAMPLE_BYTES])) <= _MAX_CONTROL_BYTES * len(content[:_SAMPLE_BYTES]):
            return _legacy(content)
    wide = _utf16(content, cut=cut)
    if wide is None:
        raise ToolError(f"{name} is a binary file of {size or len(content):,} bytes; it has no text to read.")
    return wide


def hidden(text: str) -> str:
    """Redact secrets while keeping line numbers: a multi-line secret is replaced by as many line breaks."""

    def in_lines(secret: str) -> str:
        return redact(secret) + "\n" * secret.count("\n")

    for value in secret_values():
        if "\n" in value:
            text = text.replace(value, in_lines(value))
    if "-----BEGIN" in text:
        text = _KEY_BLOCK.sub(lambda block: in_lines(block[0]), text)
    return redact(text)


def select(text: str, offset: int | None, limit: int | None, *, complete: bool = True) -> LineRange:
    """Return `limit` lines starting at line `offset` (counted from 1), as many as fit in MAX_SHOWN_BYTES.

    `complete` states whether the text is the whole file. Raises ToolError if the line does not exist.
    """
    if any(count is not None and count < 1 for count in (offset, limit)):
        raise ToolError("offset and limit count lines from 1.")
    total = text.count("\n") + bool(text and not text.endswith("\n"))
    first = offset or 1
    if first > max(total, 1):
        ending = "" if complete else " in the part of it that can be read"
        raise ToolError(f"Line {first:,} does not exist; the file has {total:,} lines{ending}.")
    if first == 1 and limit is None and complete and _fits(text):
        return LineRange(text, total)
    wanted = islice(_lines_from(text, _start_of(text, first)), limit)
    return _bounded(wanted, first, total, complete=complete)


def _start_of(text: str, number: int) -> int:
    """Return the index of a line, without splitting a huge text into lines."""
    start, left = 0, number - 1
    while (here := text.count("\n", start, start + _STRIDE)) < left and start < len(text):
        start, left = start + _STRIDE, left - here
    for _ in range(left):
        start = text.index("\n", start) + 1
    return start


def _lines_from(text: str, start: int) -> Iterator[str]:
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _bounded(wanted: Iterable[str], first: int, total: int, *, complete: bool) -> LineRange:
    room = MAX_SHOWN_BYTES
    shown: list[str] = []
    note = ""
    for line in wanted:
        data = line.encode("utf-8", "surrogatepass")
        room -= len(data)
        if room < 0 and not shown:
            shown = [data[:MAX_SHOWN_BYTES].decode("utf-8", "ignore")]
            note = f"Line {first:,} is longer than can be shown; only its beginning is here."
        if room < 0:
            break
        shown.append(line)
    content, count = "".join(shown), len(shown)
    following: int | None = first + count if first + count <= total else None
    if following is None and not complete:
        note = f"The file continues after line {total:,}, beyond the limit of what can be read."
    return LineRange(content, total, following, note)


def _fits(text: str) -> bool:
    return len(text) * 4 <= MAX_SHOWN_BYTES or len(text.encode("utf-8", "surrogatepass")) <= MAX_SHOWN_BYTES


def _utf8(content: bytes, *, cut: bool) -> str | None:
    try:
        return codecs.utf_8_decode(content, "strict", not cut)[0]
    except UnicodeDecodeError:
        return None


def _legacy(content: bytes) -> Text:
    try:
        return Text(content.decode("cp1252"), "cp1252")
    except UnicodeDecodeError:
        return Text(content.decode("latin-1"), "latin-1")


def _utf16(content: bytes, *, cut: bool) -> Text | None:
    """Decode UTF-16 without a mark: text in most scripts has its zeros on one side, and no control characters."""
    if len(content) % 2 and not cut:
        return None
    sample = content[:_SAMPLE_BYTES]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    encoding = "utf-16-be" if even > odd else "utf-16-le"
    if max(even, odd) < 0.4 * (len(sample) // 2) or min(even, odd) > 0.05 * (len(sample) // 2):
        return None
    text = content[: len(content) // 2 * 2].decode(encoding, "replace")
    return None if _NO_TEXT.search(text[:_SAMPLE_BYTES].encode()) else Text(text, encoding)
