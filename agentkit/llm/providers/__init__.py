"""Model providers and the interface they implement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from agentkit.events import Event
    from agentkit.messages import Request, Response


class Provider(Protocol):
    """The interface of a model provider. Failures are raised as ModelError; see `agentkit.errors`.

    `stream` and `astream` yield TextDelta, ReasoningDelta and ToolCallDelta events and end with one ResponseReceived.
    Optional members are `prepare`, which loads what the first request needs, `close` and `aclose`, which release
    connections, `adjustments`, which lists changes to requests that the server rejected, and `in_haste`, which returns
    a copy of the provider that gives up sooner because another model can be called.
    """

    def complete(self, request: Request) -> Response:
        """Answer one request, blocking."""
        ...

    async def acomplete(self, request: Request) -> Response:
        """Answer one request, async."""
        ...

    def stream(self, request: Request) -> Iterator[Event]:
        """Stream the response to one request, blocking."""
        ...

    def astream(self, request: Request) -> AsyncIterator[Event]:
        """Stream the response to one request, async."""
        ...


_Provider = TypeVar("_Provider", bound=Provider)


def in_haste(provider: _Provider) -> _Provider:
    """A variant of the provider that gives up sooner, for fallback chains. Both use the same connections."""
    hasty: _Provider = getattr(provider, "in_haste", lambda: provider)()
    return hasty


def adjustments_of(provider: Provider) -> tuple[str, ...]:
    """The names of the adjustments that the provider makes to requests."""
    adjustments: tuple[str, ...] = getattr(provider, "adjustments", ())
    return adjustments


def prepare(provider: Provider) -> None:
    """Load what the provider's first request needs. Nothing is sent."""
    if found := getattr(provider, "prepare", None):
        found()


def close(provider: Provider) -> None:
    """Close the connections of the provider's blocking methods; a later request opens new ones."""
    if found := getattr(provider, "close", None):
        found()


async def aclose(provider: Provider) -> None:
    """Close the connections of the provider's async methods on the running event loop."""
    if found := getattr(provider, "aclose", None):
        await found()


def streamed(provider: Provider, request: Request) -> Generator[Event]:
    """Stream the response as a generator: closing it also closes the provider's resources."""
    yield from provider.stream(request)
