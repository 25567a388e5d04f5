"""What does an LLM without a provider do? It has the answers of a recording, and otherwise says what is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Never

from agentkit.llm.endpoint import Endpoint

if TYPE_CHECKING:
    from agentkit.errors import NoProvider
    from agentkit.events import Event
    from agentkit.messages import Request, Response

NAME = "replay"
"""What an LLM that was made in a replay, where it needs no provider, calls its provider."""


def absent_endpoint(model: str | None) -> Endpoint:
    """Where a model is that only a recording speaks for."""
    return Endpoint(provider=NAME, model=model or NAME)


class AbsentModel:
    """A provider that is not there: whatever no recording answers raises the error that says what to set up."""

    def __init__(self, error: NoProvider) -> None:
        self._error = error

    def complete(self, _: Request) -> Response:
        """Raise NoProvider."""
        raise self._error

    async def acomplete(self, _: Request) -> Response:
        """Raise NoProvider."""
        raise self._error

    def stream(self, _: Request) -> Iterator[Event]:
        """Raise NoProvider."""
        raise self._error

    def astream(self, _: Request) -> AsyncIterator[Event]:
        """Raise NoProvider."""
        raise self._error

    def embed(self, *_: object) -> Never:
        """Raise NoProvider."""
        raise self._error

    async def aembed(self, *_: object) -> Never:
        """Raise NoProvider."""
        raise self._error
