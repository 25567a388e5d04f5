"""Safety levels: the harm a wrong tool call can do."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

from agentkit.errors import ConfigError


class SafetyLevel(IntEnum):
    """SAFE < NETWORK < SYSTEM. A tool has one level; an agent has the highest level it can use without approval."""

    SAFE = 0
    """Computes from its arguments; no side effects."""
    NETWORK = 1
    """Communicates with other machines; changes nothing on this one."""
    SYSTEM = 2
    """Accesses files, processes or devices of this machine, or changes something elsewhere."""

    @classmethod
    def of(cls, value: SafetyLevel | str | int) -> SafetyLevel:
        """Convert a level, its name in any case, or its number to a level.

        Raises ConfigError naming the three levels if `value` is invalid; True and False are invalid.
        """
        if isinstance(value, cls):
            return value
        key = value.upper() if isinstance(value, str) else value
        for level in cls:
            if key in (level.name, level.value) and not isinstance(key, bool):
                return level
        raise ConfigError(f"{value!r} is not a safety level; use SAFE, NETWORK or SYSTEM.")


Level = SafetyLevel | Literal["safe", "network", "system", "SAFE", "NETWORK", "SYSTEM"]
"""A safety level, or its name."""
