"""`Tool` and the `@tool` decorator."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)
from weakref import WeakSet

from agentkit.decisions import MAX_EVIDENCE_CHARS, NO_RULE, Decision, Label, Level, SafetyLevel, Verdict
from agentkit.errors import BadArguments, Blocked, ConfigError, short_traceback
from agentkit.messages import ToolResult, ToolSpec
from agentkit.safety.approval import NO_PREVIEW, CallPreview
from agentkit.suggestions import check_unknown_arguments
from agentkit.tooling import execution
from agentkit.tooling import signature as reflection
from agentkit.tooling.arguments import copy_arguments, format_value
from agentkit.tooling.results import (
    BAD_ARGUMENTS,
    denial,
    denial_text,
    error_message,
    exception_result,
    is_long,
    success,
)
from agentkit.tooling.run_context import (
    CONTEXT,
    ConditionFunction,
    ContextType,
    RunContext,
    ToolCondition,
    check_value,
    conditions_from,
    run_context_active,
    run_parameter_of,
)
from agentkit.tooling.schema import Arguments, FunctionParameters, Parameters, SchemaParameters, copy_schema
from agentkit.undo import Reversible, collect_records
from agentkit.usage import is_number, is_whole

Judge = Callable[[Mapping[str, Any]], Decision] | Callable[[Mapping[str, Any], RunContext[Any]], Decision]
"""Judges the validated keyword arguments of a call, of which it gets a copy, and optionally the run context."""

UNCONFIRMED = "unconfirmed"
"""The rule of the decision on a direct destructive call without confirmation."""

_CONFIRM = (
    "If this is intended, confirm this one call in your code: tool.confirmed(...), or tool.invoke({...}, confirm=True)."
)


def judgment(
    judge: Judge | None, name: str, level: SafetyLevel, arguments: Mapping[str, Any], run: RunContext[Any] | None
) -> Decision:
    """Run the judge of a tool and return its decision; a judge that fails denies the call.

    The default for `run` is the run in which the tool is called. Outside of runs, a judge that requires one results in
    ASK.
    """
    if judge is None:
        sends_data = level >= SafetyLevel.NETWORK
        return Decision(Verdict.ALLOW, NO_RULE, f"The tool {name} has no judge.", egress=sends_data)
    decide: Callable[..., object] = judge
    run_parameter = run_parameter_of(judge)
    if run_parameter is not None:
        run = CONTEXT.get() if run is None else run
        if run is not None:
            decide = run_parameter.bound(judge, run)
        elif run_parameter.parameter.required:
            return Decision(
                Verdict.ASK, "no-run", f"The judge of {name} needs a run, and this call is not part of one."
            )
    try:
        decision = decide(copy_arguments(arguments))
    except Exception as error:
        return Decision(Verdict.DENY, "judge-failed", f"The judge of {name} failed ({error_message(error)}).")
    if isinstance(decision, Decision):
        return decision
    reason = f"The judge of {name} returned {type(decision).__name__} instead of a Decision."
    return Decision(Verdict.DENY, "judge-failed", reason)


def deny_unconfirmed(decision: Decision) -> Decision:
    """Turn the decision on a direct, unconfirmed call into a denial if the call is destructive."""
    if decision.denied or not decision.destroys:
        return decision
    reason = f"Command blocked for safety: {decision.destroys}"
    return Decision(Verdict.DENY, UNCONFIRMED, reason, decision.evidence, _CONFIRM, decision.level, decision.egress)


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_INVALID_CHARS = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_CHARS = 64
_MIN_CHARS = 100


def validate_tool_name(name: object) -> str:
    """Validate a tool name. Raises ConfigError if providers reject it."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    is_usable = isinstance(name, str) and name.isascii() and "<" not in name  # a lambda's name contains it
    suggestion = _INVALID_CHARS.sub("_", str(name)).strip("_")[:_MAX_CHARS] if is_usable else ""
    advice = f"For example, {suggestion!r}." if suggestion else "Give name=..."
    raise ConfigError(f"{name!r} is not a name that providers accept: 1 to 64 of a-z A-Z 0-9 _ -. {advice}")


def validate_description(description: object) -> str | None:
    """Validate a description. Raises ConfigError if it is not text."""
    if description is None or isinstance(description, str):
        return description
    raise ConfigError(f"description= takes text, not {description!r}.")


def validate_labels(labels: Iterable[object]) -> frozenset[Label]:
    """Validate labels, which can be given as texts. Raises ConfigError for invalid ones."""
    if not isinstance(labels, str) and isinstance(labels, Iterable):
        label_list = list(labels)
        if all(each in list(Label) for each in label_list):
            return frozenset(Label(str(each)) for each in label_list)
    known = ", ".join(repr(str(each)) for each in Label)
    raise ConfigError(f"labels= takes a list of {known}; not {labels!r}.")


def validate_path_names(paths: Iterable[object]) -> tuple[str, ...]:
    """Validate the names of the path arguments. Raises ConfigError if they are not a list of names."""
    if not isinstance(paths, str) and isinstance(paths, Iterable):
        names = list(paths)
        if all(isinstance(each, str) for each in names):
            return tuple(map(str, names))
    raise ConfigError(f"paths= takes the names of the arguments that are paths, such as ['source']; not {paths!r}.")


_FUNCTIONS = {
    "judge": "a function from arguments to a Decision",
    "within": "a function from a workspace to a Tool",
    "when_denied": "a function of arguments and decision",
    "asynchronous": "the same function as async def",
}


P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
C = TypeVar("C")

WhenDenied = Callable[[Mapping[str, Any], Decision], Any]
"""Computes the return value of a denied direct call from its validated arguments and the decision."""

Within = Callable[[Any], "Tool[..., Any]"]
"""Creates the same tool for another workspace."""

_LABELS = {
    SafetyLevel.SAFE: frozenset[Label](),
    SafetyLevel.NETWORK: frozenset({Label.UNTRUSTED}),
    SafetyLevel.SYSTEM: frozenset({Label.PRIVATE}),
}


class Tool(reflection.PicklableByName, Generic[P, R, ContextType]):
    """An immutable function tool with a name, a description, a safety level, limits and optionally a judge.

    Calling it returns the function's own value; `invoke` returns a ToolResult. Parameters are read from signature and
    annotations, descriptions from the docstring. The third type parameter is the type of the context of its runs, if
    the first parameter of the function is a RunContext.

    Args:
        function: The function, which can be asynchronous.
        name: The name for the model; by default that of the function.
        description: The description for the model; by default that of the docstring.
        level: The level of access. Without one it counts as SAFE, and `is_labelled` is False.
        timeout_seconds: The time limit of a call; None for no limit.
        max_chars: The length limit of the result text that is sent to the model.
        judge: Decides on a call from its arguments, in addition to the policy of the agent.
        labels: The classification of its results; by default, those of a NETWORK tool are untrusted and those of a
            SYSTEM tool private.
        within: Creates the same tool for another workspace.
        when_denied: Computes the return value of a denied direct call, which otherwise raises Blocked.
        asynchronous: An equivalent coroutine function for asynchronous callers, which can be cancelled.
        idempotent: Whether a call can be repeated if the run was killed during it.
        ends_run: Whether the value of the tool is the answer of the run.
        when: A function of nothing or of the RunContext; a request offers the tool only if it returns True.
        paths: The names of the parameters that are paths.

    Raises ConfigError if the function cannot be a tool.
    """

    plugin = ""
    """The name of the plugin that offers the tool."""

    name: str
    level: SafetyLevel
    is_labelled: bool
    timeout_seconds: float | None
    max_chars: int
    labels: frozenset[Label]
    function: Callable[P, R]
    is_async: bool
    idempotent: bool
    ends_run: bool
    conditions: tuple[ToolCondition, ...]
    paths: tuple[str, ...]
    lacks_instance: bool  # whether this is an unbound method taken from its class; one taken from an instance is bound
    _description: str | None
    _judge: Judge | None
    _within: Within | None
    _when_denied: WhenDenied | None
    _asynchronous: Callable[P, Awaitable[R]] | None
    _is_written_in_class: bool

    if not TYPE_CHECKING:

        def __class_getitem__(cls, types: Any) -> Any:
            """The last type, that of the context, is optional."""
            arguments = types if isinstance(types, tuple) else (types,)
            return super().__class_getitem__((*arguments, Any)[: len(cls.__parameters__)])

    @overload
    def __init__(
        self: Tool[Concatenate[RunContext[C], P], R, C],
        function: Callable[Concatenate[RunContext[C], P], R],
        name: str | None = ...,
        description: str | None = ...,
        **options: Unpack[OtherToolOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Tool[P, R, Any],
        function: Callable[P, R],
        name: str | None = ...,
        description: str | None = ...,
        **options: Unpack[OtherToolOptions],
    ) -> None: ...
    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        description: str | None = None,
        *,
        level: Level | None = None,
        timeout_seconds: float | None = 60.0,
        max_chars: int = 50_000,
        judge: Judge | None = None,
        labels: Iterable[Label | str] | None = None,
        within: Within | None = None,
        when_denied: WhenDenied | None = None,
        asynchronous: Callable[..., Awaitable[Any]] | None = None,
        idempotent: bool = False,
        ends_run: bool = False,
        when: ConditionFunction | None = None,
        paths: Iterable[str] = (),
        **unknown: object,
    ) -> None:
        with short_traceback:
            if unknown:
                check_unknown_arguments(Tool, unknown)
            bare = _unwrap_function(function)
            may_bind = not isinstance(function, staticmethod) and reflection.is_defined_in_class(bare)
            self.__dict__.update(
                name=validate_tool_name(reflection.name_of(bare) if name is None else name),
                **_validated_limits(level, labels, timeout_seconds, max_chars),
                function=bare if isinstance(function, staticmethod) else function,
                idempotent=idempotent,
                ends_run=ends_run,
                conditions=() if when is None else conditions_from(when),
                paths=validate_path_names(paths) if paths != () else (),
                _description=None if description is None else validate_description(description),
                **_validated_functions(judge=judge, within=within, when_denied=when_denied, asynchronous=asynchronous),
                **_function_attributes(bare, may_bind=may_bind),
            )
            _check_parameters(lambda: self._parameters, may_bind=may_bind)
            _LIVE_TOOLS.add(self)

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        json_schema: Mapping[str, Any],
        function: Callable[..., R],
        *,
        level: Level = SafetyLevel.SAFE,
        timeout_seconds: float | None = 60.0,
        max_chars: int = 50_000,
        judge: Judge | None = None,
        labels: Iterable[Label | str] | None = None,
        asynchronous: Callable[..., Awaitable[R]] | None = None,
    ) -> Tool[..., R]:
        """Create a tool whose parameters are described by a JSON schema; the function gets the arguments by name.

        Arguments are validated at any depth: types, choices, limits, and required or unknown names. Non-standard schema
        dialects are normalised. Raises ConfigError if the schema does not describe an object.
        """
        new: Tool[..., R] = cls.__new__(cls)
        new.__dict__["_parameters"] = SchemaParameters(json_schema, validate_tool_name(name))
        limits: dict[str, Any] = {"level": level, "timeout_seconds": timeout_seconds, "max_chars": max_chars}
        limits |= {"judge": judge, "labels": labels, "asynchronous": asynchronous}
        Tool.__init__(new, function, name, description, **limits)
        new.__dict__.update(lacks_instance=False, _is_written_in_class=False)
        return new

    @functools.cached_property
    def _parameters(self) -> Parameters:
        return FunctionParameters(_unwrap_function(self.function), self.name, without_first=self.lacks_instance)

    @property
    def description(self) -> str:
        """The description for the model: as given, or from the docstring."""
        return self._parameters.documentation.text if self._description is None else self._description

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments, as a new dictionary."""
        return copy_schema(self._parameters.json_schema)

    @functools.cached_property
    def spec(self) -> ToolSpec:
        """The tool definition sent to the model."""
        strict = functools.partial(getattr, self._parameters, "strict_schema")
        return ToolSpec(self.name, self.description, self._parameters.json_schema, strict)

    def to_openai_tool(self) -> dict[str, Any]:
        """Return the tool in the chat completions format: `{"type": "function", "function": {…}}`."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function and return its own value.

        A denied call returns the value of `when_denied`, or raises Blocked without one. A destructive call is denied
        unless it is `confirmed`.
        """
        return self._called(args, kwargs, confirmed=False)

    def confirmed(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the tool like `tool(...)`, confirming that this one call can delete or overwrite permanently.

        Calls that its judge denies are still denied. Models cannot confirm a call: in a run, a person or a rule
        decides.
        """
        return self._called(args, kwargs, confirmed=True)

    def _called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, confirmed: bool) -> R:
        function: Callable[..., R] = self.function
        if self._judge is None:
            return function(*args, **kwargs)
        bound = self._parameters.bind(args[self.lacks_instance :], kwargs)
        arguments, decision = self.decide(bound, bound.run)
        decision = decision if confirmed else deny_unconfirmed(decision)
        if decision.denied:
            return cast(R, _denied_value(arguments, decision, self._when_denied))
        return self._parameters.call(function, {**arguments, **bound.others}, args[: self.lacks_instance])()

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Validate arguments into keyword arguments, defaults included. Raises BadArguments."""
        return self._parameters.check(arguments)

    def judge(self, arguments: Arguments, run: RunContext[Any] | None = None) -> Decision:
        """Return the judge's decision on a call without running it. Invalid arguments are denied."""
        return self.decide(arguments, run)[1]

    def decide(self, arguments: Arguments, run: RunContext[Any] | None = None) -> tuple[dict[str, Any], Decision]:
        """Return the validated arguments and the judge's decision; no arguments if they are invalid."""
        try:
            checked = self.check(arguments)
        except BadArguments as error:
            return {}, Decision(
                Verdict.DENY, BAD_ARGUMENTS, str(error), evidence=format_value(arguments)[:MAX_EVIDENCE_CHARS]
            )
        return checked, judgment(self._judge, self.name, self.level, checked, run)

    def invoke(
        self, arguments: Arguments = None, run: RunContext[Any] | None = None, *, confirm: bool = False
    ) -> ToolResult:
        """Validate, judge and run a call, optionally in the context of a run.

        Errors are reported in the result; an ASK decision does not block the call. A call that deletes or overwrites
        permanently is denied unless you `confirm` it. `undo()` of the result restores the files that a built-in tool
        has changed.
        """
        with run_context_active(run), collect_records() as records:
            checked, decision = self.decide(arguments)
            return _with_records(records, self.run(checked, decision if confirm else deny_unconfirmed(decision)))

    async def ainvoke(
        self, arguments: Arguments = None, run: RunContext[Any] | None = None, *, confirm: bool = False
    ) -> ToolResult:
        """Like `invoke`, without blocking the event loop."""
        with run_context_active(run), collect_records() as records:
            checked, decision = self.decide(arguments)
            return _with_records(records, await self.arun(checked, decision if confirm else deny_unconfirmed(decision)))

    def run(self, arguments: Mapping[str, Any], decision: Decision, timeout_seconds: float | None = None) -> ToolResult:
        """Run a validated call, unless it is denied, within the tool's and the caller's time limits. Never raises."""
        if decision.denied:
            return denial(self.name, decision)
        started = time.perf_counter()
        try:
            call = self._parameters.call(self.function, arguments)
            value = execution.call(
                call, execution.shortest(self.timeout_seconds, timeout_seconds), is_async=self.is_async
            )
            return success(self.name, value, self.max_chars, decision, time.perf_counter() - started, self.labels)
        except Exception as error:
            return exception_result(self.name, error, decision, time.perf_counter() - started, self.labels)

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
                call, execution.shortest(self.timeout_seconds, timeout_seconds), is_async=is_async
            )
            seconds = time.perf_counter() - started
            build_result = functools.partial(success, self.name, value, self.max_chars, decision, seconds, self.labels)
            # long values are rendered in a thread, to keep the event loop responsive
            return await execution.acall(build_result, None) if is_long(value) else build_result()
        except Exception as error:
            return exception_result(self.name, error, decision, time.perf_counter() - started, self.labels)

    def check_context(self, value: Any) -> None:
        """Raise ConfigError if the tool cannot be used in a run with this `context=`."""
        if self._parameters.of_run:
            check_value(value, self._parameters.of_run, f"Tool {self.name!r}")
        run_parameter = None if self._judge is None else run_parameter_of(self._judge)
        if run_parameter is not None:
            check_value(value, [run_parameter.parameter], f"The judge of {self.name}")

    @property
    def judged_by(self) -> Judge | None:
        """The judge of its calls, in addition to an agent's policy; None if only its level counts."""
        return self._judge

    @property
    def is_in_workspace(self) -> bool:
        """Whether the tool operates on a workspace, and so can preview its changes."""
        return self._within is not None

    def without_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Drop validated arguments that equal their parameter's default: they carry no data from the caller."""
        defaults = self._parameters.defaults
        return {
            name: value
            for name, value in arguments.items()
            if name not in defaults or not _is_default(value, defaults[name])
        }

    def canonical(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Normalise validated arguments for matching rules, using the judge's `canonical` method if it has one."""
        normalise = getattr(self._judge, "canonical", None)
        return arguments if normalise is None else dict(normalise(arguments))

    def touched(self, arguments: Mapping[str, Any]) -> tuple[Iterable[str], Iterable[str]] | None:
        """Return the paths in validated arguments, and the scripts among them; None if unknown.

        Uses the judge's `touched` method.
        """
        touched = getattr(self._judge, "touched", None)
        return None if touched is None else touched(arguments)

    def preview(self, arguments: Mapping[str, Any]) -> CallPreview:
        """Predict the effect of a call with validated arguments, using the judge's `preview` method if it has one."""
        predict = getattr(self._judge, "preview", None)
        return NO_PREVIEW if predict is None else predict(arguments)

    def within(self, workspace: Any) -> Tool[..., Any]:
        """Return the same tool for `workspace`; itself if it does not use files."""
        return self if self._within is None else functools.reduce(Tool.when, self.conditions, self._within(workspace))

    def when(self, condition: ConditionFunction | ToolCondition) -> Self:
        """Return the same tool with an additional condition for offering it. Raises ConfigError if invalid."""
        return self._with(conditions=(*self.conditions, *conditions_from(condition)))

    def described(self, description: str) -> Self:
        """Return the same tool, in every workspace, with another description. Raises ConfigError if it is not text."""
        within = None if self._within is None else functools.partial(_described_within, self._within, description)
        return self._with(_description=validate_description(description), _within=within)

    def renamed(self, name: str) -> Self:
        """Return the same tool, in every workspace, under another name. Raises ConfigError if providers reject it."""
        within = None if self._within is None else functools.partial(_renamed_within, self._within, name)
        return self._with(name=validate_tool_name(name), _within=within)

    def of_plugin(self, plugin: str, level: SafetyLevel, labels: frozenset[Label] | None = None) -> Self:
        """Return the same tool as one of a plugin, with this level and these labels, in every workspace.

        Without `labels`, those of the level are added to its own.
        """
        labels = labels or self.labels | _LABELS[level]
        within = self._within and functools.partial(_of_plugin_within, self._within, plugin, level, labels)
        return self._with(plugin=plugin, level=level, labels=labels, _within=within)

    def _with(self, **changed: Any) -> Self:
        """Copy the tool with other attributes and without the cached spec."""
        other = type(self).__new__(type(self))
        other.__dict__.update({name: value for name, value in self.__dict__.items() if name != "spec"} | changed)
        return other

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Tool[P, R]: ...
    @overload
    def __get__(self: Tool[Concatenate[S, Q], R], instance: S, owner: type | None = None) -> Tool[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., Any]:
        """Return the tool itself, or, for a method, the tool bound to its instance or class."""
        method: Any = self.function
        if not self.lacks_instance or (instance is None and not isinstance(method, classmethod)):
            return self
        return self._with(function=method.__get__(instance, owner), lacks_instance=False, _parameters=self._parameters)

    def __set_name__(self, owner: type, name: str) -> None:
        """Treat the first parameter of a function defined in this class body as the instance, whatever its name."""
        defining_class = getattr(self, "__qualname__", "").rpartition(".")[0]
        if self._is_written_in_class and defining_class == owner.__qualname__ and not self.lacks_instance:
            self.__dict__.update(lacks_instance=True)
            self.__dict__.pop("_parameters", None)

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"Tool {self.name!r} is immutable. Create another tool instead of setting {attribute!r}.")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"Tool {self.name!r} is immutable: {attribute!r} cannot be deleted.")

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, level={self.level.name})"


_LIVE_TOOLS: WeakSet[Tool[..., Any]] = WeakSet()


def names_in_use() -> frozenset[str]:
    """Return the names of all live tools of this process."""
    return frozenset(tool.name for tool in list(_LIVE_TOOLS))


class OtherToolOptions(TypedDict, total=False):
    """The keyword-only arguments of `Tool`."""

    level: Level | None
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


class ToolOptions(OtherToolOptions, total=False):
    """The keyword arguments of `Tool`, as accepted by `@tool(...)`."""

    name: str | None
    description: str | None


class ToolDecorator(Protocol):
    """Makes a tool of a function."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[RunContext[C], P], R], /
    ) -> Tool[Concatenate[RunContext[C], P], R, C]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R, Any]: ...


@overload
def tool(function: Callable[Concatenate[RunContext[C], P], R], /) -> Tool[Concatenate[RunContext[C], P], R, C]: ...
@overload
def tool(function: Callable[P, R], /) -> Tool[P, R, Any]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> ToolDecorator: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Turn a function into a tool: `@tool`, or `@tool(level=..., name=...)` with the keyword arguments of Tool."""
    with short_traceback:
        return functools.partial(Tool, **options) if function is None else Tool(function, **options)


def _validated_limits(
    level: Level | None, labels: Iterable[Label | str] | None, timeout_seconds: object, max_chars: object
) -> dict[str, Any]:
    """Validate the level, labels and limits of a tool; without a level it is SAFE and unlabelled. Raises ConfigError.

    The timeout is positive or None, and the result has room for a sentence.
    """
    if timeout_seconds is not None and not (is_number(timeout_seconds) and timeout_seconds):
        raise ConfigError(
            f"timeout_seconds= takes a positive number of seconds, or None for no limit; not {timeout_seconds!r}."
        )
    if not is_whole(max_chars, _MIN_CHARS):
        raise ConfigError(f"max_chars= takes a whole number of at least {_MIN_CHARS}; not {max_chars!r}.")
    safety_level = SafetyLevel.SAFE if level is None else SafetyLevel.of(level)
    return {
        "level": safety_level,
        "is_labelled": level is not None,
        "labels": _LABELS[safety_level] if labels is None else validate_labels(labels),
        "timeout_seconds": timeout_seconds,
        "max_chars": max_chars,
    }


def _validated_functions(**given: object) -> dict[str, object]:
    """Validate the optional functions of a tool, by attribute name. Raises ConfigError if one is not callable."""
    for name, function in given.items():
        if function is not None and not callable(function):
            raise ConfigError(f"{name}= takes {_FUNCTIONS[name]}, not {function!r}.")
    return {f"_{name}": function for name, function in given.items()}


def _function_attributes(function: Callable[..., Any], *, may_bind: bool) -> dict[str, Any]:
    """Return the tool attributes derived from the function."""
    return {
        "is_async": reflection.is_asynchronous(function),
        "lacks_instance": may_bind and reflection.takes_instance(function),
        "_is_written_in_class": may_bind,
        "__wrapped__": function,
        **{key: getattr(function, key) for key in ("__doc__", "__name__", "__qualname__") if hasattr(function, key)},
    }


def _check_parameters(read: Callable[[], Parameters], *, may_bind: bool) -> None:
    """Raise ConfigError for unsupported parameters; a method can refer to names defined after its class."""
    try:
        read()
    except ConfigError as error:
        if not (may_bind and isinstance(error.__cause__, NameError)):
            raise


def _of_plugin_within(
    within: Within, plugin: str, level: SafetyLevel, labels: frozenset[Label] | None, workspace: Any
) -> Tool[..., Any]:
    return within(workspace).of_plugin(plugin, level, labels)


def _described_within(within: Within, description: str, workspace: Any) -> Tool[..., Any]:
    return within(workspace).described(description)


def _renamed_within(within: Within, name: str, workspace: Any) -> Tool[..., Any]:
    return within(workspace).renamed(name)


def _with_records(records: Sequence[Reversible], result: ToolResult) -> ToolResult:
    return replace(result, records=tuple(records)) if records else result


def _is_default(value: Any, default: Any) -> bool:
    try:
        return value is default or (type(value) is type(default) and bool(value == default))
    except Exception:  # comparison methods can raise
        return False


def _denied_value(arguments: Mapping[str, Any], decision: Decision, when_denied: WhenDenied | None) -> Any:
    """Return the value of a denied direct call. Raises BadArguments, or Blocked without `when_denied`."""
    if decision.rule == BAD_ARGUMENTS:
        raise BadArguments(denial_text(decision))
    if when_denied is None:
        raise Blocked(denial_text(decision))
    return when_denied(arguments, decision)


def _unwrap_function(function: Any) -> Any:
    """Unwrap `staticmethod` and `classmethod`. Raises ConfigError if it is not a function."""
    if isinstance(function, staticmethod | classmethod):
        return function.__func__
    if isinstance(reflection.innermost(function), Tool):
        raise ConfigError(f"{function!r} is already a tool. Use it directly, or create a tool from its function.")
    if isinstance(function, type):
        raise ConfigError(
            f"{function.__name__} is a class, and a tool must be a function. Wrap its behaviour in a function."
        )
    if not callable(function):
        raise ConfigError(f"{function!r} cannot be called, so it cannot be a tool; with options write @tool(name=...).")
    return function
