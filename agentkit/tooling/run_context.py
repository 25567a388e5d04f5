"""`RunContext`: what a run passes to tools, conditions and instructions."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from functools import partial
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.messages import Message
from agentkit.suggestions.attribute_errors import explained
from agentkit.tooling.signature import REQUIRED, Parameter, parameters_of

T = TypeVar("T")

REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""The kinds of parameters that take what no other parameter does."""


def _never() -> bool:
    return False


@explained("RUN")
@dataclass(frozen=True, slots=True)
class RunContext(Generic[T]):
    """What a run tells its tools, and the function that writes its instruction.

    A tool gets it as the parameter with this annotation: `RunContext[Shop]` where the run is given a `Shop`. No model
    is asked for it. `value` is what the run was given as `context=`. `agent` is the name of the agent that leads, `run`
    the run's id, `session` the name of a conversation that is kept, `call` the id of the tool call; each is empty where
    there is none. `messages` are what the model had read when it called, the call itself among them. `stopping` says
    whether the run was stopped.
    """

    value: T
    agent: str = ""
    run: str = ""
    session: str = ""
    call: str = ""
    messages: Sequence[Message] = field(default=(), repr=False)
    stopping: Callable[[], bool] = field(default=_never, repr=False, compare=False)

    @property
    def is_stopped(self) -> bool:
        """Whether nobody waits any more for what the tool gives: one that takes long may look, and end."""
        return self.stopping()

    def called(self, call: str, messages: Sequence[Message]) -> RunContext[T]:
        """The same of a tool call: its id, and what the model had read."""
        return RunContext(self.value, self.agent, self.run, self.session, call, messages, self.stopping)


NO_RUN: RunContext[Any] = RunContext(None)
"""The context of what no run does."""


def can_be_called(function: Callable[..., Any], *given: object) -> bool:
    """Whether a function can be called with so much. What is written in C may not say so: calling it will tell."""
    try:
        inspect.signature(function).bind(*given)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def is_told_of_run(function: object) -> bool:
    """Whether it is a function that can be called with nothing, or with what a run knows."""
    if not callable(function) or isinstance(function, type):
        return False
    return can_be_called(function) or can_be_called(function, NO_RUN)


def taken_of(function: Callable[..., Any], context: RunContext[Any]) -> tuple[RunContext[Any], ...]:
    """What such a function is called with in that run."""
    return () if can_be_called(function) else (context,)


CONTEXT: ContextVar[RunContext[Any] | None] = ContextVar("agentkit_context", default=None)
"""The context of the tool call that is at work here; None outside of runs."""


@contextmanager
def within_run(context: RunContext[Any] | None) -> Iterator[None]:
    """What is done in the block is done in that run; where none is given, in the one that there is, if any."""
    if context is None:
        yield
        return
    token = CONTEXT.set(context)
    try:
        yield
    finally:
        CONTEXT.reset(token)


def is_of_run(parameter: Parameter) -> bool:
    """Whether the run gives this parameter."""
    return _kind_in(parameter.hint) is not None


def with_context(arguments: Mapping[str, Any], parameters: Sequence[Parameter], tool: str) -> Mapping[str, Any]:
    """The arguments with the context of the run, for each of these parameters that was not given by hand.

    Raises ConfigError where a call outside of a run lacks it.
    """
    missing = [parameter for parameter in parameters if parameter.name not in arguments]
    context = CONTEXT.get() if missing else None
    if context is not None:
        return {**arguments, **{parameter.name: context for parameter in missing}}
    for parameter in missing:
        if parameter.required:
            raise ConfigError(
                f"Tool {tool!r} gets {parameter.name!r}, a RunContext, from the run of an agent. "
                f"Elsewhere call it with {parameter.name}=RunContext(...) beside its arguments."
            )
    return arguments


@dataclass(frozen=True, slots=True)
class RunParameter:
    """The parameter of a function of the user's that the run gives, and whether it stands before the others."""

    parameter: Parameter
    is_first: bool

    def bound(self, function: Callable[..., T], context: RunContext[Any]) -> Callable[..., T]:
        """The function as a run with that context calls it, with the other arguments alone."""
        return partial(function, context) if self.is_first else partial(function, **{self.parameter.name: context})


def run_parameter_of(function: Callable[..., Any]) -> RunParameter | None:
    """Which of several parameters the run gives, as its annotation says; None for none, and where it has a value."""
    if _most_parameters(function) < 2:  # asked of each tool of an agent for each run
        return None
    try:
        given = [each for each in inspect.signature(function).parameters.values() if each.kind not in REST]
    except (TypeError, ValueError):  # it cannot be called, or is written in C without telling its parameters
        return None
    for place, each in enumerate(given):
        parameter = _of_run(function, each)
        if parameter is not None:
            return RunParameter(parameter, is_first=place == 0)
    return None


def _most_parameters(function: Callable[..., Any]) -> float:
    """How many arguments a function can take, at once and not always exactly: never too few."""
    bearer: Any = function if hasattr(function, "__code__") else type(function).__call__
    code = getattr(bearer, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return math.inf
    is_bound = bearer is not function or inspect.ismethod(function)
    return float(code.co_argcount + code.co_kwonlyargcount - is_bound)


def _of_run(function: Callable[..., Any], parameter: inspect.Parameter) -> Parameter | None:
    """A parameter that the run gives, as it has no other value; None for any other, and where it cannot be read."""
    if parameter.annotation is REQUIRED or parameter.default not in (REQUIRED, None):
        return None
    try:
        (read,) = parameters_of(inspect.Signature([parameter]), function, "")
    except ConfigError:
        return None
    return read if is_of_run(read) else None


def check_value(value: Any, parameters: Sequence[Parameter], whose: str) -> None:
    """Raise ConfigError when what a run was given is not what these parameters of `Tool 'x'` say that they get."""
    for parameter in parameters:
        (kind,) = get_args(_kind_in(parameter.hint)) or (Any,)
        if parameter.required and not _fits(value, kind):
            given = "no context" if value is None else f"a context of type {type(value).__name__}"
            raise ConfigError(
                f"{whose} needs a {kind.__name__} from its run, which was given {given}. "
                "Give it with each run, agent.run(prompt, context=...), or to the agent, Agent(context=...)."
            )


def _kind_in(hint: Any) -> Any:
    """`RunContext` or `RunContext[…]` in an annotation, which may be optional or annotated; None for any other."""
    origin = get_origin(hint)
    if hint is RunContext or origin is RunContext:
        return hint
    if origin is Annotated:
        return _kind_in(get_args(hint)[0])
    inner = get_args(hint) if origin in (Union, types.UnionType) else ()
    return next((found for part in inner if (found := _kind_in(part)) is not None), None)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a class; what is no class, or one that cannot tell, takes all."""
    if not isinstance(kind, type):
        return True
    with suppress(TypeError):  # a protocol that is not for the time of running, or a generic type
        return isinstance(value, kind)
    return True


ConditionFunction = (
    Callable[[], bool | Awaitable[bool]]
    | Callable[[RunContext[Any]], bool]
    | Callable[[RunContext[Any]], Awaitable[bool]]
)
"""Says whether a tool is offered now: of nothing or of the run, sync or async."""


@dataclass(frozen=True, slots=True, eq=False)
class ToolCondition:
    """What must hold for a tool to be offered. Tools that share one have it asked once for all of them."""

    function: ConditionFunction

    def __post_init__(self) -> None:
        if not is_told_of_run(self.function):
            raise ConfigError(
                "when= takes a function of nothing or of one value, the RunContext, that returns True or False; a tool "
                f"that is never to be offered is left out. Got {self.function!r:.200}."
            )


def conditions_from(given: ConditionFunction | ToolCondition | None) -> tuple[ToolCondition, ...]:
    """The conditions of a tool that is given this one. Raises ConfigError for what is no function of a run."""
    if given is None:
        return ()
    return (given if isinstance(given, ToolCondition) else ToolCondition(given),)
