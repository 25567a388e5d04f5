"""`RunContext`: the data that a run passes to tools, conditions and instructions."""

from __future__ import annotations

import inspect
import math
import threading
import types
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeVar, Union, cast, get_args, get_origin

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.messages import Message
from agentkit.tooling.signature import REQUIRED, REST, Parameter, parameters_of

if TYPE_CHECKING:
    import typing_extensions

    ContextType = typing_extensions.TypeVar("ContextType", default=Any)
else:
    ContextType = TypeVar("ContextType")  # defaults of type variables need Python 3.13 at run time

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C", bound="Closeable")


@dataclass(slots=True, eq=False, repr=False)
class RunResources:
    """Objects that a run opens once for all of its calls, such as a worker process, and closes when it is left."""

    _lock: Any = field(default_factory=threading.Lock)
    _opened: dict[object, Closeable] = field(default_factory=dict)

    def opened(self, key: object, create: Callable[[], C]) -> C:
        """The object of this key, created by the first caller."""
        with self._lock:
            if key not in self._opened:
                self._opened[key] = create()
            return cast(C, self._opened[key])

    def close(self) -> None:
        """Close the objects, newest first. The next caller creates others."""
        with self._lock:
            opened = [self._opened.popitem()[1] for _ in range(len(self._opened))]
        for each in opened:
            each.close()


class Closeable(Protocol):
    """An object with a method that releases what it holds."""

    def close(self) -> None:
        """Release it. Does not raise."""


@dataclass(frozen=True, slots=True)
class RunContext(Generic[T_co]):
    """The data that a run passes to its tools, and to the function that writes its instruction.

    A tool receives it through the parameter annotated with it: `RunContext[Shop]` if the run is given a `Shop`. The
    parameter is hidden from the model. `value` is the run's `context=` argument. `agent` is the name of the active
    agent, `run` the run id, `session` the name of a stored conversation, `call` the id of the tool call; each is empty
    if it does not apply. `messages` are those the model had read when it made the call, the call included. `stopping`
    returns whether the run was stopped. `resources` are closed when the run ends or pauses; None outside of runs.
    """

    value: T_co
    agent: str = ""
    run: str = ""
    session: str = ""
    call: str = ""
    messages: Sequence[Message] = field(default=(), repr=False)
    stopping: Callable[[], bool] = field(default=bool, repr=False, compare=False)  # bool() is False
    resources: RunResources | None = field(default=None, repr=False, compare=False)

    @property
    def is_stopped(self) -> bool:
        """Whether the run was stopped, so that the result is not needed: long-running tools can return early."""
        return self.stopping()

    def called(self, call: str, messages: Sequence[Message]) -> RunContext[T_co]:
        """Return the context for a tool call: its id, and the messages that the model had read."""
        return RunContext(self.value, self.agent, self.run, self.session, call, messages, self.stopping, self.resources)


NO_RUN: RunContext[Any] = RunContext(None)
"""The context used outside of runs."""


def accepts(function: Callable[..., Any], *arguments: object) -> bool:
    """Whether a function accepts these arguments; assumed for C functions without a signature."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def accepts_run_context(function: object) -> bool:
    """Whether this is a function that can be called without arguments, or with the run context."""
    if not callable(function) or isinstance(function, type):
        return False
    return accepts(function) or accepts(function, NO_RUN)


def context_arguments(function: Callable[..., Any], context: RunContext[Any]) -> tuple[RunContext[Any], ...]:
    """Return the arguments for such a function: none, or the context."""
    return () if accepts(function) else (context,)


CONTEXT: ContextVar[RunContext[Any] | None] = ContextVar("agentkit_context", default=None)
"""The context of the tool call in progress; None outside of runs."""


@contextmanager
def run_context_active(context: RunContext[Any] | None) -> Iterator[None]:
    """Set the run context for the block; None keeps the current one."""
    if context is None:
        yield
        return
    token = CONTEXT.set(context)
    try:
        yield
    finally:
        CONTEXT.reset(token)


def with_context(arguments: Mapping[str, Any], parameters: Sequence[Parameter], tool: str) -> Mapping[str, Any]:
    """Add the run context for each of these parameters that was not passed explicitly.

    Raises ConfigError if a call outside of a run lacks it.
    """
    missing = [parameter for parameter in parameters if parameter.name not in arguments]
    context = CONTEXT.get() if missing else None
    if context is not None:
        return {**arguments, **{parameter.name: context for parameter in missing}}
    for parameter in missing:
        if parameter.required:
            raise ConfigError(
                f"Tool {tool!r} receives {parameter.name!r}, a RunContext, from an agent's run. Outside a run, pass "
                f"{parameter.name}=RunContext(...) in addition to its arguments."
            )
    return arguments


@dataclass(frozen=True, slots=True)
class RunParameter:
    """The parameter of a user function that receives the run context, and whether it is the first one."""

    parameter: Parameter
    is_first: bool

    def bound(self, function: Callable[..., T], context: RunContext[Any]) -> Callable[..., T]:
        """Bind the context to the function."""
        return partial(function, context) if self.is_first else partial(function, **{self.parameter.name: context})


def run_parameter_of(function: Callable[..., Any]) -> RunParameter | None:
    """Return the parameter annotated as run context; None without one, or if it has a default other than None."""
    if _max_parameters(function) < 2:  # called for every tool of an agent in every run
        return None
    try:
        parameters = [each for each in inspect.signature(function).parameters.values() if each.kind not in REST]
    except (TypeError, ValueError):  # not callable, or a C function without a signature
        return None
    for index, each in enumerate(parameters):
        parameter = _run_context_parameter(function, each)
        if parameter is not None:
            return RunParameter(parameter, is_first=index == 0)
    return None


def _max_parameters(function: Callable[..., Any]) -> float:
    """Return an upper bound of the number of arguments a function takes, cheaply."""
    callee: Any = function if hasattr(function, "__code__") else type(function).__call__
    code = getattr(callee, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return math.inf
    is_bound = callee is not function or inspect.ismethod(function)
    return float(code.co_argcount + code.co_kwonlyargcount - is_bound)


def _run_context_parameter(function: Callable[..., Any], parameter: inspect.Parameter) -> Parameter | None:
    """Resolve a parameter that the run supplies; None for others, and if the annotation cannot be resolved."""
    if parameter.annotation is REQUIRED or parameter.default not in (REQUIRED, None):
        return None
    try:
        (resolved,) = parameters_of(inspect.Signature([parameter]), function, "")
    except ConfigError:
        return None
    return None if context_kind(resolved.hint) is None else resolved


def check_value(value: Any, parameters: Sequence[Parameter], owner: str) -> None:
    """Raise ConfigError if the run's context is not of the type that these parameters of `Tool 'x'` declare."""
    for parameter in parameters:
        (kind,) = get_args(context_kind(parameter.hint)) or (Any,)
        if parameter.required and not _fits(value, kind):
            actual = "no context" if value is None else f"a context of type {type(value).__name__}"
            raise ConfigError(
                f"{owner} needs a {kind.__name__} as the context of its run, which has {actual}. Pass it to each run, "
                f"agent.run(prompt, context=...), or to the agent, Agent(context=...)."
            )


def context_kind(hint: Any) -> Any:
    """Return `RunContext` or `RunContext[…]` from an optional or annotated hint; None for any other."""
    origin = get_origin(hint)
    if hint is RunContext or origin is RunContext:
        return hint
    if origin is Annotated:
        return context_kind(get_args(hint)[0])
    inner = get_args(hint) if origin in (Union, types.UnionType) else ()
    return next((found for part in inner if (found := context_kind(part)) is not None), None)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is an instance; anything else than a class that supports the check accepts all values."""
    if not isinstance(kind, type):
        return True
    with suppress(TypeError):  # a protocol that is not runtime-checkable, or a generic type
        return isinstance(value, kind)
    return True


ConditionFunction = (
    Callable[[], bool | Awaitable[bool]]
    | Callable[[RunContext[Any]], bool]
    | Callable[[RunContext[Any]], Awaitable[bool]]
)
"""Decides whether a tool is offered now; takes nothing or the run context, sync or async."""


@dataclass(frozen=True, slots=True, eq=False)
class ToolCondition:
    """A condition for offering a tool. Tools that share one have it evaluated once for all of them."""

    function: ConditionFunction

    def __post_init__(self) -> None:
        if not accepts_run_context(self.function):
            raise ConfigError(
                "when= takes a function without parameters, or of a RunContext, that returns True or False. To never "
                "offer a tool, leave it out of tools=. Got {self.function!r:.200}."
            )


def conditions_from(condition: ConditionFunction | ToolCondition | None) -> tuple[ToolCondition, ...]:
    """Return the conditions of a tool as a tuple. Raises ConfigError for an invalid function."""
    if condition is None:
        return ()
    return (condition if isinstance(condition, ToolCondition) else ToolCondition(condition),)
