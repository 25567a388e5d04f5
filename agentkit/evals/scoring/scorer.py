"""What is a scorer? A name, and a function that says of an answer how good it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

from agentkit.agents.result import RunResult
from agentkit.errors import ConfigError
from agentkit.evals.case import Case
from agentkit.evals.score import Score
from agentkit.redaction import redact
from agentkit.slotted import dataclass
from agentkit.tooling.functions.context import can_be_called
from agentkit.tooling.running import call
from agentkit.wording import cut

_SHOWN_CHARS = 80

Said = Score | bool | float
Judgment = Callable[[Case, RunResult[Any]], Said | Awaitable[Said]]
"""A function of a case and of what an agent has made of it."""

Needs = Literal["", "expected", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Scorer:
    """A function of a case and its result, with the name that its scores bear; it may be `async`.

    `needs` names the field that a case must have, so that the scorer passes over those without. `settings` tell it from
    others of its name.
    """

    name: str
    function: Judgment
    needs: Needs = ""
    settings: str = ""

    @classmethod
    def of(cls, given: object) -> Scorer:
        """The scorer itself, or the one that a function of a case and a result makes. Raises ConfigError."""
        if isinstance(given, Scorer):
            return given
        if not callable(given) or isinstance(given, type):
            raise ConfigError(
                f"A scorer is numeric(), exact() or the like, or a function of a case and a result. Got {given!r:.200}."
            )
        name = getattr(given, "__name__", type(given).__name__)
        if not can_be_called(given, None, None):
            raise ConfigError(
                f"The scorer {name!r} cannot be called with a case and a result. "
                "One that is made by a function is written with its brackets: exact()."
            )
        return cls(name, cast(Judgment, given), settings=getattr(given, "__qualname__", ""))

    def __call__(self, case: Case, result: RunResult[Any]) -> Score:
        """The score. Raises what the function raises, and ConfigError for what is no score."""
        said = call(partial(self.function, case, result), None)
        if isinstance(said, Score):
            return replace(said, name=said.name or self.name)
        return Score(self.name, cast(float, said))

    def applies_to(self, case: Case) -> bool:
        """Whether the case has what the scorer compares with."""
        return not self.needs or getattr(case, self.needs) is not None

    def __repr__(self) -> str:
        return f"{self.name}({self.settings})"


def shown(text: str) -> str:
    """A piece of an answer as a reason may tell it: cut, but not before it has lost what is or looks like a secret."""
    return cut(redact(text), _SHOWN_CHARS)
