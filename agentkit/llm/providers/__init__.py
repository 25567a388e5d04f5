"""Model providers and the interface they implement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from agentkit.events import Event
    from agentkit.messages import Request, Response


class Provider(Protocol):
    """A service that answers requests. Failures are raised as ModelError; see `agentkit.errors`.

    `stream` and `astream` yield TextDelta, ReasoningDelta and ToolCallDelta events and end with one ResponseReceived.
    A provider may also have `prepare`, which loads what the first request needs, `close` and `aclose`, which let go of
    what it opened, `adjustments`, which tell what is sent differently because the server refused it otherwise, and
    `in_haste`, which gives the same provider for who can ask another one; they are used when they are there.
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


_Provider = TypeVar("_Provider", bound=Provider)


def in_haste(provider: _Provider) -> _Provider:
    """The provider as it is asked where another model can be: it waits for little. Both use the same connections."""
    hasty: _Provider = getattr(provider, "in_haste", lambda: provider)()
    return hasty


def adjustments_of(provider: Provider) -> tuple[str, ...]:
    """What the provider sends differently because the server refused it otherwise."""
    adjustments: tuple[str, ...] = getattr(provider, "adjustments", ())
    return adjustments


def prepare(provider: Provider) -> None:
    """Load what the provider's first request needs. Nothing is sent."""
    if found := getattr(provider, "prepare", None):
        found()


def close(provider: Provider) -> None:
    """Close what the blocking methods of the provider opened; a later request opens it again."""
    if found := getattr(provider, "close", None):
        found()


async def aclose(provider: Provider) -> None:
    """Close what its awaiting methods opened on the running event loop."""
    if found := getattr(provider, "aclose", None):
        await found()


def streamed(provider: Provider, request: Request) -> Generator[Event]:
    """The provider's answer piece by piece, as a generator: closing it closes what the provider opened for it."""
    yield from provider.stream(request)
