"""Guardrails: checks of prompts, answers and tool results, and the typed answer of a run."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.errors import AgentKitError, ConfigError
from agentkit.events import Event, PartialOutput, RequestStarted, TextDelta
from agentkit.messages import OutputSchema
from agentkit.tooling.run_context import REST, RunContext, RunParameter, check_value, run_parameter_of
from agentkit.tooling.signature import innermost

if TYPE_CHECKING:
    from agentkit.tooling.output_types import GrowingAnswer, OutputType

MOST_RETRIES = 2
_STAGES = ("prompt", "output", "result")

REFUSALS = (ValueError, AssertionError)
"""What a check raises to refuse, its text being the reason. Anything else is a fault of the check."""


CheckFunction = Callable[[Any], Any] | Callable[[Any, Any], Any]
"""What looks at a prompt, an output or a result, and may want to know of the run."""


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A function that looks at each prompt, output or tool result; the name of its parameter says which.

    `of_run` is the parameter that the run gives, if there is one.
    """

    function: Callable[..., Any]
    stage: str
    of_run: RunParameter | None = None

    @property
    def name(self) -> str:
        """What the check is called in errors."""
        return getattr(innermost(self.function), "__name__", repr(self.function))

    def within(self, context: RunContext[Any]) -> Guardrail:
        """The check as that run calls it, with what it looks at alone."""
        return self if self.of_run is None else replace(self, function=self.of_run.bound(self.function, context))

    def refusal(self, error: BaseException) -> str:
        """Why it refuses what it has looked at."""
        return str(error) or f"The check {self.name} refuses it."


@dataclass(frozen=True, slots=True)
class AnswerValidator:
    """What an answer must be: of a type, and to the liking of all checks; a refused one is mended `retries` times.

    `is_of_run` tells that the type was asked for by a run, and holds for every agent that leads it.
    """

    output: OutputType[Any] | None = None
    checks: tuple[Guardrail, ...] = ()
    retries: int = MOST_RETRIES
    is_of_run: bool = False

    @classmethod
    def of_agent(cls, output_type: Any, checks: Iterable[CheckFunction]) -> AnswerValidator:
        """The rules of an agent's arguments. Raises ConfigError for what is no type, or no check."""
        if output_type in (None, str):
            return cls(None, _checks_from(checks))
        from agentkit.tooling.output_types import OutputType

        return cls(OutputType.of(output_type), _checks_from(checks))

    @classmethod
    def of_run(cls, output_type: Any) -> AnswerValidator:
        """What one run asks for: the type of its answer, `str` for a text. Raises ConfigError for what is no type."""
        return replace(cls.of_agent(output_type, ()), is_of_run=True)

    @property
    def schema(self) -> OutputSchema | None:
        """What the provider is asked to enforce."""
        return None if self.output is None else self.output.schema

    def or_type_of(self, other: AnswerValidator) -> AnswerValidator:
        """The same rules, with the other's type of answer when it is the run's, or they have none of their own."""
        if self.output is not None and not other.is_of_run:
            return self
        return replace(self, output=other.output, is_of_run=other.is_of_run)

    def within(self, context: RunContext[Any]) -> AnswerValidator:
        """The same rules in that run, of which checks may want to know."""
        if all(check.of_run is None for check in self.checks):
            return self
        return replace(self, checks=tuple(check.within(context) for check in self.checks))

    def check_context(self, value: Any) -> None:
        """Raise ConfigError when the context of a run is not what a check gets from it."""
        for check in self.checks:
            if check.of_run is not None:
                check_value(value, [check.of_run.parameter], f"The check {check.name}")

    def of(self, stage: str) -> tuple[Guardrail, ...]:
        """The checks of prompts, of outputs, or of results."""
        return tuple(check for check in self.checks if check.stage == stage)

    def parse(self, text: str) -> Any:
        """The answer as a value. Raises ValueError with what the model must mend."""
        if self.output is None:
            return text
        try:
            return self.output.parse(text)
        except AgentKitError as error:
            raise ValueError(str(error)) from error

    def encode(self, value: Any) -> str:
        """A value as the text of an answer, as a model writes it."""
        return str(value) if self.output is None else self.output.encode(value)

    def read(self, value: Any) -> str:
        """A value as people read it: a text as it is, what is none as JSON."""
        plain = str(value) if self.output is None else self.output.plain(value)
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


class PartialAnswer:
    """What a typed answer says so far, while it is streamed. `output` tells the type of the agent that leads now."""

    def __init__(self, output: Callable[[], OutputType[Any] | None]) -> None:
        self._output = output
        self._growing: GrowingAnswer | None = None

    def with_partial_output(self, event: Event) -> tuple[Event, ...]:
        """The event, and behind a piece of text what the answer says with it, when that is to be told."""
        if isinstance(event, RequestStarted):
            output = self._output()
            self._growing = None if output is None else output.growing()
        elif self._growing is not None and isinstance(event, TextDelta):
            value = self._growing.feed(event.text)
            return (event,) if value is None else (event, PartialOutput(value))
        return (event,)


def _checks_from(functions: Iterable[CheckFunction]) -> tuple[Guardrail, ...]:
    """Functions as checks. Raises ConfigError for one whose parameter does not say what it looks at."""
    if not isinstance(functions, Iterable):
        raise ConfigError(f"checks= takes a list of functions. Got {functions!r:.200}.")
    return tuple(_check(function) for function in functions)


def _check(function: CheckFunction) -> Guardrail:
    try:
        given = [each for each in inspect.signature(function).parameters.values() if each.kind not in REST]
    except (TypeError, ValueError):  # it cannot be called, or is written in C without telling its parameters
        given = []
    of_run = run_parameter_of(function)
    others = [each for each in given if of_run is None or each.name != of_run.parameter.name]
    asked = [each.name for each in others if each.default is each.empty]  # the rest keep what they have
    names = [each.name for each in others]
    if not names or (asked or names) != names[:1] or names[0] not in _STAGES:
        raise ConfigError(
            "A check is a function of one parameter, named `prompt`, `output` or `result` after what it looks at, and "
            "maybe of a RunContext. It returns None to pass, another value to amend, and raises ValueError to refuse. "
            f"Got {function!r:.200}."
        )
    return Guardrail(function, names[0], of_run)
