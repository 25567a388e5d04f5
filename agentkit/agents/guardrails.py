"""Guardrails and middleware: functions that check, amend or surround requests, answers and tool calls.

Content that a guardrail removes from a tool result is removed everywhere: from the value and from the full text of a
cut result. A guardrail cannot change that the call was made and failed, its cost, its decision, and its labels.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from traceback import extract_tb
from types import TracebackType
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.decisions import Label
from agentkit.errors import AgentKitError, ConfigError, GuardrailRefused, LimitExceeded, RunError, ToolTimeout
from agentkit.events import Event, LimitReached, PartialOutput, RequestStarted, RunEnded, TextDelta
from agentkit.messages import OutputSchema, Response, ToolResult
from agentkit.redaction import redact
from agentkit.tooling import execution
from agentkit.tooling.results import failure, success
from agentkit.tooling.run_context import ContextType, RunContext, RunParameter, check_value, run_parameter_of
from agentkit.tooling.signature import REST, innermost, is_asynchronous

if TYPE_CHECKING:
    from agentkit.tooling.output_types import OutputType, PartialAnswerParser


MAX_RETRIES = 2
_STAGES = ("prompt", "output", "result")

REFUSALS = (ValueError, AssertionError)
"""Exceptions by which a guardrail refuses, with the reason as text. Any other exception is a failure."""


GuardrailFunction = Callable[[Any], Any] | Callable[[Any, RunContext[ContextType]], Any]
"""A check of a prompt, an output or a result, with an optional RunContext parameter."""


@dataclass(slots=True)
class CallFunction:
    """Call a user's function, such as a guardrail; `answer` becomes its return value, its exception or a timeout."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    seconds_left: float = math.inf
    answer: object | None = None

    @contextmanager
    def store_errors(self) -> Iterator[None]:
        """Store an exception as the answer: a guardrail refuses by raising."""
        try:
            yield
        except Exception as error:
            self.answer = error


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A function that checks each prompt, output or tool result; the name of its parameter selects which.

    `of_run` is its RunContext parameter, if it has one. `is_concurrent` is True if it checks a prompt at the same time
    as the first request: its annotation says that it returns None, so it cannot amend what was sent already.
    """

    function: Callable[..., Any]
    stage: str
    of_run: RunParameter | None = None
    is_concurrent: bool = False

    @property
    def name(self) -> str:
        """The name of the guardrail in errors."""
        return getattr(innermost(self.function), "__name__", repr(self.function))

    def within(self, context: RunContext[Any]) -> Guardrail:
        """The guardrail with its RunContext parameter bound."""
        return self if self.of_run is None else replace(self, function=self.of_run.bound(self.function, context))

    def check_context(self, value: Any) -> None:
        """Raise ConfigError if the context of a run does not match the annotation."""
        if self.of_run is not None:
            check_value(value, [self.of_run.parameter], f"The guardrail {self.name}")

    def refusal(self, error: BaseException) -> str:
        """The reason for a refusal."""
        return str(error) or f"The guardrail {self.name} refused it."

    def outcome(self, value: Any, answer: object, late: LimitReached | None) -> Any:
        """What replaces the value; None if it passes. `answer` is what the function returned or raised.

        Raises ValueError if the guardrail refuses, RunError if it fails, and LimitExceeded if `late` is reached.
        """
        if late is not None:
            raise LimitExceeded(late.reason)
        match answer:
            case ValueError() | AssertionError() as refusal:
                raise ValueError(self.refusal(refusal)) from refusal
            case Exception() as error:
                raise RunError(f"The guardrail {self.name} failed ({type(error).__name__}: {error}).") from error
        if isinstance(value, str) and not isinstance(answer, str | None):
            raise RunError(
                f"The guardrail {self.name} returned {type(answer).__name__} for a text. Return None to pass, or the "
                f"replacement text."
            )
        if self.is_concurrent and answer is not None:
            raise RunError(
                f"The guardrail {self.name} is annotated `-> None` but returned a text, after the prompt was sent. "
                f"Annotate it `-> str | None` to run it before the request."
            )
        return answer

    def refused_prompt_error(self, error: Exception) -> GuardrailRefused:
        """The error of a run whose prompt this guardrail refused."""
        text = f"The prompt was refused by {self.name}: {error}"
        return GuardrailRefused(text, guardrail=self.name, stage="prompt", reason=str(error))


@dataclass(frozen=True, slots=True)
class AnswerValidator:
    """The rules for answers: an output type and guardrails; a refused answer is retried up to `retries` times.

    `is_of_run` is True if the type was requested by a run; it then applies to every agent of the run.
    """

    output: OutputType[Any] | None = None
    guardrails: tuple[Guardrail, ...] = ()
    retries: int = MAX_RETRIES
    is_of_run: bool = False

    @classmethod
    def with_agent(cls, output_type: Any, guardrails: Iterable[GuardrailFunction]) -> AnswerValidator:
        """Create the rules from an agent's arguments. Raises ConfigError for an invalid type or check."""
        if output_type in (None, str):
            return cls(None, _guardrails_from(guardrails))
        from agentkit.tooling.output_types import OutputType

        return cls(OutputType.of(output_type), _guardrails_from(guardrails))

    @classmethod
    def of_run(cls, output_type: Any) -> AnswerValidator:
        """Create the rules from a run's output type, `str` for a text. Raises ConfigError for an invalid type."""
        return replace(cls.with_agent(output_type, ()), is_of_run=True)

    @property
    def schema(self) -> OutputSchema | None:
        """The schema that the provider is asked to enforce."""
        return None if self.output is None else self.output.schema

    def or_type_of(self, other: AnswerValidator) -> AnswerValidator:
        """The same rules with the other's output type, if that was requested by the run or these rules have none."""
        if self.output is not None and not other.is_of_run:
            return self
        return replace(self, output=other.output, is_of_run=other.is_of_run)

    def within(self, context: RunContext[Any]) -> AnswerValidator:
        """The same rules with the RunContext bound to the checks that take it."""
        return replace(self, guardrails=tuple(guardrail.within(context) for guardrail in self.guardrails))

    def of(self, stage: str) -> tuple[Guardrail, ...]:
        """The checks of a stage: prompt, output or result."""
        return tuple(guardrail for guardrail in self.guardrails if guardrail.stage == stage)

    def parse(self, text: str) -> Any:
        """Parse the answer. Raises ValueError with the reason for the model."""
        if self.output is None:
            return text
        try:
            return self.output.parse(text)
        except AgentKitError as error:
            raise ValueError(str(error)) from error

    def encode(self, value: Any) -> str:
        """Encode a value as answer text, in the format that a model writes."""
        return str(value) if self.output is None else self.output.encode(value)

    def render(self, value: Any) -> str:
        """Render a value for people: texts unchanged, other values as JSON."""
        plain = str(value) if self.output is None else self.output.plain(value)
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


class PartialAnswer:
    """Parser of a streamed typed answer, which holds back text that guardrails have yet to check.

    `answers` returns the answer rules of the active agent.
    """

    def __init__(self, answers: Callable[[], AnswerValidator]) -> None:
        self._answers = answers
        self._parser: PartialAnswerParser | None = None
        self._holds_back = self._has_held_back = False

    def with_partial_output(self, event: Event) -> tuple[Event, ...]:
        """The event, followed by a PartialOutput if its text extends the value.

        With output guardrails there is no text until they have passed: then it comes in one piece.
        """
        if isinstance(event, RequestStarted):
            output, self._holds_back = self._answers().output, bool(self._answers().of("output"))
            self._parser = None if output is None else output.partial_parser()
        elif self._holds_back and isinstance(event, TextDelta):
            self._has_held_back = True
            return ()
        elif self._has_held_back and isinstance(event, RunEnded) and event.status == "done":
            return (TextDelta(event.output), event)
        elif self._parser is not None and isinstance(event, TextDelta):
            value = self._parser.feed(event.text)
            return (event,) if value is None else (event, PartialOutput(value))
        return (event,)


def _guardrails_from(functions: Iterable[GuardrailFunction]) -> tuple[Guardrail, ...]:
    """Convert functions to guardrails. Raises ConfigError if a parameter name does not select a stage."""
    if not isinstance(functions, Iterable):
        raise ConfigError(f"guardrails= takes a list of functions. Got {functions!r:.200}.")
    return tuple(_guardrail(function) for function in functions)


def _guardrail(function: GuardrailFunction) -> Guardrail:
    try:
        parameters = [each for each in inspect.signature(function).parameters.values() if each.kind not in REST]
    except (TypeError, ValueError):  # not callable, or a C function without a signature
        parameters = []
    of_run = run_parameter_of(function)
    others = [each for each in parameters if of_run is None or each.name != of_run.parameter.name]
    required = [each.name for each in others if each.default is each.empty]  # parameters with defaults keep them
    names = [each.name for each in others]
    if not names or (required or names) != names[:1] or names[0] not in _STAGES:
        raise ConfigError(
            "A guardrail is a function of one parameter, named `prompt`, `output` or `result` after what it checks, "
            "and optionally of a RunContext. It returns None to pass, another value to amend, and raises ValueError "
            f"to refuse. Got {function!r:.200}."
        )
    returned = getattr(innermost(function), "__annotations__", {}).get("return", "")
    return Guardrail(function, names[0], of_run, names[0] == "prompt" and returned in (None, "None"))


MiddlewareFunction = Callable[..., Any]
"""A function `(request, proceed)` around a model request, or `(call, proceed)` around a tool call, sync or async.

It can have a further parameter annotated RunContext. `proceed` sends the request or runs the call.
"""

_RESULTS = {"request": Response, "call": ToolResult}
"""The kinds of middleware, named after their first parameter, and what they return."""


@dataclass(frozen=True, slots=True)
class Middleware:
    """A middleware function; `stage` says what it surrounds. `of_run` is its RunContext parameter, if it has one."""

    function: MiddlewareFunction
    stage: str
    of_run: RunParameter | None = None

    @property
    def name(self) -> str:
        """The name of the function in errors."""
        return getattr(innermost(self.function), "__name__", repr(self.function))

    def within(self, context: RunContext[Any]) -> Middleware:
        """The middleware with its RunContext parameter bound."""
        return self if self.of_run is None else replace(self, function=self.of_run.bound(self.function, context))

    def check_context(self, value: Any) -> None:
        """Raise ConfigError if the context of a run does not match the annotation."""
        if self.of_run is not None:
            check_value(value, [self.of_run.parameter], f"The middleware {self.name}")

    def validate_result(self, result: Any) -> Any:
        """The result. Raises RunError if it has another type than what the function surrounds."""
        expected = _RESULTS[self.stage]
        if isinstance(result, expected):
            return result
        raise RunError(
            f"The middleware {self.name} returned {type(result).__name__}; it returns a {expected.__name__}."
        )

    def to_error(self, error: Exception) -> RunError:
        """The error for an exception of the function, with its name."""
        return RunError(f"The middleware {self.name} failed ({type(error).__name__}: {error}).")


def middleware_from(functions: Iterable[MiddlewareFunction]) -> tuple[Middleware, ...]:
    """Convert functions to middleware. Raises ConfigError if the first parameter is not `request` or `call`."""
    if not isinstance(functions, Iterable):
        raise ConfigError(f"middleware= takes a list of functions. Got {functions!r:.200}.")
    return tuple(map(_middleware, functions))


def _middleware(function: MiddlewareFunction) -> Middleware:
    try:
        parameters = [each.name for each in inspect.signature(function).parameters.values() if each.kind not in REST]
    except (TypeError, ValueError):  # not callable, or a C function without a signature
        parameters = []
    of_run = run_parameter_of(function)
    names = [name for name in parameters if of_run is None or name != of_run.parameter.name]
    if len(names) != 2 or names[0] not in _RESULTS:
        raise ConfigError(
            "A middleware is a function (request, proceed) around a model request, or (call, proceed) around a tool "
            f"call, and optionally of a RunContext. Got {function!r:.200}."
        )
    return Middleware(function, names[0], of_run)


def wrap(layers: Iterable[Middleware], inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function within its middleware, blocking; the first layer is the outermost."""
    for layer in reversed(tuple(layers)):
        inner = partial(_proceed, layer, inner)
    return inner


def awrap(layers: Iterable[Middleware], inner: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """Async version of `wrap`; a sync layer runs in a thread."""
    for layer in reversed(tuple(layers)):
        inner = partial(_aproceed, layer, inner)
    return inner


def _proceed(layer: Middleware, inner: Callable[[Any], Any], parameters: Any) -> Any:
    async def proceed(changed: Any) -> Any:
        return inner(changed)

    is_async = is_asynchronous(layer.function)
    work = partial(layer.function, parameters, proceed if is_async else inner)
    try:
        return layer.validate_result(execution.call(work, None, is_async=is_async))
    except AgentKitError:
        raise
    except Exception as error:
        raise layer.to_error(error) from error


async def _aproceed(layer: Middleware, inner: Callable[[Any], Awaitable[Any]], parameters: Any) -> Any:
    loop, is_async = asyncio.get_running_loop(), is_asynchronous(layer.function)

    async def proceed_async(changed: Any) -> Any:
        return await inner(changed)

    def proceed(changed: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(proceed_async(changed), loop).result()

    work = partial(layer.function, parameters, proceed_async if is_async else proceed)
    try:
        return layer.validate_result(await execution.acall(work, None, is_async=is_async))
    except AgentKitError:
        raise
    except Exception as error:
        raise layer.to_error(error) from error


_WITHHELD = "The call was made, but its result is withheld: {reason}"


class ResultGuardrails:
    """The checks of one call's result; `result` is the checked result. `prepare` adds labels and handoff data first.

    They run in the thread or task of the tool, so that the results of concurrent calls are checked concurrently.
    """

    def __init__(
        self, guardrails: tuple[Guardrail, ...], max_chars: int, prepare: Callable[[ToolResult], ToolResult]
    ) -> None:
        self._guardrails, self._max_chars, self._prepare = guardrails, max_chars, prepare
        self.result: ToolResult | None = None

    def effects(self, result: ToolResult, ends: float = math.inf) -> Generator[CallFunction, None, ToolResult]:
        """Call each guardrail until one withholds the result; waiting calls and handoffs are not checked."""
        result = self._prepare(result)
        for guardrail in () if result.status == "waiting" or result.handoff_to else self._guardrails:
            full_result = result if result.full_content is None else replace(result, content=result.full_content)
            effect = CallFunction(guardrail.function, (full_result,), ends - time.monotonic())
            yield effect
            reason = _objection(guardrail, effect.answer)
            if reason:
                result = _withheld_result(result, reason)
                break
            result = _apply_guardrail(result, full_result, effect.answer, self._max_chars)
        self.result = result
        return result

    def run(self, result: ToolResult, ends: float) -> ToolResult:
        """The checked result, blocking; `ends` is the deadline of the run."""
        for effect in self.effects(result, ends):
            with effect.store_errors():
                work = partial(effect.function, *effect.arguments)
                effect.answer = execution.call(work, _timeout(effect), is_async=is_asynchronous(effect.function))
        return self.result or result

    async def arun(self, result: ToolResult, ends: float) -> ToolResult:
        """Async version of `run`; a sync check runs in a thread."""
        for effect in self.effects(result, ends):
            with effect.store_errors():
                work = partial(effect.function, *effect.arguments)
                effect.answer = await execution.acall(work, _timeout(effect), is_async=is_asynchronous(effect.function))
        return self.result or result


def _timeout(effect: CallFunction) -> float | None:
    return None if math.isinf(effect.seconds_left) else max(effect.seconds_left, 0.0)


def _objection(guardrail: Guardrail, answer: object) -> str:
    """The reason to withhold the result, if any. A failure is given by location: its text can quote the result."""
    match answer:
        case ToolTimeout():
            return f"The guardrail {guardrail.name} did not finish in time."
        case BaseException() as error if isinstance(error, REFUSALS):
            return guardrail.refusal(error)
        case BaseException() as failure:
            return (
                f"The guardrail {guardrail.name} failed ({type(failure).__name__}{_location(failure.__traceback__)})."
            )
        case None | str() | ToolResult():
            return ""
    kind = type(answer).__name__
    return f"The guardrail {guardrail.name} returned {kind}; it must return None to pass, a text or another ToolResult."


def _location(traceback: TracebackType | None) -> str:
    frames = extract_tb(traceback)
    return f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


def _withheld_result(result: ToolResult, reason: str) -> ToolResult:
    """The result that replaces a withheld one."""
    status = "blocked" if result.ok else result.status
    failed = failure(result.tool, _WITHHELD.format(reason=reason), status, result.decision)
    return _restore_facts(failed, result)


def _apply_guardrail(result: ToolResult, checked: ToolResult, answer: object, max_chars: int) -> ToolResult:
    """Apply the return value of a guardrail to the result.

    Fields that the guardrail changed are used as given; the others follow the new content.
    """
    if isinstance(answer, str):
        answer = replace(checked, content=answer, images=(), files=())
    if not isinstance(answer, ToolResult) or answer is checked:
        return result
    if answer.content == checked.content:
        updated = result
    elif result.ok:
        updated = _with_content(result, answer.content, max_chars)
    else:
        updated = failure(result.tool, answer.content, result.status, result.decision)
    error = answer.error if answer.error != result.error else updated.error
    return _restore_facts(
        replace(
            updated,
            status="failed" if error and result.ok else updated.status,
            value=answer.value if answer.value is not result.value else updated.value,
            full_content=_clean(
                answer.full_content if answer.full_content != result.full_content else updated.full_content
            ),
            error=_clean(error or updated.error),
            images=answer.images,
            files=answer.files,
        ),
        result,
        answer.labels,
    )


def _with_content(result: ToolResult, content: str, max_chars: int) -> ToolResult:
    """Replace the content of a successful result, within the bounds of its tool."""
    replaced = success(result.tool, content, max_chars, result.decision)
    is_other = "truncated" in (replaced.status, result.status)
    return replaced if is_other else replace(replaced, status=result.status)


def _restore_facts(changed: ToolResult, result: ToolResult, labels: frozenset[Label] = frozenset()) -> ToolResult:
    """Restore the facts of the call that a guardrail cannot change; it can only add labels."""
    all_labels = result.labels | labels
    return replace(changed, decision=result.decision, seconds=result.seconds, labels=all_labels, usage=result.usage)


def _clean(text: str | None) -> str | None:
    return redact(text) if text else text
