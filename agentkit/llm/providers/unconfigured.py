"""The provider used when none is configured: it replays recordings, or raises `NoProvider`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from agentkit.llm.endpoint import Endpoint

if TYPE_CHECKING:
    from agentkit.errors import NoProvider

NAME = "replay"
"""What an LLM that was made in a replay, where it needs no provider, calls its provider."""


def absent_endpoint(model: str | None) -> Endpoint:
    """Where a model is that only a recording speaks for."""
    return Endpoint(provider=NAME, model=model or NAME)


class AbsentModel:
    """A provider that is not there: whatever no recording answers raises the error that says what to set up."""

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
