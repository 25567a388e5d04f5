"""When is a tool there for a model? A function of the run says so, before each request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agentkit.errors import ConfigError
from agentkit.slotted import dataclass
from agentkit.tooling.functions.context import RunContext, is_told_of_run

ConditionFunction = (
    Callable[[], bool | Awaitable[bool]]
    | Callable[[RunContext[Any]], bool]
    | Callable[[RunContext[Any]], Awaitable[bool]]
)
"""Says whether a tool is offered now: of nothing or of the run, sync or async."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """What must hold for a tool to be offered. Tools that share one have it asked once for all of them."""

    function: ConditionFunction

    def __post_init__(self) -> None:
        if not is_told_of_run(self.function):
            raise ConfigError(
                "when= takes a function of nothing or of one value, the RunContext, that returns True or False; a tool "
                f"that is never to be offered is left out. Got {self.function!r:.200}."
            )


def conditions_from(given: ConditionFunction | Condition | None) -> tuple[Condition, ...]:
    """The conditions of a tool that is given this one. Raises ConfigError for what is no function of a run."""
    if given is None:
        return ()
    return (given if isinstance(given, Condition) else Condition(given),)
