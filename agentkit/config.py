"""Settings. The only module that reads the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

DEFAULT_MODEL = "gpt-5.4-mini"
"""Used when nobody names a model. `AGENTKIT_MODEL` or `OPENAI_MODEL` override it."""

DEFAULT_AZURE_API_VERSION = "2024-02-01"

_OURS = ("AGENTKIT_", "OPENAI_", "AZURE_OPENAI_")
_SHORT = 8


def environment() -> Mapping[str, str]:
    """The environment as it is now, without blanks around values, and without variables that are empty then."""
    return {name: value.strip() for name, value in os.environ.items() if value.strip()}


def empty_variables() -> tuple[str, ...]:
    """The names of our variables that are set but empty, and so count as unset, in alphabetical order."""
    return tuple(sorted(name for name, value in os.environ.items() if name.startswith(_OURS) and not value.strip()))


class Secret:
    """A key or token that no repr, format or log shows. `reveal()` gives the value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one place that sends it."""
        return self._value

    def scrub(self, text: str) -> str:
        """`text` with every occurrence of the value replaced; of a short one, only where it is a word of its own."""
        pattern = re.escape(self._value)
        if len(self._value) < _SHORT:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        return re.sub(pattern, "***", text) if self._value else text

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)
