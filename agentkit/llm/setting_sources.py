"""Lookup of settings in arguments and environment variables, and which of them took effect (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit.settings import Secret


class Sources:
    """Values by name: arguments with a trailing `=`, as in `model=`; variables unchanged, as in `OPENAI_MODEL`.

    `first` looks up values in order of precedence. Values that were read and values that were overridden are recorded,
    so that every ignored setting can be reported.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.read: set[str] = set()
        self.passed_over: dict[str, str] = {}
        """Names of values that were overridden, mapped to the name that took precedence."""

    def first(self, *names: str) -> tuple[str, Any]:
        """Name and value of the first of `names` that is set; an empty name and None if all are unset."""
        found = [name for name in names if name in self._values]
        if not found:
            return "", None
        self.read.add(found[0])
        self.passed_over |= dict.fromkeys(found[1:], found[0])
        return found[0], self._values[found[0]]

    def value(self, *names: str) -> Any:
        """The value of the first of `names` that is set, or None."""
        return self.first(*names)[1]

    def secret(self, *names: str) -> Secret | None:
        """The first of `names` that is set, as a secret, or None."""
        value = self.value(*names)
        return Secret(value) if isinstance(value, str) else value
