"""How often was a request sent for nothing? The openai package sends it again by itself, and does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import Any

from agentkit.errors import ModelError
from agentkit.messages import Response
from agentkit.usage import Usage

_SENT = frozenset({"ReadTimeout", "ReadError", "RemoteProtocolError", "DecodingError"})
"""What the HTTP library calls the end of a request that a server may have been at work on."""


class Attempts:
    """Counts how often one request was sent whole and not answered whole. What the provider charges nobody knows.

    `has_begun` says whether an answer is on its way, or was.
    """

    def __init__(self) -> None:
        self.unanswered = 0
        self.has_begun = False

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what clients of `counting` and `acounting` send in the block, at whose end an answer has begun."""
        self.has_begun = False
        token = _COUNTING.set(self)
        try:
            yield
        finally:
            _COUNTING.reset(token)
        self.has_begun = True

    def tell(self, error: ModelError) -> None:
        """Enter in an error how many there were; an answer that has begun came to nothing with it."""
        error.unanswered = self.unanswered + (self.has_begun and error.status is None)

    def told_in(self, response: Response) -> Response:
        """The response, in whose usage they are requests without figures."""
        if not self.unanswered:
            return response
        usage = response.usage
        lost = Usage(requests=self.unanswered, unreported=self.unanswered, tariff=usage.tariff)
        return replace(response, usage=usage + lost)


_COUNTING: ContextVar[Attempts | None] = ContextVar("_COUNTING", default=None)


@cache
def counting(kind: Any) -> Any:
    """A class of the HTTP library's blocking clients, whose requests are counted."""

    def send(client: Any, request: Any, **options: Any) -> Any:
        try:
            return kind.send(client, request, **options)
        except Exception as error:
            _note(error)
            raise

    return type(kind.__name__, (kind,), {"send": send})


@cache
def acounting(kind: Any) -> Any:
    """Like `counting`, of the awaiting ones."""

    async def send(client: Any, request: Any, **options: Any) -> Any:
        try:
            return await kind.send(client, request, **options)
        except Exception as error:
            _note(error)
            raise

    return type(kind.__name__, (kind,), {"send": send})


def _note(error: Exception) -> None:
    """Count an attempt that ended so, if a server may have been at work on it."""
    attempts = _COUNTING.get()
    if attempts is not None and (isinstance(error, ModelError) or type(error).__name__ in _SENT):
        attempts.unanswered += 1
