"""`Tool` and the `@tool` decorator."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, Self, TypedDict, TypeVar, Unpack, cast, overload
from weakref import WeakSet

from agentkit.decisions import MOST_EVIDENCE_CHARS, Decision, Label, Verdict
from agentkit.errors import BadArguments, Blocked, ConfigError
from agentkit.levels import SafetyLevel
from agentkit.messages import ToolResult, ToolSpec
from agentkit.suggestions import refuse_made
from agentkit.tooling import execution
from agentkit.tooling import signature as reflection
from agentkit.tooling.arguments import copied
from agentkit.tooling.results import BAD_ARGUMENTS, denial, fault, is_long, objection, returned, told
from agentkit.tooling.run_context import (
    CONTEXT,
    ConditionFunction,
    RunContext,
    ToolCondition,
    check_value,
    conditions_from,
    run_parameter_of,
    within_run,
)
from agentkit.tooling.schema import Arguments, FunctionParameters, GivenParameters, Parameters, fresh
from agentkit.undo import Reversible, collected
from agentkit.usage import is_number, is_whole

Judge = Callable[[Mapping[str, Any]], Decision] | Callable[[Mapping[str, Any], RunContext[Any]], Decision]
"""Judges the checked keyword arguments of a call, of which it gets a copy, and maybe the run that makes the call."""

UNCONFIRMED = "unconfirmed"
"""The rule of the decision on a direct call that destroys and was not confirmed."""

_CONFIRM = (
    "If you mean it, confirm this one call in your code: tool.confirmed(...), or tool.invoke({...}, confirm=True)."
)


def judgment(
    judge: Judge | None, name: str, level: SafetyLevel, arguments: Mapping[str, Any], run: RunContext[Any] | None
) -> Decision:
    """The decision of the judge of the tool of that name and level; one that fails has not allowed anything.

    Where no run is given it is that in which the tool is called. Outside of all runs, one that needs a run asks.
    """
    if judge is None:
        leaves = level >= SafetyLevel.NETWORK
        return Decision(Verdict.ALLOW, "no-rule", f"The tool {name} has no judge of its own.", egress=leaves)
    decide: Callable[..., object] = judge
    of_run = run_parameter_of(judge)
    if of_run is not None:
        run = CONTEXT.get() if run is None else run
        if run is not None:
            decide = of_run.bound(judge, run)
        elif of_run.parameter.required:
            return Decision(Verdict.ASK, "no-run", f"The judge of {name} looks at the run, and here there is none.")
    try:
        decision = decide(copied(arguments))
    except Exception as error:
        return Decision(Verdict.DENY, "judge-failed", f"The judge of {name} failed ({told(error)}).")
    if isinstance(decision, Decision):
        return decision
    reason = f"The judge of {name} gave {type(decision).__name__} instead of a Decision."
    return Decision(Verdict.DENY, "judge-failed", reason)


def unconfirmed(decision: Decision) -> Decision:
    """The decision on a direct call that its caller has not confirmed: one that destroys is denied."""
    if decision.denied or not decision.destroys:
        return decision
    reason = f"Command blocked for safety: {decision.destroys}"
    return Decision(Verdict.DENY, UNCONFIRMED, reason, decision.evidence, _CONFIRM, decision.level, decision.egress)


def check_told(judge: Judge | None, name: str, value: Any) -> None:
    """Raise ConfigError when what a run was given is not what the judge says that it gets."""
    of_run = None if judge is None else run_parameter_of(judge)
    if of_run is not None:
        check_value(value, [of_run.parameter], f"The judge of {name}")


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OTHERS = re.compile(r"[^a-zA-Z0-9_-]+")
_MOST_CHARS = 64
_FEWEST_CHARS = 100


def checked_name(name: object) -> str:
    """The name as it is. Raises ConfigError for one that providers refuse."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    is_near = isinstance(name, str) and name.isascii() and "<" not in name  # which a lambda's has
    usable = _OTHERS.sub("_", str(name)).strip("_")[:_MOST_CHARS] if is_near else ""
    instead = f"Write {usable!r}, say." if usable else "Give name=..."
    raise ConfigError(f"{name!r} is not a name that providers accept: 1 to 64 of a-z A-Z 0-9 _ -. {instead}")


def checked_text(description: object) -> str | None:
    """The description as it is. Raises ConfigError for what is no text."""
    if description is None or isinstance(description, str):
        return description
    raise ConfigError(f"description= takes text, not {description!r}.")


def checked_limit(seconds: object) -> float | None:
    """A tool's time limit as it is. Raises ConfigError for one that limits nothing."""
    if seconds is None:
        return None
    if is_number(seconds) and seconds:
        return seconds
    raise ConfigError(f"timeout_seconds= takes a positive number of seconds, or None for no limit; not {seconds!r}.")


def checked_max_chars(count: object) -> int:
    """The number as it is. Raises ConfigError for one that leaves no room for a sentence."""
    if is_whole(count, _FEWEST_CHARS):
        return count
    raise ConfigError(f"max_chars= takes a whole number of at least {_FEWEST_CHARS}; not {count!r}.")


def checked_labels(labels: Iterable[object]) -> frozenset[Label]:
    """The labels, which may be given as texts. Raises ConfigError for what is no list of them."""
    if not isinstance(labels, str) and isinstance(labels, Iterable):
        given = list(labels)
        if all(each in list(Label) for each in given):
            return frozenset(Label(str(each)) for each in given)
    known = ", ".join(repr(str(each)) for each in Label)
    raise ConfigError(f"labels= takes a list of {known}; not {labels!r}.")


def checked_paths(paths: Iterable[object]) -> tuple[str, ...]:
    """The names of the arguments that are paths. Raises ConfigError for what is no list of names."""
    if not isinstance(paths, str) and isinstance(paths, Iterable):
        given = list(paths)
        if all(isinstance(each, str) for each in given):
            return tuple(map(str, given))
    raise ConfigError(f"paths= takes the names of the arguments that are paths, such as ['source']; not {paths!r}.")


_FUNCTIONS = {
    "judge": "a function from arguments to a Decision",
    "within": "a function from a workspace to a Tool",
    "when_denied": "a function of arguments and decision",
    "asynchronous": "the same function as async def",
}


def checked_functions(**given: object) -> dict[str, object]:
    """The functions a tool may be given, by the names of its attributes. Raises ConfigError for what is none."""
    for name, function in given.items():
        if function is not None and not callable(function):
            raise ConfigError(f"{name}= takes {_FUNCTIONS[name]}, not {function!r}.")
    return {f"_{name}": function for name, function in given.items()}


P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

WhenDenied = Callable[[Mapping[str, Any], Decision], Any]
"""Makes the value of a direct call that was denied, from its checked arguments and the decision."""

Within = Callable[[Any], "Tool[..., Any]"]
"""Makes the same tool for another workspace."""

_LABELS = {
    SafetyLevel.SAFE: frozenset[Label](),
    SafetyLevel.NETWORK: frozenset({Label.UNTRUSTED}),
    SafetyLevel.SYSTEM: frozenset({Label.PRIVATE}),
}


class Tool(reflection.Portable, Generic[P, R]):
    """A function with a name, a description, a safety level, limits and perhaps a judge of its own; it never changes.

    Calling it gives the function's own value; `invoke` gives a ToolResult. Parameters are read from signature and
    annotations, texts from the docstring. `timeout_seconds=None` means no limit; `max_chars` bounds what a model is
    told. `labels` say what its results may hold; by its level, those of a NETWORK tool are untrusted, those of a
    SYSTEM tool private. `within` makes the same tool for another workspace. `when_denied` makes the value of a direct
    call that is denied, which otherwise raises Blocked. `asynchronous` does the same as the function where the caller
    awaits, and can be cancelled. An `idempotent` tool may be called again after a run was killed while it was at work.
    The value of a tool that `ends_run` is the run's answer. A model may use it only `when` that function, of nothing or
    of the RunContext, says True before a request. Raises ConfigError when the function cannot be a tool.
    """

    name: str
    level: SafetyLevel
    timeout_seconds: float | None
    max_chars: int
    labels: frozenset[Label]
    function: Callable[P, R]
    is_async: bool
    idempotent: bool
    ends_run: bool
    conditions: tuple[ToolCondition, ...]
    paths: tuple[str, ...]
    lacks_instance: bool  # whether this is a method that was taken from its class; one taken from an instance works
    _description: str | None
    _judge: Judge | None
    _within: Within | None
    _when_denied: WhenDenied | None
    _asynchronous: Callable[P, Awaitable[R]] | None
    _is_written_in_class: bool

    def __init__(
        self,
        function: Callable[P, R],
        name: str | None = None,
        description: str | None = None,
        *,
        level: SafetyLevel | str = SafetyLevel.SAFE,
        timeout_seconds: float | None = 60.0,
        max_chars: int = 50_000,
        judge: Judge | None = None,
        labels: Iterable[Label | str] | None = None,
        within: Within | None = None,
        when_denied: WhenDenied | None = None,
        asynchronous: Callable[P, Awaitable[R]] | None = None,
        idempotent: bool = False,
        ends_run: bool = False,
        when: ConditionFunction | None = None,
        paths: Iterable[str] = (),
        **unknown: NoReturn,
    ) -> None:
        refuse_made(Tool, unknown)
        bare = _bare(function)
        may_bind = not isinstance(function, staticmethod) and reflection.is_defined_in_class(bare)
        self.__dict__.update(
            name=checked_name(reflection.name_of(bare) if name is None else name),
            level=SafetyLevel.of(level),
            timeout_seconds=checked_limit(timeout_seconds),
            max_chars=checked_max_chars(max_chars),
            labels=_LABELS[SafetyLevel.of(level)] if labels is None else checked_labels(labels),
            function=bare if isinstance(function, staticmethod) else function,
            idempotent=idempotent,
            ends_run=ends_run,
            conditions=conditions_from(when),
            paths=checked_paths(paths),
            _description=checked_text(description),
            **checked_functions(judge=judge, within=within, when_denied=when_denied, asynchronous=asynchronous),
            **_told_by(bare, may_bind=may_bind),
        )
        _check_parameters(lambda: self._parameters, may_bind=may_bind)
        _MADE.add(self)

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        json_schema: Mapping[str, Any],
        function: Callable[..., R],
        *,
        level: SafetyLevel | str = SafetyLevel.SAFE,
        timeout_seconds: float | None = 60.0,
        max_chars: int = 50_000,
        judge: Judge | None = None,
        labels: Iterable[Label | str] | None = None,
    ) -> Tool[..., R]:
        """A tool whose parameters somebody else described by a JSON schema; the function gets the arguments by name.

        They are checked to any depth: types, choices, limits, and names that are required or unknown. What others
        write otherwise is put as JSON schema has it. Raises ConfigError when the schema does not describe an object.
        """
        made: Tool[..., R] = Tool.__new__(Tool)
        made.__dict__["_parameters"] = GivenParameters(json_schema, checked_name(name))
        limits: dict[str, Any] = {"level": level, "timeout_seconds": timeout_seconds, "max_chars": max_chars}
        Tool.__init__(made, function, name, description, judge=judge, labels=labels, **limits)
        made.__dict__.update(lacks_instance=False, _is_written_in_class=False)
        return made

    @functools.cached_property
    def _parameters(self) -> Parameters:
        return FunctionParameters(_bare(self.function), self.name, without_first=self.lacks_instance)

    @property
    def description(self) -> str:
        """What the tool does, for a model: as given, or from the docstring."""
        return self._parameters.description if self._description is None else self._description

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments, as a new dictionary."""
        return fresh(self._parameters.json_schema)

    @functools.cached_property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(self.name, self.description, self._parameters.json_schema, self._parameters.strict_schema)

    def to_openai_tool(self) -> dict[str, Any]:
        """The tool in the chat completions format: `{"type": "function", "function": {…}}`."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's own value; of a denied call what `when_denied` makes of it, or else it raises Blocked.

        A call that destroys is denied until it is `confirmed`.
        """
        return self._called(args, kwargs, confirmed=False)

    def confirmed(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the tool as `tool(...)` does, and confirm for this one call that it may delete or overwrite for good.

        What its judge denies stays denied. No model can confirm a call: in a run, a person or a rule decides.
        """
        return self._called(args, kwargs, confirmed=True)

    def _called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, confirmed: bool) -> R:
        function: Callable[..., R] = self.function
        if self._judge is None:
            return function(*args, **kwargs)
        bound = self._parameters.bind(args[self.lacks_instance :], kwargs)
        arguments, decision = self.decide(bound, bound.run)
        decision = decision if confirmed else unconfirmed(decision)
        if decision.denied:
            return cast(R, _denied(arguments, decision, self._when_denied))
        return self._parameters.call(function, {**arguments, **bound.others}, args[: self.lacks_instance])()

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """The keyword arguments ready to call, defaults included. Raises BadArguments."""
        return self._parameters.check(arguments)

    def judge(self, arguments: Arguments, run: RunContext[Any] | None = None) -> Decision:
        """What the tool's own judge says of a call, in that run, without running anything. Bad arguments are denied."""
        return self.decide(arguments, run)[1]

    def decide(self, arguments: Arguments, run: RunContext[Any] | None = None) -> tuple[dict[str, Any], Decision]:
        """The checked arguments with the judge's decision on them; no arguments when they were bad."""
        try:
            checked = self.check(arguments)
        except BadArguments as error:
            return {}, Decision(Verdict.DENY, BAD_ARGUMENTS, str(error), evidence=str(arguments)[:MOST_EVIDENCE_CHARS])
        return checked, judgment(self._judge, self.name, self.level, checked, run)

    def invoke(
        self, arguments: Arguments = None, run: RunContext[Any] | None = None, *, confirm: bool = False
    ) -> ToolResult:
        """Check, judge and run, as in that run. What goes wrong is told in the result; an `ask` does not bind you.

        A call that deletes or overwrites for good is denied unless you `confirm` it. `undo()` of the result puts back
        the files that a shipped tool has changed.
        """
        with within_run(run), collected() as records:
            checked, decision = self.decide(arguments)
            return _recorded(records, self.run(checked, decision if confirm else unconfirmed(decision)))

    async def ainvoke(
        self, arguments: Arguments = None, run: RunContext[Any] | None = None, *, confirm: bool = False
    ) -> ToolResult:
        """Like `invoke`, without blocking the event loop."""
        with within_run(run), collected() as records:
            checked, decision = self.decide(arguments)
            return _recorded(records, await self.arun(checked, decision if confirm else unconfirmed(decision)))

    def run(self, arguments: Mapping[str, Any], decision: Decision, timeout_seconds: float | None = None) -> ToolResult:
        """Run what was checked and is not denied, within the limits and the caller's. Never raises for its faults."""
        if decision.denied:
            return denial(self.name, decision)
        started = time.perf_counter()
        try:
            call = self._parameters.call(self.function, arguments)
            value = execution.call(
                call, execution.shorter(self.timeout_seconds, timeout_seconds), is_async=self.is_async
            )
            return returned(self.name, value, self.max_chars, decision, time.perf_counter() - started, self.labels)
        except Exception as error:
            return fault(self.name, error, decision, time.perf_counter() - started, self.labels)

    async def arun(
        self, arguments: Mapping[str, Any], decision: Decision, timeout_seconds: float | None = None
    ) -> ToolResult:
        """Like `run`, without blocking the event loop."""
        if decision.denied:
            return denial(self.name, decision)
        started = time.perf_counter()
        try:
            call = self._parameters.call(self._asynchronous or self.function, arguments)
            is_async = self.is_async or self._asynchronous is not None
            value = await execution.acall(
                call, execution.shorter(self.timeout_seconds, timeout_seconds), is_async=is_async
            )
            seconds = time.perf_counter() - started
            telling = functools.partial(returned, self.name, value, self.max_chars, decision, seconds, self.labels)
            # what takes long to tell is told in a thread: an event loop has others to serve meanwhile
            return await execution.acall(telling, None) if is_long(value) else telling()
        except Exception as error:
            return fault(self.name, error, decision, time.perf_counter() - started, self.labels)

    def check_context(self, value: Any) -> None:
        """Raise ConfigError when a run that is given this as `context=` cannot use the tool."""
        self._parameters.check_context(value)
        check_told(self._judge, self.name, value)

    @property
    def judged_by(self) -> Judge | None:
        """What judges its calls beside the policy of an agent; None when nothing but its level does."""
        return self._judge

    @property
    def is_in_workspace(self) -> bool:
        """Whether the tool works in a workspace, and so can show what it would change."""
        return self._within is not None

    def without_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checked arguments without those that have the default of their parameter: nobody put data into these."""
        defaults = self._parameters.defaults
        return {
            name: value
            for name, value in arguments.items()
            if name not in defaults or not _is_default(value, defaults[name])
        }

    def canonical(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Checked arguments in the one spelling by which rules know them; a judge that has `canonical` tells it."""
        spelled = getattr(self._judge, "canonical", None)
        return arguments if spelled is None else dict(spelled(arguments))

    def touched(self, arguments: Mapping[str, Any]) -> tuple[Iterable[str], Iterable[str]] | None:
        """The paths that a call with checked arguments names, and the scripts among them; None if nobody can tell.

        A judge that has `touched` tells it.
        """
        told = getattr(self._judge, "touched", None)
        return None if told is None else told(arguments)

    def within(self, workspace: Any) -> Tool[..., Any]:
        """The same tool working in `workspace`; itself when it has nothing to do with files."""
        return self if self._within is None else functools.reduce(Tool.when, self.conditions, self._within(workspace))

    def when(self, condition: ConditionFunction | ToolCondition) -> Self:
        """The same tool, offered in a run only when this holds, too. Raises ConfigError for what is no condition."""
        return self._with(conditions=(*self.conditions, *conditions_from(condition)))

    def described(self, description: str) -> Self:
        """The same tool, in every workspace, with another description for a model. Raises ConfigError for no text."""
        within = None if self._within is None else functools.partial(_described_within, self._within, description)
        return self._with(_description=checked_text(description), _within=within)

    def _with(self, **changed: Any) -> Self:
        """The same tool with other attributes; how a model sees it is made anew."""
        other = type(self).__new__(type(self))
        other.__dict__.update({name: value for name, value in self.__dict__.items() if name != "spec"} | changed)
        return other

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Tool[P, R]: ...
    @overload
    def __get__(self: Tool[Concatenate[S, Q], R], instance: S, owner: type | None = None) -> Tool[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., Any]:
        """The tool itself, or, for a method, the tool bound to its instance or class."""
        method: Any = self.function
        if not self.lacks_instance or (instance is None and not isinstance(method, classmethod)):
            return self
        return self._with(function=method.__get__(instance, owner), lacks_instance=False, _parameters=self._parameters)

    def __set_name__(self, owner: type, name: str) -> None:
        """The first parameter of a function written in this class body is the instance, whatever its name."""
        home = getattr(self, "__qualname__", "").rpartition(".")[0]
        if self._is_written_in_class and home == owner.__qualname__ and not self.lacks_instance:
            self.__dict__.update(lacks_instance=True)
            self.__dict__.pop("_parameters", None)

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"Tool {self.name!r} never changes; make another one instead of setting {attribute!r}.")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"Tool {self.name!r} never changes; {attribute!r} cannot be deleted.")

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, level={self.level.name})"


_MADE: WeakSet[Tool[..., Any]] = WeakSet()


def names_in_use() -> frozenset[str]:
    """The names of all tools that were made in this process and are still there."""
    return frozenset(tool.name for tool in list(_MADE))


class ToolOptions(TypedDict, total=False):
    """The keyword arguments of `Tool`, as `@tool(...)` takes them."""

    name: str | None
    description: str | None
    level: SafetyLevel | str
    timeout_seconds: float | None
    max_chars: int
    judge: Judge | None
    labels: Iterable[Label | str] | None
    within: Within | None
    when_denied: WhenDenied | None
    asynchronous: Callable[..., Awaitable[Any]] | None
    idempotent: bool
    ends_run: bool
    when: ConditionFunction | None
    paths: Iterable[str]


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(level=..., name=...)` with the keyword arguments of Tool."""
    return functools.partial(Tool, **options) if function is None else Tool(function, **options)


def _told_by(function: Callable[..., Any], *, may_bind: bool) -> dict[str, Any]:
    """What a function tells of itself, by the names of a tool's attributes."""
    return {
        "is_async": reflection.is_asynchronous(function),
        "lacks_instance": may_bind and reflection.takes_instance(function),
        "_is_written_in_class": may_bind,
        "__wrapped__": function,
        **{key: getattr(function, key) for key in ("__doc__", "__name__", "__qualname__") if hasattr(function, key)},
    }


def _check_parameters(read: Callable[[], Parameters], *, may_bind: bool) -> None:
    """Raise ConfigError for parameters that cannot be a tool's; a method may name what follows its class."""
    try:
        read()
    except ConfigError as error:
        if not (may_bind and isinstance(error.__cause__, NameError)):
            raise


def _described_within(within: Within, description: str, workspace: Any) -> Tool[..., Any]:
    return within(workspace).described(description)


def _recorded(records: Sequence[Reversible], result: ToolResult) -> ToolResult:
    return replace(result, records=tuple(records)) if records else result


def _is_default(value: Any, default: Any) -> bool:
    try:
        return value is default or (type(value) is type(default) and bool(value == default))
    except Exception:  # any class may compare in its own way
        return False


def _denied(arguments: Mapping[str, Any], decision: Decision, when_denied: WhenDenied | None) -> Any:
    """The value of a direct call that was denied. Raises BadArguments, and Blocked where nothing makes a value."""
    if decision.rule == BAD_ARGUMENTS:
        raise BadArguments(objection(decision))
    if when_denied is None:
        raise Blocked(objection(decision))
    return when_denied(arguments, decision)


def _bare(function: Any) -> Any:
    """The function itself, out of `staticmethod` and `classmethod`. Raises ConfigError for what is no function."""
    if isinstance(function, staticmethod | classmethod):
        return function.__func__
    if isinstance(reflection.innermost(function), Tool):
        raise ConfigError(f"{function!r} is a tool already; use it as it is, or make a tool of its function.")
    if isinstance(function, type):
        raise ConfigError(f"{function.__name__} is a class, and a tool is a function; wrap what it does in a function.")
    if not callable(function):
        raise ConfigError(f"{function!r} cannot be called, so it cannot be a tool; with options write @tool(name=...).")
    return function
