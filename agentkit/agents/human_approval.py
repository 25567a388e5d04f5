"""Approval requests of a run: the question put to a person, the effect of the answer, and later answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.budget import Budget
from agentkit.agents.effects import AskPerson, Effect, Steps, emit
from agentkit.agents.result import Answers, GivenApprover
from agentkit.agents.run_config import LINEAGE, CallingTool, ParentRun, RunConfig
from agentkit.agents.tool_policy import (
    JudgedCall,
    ToolPolicyContext,
    approval_binding,
    judge_call,
    with_diff,
    without_diff,
)
from agentkit.decisions import Decision, Verdict
from agentkit.errors import BadArguments, ConfigError, UnknownTool
from agentkit.event_rendering import content_text
from agentkit.events import Approved, Event, ToolCallPostponed
from agentkit.messages import Message, ToolCall, UserMessage, arguments_of
from agentkit.recording import is_replaying
from agentkit.safety.approval import (
    NO_PREVIEW,
    NOBODY,
    WORDS,
    Approval,
    ApprovalRequest,
    Approver,
    ApproverAnswer,
    CallPreview,
    answered,
    is_mistaken,
)
from agentkit.sessions.session import SessionRun
from agentkit.sessions.state import Step
from agentkit.tooling.arguments import copy_arguments
from agentkit.tooling.run_context import NO_RUN, RunContext, accepts, check_value, run_parameter_of
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset


@dataclass(frozen=True, slots=True)
class HumanApproval:
    """Approval of the calls of a run, judged in `policy_context`; `within` is the tool that made them, if any."""

    config: RunConfig
    policy_context: ToolPolicyContext
    run: SessionRun
    budget: Budget
    within: str = ""

    def decide(
        self, judged: JudgedCall, step: Step, read: Sequence[Message]
    ) -> Generator[Event | Effect, None, JudgedCall | None]:
        """The judged call with its decision, made by a person if the policy asks; None if the call must wait.

        Once a person was asked about it, `allow` does not replace the person's decision.
        """
        postponed = step.postponed
        if postponed is not None and postponed.inner is None and postponed.decision is not None:
            judged = replace(judged, decision=postponed.decision) if judged.decision.allowed else judged
        if judged.decision.verdict is Verdict.ASK:
            return (yield from self._approve(judged, step, read))
        return judged

    def settle(self, step: Step, read: Sequence[Message]) -> Generator[Event | Effect, None, bool]:
        """Whether a waiting call now has a decision or an answer."""
        if step.needs_text:
            return (yield from self.answer_text(step)) is not None
        return (yield from self.decide(judge_call(step.call, self.policy_context, read), step, read)) is not None

    def relay(self, step: Step) -> Generator[Event | Effect, None, bool]:
        """Whether a person has now answered what a nested agent waits for."""
        postponed, call = step.postponed, step.call
        if postponed is None or postponed.decision is None:
            return (yield from self.answer_text(step)) is not None
        agent, arguments = str(postponed.inner_run.get("agent", "")), arguments_of(call)
        arguments = arguments if isinstance(arguments, dict) else {"arguments": arguments}
        request = ApprovalRequest(
            agent,
            call.name,
            arguments,
            postponed.decision,
            postponed.folder,
            call.id,
            self.within,
            preview=self._nested_preview(agent, call, postponed.folder),
            task=_task_of(postponed.inner_run),
        )
        answer = yield from self._ask_person(request, self.config.prepared_answer(call))
        if answer.answer != Approval.LATER:
            yield from emit(self.run, answer)
        return answer.answer != Approval.LATER

    def _nested_preview(self, agent: str, call: ToolCall, folder: str) -> CallPreview:
        """The effect that a nested agent's call would have now; empty if its tool or workspace is unknown here."""
        policy_context = self.policy_context
        if folder != policy_context.workspace.folder or self.within not in policy_context.tools.names:
            return NO_PREVIEW
        function = policy_context.tools.find(self.within).function
        runners = (each for each in getattr(function, "agents", ()) if each.name == agent)
        tools = next((each.tools for each in runners), Toolset())
        if call.name not in tools.names:
            return NO_PREVIEW
        tool = tools.find(call.name).within(policy_context.workspace)
        arguments, _ = tool.decide(call.arguments, None)
        return tool.preview(arguments) if arguments else NO_PREVIEW

    def answer_text(self, step: Step) -> Generator[Event | Effect, None, Approved | None]:
        """A person's answer to a question, given now or earlier; None without an answer."""
        answer = step.answer
        if answer is None:
            decision = Decision(Verdict.ASK, WORDS, step.question)
            request = ApprovalRequest(
                self.config.context.agent, step.call.name, {}, decision, "", step.call.id, self.within, task=self._task
            )
            answer = yield from self._ask_person(request, self.config.prepared_answer(step.call))
            if answer.answer == Approval.LATER or answer.text == NOBODY.text:
                return None
            yield from emit(self.run, answer)
        return answer

    @property
    def _task(self) -> str:
        """The prompt of a nested run, which another agent or a tool has written; empty in a top-level run."""
        messages = self.run.progress.messages if LINEAGE.get().depth else []
        return content_text(messages[0].content) if messages and isinstance(messages[0], UserMessage) else ""

    def _approve(
        self, judged: JudgedCall, step: Step, read: Sequence[Message]
    ) -> Generator[Event | Effect, None, JudgedCall | None]:
        """Apply a person's answer, given now or earlier, to a call with the verdict `ask`; None if the call must wait.

        The person sees a copy of the arguments, so that the call runs with the arguments that were judged.
        """
        policy_context, arguments, postponed = self.policy_context, copy_arguments(judged.arguments), step.postponed
        bound = approval_binding(judged.tool, judged.arguments, policy_context.workspace.folder)
        request = ApprovalRequest(
            self.config.context.agent,
            judged.call.name,
            arguments,
            judged.decision,
            policy_context.workspace.folder,
            judged.call.id,
            self.within,
            bound,
            task=self._task,
        )
        answer, shown_bound = (
            step.consent,
            bound if postponed is None or postponed.inner is not None else postponed.bound,
        )
        if answer is None:
            preview = NO_PREVIEW if judged.tool is None else judged.tool.preview(judged.arguments)
            request = replace(request, preview=preview)
            decision = policy_context.grants.applied(request)
            if decision.allowed and postponed is None:
                return replace(judged, decision=decision, by_person=True, bound=bound)
            request = replace(request, bound=without_diff(shown_bound))
            prepared = self.config.prepared_answer(step.call)
            if postponed is None or prepared is None:  # else the answer is about the diff that was shown then
                shown_bound = with_diff(request.bound, preview.diff)
            answer = yield from self._ask_person(replace(request, arguments=copy_arguments(judged.arguments)), prepared)
            if answer.answer == Approval.LATER and decision.allowed:  # by an approval given since for a similar call
                return replace(judged, decision=decision, by_person=True, bound=bound)
            if answer.answer == Approval.LATER:
                yield from self._postpone(step, replace(request, bound=shown_bound))
                return None
            yield from emit(self.run, answer)
            policy_context.grants.enter(request, Approval(answer.answer), lasting=not is_replaying())
        return self._apply_answer(replace(judged, bound=shown_bound), answer, read)

    def _apply_answer(self, judged: JudgedCall, answer: Approved, read: Sequence[Message]) -> JudgedCall:
        """Apply the person's answer: changed arguments are judged again, and a `deny` still applies."""
        if answer.arguments is not None:
            judged = judge_call(replace(judged.call, arguments=answer.arguments), self.policy_context, read)
            bound = approval_binding(judged.tool, judged.arguments, self.policy_context.workspace.folder)
            judged = replace(judged, bound=bound)
        judged = replace(judged, by_person=True)
        if judged.decision.verdict is not Verdict.ASK:
            return judged
        return replace(judged, decision=answered(judged.decision, ApproverAnswer(Approval(answer.answer), answer.text)))

    def _ask_person(
        self, request: ApprovalRequest, prepared: Approver | None
    ) -> Generator[Event | Effect, None, Approved]:
        """The prepared answer, or that of the run's approver."""
        approve, left = prepared or self.config.approve, self.budget.seconds_left
        late = self.budget.out_of_time() if left <= 0 else None
        if late is not None:  # do not ask about a call that cannot run any more
            return Approved(request.call_id, Approval.NO.value, late.reason)
        if request.preview.failure:
            approve = _impossible
        effect = AskPerson(request, approve, seconds_left=left)
        yield effect
        return effect.answer or effect.unanswered

    def _postpone(self, step: Step, request: ApprovalRequest) -> Steps:
        if step.postponed is None or step.inner is not None:
            yield from emit(self.run, _postponed_event(step, request))


def _task_of(inner_run: Mapping[str, Any]) -> str:
    """The prompt of a nested agent's paused run, serialised by `RunResult.to_json`."""
    match inner_run.get("events"):
        case [{"prompt": str(prompt)}, *_]:
            return prompt
    return ""


def _postponed_event(step: Step, request: ApprovalRequest) -> ToolCallPostponed:
    return ToolCallPostponed(step.call, str(request), request.decision, request.folder, bound=request.bound)


def _impossible(request: ApprovalRequest) -> Any:
    """The approver of a call that cannot succeed; as an approver, its answer is recorded and replayed."""
    return ApproverAnswer(Approval.IMPOSSIBLE, request.preview.failure)


_CANNOT_WAIT = "The approver postponed the decision, but a run inside another run cannot wait."


def answer_later(_request: ApprovalRequest) -> Approval:
    """The approver that pauses the run: the call waits until `resume` answers."""
    return Approval.LATER


def is_approver(value: object) -> bool:
    """Whether a value can be called as an approver."""
    return callable(value) and accepts(approver_within(value, NO_RUN), object())


def approver_in(context: RunContext[Any], approve: GivenApprover | None, parent: ParentRun) -> Approver | None:
    """The approver of a run: its agent's own, or that of the parent run. Not every call can wait."""
    approver = parent.approve if approve is None else approver_within(approve, context)
    return without_waiting(approver) if parent.depth and parent.call_progress is None else approver


def approver_within(approve: Callable[..., Any], context: RunContext[Any]) -> Approver:
    """The approver with its RunContext parameter bound, so that it takes only the request."""
    of_run = run_parameter_of(approve)
    return approve if of_run is None else of_run.bound(approve, context)


def check_approver(approve: GivenApprover, value: Any) -> None:
    """Raise ConfigError if the context of a run does not match the approver's annotation."""
    of_run = run_parameter_of(approve)
    if of_run is not None:
        check_value(value, [of_run.parameter], "The approver")


def without_waiting(approver: Approver | None) -> Approver | None:
    """The approver of a nested run that cannot wait: LATER becomes a refusal."""
    return None if approver is None else _NoWaiting(approver)


class _NoWaiting:
    """An approver, sync or async, that refuses instead of answering LATER."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    def __call__(self, request: ApprovalRequest) -> Any:
        answer = self._approver(request)
        return self._await_answer(answer) if inspect.isawaitable(answer) else _without_later(answer)

    async def _await_answer(self, answer: Any) -> Any:
        return _without_later(await answer)


def _without_later(answer: object) -> object:
    return _CANNOT_WAIT if answer is Approval.LATER else answer


def with_answers(config: RunConfig, answers: Answers | None, waiting: Sequence[Step]) -> RunConfig:
    """The configuration for resuming with these answers; without an approver calls keep waiting.

    An answer applies once, to a call that waits now, not to later calls of the run or of nested runs: the agent's own
    approver is asked about those. Raises ConfigError for an invalid answer, and for the id of a call that does not
    wait.
    """
    config = replace(config, approve=config.approve or answer_later)
    if answers is None:
        return config
    if isinstance(answers, Mapping):
        _check_answers(answers, waiting, config.policy_context.tools)
        return replace(config, prepared_answer=_LaterAnswers(answers, waiting))
    if isinstance(answers, bool | str) and _is_clear(answers, waiting):
        of_all = {
            step.pending_call.id: answers
            for step in waiting
            if (not (step.needs_text and isinstance(answers, bool | Approval)))
        }
        return replace(config, prepared_answer=_LaterAnswers(of_all, waiting))
    if callable(answers):
        return replace(config, approve=approver_within(answers, config.context))
    raise _no_answer("", answers)


def _check_answers(answers: Mapping[str, Any], waiting: Sequence[Step], tools: Toolset) -> None:
    """Raise ConfigError for an answer to an unknown call, and for one that does not fit its call."""
    ids = [step.pending_call.id for step in waiting]
    unknown = [str(each) for each in answers if each not in ids]
    if unknown:
        known_ids = ", ".join(ids) or "none"
        other = f" To give it other arguments, write {{{ids[0]!r}: {{...}}}}." if len(ids) == 1 else ""
        raise ConfigError(
            f"No call with the id {', '.join(unknown)} waits for an answer. These do: {known_ids}.{other}"
        )
    for step in waiting:
        call_id = step.pending_call.id
        answer = answers.get(call_id)
        if call_id in answers and not _is_valid_answer(answer, step):
            raise _no_answer(f" the call {call_id!r}", answer)
        if isinstance(answer, Mapping) and not step.needs_text:
            _check_arguments(answer, step, tools)


def _check_arguments(arguments: Mapping[str, Any], step: Step, tools: Toolset) -> None:
    """Raise ConfigError if the tool does not accept the arguments with which a person replaces those of the call."""
    if step.postponed is None or step.postponed.inner_run:  # the worker's own tools are not known here
        return
    tools = tools if step.inner is None else _tools_of(step.call.name, tools)
    try:
        tools.find(step.pending_call.name).check(arguments)
    except UnknownTool:
        return  # `check_waiting` reports it
    except BadArguments as error:
        raise ConfigError(
            f"The call {step.pending_call.id!r} cannot have these arguments: {error} Nothing was answered."
        ) from error


def check_waiting(steps: Iterable[Step], policy_context: ToolPolicyContext) -> None:
    """Raise ConfigError if a waiting call would differ here: its tool is missing, or its folder is another one."""
    for step in steps:
        postponed, tools = step.postponed, policy_context.tools
        if postponed is None or step.result is not None:
            continue
        if postponed.inner_run:  # the nested run checks its calls when it resumes
            _ = _require_tool(step.call.name, tools)
            continue
        if postponed.inner is not None:
            tools = _tools_of(step.call.name, tools)
        if postponed.decision is None:
            continue
        tool, here = _require_tool(postponed.pending_call.name, tools), policy_context.workspace.folder
        if tool.is_in_workspace and postponed.folder not in ("", here):
            raise ConfigError(
                f"The call of {tool.name!r} waits for approval in {postponed.folder!r}, but the workspace is {here!r}. "
                f"Set workspace={postponed.folder!r}. Nothing was answered."
            )


def _require_tool(name: str, tools: Toolset) -> Tool[..., Any]:
    """The tool of that name. Raises ConfigError if the agent does not have it."""
    if name in tools.names:
        return tools.find(name)
    known_names = ", ".join(tools.names) or "none"
    raise ConfigError(
        f"A call of {name!r} waits for approval, but this agent has no such tool ({known_names}). Nothing was "
        f"answered. Add the tool to the agent's tools=."
    )


def _tools_of(name: str, tools: Toolset) -> Toolset:
    """The tools that a tool can call. Raises ConfigError if it is missing or makes no calls."""
    tool = _require_tool(name, tools)
    if isinstance(tool, CallingTool):
        return tool.tools
    raise ConfigError(
        f"A call made by {name!r} waits for approval, but the {name!r} of this agent makes no calls. Nothing was "
        f"answered."
    )


def _no_answer(to: str, answer: object) -> ConfigError:
    return ConfigError(
        "Answer waiting calls with True, False, an Approval, or a text with the reason for a refusal; with a "
        "dictionary from the ids in result.pending to any of these or to other arguments; or with a function of an "
        "ApprovalRequest. "
        f"Got {answer!r:.200}{' for' if to else ''}{to}. Nothing was answered."
    )


def _is_valid_answer(answer: object, step: Step) -> bool:
    """Whether the answer fits this call; a call that waits for a text takes any value."""
    if step.needs_text:
        return answer is not None and not callable(answer)
    return isinstance(answer, bool | str | Approval | ApproverAnswer | Mapping) and not is_mistaken(answer)


def _is_clear(answer: object, waiting: Sequence[Step]) -> bool:
    """Whether one answer for all is unambiguous: a text that reads as a yes is not accepted as approval."""
    return not is_mistaken(answer) or all(step.needs_text for step in waiting)


class _LaterAnswers:
    """Answers to waiting calls; each applies once, to the call with the same id, tool and arguments."""

    def __init__(self, answers: Mapping[str, Any], waiting: Sequence[Step]) -> None:
        calls = (step.pending_call for step in waiting)
        self._answers = {call.id: (call, answers[call.id]) for call in calls if call.id in answers}

    def __call__(self, call: ToolCall) -> Approver | None:
        """An approver for this call only; None if it was not answered."""
        answered_call, answer = self._answers.get(call.id, (None, None))
        if answered_call != call:
            return None
        del self._answers[call.id]
        return partial(_prepared_answer, answer)


def _prepared_answer(answer: Any, request: ApprovalRequest) -> Any:
    is_word = isinstance(answer, bool) and request.decision.rule == WORDS
    return ("yes" if answer else "no") if is_word else answer
