"""How does a stream of ours become one that the HTTP library takes? It must be of the library's own kind."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any


class Passing:
    """The body of a response on its way, blocking or awaiting: what another stream gives."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    @classmethod
    def put_over(cls, response: Any, *arguments: Any) -> None:
        """Let the body of a response, which must not have been read yet, pass through a stream of this class.

        The response is one of httpx or httpx2, whichever the openai package stands on.
        """
        own: Any = cls
        library = sys.modules[type(response).__module__.partition(".")[0]]
        response.stream = _of_kind(own, library.ByteStream)(response.stream, *arguments)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.stream)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self.stream)

    def close(self) -> None:
        """Let go of the connection."""
        self.stream.close()

    async def aclose(self) -> None:
        """Like `close`, awaiting."""
        await self.stream.aclose()


@cache
def _of_kind(own: Any, theirs: Any) -> Any:
    """A class that is both."""
    return type(own.__name__, (own, theirs), {})
