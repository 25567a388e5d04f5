"""Approval requests of a run: the question put to a person, and the effect of the answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.approval_binding import binding
from agentkit.agents.budget import Budget
from agentkit.agents.effects import WORDS, AskPerson, Question, Steps, tell
from agentkit.agents.result import GivenApprover
from agentkit.agents.run_config import ParentRun, RunConfig
from agentkit.agents.tool_policy import JudgedCall, ToolPolicyContext, judge_call
from agentkit.decisions import Decision, Verdict
from agentkit.events import Approved, Event, ToolCallPostponed
from agentkit.messages import Message, arguments_of
from agentkit.recording import is_replaying
from agentkit.safety.approval import NOBODY, Approval, ApprovalRequest, Approver, ApproverAnswer, answered
from agentkit.sessions.run_log import SessionRun
from agentkit.sessions.run_state import Step
from agentkit.tooling.arguments import copied
from agentkit.tooling.run_context import NO_RUN, RunContext, can_be_called, check_value, run_parameter_of


@dataclass(frozen=True, slots=True)
class HumanApproval:
    """Who is asked about calls of a run, which the bench judges; `within` is the tool whose call makes them, if any."""

    plan: RunConfig
    bench: ToolPolicyContext
    run: SessionRun
    budget: Budget
    within: str = ""

    def decided(self, step: Step, read: Sequence[Message]) -> Generator[Event | Question, None, JudgedCall | None]:
        """The call with the decision on it, by a person where that must be; None when it must wait."""
        judged = self._judged(step, read)
        if judged.decision.verdict is Verdict.ASK:
            return (yield from self._approved(judged, step, read))
        return judged

    def settled(self, step: Step, read: Sequence[Message]) -> Generator[Event | Question, None, bool]:
        """Whether it is settled by now what becomes of a call that waits."""
        if step.needs_words:
            return (yield from self.words(step)) is not None
        return (yield from self.decided(step, read)) is not None

    def relayed(self, step: Step) -> Generator[Event | Question, None, bool]:
        """Whether a person has said by now what an agent that is at work waits for."""
        waits, call = step.postponed, step.call
        if waits is None or waits.decision is None:
            return (yield from self.words(step)) is not None
        agent, arguments = str(waits.inner_run.get("agent", "")), arguments_of(call)
        arguments = arguments if isinstance(arguments, dict) else {"arguments": arguments}
        request = ApprovalRequest(agent, call.name, arguments, waits.decision, waits.folder, call.id, self.within)
        answer = yield from self._asked(step, request)
        if answer.answer != Approval.LATER:
            yield from tell(self.run, answer)
        return answer.answer != Approval.LATER

    def words(self, step: Step) -> Generator[Event | Question, None, Approved | None]:
        """What a person says to a question, now or before; None as long as nobody says anything."""
        answer = step.answer
        if answer is None:
            asked = Decision(Verdict.ASK, WORDS, step.question)
            request = ApprovalRequest(self.plan.agent, step.call.name, {}, asked, "", step.call.id, self.within)
            answer = yield from self._asked(step, request)
            if answer.answer == Approval.LATER or answer.text == NOBODY.text:
                return None
            yield from tell(self.run, answer)
        return answer

    def _judged(self, step: Step, read: Sequence[Message]) -> JudgedCall:
        """The call with the decision on it; one about which a person was asked is the person's to decide."""
        judged, postponed = judge_call(step.call, self.bench, read), step.postponed
        if postponed is None or postponed.inner is not None:
            return judged
        if postponed.decision is not None and judged.decision.allowed:
            return replace(judged, decision=postponed.decision)
        return judged

    def _approved(
        self, judged: JudgedCall, step: Step, read: Sequence[Message]
    ) -> Generator[Event | Question, None, JudgedCall | None]:
        """The call with the decision that a person's answer, now or earlier, makes of `ask`; None when it must wait.

        The person sees a copy of the arguments: what runs is what was judged.
        """
        bench, kept, waits = self.bench, copied(judged.arguments), step.postponed
        bound = binding(judged.tool, judged.arguments, bench.workspace.folder)
        request = ApprovalRequest(
            self.plan.agent,
            judged.call.name,
            kept,
            judged.decision,
            bench.workspace.folder,
            judged.call.id,
            self.within,
            bound,
        )
        answer, then = step.consent, bound if waits is None or waits.inner is not None else waits.bound
        if answer is None:
            decision = bench.grants.applied(request)
            if decision.allowed and waits is None:
                return replace(judged, decision=decision, by_person=True, bound=bound)
            request = replace(request, bound=then)
            answer = yield from self._asked(step, replace(request, arguments=copied(judged.arguments)))
            if answer.answer == Approval.LATER and decision.allowed:  # by what was said of a call like it since
                return replace(judged, decision=decision, by_person=True, bound=bound)
            if answer.answer == Approval.LATER:
                yield from self._postpone(step, request)
                return None
            yield from tell(self.run, answer)
            bench.grants.enter(request, _lasting(Approval(answer.answer)))
        return self._decided(replace(judged, bound=answer.bound or then), answer, read)

    def _decided(self, judged: JudgedCall, said: Approved, read: Sequence[Message]) -> JudgedCall:
        """The call as the person's answer leaves it: other arguments are judged anew, and `deny` still binds."""
        if said.arguments is not None:
            judged = judge_call(replace(judged.call, arguments=said.arguments), self.bench, read)
            bound = binding(judged.tool, judged.arguments, self.bench.workspace.folder)
            judged = replace(judged, bound=bound)
        judged = replace(judged, by_person=True)
        if judged.decision.verdict is not Verdict.ASK:
            return judged
        return replace(judged, decision=answered(judged.decision, ApproverAnswer(Approval(said.answer), said.text)))

    def _asked(self, step: Step, request: ApprovalRequest) -> Generator[Event | Question, None, Approved]:
        approve, left = self.plan.said(step.call) or self.plan.approve, self.budget.seconds_left
        late = self.budget.out_of_time() if left <= 0 else None
        if late is not None:  # nobody is asked what cannot happen any more
            return Approved(request.call_id, Approval.NO.value, late.reason)
        question = AskPerson(request, approve, seconds_left=left)
        yield question
        return question.answer or question.nobody

    def _postpone(self, step: Step, request: ApprovalRequest) -> Steps:
        if step.postponed is None or step.inner is not None:
            yield from tell(self.run, _waiting(step, request))


def _waiting(step: Step, request: ApprovalRequest) -> ToolCallPostponed:
    return ToolCallPostponed(step.call, str(request), request.decision, request.folder, bound=request.bound)


def _lasting(approval: Approval) -> Approval:
    """How long an approval counts: what a recording has somebody say ends with the run that replays it."""
    return Approval.RUN if approval is Approval.ALWAYS and is_replaying() else approval


_CANNOT_WAIT = "The person wants to decide later, and a run inside another run cannot wait."


def is_approver(value: object) -> bool:
    """Whether it is a function that a run can ask."""
    return callable(value) and can_be_called(told_of_run(value, NO_RUN), object())


def approver_in(context: RunContext[Any], approve: GivenApprover | None, above: ParentRun) -> Approver | None:
    """Who is asked in a run: its agent's own approver, or else that of the agents above. Not every call can wait."""
    asked = above.approve if approve is None else told_of_run(approve, context)
    return without_waiting(asked) if above.depth and above.sitting is None else asked


def told_of_run(approve: Callable[..., Any], context: RunContext[Any]) -> Approver:
    """The approver as that run asks it, with the request alone."""
    of_run = run_parameter_of(approve)
    return approve if of_run is None else of_run.bound(approve, context)


def check_approver(approve: GivenApprover | None, value: Any) -> None:
    """Raise ConfigError when what a run was given is not what its approver says that it gets."""
    of_run = None if approve is None else run_parameter_of(approve)
    if of_run is not None:
        check_value(value, [of_run.parameter], "The approver")


def without_waiting(approver: Approver | None) -> Approver | None:
    """The approver of a run inside another: what it wants to answer later is a no."""
    return None if approver is None else _AtOnce(approver)


class _AtOnce:
    """An approver that never answers later, whether it must be awaited or not."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    def __call__(self, request: ApprovalRequest) -> Any:
        said = self._approver(request)
        return self._awaited(said) if inspect.isawaitable(said) else _at_once(said)

    async def _awaited(self, said: Any) -> Any:
        return _at_once(await said)


def _at_once(said: object) -> object:
    return _CANNOT_WAIT if said is Approval.LATER else said
