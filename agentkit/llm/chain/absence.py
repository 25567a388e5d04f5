"""Is a model away? Whoever gave no answer is not asked for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from agentkit.errors import ModelError, RateLimited
from agentkit.llm.chain.failing import is_lasting
from agentkit.messages import Missed
from agentkit.usage import NO_USAGE

FIRST_SECONDS, LONGEST_SECONDS = 30.0, 600.0
"""How long a model is not asked after it has failed once, and at most, as that doubles with each failure."""


class Absence:
    """What is remembered of one model that may be away. Any thread may use it.

    It is away for 30 seconds, each time that it fails again for twice as long, and never for less time than finding
    out has taken or than its server asks for; at most for ten minutes, and at once for those where somebody must do
    something about it. Then one request asks it, while others go on to the next model until that is answered.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._lock = now, threading.Lock()
        self._missed: Missed | None = None
        self._pause_seconds = self._until = self._failed_at = 0.0

    @property
    def missed(self) -> Missed | None:
        """Why the model would not be asked now; None when it would."""
        missed = self._missed
        return missed if missed is not None and self._now() < self._until else None

    def claim(self) -> Missed | None:
        """None when the model is to be asked, by whoever gets this answer; else why it is not."""
        if self._missed is None:
            return None
        with self._lock:
            missed, now = self._missed, self._now()
            if missed is not None and now >= self._until:
                self._until = now + self._pause_seconds
                return None
            return missed

    def has_answered(self) -> None:
        """The model is there."""
        if self._missed is not None:
            with self._lock:
                self._missed, self._pause_seconds = None, 0.0

    def has_failed(self, error: ModelError, missed: Missed, asked_at: float) -> None:
        """The model was asked at `asked_at`, and gave no answer."""
        with self._lock:
            now = self._now()
            # Those who were all waiting when it failed have seen one failure, not several.
            is_same = self._missed is not None and asked_at < self._failed_at
            pause = self._pause_seconds if is_same else max(FIRST_SECONDS, 2 * self._pause_seconds)
            wish = error.retry_after_seconds if isinstance(error, RateLimited) else None
            pause = max(pause, now - asked_at, wish or 0.0, LONGEST_SECONDS if is_lasting(error) else 0.0)
            self._pause_seconds = min(pause, LONGEST_SECONDS)
            self._until, self._failed_at = now + self._pause_seconds, now
            self._missed = replace(missed, usage=NO_USAGE, was_asked=False)
