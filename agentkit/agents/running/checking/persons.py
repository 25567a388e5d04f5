"""What does a person say of a call? The question put to whoever answers for one, and what the answer makes of it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from agentkit.agents.running.binding import binding
from agentkit.agents.running.budget import Budget
from agentkit.agents.running.plan import Plan
from agentkit.agents.running.questions import WORDS, AskPerson, Question, Steps, tell
from agentkit.agents.running.tool_call import Bench, JudgedCall, judge_call
from agentkit.decisions import Decision, Verdict
from agentkit.events import Approved, Event, ToolCallPostponed
from agentkit.memory.progress import Step
from agentkit.memory.run import SessionRun
from agentkit.messages import Message, arguments_of
from agentkit.safety.approval import NOBODY, Answer, Approval, ApprovalRequest, answered
from agentkit.slotted import dataclass
from agentkit.tape import is_replaying
from agentkit.tooling.arguments import copied


@dataclass(frozen=True, slots=True)
class Persons:
    """Who is asked about calls of a run, which the bench judges; `within` is the tool whose call makes them, if any."""

    plan: Plan
    bench: Bench
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
        return replace(judged, decision=answered(judged.decision, Answer(Approval(said.answer), said.text)))

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
