"""Size and time limits of responses."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

from agentkit.errors import BadResponse, Unreachable


class PassThroughStream(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A response body, sync and async, that passes through the chunks of another stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.stream)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self.stream)

    def close(self) -> None:
        """Release the connection."""
        self.stream.close()

    async def aclose(self) -> None:
        """Async version of `close`."""
        await self.stream.aclose()


LATER = "Try again later, or allow more timeout_seconds."
"""Advice in errors about slow servers."""

MOST_BYTES = 64_000_000
"""Maximum size of a response body, decompressed."""

MOST_PACKED_BYTES = 4_000_000
"""Maximum size of a compressed body, as received."""

PATIENCE = 5
"""Multiple of the timeout allowed for one line, or for JSON. Blank lines, comments and pings do not count."""

_PIECE_BYTES = 1_000_000
_PACKINGS = ("gzip", "x-gzip", "deflate")  # the requested encodings; any other body is read unchanged
_MEMBER = b"\x1f"  # first byte of gzip data; other trailing bytes are ignored
_GZIP_OR_ZLIB, _BARE = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS

_JSON_STARTS = (b"{", b"[")
_PING = rb"\{\s*(?:\}\s*$|\"type\":\s*\"(?:ping|keep-?alive|heartbeat)\")"
_SAYS_NOTHING = rb"event:|id:|retry:|data:\s*(?:%b|$)" % _PING
_SAYS_SOMETHING = re.compile(rb"^(?!%b)[^:\s]" % _SAYS_NOTHING, re.MULTILINE)
_START_BYTES = 64
"""Number of bytes needed to decide whether a line has content."""


class BoundedBody(PassThroughStream):
    """A body that raises an error when it is too long, or when the server sends no content for too long.

    `where` names the server, `timeout_seconds` is the timeout for a single read.
    """

    def __init__(self, stream: Any, where: str, timeout_seconds: float, most_bytes: int) -> None:
        super().__init__(stream)
        self._where, self._patience_seconds, self._most_bytes = where, PATIENCE * timeout_seconds, most_bytes
        self._bytes, self._heard = 0, time.monotonic()
        self._start = self._line = b""

    @classmethod
    def bind(cls, response: httpx2.Response, where: str, timeout_seconds: float) -> None:
        """Wrap the body of an unread response; a compressed body is decompressed on the fly."""
        packing = response.headers.pop("content-encoding", "").strip().lower()
        if packing in _PACKINGS:
            response.stream = _Packed(response.stream, where, timeout_seconds, packing)
        else:
            response.stream = cls(response.stream, where, timeout_seconds, MOST_BYTES)

    def __iter__(self) -> Iterator[bytes]:
        return map(self._taken, self.stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.stream:
            yield self._taken(piece)

    def _taken(self, piece: bytes) -> bytes:
        """The chunk. Raises BadResponse if the body is too long, Unreachable if content takes too long."""
        self._bytes += len(piece)
        if self._bytes > self._most_bytes:
            raise BadResponse(
                f"{self._where} sent more than {self._most_bytes:,} bytes, longer than any answer may be. "
                "Check the base URL."
            )
        if self._says_something(piece):
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > self._patience_seconds:
            has_begun = self._start in _JSON_STARTS or _SAYS_SOMETHING.match(self._line)
            what = "no whole answer" if has_begun else "nothing but blanks and comments"
            raise Unreachable(f"{self._where} sent {what} for {self._patience_seconds:g} seconds. {LATER}")
        return piece

    def _says_something(self, piece: bytes) -> bool:
        """Whether a line with content ends in this chunk. Lines of JSON do not count, only the whole document."""
        self._start = self._start or piece.lstrip()[:1]
        ended, newline, unended = piece.rpartition(b"\n")
        says = bool(newline) and _SAYS_SOMETHING.search(self._line + ended) is not None
        self._line = (unended if newline else self._line + piece[:_START_BYTES])[:_START_BYTES]
        return says and self._start not in _JSON_STARTS


class _Packed(BoundedBody):
    """A compressed body, decompressed chunk by chunk and aborted when the output is too long."""

    def __init__(self, stream: Any, where: str, timeout_seconds: float, packing: str) -> None:
        super().__init__(stream, where, timeout_seconds, MOST_PACKED_BYTES)
        self._packing, self._left = packing, MOST_BYTES
        self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.stream:
            yield from self._unpacked(self._taken(piece))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.stream:
            for unpacked in self._unpacked(self._taken(piece)):
                yield unpacked

    def _unpacked(self, data: bytes) -> Iterator[bytes]:
        is_full = True
        while data or is_full:
            if self._inflater.eof and not data.startswith(_MEMBER):
                return
            if self._inflater.eof:  # some servers compress each event separately
                self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
            piece = self._inflated(data)
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
            is_full = len(piece) == _PIECE_BYTES
            self._left -= len(piece)
            if self._left < 0:
                raise BadResponse(
                    f"{self._where} sent an answer that unpacks to more than {MOST_BYTES:,} bytes. Check the base URL."
                )
            if piece:
                yield piece

    def _inflated(self, data: bytes) -> bytes:
        try:
            return self._inflater.decompress(data, _PIECE_BYTES)
        except zlib.error as error:
            if self._packing != "deflate" or self._bytes > len(data):
                raise httpx2.DecodingError(str(error)) from error
        self._inflater = zlib.decompressobj(_BARE)  # some servers omit the two-byte zlib header
        self._packing = "gzip"
        return self._inflated(data)

    def _says_something(self, piece: bytes) -> bool:
        return bool(piece)
