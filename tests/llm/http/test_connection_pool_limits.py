"""Tests for the limits of response bodies: size, silence, and decompression."""

import asyncio
import gzip
import random
import tracemalloc
import zlib

import httpx2
import pytest

from agentkit.errors import BadResponse, Unreachable
from agentkit.llm.client import LLM
from agentkit.llm.http.connection_pool import MAX_COMPRESSED_BYTES, BoundedBody
from agentkit.testing import FakeServer, raw

LONG_SECONDS = 1_000.0


def bounded(*pieces, timeout_seconds=LONG_SECONDS, max_bytes=100):
    """Return a bounded body of these pieces."""
    return BoundedBody(pieces, "the server", timeout_seconds, max_bytes)


async def agathered(body):
    """Return the pieces of an async body."""
    return [piece async for piece in body]


async def apieces(pieces):
    """Yield the pieces asynchronously."""
    for piece in pieces:
        yield piece


def test_body_within_limits_is_unchanged():
    """A response within the limits is read unchanged, both sync and async."""
    pieces = [b": at work\n", b"\n", b'data: {"a": 1}\n\n', b"a" * 50]
    assert list(bounded(*pieces)) == pieces
    awaited = BoundedBody(apieces(pieces), "the server", LONG_SECONDS, 100)
    assert asyncio.run(agathered(awaited)) == pieces


def test_endless_body_is_cut_off():
    """A body that exceeds the size limit raises an error that names the server."""
    body = iter(bounded(b"a" * 60, b"a" * 60))
    assert next(body) == b"a" * 60
    with pytest.raises(BadResponse, match="the server sent more than 100 bytes"):
        next(body)


IDLE = (
    b": still here\n\n",
    b"\r\n",
    b" ",
    b"\n: a\n: b\n",
    b"event: ping\r\ndata: {}\r\n\r\n",
    b'event: ping\ndata: {"type": "ping"}\n\n',
    b'data: {"type":"keepalive","sequence_number":3}\n\n',
    b"id: 1\nretry: 3000\ndata:\n\n",
)


@pytest.mark.for_each("piece", IDLE)
def test_comments_do_not_prevent_a_timeout(piece):
    """A server that sends only comments, blank lines and pings times out after five timeouts."""
    with pytest.raises(Unreachable, match="the server sent only blanks and comments for 0 seconds"):
        list(bounded(piece, piece, timeout_seconds=0.0))
    assert list(bounded(piece, piece)) == [piece, piece]


@pytest.mark.parametrize("piece", [b"data: 1\n", b": a\ndata: 1\n: b", b'event: ping\ndata: {"type": "pong"}\n'])
def test_slow_server_that_sends_data_does_not_time_out(piece):
    """A slow server does not time out as long as it sends data."""
    assert list(bounded(piece, piece, timeout_seconds=0.0)) == [piece, piece]


@pytest.mark.parametrize("piece", [b"data: 1", b'{"a"', b'{\n"a": 1,\n', b"[\n"])
def test_slow_line_times_out(piece):
    """A server that sends single bytes must complete a line, or the JSON body, within five timeouts."""
    with pytest.raises(Unreachable, match="the server sent no complete response for 0 seconds"):
        list(bounded(piece, piece, timeout_seconds=0.0))
    assert list(bounded(piece, piece)) == [piece, piece]


def test_compressed_stream_counts_as_content():
    """In a compressed stream, whose lines are not visible, all data counts as content."""
    response = httpx2.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx2.ByteStream(gzip.compress(b"a")))
    BoundedBody.bind(response, "the server", 0.0)
    assert response.read() == b"a"


@pytest.mark.for_each("size", [1, 7, 1_000])
@pytest.mark.for_each("behind", [b"", bytes(9), b"garbage"])
def test_concatenated_gzip_members_are_decompressed(size, behind):
    """Concatenated gzip members are decompressed as one body, and trailing data is ignored."""
    data = gzip.compress(b"Hel") + gzip.compress(b"") + gzip.compress(b"lo") + behind
    assert unpacked([data[start : start + size] for start in range(0, len(data), size)], "gzip") == b"Hello"


def test_compressed_body_has_a_lower_limit(ask):
    """A compressed body has a lower size limit, because it grows when it is decompressed."""
    packed = gzip.compress(b"{" + random.Random(0).randbytes(MAX_COMPRESSED_BYTES + 100_000), 1)
    line = raw(packed, content_type="application/json", headers={"Content-Encoding": "gzip"})
    with FakeServer(line) as server, pytest.raises(BadResponse, match=r"sent more than 4,000,000 bytes"):
        ask(LLM(base_url=server.base_url, model="m", max_retries=0))


def packed_pieces(length, wbits=zlib.MAX_WBITS + 16):
    """Return the given number of zeros, compressed, in pieces of a thousand bytes."""
    packing = zlib.compressobj(9, zlib.DEFLATED, wbits)
    million = bytes(1_000_000)
    data = b"".join(packing.compress(million) for _ in range(length // 1_000_000)) + packing.flush()
    return [data[start : start + 1_000] for start in range(0, len(data), 1_000)]


class Pieces(httpx2.SyncByteStream):
    """A body of these pieces."""

    def __init__(self, pieces):
        self.pieces = pieces

    def __iter__(self):
        return iter(self.pieces)


def unpacked(pieces, packing):
    """Return the decompressed body of a response with that encoding."""
    response = httpx2.Response(200, headers={"Content-Encoding": packing}, stream=Pieces(pieces))
    BoundedBody.bind(response, "the server", LONG_SECONDS)
    return response.read()


@pytest.mark.parametrize(
    ("packing", "wbits"),
    [("gzip", zlib.MAX_WBITS + 16), ("X-GZIP", zlib.MAX_WBITS + 16), ("deflate", zlib.MAX_WBITS), ("deflate", -15)],
)
def test_compressed_body_is_decompressed(packing, wbits):
    """The variants of gzip and deflate that servers send are decompressed, with and without their header."""
    assert unpacked(packed_pieces(3_000_000, wbits), packing) == bytes(3_000_000)


def test_decompression_is_bounded():
    """A small body that decompresses to more than the limit raises an error before it fills the memory."""
    pieces = packed_pieces(1_000_000_000)
    assert sum(map(len, pieces)) < 1_100_000
    tracemalloc.start()
    with pytest.raises(BadResponse, match="the server sent a response that decompresses to more than 64,000,000 bytes"):
        for _ in unfolding(pieces):
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def unfolding(pieces):
    """Return a stream that decompresses the pieces of a response without storing them."""
    response = httpx2.Response(200, headers={"Content-Encoding": "gzip"}, stream=Pieces(pieces))
    BoundedBody.bind(response, "the server", LONG_SECONDS)
    return response.stream


@pytest.mark.parametrize("packing", ["br", "zstd", "gzip, gzip", "nonsense"])
def test_unrequested_encoding_is_not_decompressed(packing):
    """A response with an encoding that the request did not allow is not decompressed."""
    assert unpacked([b"data"], packing) == b"data"


def test_corrupt_body_raises_decoding_error():
    """A body that does not match its Content-Encoding raises DecodingError."""
    with pytest.raises(httpx2.DecodingError):
        unpacked([b"{}"], "gzip")


def test_bounded_body_is_a_stream_of_the_http_library():
    """A response with a bounded body is read by the HTTP library, sync and async."""
    response, other = (httpx2.Response(200, stream=httpx2.ByteStream(b"data")) for _ in range(2))
    for each in (response, other):
        BoundedBody.bind(each, "the server", LONG_SECONDS)
    assert response.read() == asyncio.run(other.aread()) == b"data"
