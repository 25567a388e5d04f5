"""How much may a server send, and how long may it take to say something? No answer is without end."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

from agentkit.errors import BadResponse, Unreachable
from agentkit.llm.http.streams import Passing

MOST_BYTES = 64_000_000
"""How long the body of an answer may be, as it comes over the wire."""

MOST_PACKED_BYTES = 4_000_000
"""The same for a body that is compressed, which may grow much when it is unpacked."""

PATIENCE = 5
"""How many timeouts long a server may take for one line, or for JSON; comments and blank lines are none."""

_JSON_STARTS = (b"{", b"[")
_SAYS_SOMETHING = re.compile(rb"^[^:\s]", re.MULTILINE)


class Bounded(Passing):
    """A body that ends with an error when it is too long, or when its server takes too long to say something.

    `where` is what the server is called, `timeout_seconds` how long nothing at all may come.
    """

    def __init__(self, stream: Any, where: str, timeout_seconds: float, most_bytes: int) -> None:
        super().__init__(stream)
        self._where, self._patience_seconds, self._most_bytes = where, PATIENCE * timeout_seconds, most_bytes
        self._bytes, self._heard = 0, time.monotonic()
        self._start = self._line = b""

    @classmethod
    def bind(cls, response: httpx2.Response, where: str, timeout_seconds: float) -> None:
        """Bind the body of a response that has not been read yet."""
        if "content-encoding" in response.headers:
            response.stream = _Packed(response.stream, where, timeout_seconds, MOST_PACKED_BYTES)
        else:
            response.stream = cls(response.stream, where, timeout_seconds, MOST_BYTES)

    def __iter__(self) -> Iterator[bytes]:
        return map(self._taken, self.stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.stream:
            yield self._taken(piece)

    def _taken(self, piece: bytes) -> bytes:
        """The piece. Raises BadResponse for one that is too much, Unreachable when they take too long."""
        self._bytes += len(piece)
        if self._bytes > self._most_bytes:
            raise BadResponse(
                f"{self._where} sent more than {self._most_bytes:,} bytes, longer than any answer may be."
            )
        if self._says_something(piece):
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > self._patience_seconds:
            has_begun = self._start in _JSON_STARTS or _SAYS_SOMETHING.match(self._line)
            what = "no whole answer" if has_begun else "nothing but blanks and comments"
            raise Unreachable(f"{self._where} sent {what} for {self._patience_seconds:g} seconds.")
        return piece

    def _says_something(self, piece: bytes) -> bool:
        """Whether a line ends here that is no comment. JSON says something only as a whole, however many its lines."""
        self._start = self._start or piece.lstrip()[:1]
        ended, newline, unended = piece.rpartition(b"\n")
        says = bool(newline) and _SAYS_SOMETHING.search(self._line + ended) is not None
        self._line = unended[:1] if newline else self._line or piece[:1]
        return says and self._start not in _JSON_STARTS


class _Packed(Bounded):
    """A body that is compressed, whose lines only show when it is unpacked."""

    def _says_something(self, piece: bytes) -> bool:
        return bool(piece)
