"""Tool calls of one response: judged, approved, executed, checked, and answered with one result each."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.budget import Budget
from agentkit.agents.effects import Effect, Steps, UseTools, emit
from agentkit.agents.guardrails import ResultGuardrails
from agentkit.agents.human_approval import HumanApproval
from agentkit.agents.run_config import LINEAGE, CallingTool, HandoffTarget, ParentRun, PausingTool, RunConfig
from agentkit.agents.tool_policy import CallProgress, JudgedCall, ToolPolicyContext, judge_call
from agentkit.content import File, Image
from agentkit.decisions import Label, Verdict
from agentkit.errors import ConfigError, UnknownTool
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
    labels_of,
    with_distinct_ids,
)
from agentkit.safety.approval import Approval
from agentkit.sessions.session import SessionRun
from agentkit.sessions.state import INTERRUPTED, Step
from agentkit.tooling.execution import shared_objects
from agentkit.tooling.results import failure, with_handle
from agentkit.tooling.tool import Tool

_NOTE = "\n\n[Note: "
_EDITED = "a person changed the arguments of this call to "
_REPEATED_CALL = "this call with these arguments has already returned this result; do something else, or answer"

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
            result = replace(
                result, status="ok", content=f"The conversation was handed off to {name}.", handoff_to=name
            )
        return replace(result, labels=result.labels | self.labels) if self.labels else result

    def amend(self, result: ToolResult) -> ToolResult:
        """The result as sent to the model, with notes."""
        notes = []
        result = self.with_labels(result)
        before = self.earlier.get(_content_without_notes(result), 0)
        if result.full_content is not None:
            result = with_handle(result, self.call.id)
        if self.is_edited:
            notes.append(f"{_EDITED}{self.call.arguments}")
        if self.repeated_calls and before + 1 >= max(self.repeated_calls, _FIRST_NOTE):
            notes.append(_REPEATED_CALL)
        return replace(result, content=f"{result.content}{_NOTE}{'; '.join(notes)}.]") if notes else result


class Repeats:
    """Counts how often each call returned each result. `calls` can grow; each is counted once.

    Calls present at the start belong to an earlier part of a resumed run: they count for the note to the model, but not
    for the limit, which applies to the calls to come.
    """

    def __init__(self, calls: Sequence[ToolCallFinished]) -> None:
        self._calls, self._read, self._start = calls, 0, len(calls)
        self._counts: dict[_Key, Counter[str]] = {}
        self._judged: dict[str, tuple[ToolCall, _Key]] = {}
        self._new_counts: Counter[tuple[_Key, str]] = Counter()
        self._highest: tuple[int, str] = (0, "")

    def of(self, call: ToolCall) -> Mapping[str, int]:
        """How often this call returned each result."""
        self._count_new()
        key = _key(call)
        self._judged[call.id] = call, key
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
            judged, key = self._judged.pop(used.call.id, (None, ("", "")))
            key, content = key if judged is used.call else _key(used.call), _content_without_notes(used.result)
            self._counts.setdefault(key, Counter())[content] += 1
            if place >= self._start:
                self._new_counts[key, content] += 1
                self._highest = max(self._highest, (self._new_counts[key, content], used.call.name))
        self._read = len(self._calls)


def _content_without_notes(result: ToolResult) -> str:
    """The content of a result without our notes and without the handle, which differs for each call."""
    text, _, note = result.content.rpartition(_NOTE)
    is_ours = note == f"{_REPEATED_CALL}.]" or note.startswith(_EDITED)
    content = result.full_content if result.full_content is not None else text if is_ours else result.content
    return f"{content}{_digest(result.attachments)}" if result.images or result.files else content


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


_MAX_ANSWER_CHARS = 50_000
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
        new = [judged.call.id for judged in calls if not judged.has_started]
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

    def _limit_at(self, index: int, step: Step) -> str | None:
        """The reason why a call is not judged; None if it is.

        Judging takes time as well, and a response can contain tens of thousands of calls.
        """
        if step.decision is not None or step.postponed is not None:
            return None
        max_calls, late = self.budget.limits.calls_per_response, self.budget.out_of_time()
        if late is not None:
            self.limit = late
            return late.reason
        if max_calls is not None and index >= max_calls:
            return f"Only the first {max_calls:,} tool calls of a response are run. Make this call in another response."
        return None

    @property
    def _approval(self) -> HumanApproval:
        return HumanApproval(self.config, self.policy_context, self.run, self.budget, self.within)

    def _prepare_call(self, step: Step, read: Sequence[Message]) -> Generator[Event | Effect, None, JudgedCall | None]:
        """The call, ready to run; None if it already has its result or must wait."""
        if step.needs_text and step.inner is None:
            yield from self._answer_by_person(step)
            return None
        tool, was_running = self._tool(step.call.name), step.decision is not None and step.decision.allowed
        if was_running and not (tool and tool.idempotent):  # the run was killed during the call
            error = failure(step.call.name, INTERRUPTED, "interrupted", step.decision)
            yield from emit(self.run, ToolCallFinished(step.call, error))
            return None
        call = judge_call(step.call, self.policy_context, read)
        needs_person = step.postponed is not None or call.decision.verdict is Verdict.ASK
        judged = (yield from self._approval.decide(call, step, read)) if needs_person else call
        if judged is None or (step.inner and not (yield from self._can_resume(judged, step, read))):
            return None
        if isinstance(judged.tool, PausingTool) and not self.within:
            judged = _with_progress(judged, judged.tool, step)
        yield from emit(self.run, ToolCallStarted(judged.call, judged.decision))
        labels = labels_of(read) if judged.call.name == READ_MORE else frozenset()
        is_edited = step.consent is not None and step.consent.arguments is not None
        earlier, max_repeats = self.repeats.of(judged.call), self.budget.limits.repeated_calls
        notes = ResultNotes(judged.call, earlier, max_repeats, is_edited, labels)
        if not judged.decision.allowed:
            yield from emit(self.run, ToolCallFinished(judged.call, notes.amend(judged.refusal())))
            return None
        layers = tuple(each for each in self.config.middleware if each.stage == "call")
        guardrails = self._guardrails(notes, judged.tool) if self.config.answers.guardrails else None
        judge_again = partial(judge_call, policy_context=self.policy_context, read=read)
        return replace(judged, amend=notes.amend, guardrails=guardrails, layers=layers, judge_again=judge_again)

    def _guardrails(self, notes: ResultNotes, tool: Tool[..., Any] | None = None) -> ResultGuardrails | None:
        """The checks of a call's result, applied before it is emitted; None without checks."""
        guardrails = self.config.answers.of("result")
        max_chars = _MAX_ANSWER_CHARS if tool is None else tool.max_chars
        return ResultGuardrails(guardrails, max_chars, notes.with_labels) if guardrails else None

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
            budget=self.budget,
            policies=self.policy_context.policies,
            approve=config.approve,
            dry_run=is_dry,
            read=known,
            context=context,
            config=config,
        )
        seconds_left = self.budget.seconds_left
        effect = UseTools(calls, {}, None if math.isinf(seconds_left) else max(seconds_left, 0.001), lineage)
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
        taken = {call.id for call in calls_in(read)} | {step.pending_call.id for step in steps}
        distinct = with_distinct_ids(AssistantMessage("", (event.inner,)), taken)
        return replace(event, inner=distinct.tool_calls[0])

    def _known_labels(self, read: Sequence[Message]) -> frozenset[Label]:
        """The labels of everything read so far, including by finished calls of this response."""
        earlier = (step.result.labels for step in self.run.progress.steps.values() if step.result is not None)
        return self.policy_context.parent_labels.union(labels_of(read), *earlier)

    def _follow_up(self) -> Steps:
        """Act on the results once all are complete: hand off, or end the run with an answer."""
        for used in self.run.progress.results:
            if used.result.ok and used.result.handoff_to:
                self.handoff = self._handoff_target(used.result)
            elif used.result.ok and getattr(self._tool(used.call.name), "ends_run", False):
                value = used.result.value  # the content is bounded, and can contain a note for the model
                answer = value if isinstance(value, str) else used.result.full_content or used.result.content
                yield from emit(self.run, AnswerGiven(answer))
                return

    def _handoff_target(self, result: ToolResult) -> HandoffTarget:
        """The agent to hand off to. Raises ConfigError if it is unknown in this process."""
        if isinstance(result.value, HandoffTarget):
            return result.value
        known = [*self.config.active_agent.handoff_targets.values(), *self.config.known]
        target = next((each for each in known if each.name == result.handoff_to), None)
        if target is None:
            raise unknown_agent(result.handoff_to, self.config.context.agent)
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
    waiting_step, parent = step.within, LINEAGE.get()
    if parent.depth and parent.call_progress is None:
        return judged
    known = () if waiting_step is step else (waiting_step.postponed, waiting_step.answer)
    call_progress = CallProgress(judged.call.name, step.made, tuple(each for each in known if each is not None))
    return replace(
        judged, tool=tool.with_progress(call_progress), has_started=waiting_step is not step or bool(step.made)
    )


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
    group_indexes: dict[int, int] = {}
    for judged in calls:
        shared = list(map(id, _shared_by_tool(judged.tool)))
        index = max((group_indexes.get(each, 0) for each in shared), default=0)
        group_indexes.update(dict.fromkeys(shared, index + 1))
        found += [[]] if index == len(found) else []
        found[index].append(judged)
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
