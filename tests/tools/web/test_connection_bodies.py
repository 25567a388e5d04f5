"""Tests for reading bodies up to their limits, compressed or not."""

import gzip
import tracemalloc
import zlib

import pytest

from agentkit.tools.web.connection import (
    MAX_DECODED_BYTES,
    MAX_GZIP_MEMBERS,
    MAX_RAW_BYTES,
    BodyReader,
    is_readable_encoding,
)


def read(data, encoding="", size=65_536):
    """Return the reader after all chunks that it accepts."""
    reader = BodyReader(encoding)
    for start in range(0, len(data), size):
        if not reader.feed(data[start : start + size]):
            break
    reader.finish()
    return reader


@pytest.mark.for_each("size", [1, 7, 65_536])
@pytest.mark.for_each("encoding", ["", "identity", "gzip", "X-GZIP "])
def test_body_is_read_completely(encoding, size):
    """A body is read completely and unchanged, whatever its chunks."""
    body = b"hello " * 100
    data = gzip.compress(body) if "gzip" in encoding.lower() else body
    reader = read(data, encoding, size)
    assert (bytes(reader.body), reader.cut) == (body, "")


def test_plain_body_is_truncated():
    """The first 2,000,000 bytes of an uncompressed body are read."""
    reader = read(b"x" * (MAX_RAW_BYTES + 1))
    assert (len(reader.body), "2,000,000" in reader.cut) == (MAX_RAW_BYTES, True)
    assert not read(b"x" * MAX_RAW_BYTES).cut


@pytest.mark.parametrize("chunk", [65_536, 10_000_000])
def test_bomb_is_decompressed_to_the_limit(chunk):
    """A gzip bomb uses no more memory than the limit, even in one chunk."""
    bomb = gzip.compress(bytes(100_000_000))
    tracemalloc.start()
    reader = read(bomb, "gzip", chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(reader.body), "5,000,000" in reader.cut) == (MAX_DECODED_BYTES, True)
    assert peak < 25_000_000


def test_body_of_exactly_the_limit_is_complete():
    """A body that decompresses to exactly 5,000,000 bytes is complete."""
    reader = read(gzip.compress(bytes(MAX_DECODED_BYTES)), "gzip")
    assert (len(reader.body), reader.cut) == (MAX_DECODED_BYTES, "")


@pytest.mark.parametrize("size", [1, 13, 65_536])
def test_gzip_members_are_joined(size):
    """The members of a gzip body are joined, and padding after them is ignored."""
    data = gzip.compress(b"a") + gzip.compress(b"") + gzip.compress(b"b") + b"\0\0\0"
    reader = read(data, "gzip", size)
    assert (bytes(reader.body), reader.cut) == (b"ab", "")


def test_bomb_of_many_members_is_bounded():
    """Consecutive bombs share one limit."""
    reader = read(gzip.compress(bytes(3_000_000)) * 3, "gzip")
    assert (len(reader.body), "5,000,000" in reader.cut) == (MAX_DECODED_BYTES, True)


def test_number_of_members_is_limited():
    """After a hundred gzip members, tens of thousands of further ones are not read."""
    reader = read(gzip.compress(b"x") * 50_000, "gzip")
    assert (len(reader.body), "100 parts" in reader.cut) == (MAX_GZIP_MEMBERS, True)


@pytest.mark.parametrize(
    ("data", "body", "cut"),
    [
        (gzip.compress(b"hello" * 999, mtime=0)[:-10], b"hello" * 999, "ended early"),
        (b"no gzip", b"", "damaged"),
        (zlib.compress(b"hello"), b"", "damaged"),
        (gzip.compress(b"hello", mtime=0)[:-8] + b"\0" * 8, b"hello", "damaged"),
        (b"", b"", ""),
    ],
)
def test_damaged_body_is_reported(data, body, cut):
    """The readable part of a damaged body is returned, and the damage is reported."""
    reader = read(data, "gzip")
    assert body.startswith(bytes(reader.body))
    assert (cut in reader.cut, bool(cut)) == (True, bool(reader.cut))


@pytest.mark.parametrize(
    ("encoding", "is_readable"), [("", True), (" GZIP ", True), ("gzip,gzip", False), ("br", False)]
)
def test_readable_encodings(encoding, is_readable):
    """Only an identity or a single gzip encoding is readable."""
    assert is_readable_encoding(encoding) == is_readable
