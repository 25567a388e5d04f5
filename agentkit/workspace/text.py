"""Decoding of text and selection of lines (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from agentkit._dataclass import dataclass
from agentkit.errors import ToolError
from agentkit.redaction import redact
from agentkit.settings import secret_values
from agentkit.text_encoding import DecodedText, Errors, decode_text

MAX_SHOWN_BYTES = 256_000
"""Maximum size of one read result."""

_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,100}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,100}-----|\Z)", re.DOTALL
)
_STRIDE = 65_536  # characters counted at once


@dataclass(frozen=True, slots=True)
class LineRange:
    """A range of lines.

    `total_lines` counts the lines that could be read; `note` states if the file has more. `next_offset` is the first
    line after the range, None at the end of the text; `next_column` is the next character of a
    line that is too long to be shown whole.
    """

    content: str
    total_lines: int
    next_offset: int | None = None
    note: str = ""
    next_column: int | None = None


def decode(content: bytes, name: str, size: int | None = None, *, errors: Errors = "replace") -> DecodedText:
    """Decode the content of a file like `decode_text`. Raises ToolError for binary content.

    `size` is that of the whole file if the bytes are only its beginning.
    """
    decoded = decode_text(content, is_cut=size is not None and size > len(content), errors=errors)
    if decoded is None:
        raise ToolError(f"{name} is a binary file of {size or len(content):,} bytes; it has no text to read.")
    return decoded


def redact_text(text: str) -> str:
    """Redact secrets while keeping line numbers: a multi-line secret is replaced by as many line breaks."""

    def in_lines(secret: str) -> str:
        return redact(secret) + "\n" * secret.count("\n")

    for value in secret_values():
        if "\n" in value:
            text = text.replace(value, in_lines(value))
    if "-----BEGIN" in text:
        text = _KEY_BLOCK.sub(lambda block: in_lines(block[0]), text)
    return redact(text)


def select(
    text: str, offset: int | None, limit: int | None, *, column: int | None = None, complete: bool = True
) -> LineRange:
    """Return `limit` lines starting at line `offset` (counted from 1), as many as fit in MAX_SHOWN_BYTES.

    The first line begins at character `column` (counted from 1). `complete` states whether the text is the whole file.
    Raises ToolError if the line or the column does not exist.
    """
    if any(count is not None and count < 1 for count in (offset, limit, column)):
        raise ToolError("offset and limit count lines from 1, and column characters from 1.")
    total = text.count("\n") + bool(text and not text.endswith("\n"))
    first = offset or 1
    if first > max(total, 1):
        ending = "" if complete else " in the part of it that can be read"
        raise ToolError(f"Line {first:,} does not exist; the file has {total:,} lines{ending}.")
    column = column or 1
    if (first, column, limit) == (1, 1, None) and complete and _fits(text):
        return LineRange(text, total)
    start = _line_start(text, first)
    end = text.find("\n", start)
    if column > 1 and start + column > (len(text) if end < 0 else end):
        raise ToolError(f"Line {first:,} has fewer than {column:,} characters.")
    lines = islice(_lines_from(text, start + column - 1), limit)
    return _limit_lines(lines, first, column, total, complete=complete)


def _line_start(text: str, number: int) -> int:
    """Return the index of a line, without splitting a huge text into lines."""
    start, lines_left = 0, number - 1
    while (here := text.count("\n", start, start + _STRIDE)) < lines_left and start < len(text):
        start, lines_left = start + _STRIDE, lines_left - here
    for _ in range(lines_left):
        start = text.index("\n", start) + 1
    return start


def _lines_from(text: str, start: int) -> Iterator[str]:
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _limit_lines(lines: Iterable[str], first: int, column: int, total: int, *, complete: bool) -> LineRange:
    bytes_left = MAX_SHOWN_BYTES
    included: list[str] = []
    note, next_column = "", None
    for line in lines:
        data = line.encode("utf-8", "surrogatepass")
        bytes_left -= len(data)
        if bytes_left < 0 and not included:
            included = [data[:MAX_SHOWN_BYTES].decode("utf-8", "ignore")]
            next_column = column + len(included[0])
            note = (
                f"Line {first:,} is longer than can be shown; to read on in it, use offset={first} and"
                f" column={next_column}."
            )
        if bytes_left < 0:
            break
        included.append(line)
    content, count = "".join(included), len(included)
    next_offset: int | None = first + count if first + count <= total else None
    if not complete:
        ending = f"The file continues after line {total:,}, beyond the limit of what can be read."
        note = f"{note} {ending}".lstrip()
    return LineRange(content, total, next_offset, note, next_column)


def _fits(text: str) -> bool:
    return len(text) * 4 <= MAX_SHOWN_BYTES or len(text.encode("utf-8", "surrogatepass")) <= MAX_SHOWN_BYTES
