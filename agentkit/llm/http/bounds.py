"""How much may a server send, and how long may it say nothing? No answer is without end."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from agentkit.errors import BadResponse, Unreachable
from agentkit.llm.http.streams import Passing

MOST_BYTES = 64_000_000
"""How long the body of an answer may be, as it comes over the wire."""

MOST_PACKED_BYTES = 4_000_000
"""The same for a body that is compressed, which may grow much when it is unpacked."""

PATIENCE = 5
"""How many timeouts long a server may send nothing but comments and blank lines, which say that it is at work."""

_SAYS_SOMETHING = re.compile(rb"^[^:\s]", re.MULTILINE)


class Bounded(Passing):
    """A body that ends with an error when it is too long, or when its server has said nothing for too long.

    `where` is what the server is called, `timeout_seconds` how long nothing at all may come.
    """

    def __init__(self, stream: Any, where: str, timeout_seconds: float, most_bytes: int) -> None:
        super().__init__(stream)
        self._where, self._patience_seconds, self._most_bytes = where, PATIENCE * timeout_seconds, most_bytes
        self._bytes, self._heard = 0, time.monotonic()

    @classmethod
    def bind(cls, response: Any, where: str, timeout_seconds: float) -> None:
        """Bind the body of a response that has not been read yet."""
        most_bytes = MOST_PACKED_BYTES if "content-encoding" in response.headers else MOST_BYTES
        cls.put_over(response, where, timeout_seconds, most_bytes)

    def __iter__(self) -> Iterator[bytes]:
        return map(self._taken, self.stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.stream:
            yield self._taken(piece)

    def _taken(self, piece: bytes) -> bytes:
        """The piece. Raises BadResponse for one that is too much, Unreachable when they have long said nothing."""
        self._bytes += len(piece)
        if self._bytes > self._most_bytes:
            raise BadResponse(
                f"{self._where} sent more than {self._most_bytes:,} bytes, longer than any answer may be."
            )
        if _SAYS_SOMETHING.search(piece):
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > self._patience_seconds:
            seconds = f"{self._patience_seconds:g} seconds"
            raise Unreachable(f"{self._where} sent nothing but blanks and comments for {seconds}.")
        return piece
