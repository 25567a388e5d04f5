"""The services that serve models, one module each. All have the one face that `Provider` describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from agentkit.events import Event
    from agentkit.messages import Request, Response


class Provider(Protocol):
    """A service that answers requests. Failures are raised as ModelError; see `agentkit.errors`.

    `stream` and `astream` yield TextDelta, ReasoningDelta and ToolCallDelta events and end with one ResponseReceived.
    A provider may also have `prepare`, which loads what the first request needs, `close` and `aclose`, which let go of
    what it opened, and `adjustments`, which tell what is sent differently because the server refused it otherwise;
    `LLM` uses them when they are there.
    """

    def complete(self, request: Request) -> Response:
        """Answer one request, blocking."""
        ...

    async def acomplete(self, request: Request) -> Response:
        """Answer one request, awaiting."""
        ...

    def stream(self, request: Request) -> Iterator[Event]:
        """Answer one request piece by piece, blocking."""
        ...

    def astream(self, request: Request) -> AsyncIterator[Event]:
        """Answer one request piece by piece, awaiting."""
        ...
