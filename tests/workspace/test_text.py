"""Tests for the decoding of files, the selection of lines, and redaction."""

import codecs
import tracemalloc

import pytest

from agentkit.errors import ToolError
from agentkit.workspace.text import MAX_SHOWN_BYTES, decode, redact_text, select

GREETING = "Xin chào, thế giới\n" * 3


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (GREETING.encode(), "utf-8"),
        (codecs.BOM_UTF8 + GREETING.encode(), "utf-8"),
        (codecs.BOM_UTF16_LE + GREETING.encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + GREETING.encode("utf-16-be"), "utf-16-be"),
        (codecs.BOM_UTF32_LE + GREETING.encode("utf-32-le"), "utf-32-le"),
        (GREETING.encode("utf-16-le"), "utf-16-le"),
        (GREETING.encode("utf-16-be"), "utf-16-be"),
    ],
)
def test_encoding_is_detected_and_preserved(content, encoding):
    """A text is decoded by its byte order mark, as UTF-8 or as UTF-16, and can be encoded to the same bytes."""
    text = decode(content, "f")
    assert (text.text, text.encoding) == (GREETING, encoding)
    assert text.encode(text.text) == content


@pytest.mark.parametrize(("content", "text"), [(b"caf\xe9 \x80", "café €"), (b"caf\xe9 \x81", "café \x81")])
def test_western_text_is_read(content, text):
    """Text that is not UTF-8 is decoded as Windows or Latin text, with a note."""
    read = decode(content, "f")
    assert (read.text, read.encoding in {"cp1252", "latin-1"}) == (text, True)


def test_character_missing_from_an_encoding_is_rejected():
    """A character that the encoding of a file does not support is rejected."""
    with pytest.raises(ToolError, match=r"cp1252, which has no '世'"):
        decode(b"caf\xe9", "f").encode("世")


@pytest.mark.parametrize(
    "content",
    [
        *(
            b"\x7fELF\x02\x01\x01\0\0\0",
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            bytes(range(256)),
            b"\xff\x01\x02\x03\x04" * 9,
        ),
        *(b"\0" * 100, b"a\0b", b"a\0b\0\x01\0\x02\0"),
    ],
)
def test_binary_content_is_rejected(content):
    """Binary content is rejected with its size."""
    with pytest.raises(ToolError, match=r"f is a binary file of [\d,]+ bytes"):
        decode(content, "f")


def test_beginning_of_a_file_may_end_within_a_character():
    """If only the beginning of a file is read, an incomplete last character is ignored."""
    assert decode("né".encode()[:2], "f", size=3).text == "n"
    assert decode("né".encode()[:2], "f").encoding == "cp1252"


@pytest.mark.parametrize(
    ("offset", "limit", "content", "following"),
    [
        (None, None, "1\n2\n3\n4", None),
        (2, None, "2\n3\n4", None),
        (1, 2, "1\n2\n", 3),
        (3, 2, "3\n4", None),
        (4, 9, "4", None),
    ],
)
def test_lines_are_counted_from_one(offset, limit, content, following):
    """A part has `limit` lines from line `offset` on, and the next offset."""
    lines = select("1\n2\n3\n4", offset, limit)
    assert (lines.content, lines.next_offset, lines.total_lines) == (content, following, 4)


@pytest.mark.parametrize(("text", "total"), [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("a\r\nb", 2)])
def test_final_line_break_starts_no_line(text, total):
    """A text has as many lines as line breaks, plus one if it does not end with one."""
    lines = select(text, None, None)
    assert (lines.content, lines.total_lines) == (text, total)


@pytest.mark.parametrize(("offset", "limit"), [(0, None), (-1, None), (None, 0), (5, None)])
def test_line_out_of_range_is_rejected(offset, limit):
    """A line number or limit out of range raises an error."""
    with pytest.raises(ToolError, match="line"):
        select("1\n2\n3\n4", offset, limit)


def test_long_text_is_returned_in_parts():
    """All parts together are the text, and each is within the limit."""
    text = "é" * 99 + "\n"
    text *= 5_000
    parts, offset = [], 1
    while offset:
        lines = select(text, offset, None)
        assert len(lines.content.encode()) <= MAX_SHOWN_BYTES
        parts.append(lines.content)
        offset = lines.next_offset
    assert "".join(parts) == text
    assert len(parts) == 4


def test_text_of_line_breaks_takes_little_memory():
    """Selecting a part of a text does not split the whole text into lines."""
    text = "\n" * 3_000_000
    tracemalloc.start()
    lines = select(text, 2_999_999, None)
    first = select(text, None, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (lines.content, lines.next_offset) == ("\n\n", None)
    assert (len(first.content), first.next_offset) == (MAX_SHOWN_BYTES, MAX_SHOWN_BYTES + 1)
    assert peak < 40_000_000


def test_long_line_is_truncated():
    """A line longer than a part is truncated with a note, and the next one can be read."""
    lines = select("é" * 200_000 + "\nend", None, None)
    assert len(lines.content) == MAX_SHOWN_BYTES // 2
    assert "Line 1 is longer" in lines.note
    assert select("é" * 200_000 + "\nend", lines.next_offset, None).content == "end"


def test_long_line_can_be_continued():
    """All parts of a long line together are the line, and the last part is followed by the next lines."""
    text = "first\n" + "é" * 300_000 + "\nend"
    lines = select(text, 2, None)
    parts = [lines.content]
    while lines.next_column:
        assert f"offset=2 and column={lines.next_column}" in lines.note
        lines = select(text, 2, None, column=lines.next_column)
        parts.append(lines.content)
    assert "".join(parts) == text.removeprefix("first\n")
    assert (len(parts), lines.next_offset, lines.note) == (3, None, "")
    assert select("abc\nd", 1, 1, column=3).content == "c\n"
    for column in (0, 4, 9):
        with pytest.raises(ToolError, match=r"column characters from 1|fewer than"):
            select("abc\nd", 1, None, column=column)


def test_truncated_file_is_reported():
    """Every part of a file that was read in part says that the file continues."""
    for offset, limit in ((2, None), (1, 1), (None, None)):
        assert "continues after line 2" in select("a\nb\n", offset, limit, complete=False).note
    assert select("a\nb\n", 1, 1).note == ""
    long = select("a" * (MAX_SHOWN_BYTES + 9), 1, None, complete=False).note
    assert ("column=" in long, "continues after line 1" in long) == (True, True)
    with pytest.raises(ToolError, match="in the part of it that can be read"):
        select("a\n", 7, None, complete=False)


def test_redaction_preserves_line_numbers(monkeypatch):
    """A text with redacted secrets has the same number of lines, and no part of a secret."""
    monkeypatch.setenv("SERVICE_SECRET", "first-part-91\nsecond-part-27")
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nVgIB\n-----END RSA PRIVATE KEY-----"
    text = f"a\n{key}\nb\n{key}\nfirst-part-91\nsecond-part-27\nc"
    lines = redact_text(text).split("\n")
    assert (len(lines), lines[0], lines[5], lines[-1]) == (text.count("\n") + 1, "a", "b", "c")
    assert not any(piece in redact_text(text) for piece in ("MIIB", "VgIB", "first-part", "second-part"))
    assert redact_text("plain\n") == "plain\n"
