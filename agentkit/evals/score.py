"""The score of one trial by one scorer."""

from __future__ import annotations

import math
from dataclasses import field

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.usage import Usage

PASSES_AT = 0.5
"""The default threshold from which a score passes."""


@dataclass(frozen=True, slots=True)
class Score:
    """The verdict of one scorer on one trial: a value from 0 to 1, whether that passes, and why.

    By default a value of at least 0.5 passes. `usage` is the usage of the scorer. Raises ConfigError if the value is
    not a number from 0 to 1.
    """

    name: str
    value: float
    reason: str = ""
    passed: bool | None = None
    usage: Usage = field(default_factory=Usage, compare=False)

    def __post_init__(self) -> None:
        value = self.value
        if not isinstance(value, int | float) or math.isnan(value) or not 0 <= value <= 1:
            raise ConfigError(f"The score {self.name!r} must be a number from 0 to 1. Got {value!r:.200}.")
        object.__setattr__(self, "value", float(value))
        if self.passed is None:
            object.__setattr__(self, "passed", value >= PASSES_AT)
