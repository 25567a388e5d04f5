"""The provider used when none is configured: it replays recordings, or raises `NoProvider`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from agentkit.llm.endpoint import Endpoint

if TYPE_CHECKING:
    from agentkit.errors import NoProvider

NAME = "replay"
"""The provider's name for an LLM created during a replay, which needs no provider."""


def absent_endpoint(model: str | None) -> Endpoint:
    """A placeholder endpoint for a model whose responses are replayed from a recording."""
    return Endpoint(provider=NAME, model=model or NAME)


class AbsentModel:
    """A placeholder provider: a request without a recorded response raises the error with setup instructions."""

    def __init__(self, error: NoProvider) -> None:
        self._error = error

    def raise_error(self, *_: object) -> Never:
        """Raise NoProvider."""
        raise self._error

    async def araise_error(self, *_: object) -> Never:
        """Raise NoProvider."""
        raise self._error

    complete = stream = astream = embed = raise_error
    acomplete = aembed = araise_error
