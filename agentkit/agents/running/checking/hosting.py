"""May the provider use tools of its own for the next answer, and what has it used them for?

Nobody can judge what a provider does within an answer, so each hosted tool is judged before every request that would
offer it, by what has been read until then. One that may not be used is left out of the request.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

from agentkit.agents.running.budget import Budget
from agentkit.agents.running.plan import Plan
from agentkit.agents.running.questions import AskPerson, Question, Steps, tell
from agentkit.agents.running.tool_call import Bench, judge_call
from agentkit.decisions import Decision, Label, Verdict, strictest
from agentkit.events import Event, HostedCallFinished
from agentkit.memory.run import SessionRun
from agentkit.messages import HostedUse, Message, Response, ToolCall, ToolResult, ToolSpec
from agentkit.safety.approval import Answer, Approval, ApprovalRequest, answered
from agentkit.safety.flow import FLOW
from agentkit.safety.rules import rules_from
from agentkit.tooling.result import denial, failure

_UNTOLD = frozenset({Label.UNTRUSTED})
"""What the result of a tool may hold of which the agent knows nothing, as it was named among the LLM's settings."""

_FOR_RUN = "The provider uses it by itself while it answers; a yes holds for this run."
_FOR_ONE = "The provider uses it by itself while it answers; a yes holds for one request."
"""What a person must know beside why it is asked."""

_LATER = "A tool of the provider cannot wait for a later answer."
_OTHER_ARGUMENTS = "Nobody can choose the arguments of a tool that the provider runs; the answer is True or False."
"""Why an answer is a no that would hold elsewhere: a request does not wait for days, and has no arguments yet."""


class Hosting:
    """The hosted tools of one run. `offered` are those of the newest request, with the judgment on each."""

    def __init__(self, run: SessionRun, budget: Budget) -> None:
        self._run, self._budget = run, budget
        self.offered: dict[str, Decision] = {}
        self._labels: frozenset[Label] = frozenset()
        self._said: dict[tuple[str, str, str], Decision] = {}
        self._told: set[tuple[str, str, str]] = set()

    def judge(self, names: Sequence[str], plan: Plan, bench: Bench, read: Sequence[Message]) -> Steps:
        """Find out which of these tools the provider may use for the next answer, given what was read."""
        self.offered = {}
        for name in names:
            call = ToolCall(f"hosted_{name}", name, "{}")
            judged = strictest((judge_call(call, bench, read).decision, *_conditions(name, bench)))
            decision = yield from self._decided(call, judged, plan, bench)
            if decision.allowed:
                self.offered[name] = decision
        self._labels = frozenset[Label]().union(*(bench.tools.find(name).labels for name in self.offered))

    def permitted(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """The tools without those that the provider may not use."""
        return tuple(spec for spec in specs if spec.hosted is None or spec.name in self.offered)

    def labelled(self, response: Response) -> Response:
        """The response, its message with what the tools that the provider has used may have brought into it."""
        if not response.hosted:
            return response
        known = all(use.call.name in self.offered for use in response.hosted)
        labels = self._labels if known else self._labels | _UNTOLD
        return replace(response, message=replace(response.message, labels=labels))

    def uses(self, response: Response) -> Steps:
        """What the provider has used its tools for, as calls of the run, which count among those that it may make."""
        self._budget.take_tool_calls(len(response.hosted))
        begun = self._run.progress.iterations + 1
        for number, use in enumerate(response.hosted, 1):
            call = use.call if use.call.id else replace(use.call, id=f"hosted_{begun}_{number}")
            yield from tell(self._run, HostedCallFinished(call, self._result(use, response.message.labels)))

    def _result(self, use: HostedUse, labels: frozenset[Label]) -> ToolResult:
        decision = self.offered.get(use.call.name)
        if use.error:
            return replace(failure(use.call.name, use.error, "failed", decision), labels=labels)
        content = json.dumps(use.sources, ensure_ascii=False) if use.sources else ""
        return ToolResult(use.call.name, "ok", content, list(use.sources), decision=decision, labels=labels)

    def _decided(
        self, call: ToolCall, decision: Decision, plan: Plan, bench: Bench
    ) -> Generator[Event | Question, None, Decision]:
        """The decision on a tool when a person was asked where that must be; why it is withheld is told once."""
        key = plan.agent, call.name, decision.rule
        if decision.verdict is Verdict.ASK:
            reason = f"{decision.reason} {_FOR_ONE if decision.rule == FLOW else _FOR_RUN}"
            request = ApprovalRequest(plan.agent, call.name, {}, replace(decision, reason=reason), "", call.id)
            decision = bench.grants.applied(request)
            if not decision.allowed:
                decision = self._said.get(key) or (yield from self._asked(request, plan, bench))
        if not decision.allowed and key not in self._told:
            self._told.add(key)
            withheld = replace(call, id=f"withheld_{len(self._told)}")
            yield from tell(self._run, HostedCallFinished(withheld, denial(call.name, decision)))
        return decision

    def _asked(self, request: ApprovalRequest, plan: Plan, bench: Bench) -> Generator[Event | Question, None, Decision]:
        """What a person says, once for the run; of what may leave with what was read, once for each request."""
        question = AskPerson(request, plan.approve, seconds_left=self._budget.seconds_left)
        yield question
        said = question.answer or question.nobody
        why = _OTHER_ARGUMENTS if said.arguments is not None else _LATER if said.answer == Approval.LATER else ""
        approval = Approval.NO if why else Approval(said.answer)
        decision = answered(request.decision, Answer(approval, said.text or why))
        bench.grants.enter(request, approval)
        if approval is Approval.NO or request.decision.rule != FLOW:
            self._said[request.agent, request.tool, request.decision.rule] = decision
        return decision


def _conditions(name: str, bench: Bench) -> Iterator[Decision]:
    """What rules say that ask about a tool or deny it for some arguments: which it will have, nobody knows before."""
    rules = (
        rule for policy in bench.policies for rule in rules_from(policy.rules) if rule.is_about(name) and rule.where
    )
    yield from (rule.decision({}) for rule in rules if rule.verdict is not Verdict.ALLOW)
