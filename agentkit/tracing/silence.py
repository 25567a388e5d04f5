"""What becomes of a tracer's own failure? A warning, once: a run never ends because nobody could write about it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from agentkit.redaction import redact

_Value = TypeVar("_Value")
_LOGGER = logging.getLogger("agentkit.tracing")


class Silence:
    """Calls what may fail. The first failure is a warning in the log `agentkit.tracing`, no other is.

    The warning says `what` failed, and as `remedy` what to do about it.
    """

    def __init__(self, what: str, remedy: str) -> None:
        self._what, self._remedy, self._has_failed = what, remedy, False

    def call(self, function: Callable[..., _Value], *arguments: object) -> _Value | None:
        """What the function gives; None when it fails."""
        try:
            return function(*arguments)
        except Exception as error:
            if not self._has_failed:
                self._has_failed = True
                told = redact(f"{type(error).__name__}: {error}")
                _LOGGER.warning("%s (%s). Runs go on, and this is not told again. %s", self._what, told, self._remedy)
        return None
