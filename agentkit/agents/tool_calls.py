"""Tool calls of one response: judged, approved, executed, checked, and answered with one result each.

Content that a guardrail removes is removed everywhere: from the value and from the full text of a cut result. A
guardrail cannot change that the call was made and failed, its cost, its decision, and its labels.
"""

from __future__ import annotations

import functools
import json
import math
import time
import types
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from traceback import extract_tb
from types import TracebackType
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.budget import Budget
from agentkit.agents.effects import CallFunction, Effect, Steps, UseTools, emit
from agentkit.agents.guardrails import REFUSALS, Guardrail
from agentkit.agents.human_approval import HumanApproval
from agentkit.agents.run_config import LINEAGE, CallingTool, HandoffTarget, ParentRun, PausingTool, RunConfig
from agentkit.agents.tool_policy import CallProgress, JudgedCall, ToolPolicyContext, judge_call
from agentkit.content import File, Image
from agentkit.decisions import Label
from agentkit.errors import ConfigError, ToolTimeout, UnknownTool
from agentkit.events import (
    AnswerGiven,
    Event,
    LimitReached,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import (
    READ_MORE,
    AssistantMessage,
    MadeCall,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    calls_in,
    failure_content,
    with_distinct_ids,
)
from agentkit.redaction import redact
from agentkit.safety.approval import Approval
from agentkit.safety.data_flow import labels_of
from agentkit.sessions.session import SessionRun
from agentkit.sessions.state import INTERRUPTED, Step
from agentkit.tooling import execution
from agentkit.tooling.results import failure, success, with_handle
from agentkit.tooling.signature import instance_of, is_asynchronous
from agentkit.tooling.tool import Tool

_NOTE = "\n\n[Note: "
_EDITED = "a person changed the arguments of this call to "
_AGAIN = "this call with these arguments has already returned this result; do something else, or answer"

_FIRST_NOTE = 2
"""The earliest repetition at which the note is added, whatever the limit."""

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ResultNotes:
    """Notes on a call's result: how often the same result came before, and whether a person edited the arguments."""

    call: ToolCall
    earlier: Mapping[str, int] = field(default_factory=dict)
    """How often the call returned each result before, from `Repeats.of`."""
    repeated_calls: int | None = None
    is_edited: bool = False
    labels: frozenset[Label] = frozenset()
    """Labels of the conversation that a `read_more` call reads from."""

    def with_labels(self, result: ToolResult) -> ToolResult:
        """The result with these labels; for a handoff, with the name of the agent."""
        if isinstance(result.value, HandoffTarget):
            name = result.value.name
            result = replace(result, status="ok", content=f"The conversation was handed off to {name}.", lead=name)
        return replace(result, labels=result.labels | self.labels) if self.labels else result

    def amend(self, result: ToolResult) -> ToolResult:
        """The result as sent to the model, with notes."""
        notes = []
        result = self.with_labels(result)
        before = self.earlier.get(_content_without_notes(result), 0)
        if result.whole is not None:
            result = with_handle(result, self.call.id)
        if self.is_edited:
            notes.append(f"{_EDITED}{self.call.arguments}")
        if self.repeated_calls and before + 1 >= max(self.repeated_calls, _FIRST_NOTE):
            notes.append(_AGAIN)
        return replace(result, content=f"{result.content}{_NOTE}{'; '.join(notes)}.]") if notes else result


class Repeats:
    """Counts how often each call returned each result. `calls` can grow; each is counted once.

    Calls present at the start belong to an earlier part of a resumed run: they count for the note to the model, but not
    for the limit, which applies to the calls to come.
    """

    def __init__(self, calls: Sequence[ToolCallFinished]) -> None:
        self._calls, self._read, self._start = calls, 0, len(calls)
        self._counts: dict[_Key, Counter[str]] = {}
        self._asked: dict[str, tuple[ToolCall, _Key]] = {}
        self._since: Counter[tuple[_Key, str]] = Counter()
        self._highest: tuple[int, str] = (0, "")

    def of(self, call: ToolCall) -> Mapping[str, int]:
        """How often this call returned each result."""
        self._count_new()
        key = _key(call)
        self._asked[call.id] = call, key
        return self._counts.get(key, {})

    def exceeded(self, repeated_calls: int | None) -> tuple[int, str] | None:
        """The highest repeat count and its tool, once it is `repeated_calls` beyond the note to the model."""
        self._count_new()
        if not repeated_calls or self._highest[0] < max(repeated_calls, _FIRST_NOTE) + repeated_calls:
            return None
        return self._highest

    def _count_new(self) -> None:
        for place in range(self._read, len(self._calls)):
            used = self._calls[place]
            if used.result.status == "interrupted":
                continue
            asked, key = self._asked.pop(used.call.id, (None, ("", "")))
            key, content = key if asked is used.call else _key(used.call), _content_without_notes(used.result)
            self._counts.setdefault(key, Counter())[content] += 1
            if place >= self._start:
                self._since[key, content] += 1
                self._highest = max(self._highest, (self._since[key, content], used.call.name))
        self._read = len(self._calls)


def _content_without_notes(result: ToolResult) -> str:
    """The content of a result without our notes and without the handle, which differs for each call."""
    text, _, note = result.content.rpartition(_NOTE)
    is_ours = note == f"{_AGAIN}.]" or note.startswith(_EDITED)
    content = result.whole if result.whole is not None else text if is_ours else result.content
    return f"{content}{_digest(result.attachments)}" if result.attachments else content


def _digest(shown: Sequence[Image | File]) -> str:
    """A hash that distinguishes images and files with the same text."""
    import hashlib

    return hashlib.sha256(" ".join(part.url for part in shown).encode(errors="replace")).hexdigest()


def _key(call: ToolCall) -> _Key:
    """The tool and the canonical arguments, independent of the order and spacing in the model's JSON."""
    try:
        return call.name, json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return call.name, call.arguments


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
        for guardrail in () if result.status == "waiting" or result.lead else self._guardrails:
            seen = result if result.whole is None else replace(result, content=result.whole)
            effect = CallFunction(guardrail.function, (seen,), ends - time.monotonic())
            yield effect
            reason = _objection(guardrail, effect.answer)
            if reason:
                result = _withheld_result(result, reason)
                break
            result = _apply_guardrail(result, seen, effect.answer, self._max_chars)
        self.result = result
        return result

    def run(self, result: ToolResult, ends: float) -> ToolResult:
        """The checked result, blocking; `ends` is the deadline of the run."""
        for asked in self.effects(result, ends):
            with asked.store_errors():
                work = partial(asked.function, *asked.given)
                asked.answer = execution.call(work, _timeout(asked), is_async=_is_async(asked))
        return self.result or result

    async def arun(self, result: ToolResult, ends: float) -> ToolResult:
        """Async version of `run`; a sync check runs in a thread."""
        for asked in self.effects(result, ends):
            with asked.store_errors():
                work = partial(asked.function, *asked.given)
                asked.answer = await execution.acall(work, _timeout(asked), is_async=_is_async(asked))
        return self.result or result


def _timeout(asked: CallFunction) -> float | None:
    return None if math.isinf(asked.seconds_left) else max(asked.seconds_left, 0.0)


def _is_async(asked: CallFunction) -> bool:
    return is_asynchronous(asked.function)


def _objection(guardrail: Guardrail, answer: object) -> str:
    """The reason to withhold the result, if any. A failure is given by location: its text can quote the result."""
    match answer:
        case ToolTimeout():
            return f"The guardrail {guardrail.name} did not finish in time."
        case BaseException() as error if isinstance(error, REFUSALS):
            return guardrail.refusal(error)
        case BaseException() as fault:
            return f"The guardrail {guardrail.name} failed ({type(fault).__name__}{_place(fault.__traceback__)})."
        case None | str() | ToolResult():
            return ""
    kind = type(answer).__name__
    return f"The guardrail {guardrail.name} returned {kind}; it must return None to pass, a text or another ToolResult."


def _place(traceback: TracebackType | None) -> str:
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
            whole=_clean(answer.whole if answer.whole != result.whole else updated.whole),
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


_MAX_INSPECTED = 100
_CONCURRENT = ("_thread", "threading", "queue", "_queue", "concurrent", "asyncio", "multiprocessing")
"""Modules of synchronisation objects: a function that holds one is assumed to be thread-safe."""

_ATTRIBUTES = ("__dict__", "__pydantic_private__")
"""Attributes that hold the functions called by an object."""

_IMMUTABLE = (type, types.NoneType, types.EllipsisType, types.ModuleType, types.MethodWrapperType)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)


def shared_objects(function: Callable[..., Any]) -> list[object]:
    """The mutable objects that a function is called on.

    For a method this is its object; otherwise the arguments of partials, a callable object, and the objects that
    functions in these or in the closure are called on. Other closure variables and module globals are ignored: they
    often hold a client that is designed for concurrent use. A function that holds a lock or similar is assumed to be
    thread-safe, as are those of this package: they share nothing.
    """
    owner = instance_of(function)
    return _objects_used(function) if owner is None else [owner]


def _objects_used(function: Callable[..., Any]) -> list[object]:
    found: list[object] = []
    pending: list[object] = [function]
    for position in range(_MAX_INSPECTED):
        if position == len(pending):
            break
        value = pending[position]
        if _is_concurrent(value) or _is_our_own(value):
            return []
        pending += [inner for inner in _held_objects(value) if not any(inner is each for each in pending)]
        found += [value] if _may_change(value) else []
    return found


def _is_concurrent(value: object) -> bool:
    return type(value).__module__.partition(".")[0] in _CONCURRENT


def _is_our_own(value: object) -> bool:
    place = getattr(value, "__module__", None)
    return isinstance(place, str) and place.partition(".")[0] == __name__.partition(".")[0]


def _held_objects(value: object) -> Iterator[object]:
    """The objects that a function, a method, a partial or a callable object uses."""
    match value:
        case functools.partial():
            yield from (value.func, *value.args, *value.keywords.values())
        case types.FunctionType():
            cells = _in_cells(value.__closure__ or ())
            yield from (inner for inner in cells if isinstance(inner, _FUNCTIONS) or _is_concurrent(inner))
        case types.MethodType():
            yield from (value.__func__, value.__self__)
        case types.BuiltinMethodType():
            yield value.__self__
        case tuple():
            yield from value
        case _ if callable(value) and not isinstance(value, type):
            attributes = (getattr(value, place, None) or {} for place in _ATTRIBUTES)
            yield from (inner for group in attributes for inner in group.values() if isinstance(inner, _FUNCTIONS))


def _in_cells(cells: tuple[types.CellType, ...]) -> Iterator[object]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:  # an empty cell
            continue


def _may_change(value: object) -> bool:
    """Whether a value is a mutable object: values that are compared by content and hashable are immutable."""
    if isinstance(value, _IMMUTABLE + _FUNCTIONS) or type(value) is object:
        return False
    return type(value).__hash__ in (None, object.__hash__)


_MAX_WORDS_CHARS = 50_000
"""Maximum length of a guardrail's replacement for a person's answer."""

_UNANSWERED = "The person did not answer. Continue without an answer, or say what you cannot do."


@dataclass(slots=True)
class ToolCallBatch:
    """The tool calls of the newest response. After `use`, `limit` and `handoff` hold what follows from them."""

    config: RunConfig
    policy_context: ToolPolicyContext
    run: SessionRun
    budget: Budget
    repeats: Repeats
    limit: LimitReached | None = None
    handoff: HandoffTarget | None = None
    within: str = ""
    """The tool that makes these calls; empty for calls of the model."""

    def use(self) -> Steps:
        """Give each call its result, or postpone it."""
        read = [*self.run.history, *self.run.progress.messages]
        calls = yield from self._judge(read)
        new = [judged.call.id for judged in calls if not judged.has_begun]
        granted = self.budget.take("tool_calls", len(new)) if self.budget.seconds_left > 0 else 0
        refused = set(new[granted:])
        for judged in calls:
            if judged.call.id in refused:
                yield from self._refuse_by_limit(judged)
        for together in concurrent_groups([judged for judged in calls if judged.call.id not in refused]):
            if self.budget.seconds_left > 0:
                yield from self._run(together, read)
            else:
                for judged in together:
                    yield from self._refuse_by_limit(judged)
        yield from self._follow_up()

    def _judge(self, read: Sequence[Message]) -> Generator[Event | Effect, None, list[JudgedCall]]:
        """The calls without a result that can run now. Calls beyond a limit are refused without being judged."""
        calls = []
        for place, step in enumerate(tuple(self.run.progress.steps.values())):
            limit = None if step.result is not None else self._limit_at(place, step)
            if limit is not None:
                yield from emit(self.run, ToolCallFinished(step.call, failure(step.call.name, limit, "denied")))
            elif step.result is None:
                judged = yield from self._prepare_call(step, read)
                calls += [] if judged is None else [judged]
        return calls

    def _limit_at(self, place: int, step: Step) -> str | None:
        """The reason why a call is not judged; None if it is.

        Judging takes time as well, and a response can contain tens of thousands of calls.
        """
        if step.decision is not None or step.postponed is not None:
            return None
        max_calls, late = self.budget.limits.calls_per_response, self.budget.out_of_time()
        if late is not None:
            self.limit = late
            return late.reason
        if max_calls is not None and place >= max_calls:
            return f"Only the first {max_calls:,} tool calls of a response are run. Make this call in another response."
        return None

    @property
    def _approval(self) -> HumanApproval:
        return HumanApproval(self.config, self.policy_context, self.run, self.budget, self.within)

    def _prepare_call(self, step: Step, read: Sequence[Message]) -> Generator[Event | Effect, None, JudgedCall | None]:
        """The call, ready to run; None if it already has its result or must wait."""
        if step.needs_words and step.inner is None:
            yield from self._answer_by_person(step)
            return None
        tool, was_running = self._tool(step.call.name), step.decision is not None and step.decision.allowed
        if was_running and not (tool and tool.idempotent):  # the run was killed during the call
            error = failure(step.call.name, INTERRUPTED, "interrupted", step.decision)
            yield from emit(self.run, ToolCallFinished(step.call, error))
            return None
        judged = yield from self._approval.decide(step, read)
        if judged is None or (step.inner and not (yield from self._can_resume(judged, step, read))):
            return None
        if isinstance(judged.tool, PausingTool) and not self.within:
            judged = _with_progress(judged, judged.tool, step)
        yield from emit(self.run, ToolCallStarted(judged.call, judged.decision))
        notes = self._notes_on(judged, step, read)
        if not judged.decision.allowed:
            yield from emit(self.run, ToolCallFinished(judged.call, notes.amend(judged.refusal())))
            return None
        layers = tuple(each for each in self.config.middleware if each.stage == "call")
        guardrails = self._guardrails(notes, judged.tool)
        again = partial(judge_call, policy_context=self.policy_context, read=read)
        return replace(judged, amend=notes.amend, guardrails=guardrails, layers=layers, judge_again=again)

    def _guardrails(self, notes: ResultNotes, tool: Tool[..., Any] | None = None) -> ResultGuardrails | None:
        """The checks of a call's result, applied before it is emitted; None without checks."""
        rules = self.config.answers
        guardrails = rules.of("result") if rules.guardrails else ()
        max_chars = _MAX_WORDS_CHARS if tool is None else tool.max_chars
        return ResultGuardrails(guardrails, max_chars, notes.with_labels) if guardrails else None

    def _notes_on(self, judged: JudgedCall, step: Step, read: Sequence[Message]) -> ResultNotes:
        """The notes on the call's result for the model."""
        is_edited = step.consent is not None and step.consent.arguments is not None
        labels = labels_of(read) if judged.call.name == READ_MORE else frozenset()
        earlier = self.repeats.of(judged.call)
        return ResultNotes(judged.call, earlier, self.budget.limits.repeated_calls, is_edited, labels)

    def _tool(self, name: str) -> Tool[..., Any] | None:
        """The tool of that name; None if the agent does not have it any more."""
        try:
            return self.policy_context.tools.find(name)
        except UnknownTool:
            return None

    def _can_resume(
        self, judged: JudgedCall, step: Step, read: Sequence[Message]
    ) -> Generator[Event | Effect, None, bool]:
        """Whether a call can resume that was paused while a nested call waited for a person.

        Without an answer the person is asked about the nested call: for a program, as the call would be made now; for
        an agent, as the agent asked. The agent judges the call again when it resumes.
        """
        inner = step.within
        if inner.answer is not None or not judged.decision.allowed:
            return True
        if not isinstance(judged.tool, CallingTool):
            return (yield from replace(self._approval, within=step.call.name).relay(inner))
        policy_context = self.policy_context.within(judged.tool.tools, read, self._known_labels(read))
        approval = replace(self._approval, policy_context=policy_context, within=step.call.name)
        return (yield from approval.settle(inner, [*read, *messages_of(step.made)]))

    def _answer_by_person(self, step: Step) -> Steps:
        """Make the person's answer, given now or earlier, the result of the call, with the labels of its tool."""
        answer = yield from self._approval.answer_text(step)
        if answer is None:
            return
        result = failure(step.call.name, answer.text or _UNANSWERED, "denied")
        if answer.answer != Approval.NO:
            name, tools = step.call.name, self.policy_context.tools
            labels = tools.find(name).labels if name in tools.names else frozenset(Label)
            result = ToolResult(name, "ok", answer.text, value=answer.text, labels=labels)
            guardrails = self._guardrails(ResultNotes(step.call))
            if guardrails is not None:
                result = yield from guardrails.effects(result, time.monotonic() + self.budget.seconds_left)
        yield from emit(self.run, ToolCallFinished(step.call, result))

    def _refuse_by_limit(self, judged: JudgedCall) -> Steps:
        self.limit = self.budget.out_of_time() or self.budget.limit_exceeded("tool_calls")
        error = failure(judged.call.name, self.limit.reason, "denied", judged.decision)
        yield from emit(self.run, ToolCallFinished(judged.call, error))

    def _run(self, calls: tuple[JudgedCall, ...], read: Sequence[Message]) -> Steps:
        """Run the calls; finished results are stored even if the rest is interrupted."""
        is_dry = self.policy_context.workspace.dry_run
        config, context, known = self.config, self.config.context.called("", read), self._known_labels(read)
        lineage = ParentRun(
            self.budget, self.policy_context.policies, config.approve, 0, is_dry, known, None, context, config
        )
        left = self.budget.seconds_left
        effect = UseTools(calls, {}, None if math.isinf(left) else max(left, 0.001), lineage)
        postponed: list[ToolCallPostponed] = []
        try:
            yield effect
        finally:
            for judged in calls:
                result = effect.results.get(judged.call.id)
                if result is not None and result.status == "waiting":
                    postponed.append(_postponed_event(judged.call, result))
                elif result is not None:
                    self.run.progress.apply(ToolCallFinished(judged.call, result))
            for place, event in enumerate(postponed):
                postponed[place] = self._with_distinct_id(event, read)
                self.run.progress.apply(postponed[place])
        yield from postponed

    def _with_distinct_id(self, event: ToolCallPostponed, read: Sequence[Message]) -> ToolCallPostponed:
        """The stored event with a unique id for the nested call, by which a person answers it.

        Ids are chosen by the models, so that one could give a call the id of another that a person is shown.
        """
        if event.inner is None:
            return event
        steps = [step for step in self.run.progress.steps.values() if step.call.id != event.call.id]
        taken = {call.id for call in calls_in(read)} | {step.asked.id for step in steps}
        distinct = with_distinct_ids(AssistantMessage("", (event.inner,)), taken)
        return replace(event, inner=distinct.tool_calls[0])

    def _known_labels(self, read: Sequence[Message]) -> frozenset[Label]:
        """The labels of everything read so far, including by finished calls of this response."""
        earlier = (step.result.labels for step in self.run.progress.steps.values() if step.result is not None)
        return self.policy_context.above.union(labels_of(read), *earlier)

    def _follow_up(self) -> Steps:
        """Act on the results once all are complete: hand off, or end the run with an answer."""
        for used in self.run.progress.results:
            if used.result.ok and used.result.lead:
                self.handoff = self._handoff_target(used.result)
            elif used.result.ok and getattr(self._tool(used.call.name), "ends_run", False):
                whole = used.result.value  # the content is bounded, and can contain a note for the model
                answer = whole if isinstance(whole, str) else used.result.whole or used.result.content
                yield from emit(self.run, AnswerGiven(answer))
                return

    def _handoff_target(self, result: ToolResult) -> HandoffTarget:
        """The agent to hand off to. Raises ConfigError if it is unknown in this process."""
        if isinstance(result.value, HandoffTarget):
            return result.value
        known = [*self.config.active_agent.handoff_targets.values(), *self.config.known]
        target = next((each for each in known if each.name == result.lead), None)
        if target is None:
            raise unknown_agent(result.lead, self.config.agent)
        return target


def messages_of(made: Sequence[MadeCall]) -> list[Message]:
    """The calls that a program made, as messages with their results."""
    messages: list[Message] = []
    for each in made:
        content = json.dumps(each.value) if each.error is None else failure_content(each.call.name, each.error)
        messages += [
            AssistantMessage("", (each.call,)),
            ToolMessage(each.call.id, each.call.name, content, each.labels),
        ]
    return messages


def _with_progress(judged: JudgedCall, tool: PausingTool[..., Any], step: Step) -> JudgedCall:
    """The call with its progress attached, if calls that it makes can wait.

    They can wait in a top-level run, and in the run of an agent whose own tool call can wait.
    """
    waits, above = step.within, LINEAGE.get()
    if above.depth and above.call_progress is None:
        return judged
    known = () if waits is step else (waits.postponed, waits.answer)
    call_progress = CallProgress(judged.call.name, step.made, tuple(each for each in known if each is not None))
    return replace(judged, tool=tool.with_progress(call_progress), has_begun=waits is not step or bool(step.made))


def _postponed_event(call: ToolCall, result: ToolResult) -> ToolCallPostponed:
    """The stored event of a waiting call, or of a call with a waiting nested call."""
    pause, usage = result.pause, result.usage
    if pause is None:
        return ToolCallPostponed(call, result.error or "", usage=usage)
    return ToolCallPostponed(
        call, pause.question, pause.decision, pause.folder, pause.call, pause.made, usage, pause.inner_run, pause.bound
    )


def concurrent_groups(calls: Sequence[JudgedCall]) -> list[tuple[JudgedCall, ...]]:
    """Group the calls into rounds that run concurrently; calls that share an object run in separate rounds, in order.

    A model that requests `cd` and `ls` in one response expects this order, and two threads would modify one object
    concurrently.
    """
    if len(calls) == 1:
        return [tuple(calls)]
    found: list[list[JudgedCall]] = []
    places: dict[int, int] = {}
    for judged in calls:
        shared = list(map(id, _shared_by_tool(judged.tool)))
        place = max((places.get(each, 0) for each in shared), default=0)
        places.update(dict.fromkeys(shared, place + 1))
        found += [[]] if place == len(found) else []
        found[place].append(judged)
    return list(map(tuple, found))


def _shared_by_tool(tool: Tool[..., Any] | None) -> list[object]:
    """The mutable objects that calls of a tool share; empty for async tools, which handle concurrency themselves."""
    return [] if tool is None or tool.is_async else shared_objects(tool.function)


def unknown_agent(name: str, agent: str) -> ConfigError:
    """The error for resuming a run whose active agent is unknown to the program."""
    return ConfigError(
        f"The conversation is owned by {name!r}, which is not among the handoffs of {agent!r}. Pass the agent with "
        "resume(..., agents=[...]), or add it to handoffs=."
    )
