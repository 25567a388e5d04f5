"""Is there room for one more run?"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agentkit.errors import ConfigError
from agentkit.serve.exchange import Refusal
from agentkit.usage import is_whole


class Slots:
    """Room for so many runs at the same time; one more is told to come back, before anything has happened."""

    def __init__(self, most: int) -> None:
        if not is_whole(most, 1):
            raise ConfigError(f"most_runs= takes a whole number of at least 1. Got {most!r:.200}.")
        self._most, self._taken, self._lock = most, 0, threading.Lock()

    def take(self) -> None:
        """Take a place, which must be given back. Raises Refusal when there is none."""
        with self._lock:
            if self._taken >= self._most:
                text = f"{self._most} runs are going on, and no more may. Try again when one has ended."
                raise Refusal(429, text, code="too_many_runs", headers={"retry-after": "1"})
            self._taken += 1

    def give_back(self) -> None:
        """Give a place back."""
        with self._lock:
            self._taken -= 1

    @contextmanager
    def one(self) -> Iterator[None]:
        """A place for as long as the block lasts. Raises Refusal when there is none."""
        self.take()
        try:
            yield
        finally:
            self.give_back()
