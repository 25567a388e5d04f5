"""Policy decisions about tool calls, and refusals."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from agentkit._dataclass import dataclass
from agentkit.agents.approval_binding import lapse
from agentkit.agents.argument_locations import expected, places_of
from agentkit.decisions import MOST_EVIDENCE_CHARS, Decision, Label, Verdict, strictest
from agentkit.errors import UnknownTool
from agentkit.events import Milestone
from agentkit.levels import SafetyLevel
from agentkit.messages import MadeCall, Message, Pause, ToolCall, ToolResult
from agentkit.safety.approval import Grants
from agentkit.safety.data_flow import judge_flow, labels_of, said_in
from agentkit.safety.locations import CallFacts
from agentkit.safety.policy import Policy
from agentkit.tooling.results import BAD_ARGUMENTS, UNKNOWN_TOOL, denial
from agentkit.tooling.run_context import RunContext, ToolCondition
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.workspace.workspace import Workspace

NOT_OFFERED = "not-offered"
"""The rule of the decision on a tool whose condition does not hold."""


def recorded(arguments: Mapping[str, Any]) -> str:
    """Arguments as a recording knows them, whatever order they came in."""
    return json.dumps(dict(arguments), ensure_ascii=False, default=str, sort_keys=True)


def _as_it_is(result: ToolResult) -> ToolResult:
    return result


def _ends(timeout_seconds: float | None) -> float:
    """When the time of a call is up, by the clock of this process."""
    return math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds


class Checking(Protocol):
    """What looks at the result of a call, and may put another one in its place until the time is up."""

    def run(self, result: ToolResult, ends: float) -> ToolResult:
        """What is left of the result, blocking."""
        ...

    async def arun(self, result: ToolResult, ends: float) -> ToolResult:
        """Like `run`, awaiting."""
        ...


@dataclass(slots=True)
class CallProgress:
    """How a call of a run goes that sets off others: from where it was left to where it stands still again, if so.

    `tool` is whose call it is, `made` what it had made before it was left, `waiting` what is known of the call that
    waited then: how it was postponed, and what a person has said.
    """

    tool: str
    made: tuple[MadeCall, ...] = ()
    waiting: tuple[Milestone, ...] = ()
    pause: Pause | None = None


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A tool call with the judgment on it. `tool` is None when there is no such tool.

    `amend` makes of the tool's result what the model is told. `by_person` says that a person's answer let it happen.
    `checks` look at the result before anybody is told of it. `has_begun` says that it goes on, and was counted before.
    `expected` is where the paths led that rules were matched against: the call is refused where they lead elsewhere.
    `bound` is what the person's answer is bound to: a call for which that has changed since is refused.
    """

    call: ToolCall
    decision: Decision
    tool: Tool[..., Any] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    amend: Callable[[ToolResult], ToolResult] = _as_it_is
    by_person: bool = False
    checks: Checking | None = None
    has_begun: bool = False
    expected: Mapping[str, str] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)

    def run(self, timeout_seconds: float | None = None) -> ToolResult:
        """Run it, blocking, if the decision allows it, in the time that is left to it."""
        if self.tool is None or not self.decision.allowed:
            return self.refusal()
        lapsed = lapse(self.decision, self.bound)
        if lapsed is not None:
            return self.amend(denial(self.call.name, lapsed))
        if self.checks is None:
            return self.amend(self.tool.run(self.arguments, self.decision, timeout_seconds))
        ends = _ends(timeout_seconds)
        return self.amend(self.checks.run(self.tool.run(self.arguments, self.decision, timeout_seconds), ends))

    async def arun(self, timeout_seconds: float | None = None) -> ToolResult:
        """Like `run`, awaiting."""
        if self.tool is None or not self.decision.allowed:
            return self.refusal()
        lapsed = lapse(self.decision, self.bound)
        if lapsed is not None:
            return self.amend(denial(self.call.name, lapsed))
        if self.checks is None:
            return self.amend(await self.tool.arun(self.arguments, self.decision, timeout_seconds))
        ends = _ends(timeout_seconds)
        result = await self.tool.arun(self.arguments, self.decision, timeout_seconds)
        return self.amend(await self.checks.arun(result, ends))

    @property
    def asked(self) -> ToolCall:
        """The call as a recording knows it: with the arguments that were judged."""
        return ToolCall(self.call.id, self.call.name, recorded(self.arguments), self.call.extra)

    def refusal(self) -> ToolResult:
        """What the model is told of a call that may not happen."""
        return denial(self.call.name, self.decision)


@dataclass(frozen=True, slots=True)
class ToolPolicyContext:
    """What the calls of a run are judged by: its tools and policies, what was approved for later, and its workspace.

    The first policy is the agent's own; the others are those of the agents that set it to work, and `above` is what
    these have read. `met` are the conditions of tools that hold now, `context` is what the run tells their judges:
    outside of a run no condition holds, and nothing is told.
    """

    tools: Toolset
    policies: tuple[Policy, ...]
    grants: Grants
    workspace: Workspace
    above: frozenset[Label] = frozenset()
    met: frozenset[ToolCondition] = frozenset()
    context: RunContext[Any] | None = None

    def within(self, tools: Toolset, messages: Sequence[Message], read: frozenset[Label]) -> ToolPolicyContext:
        """What the calls of a call are judged by: of these tools, after these messages; `read` is all that was read."""
        # Of what the messages do not tell calls made just before have read. Once all is read, what programs send is no
        # person's own words: of such the flow lets a few through, and would let a few through for each program.
        known = labels_of(messages)
        above = self.above | (read if known.issuperset(Label) else read - known)
        return replace(self, tools=tools, above=above)


def judge_call(call: ToolCall, bench: ToolPolicyContext, read: Sequence[Message]) -> JudgedCall:
    """The call with its tool, its checked arguments and the decision on it, given what the model has read."""
    try:
        tool = bench.tools.find(call.name)
    except UnknownTool as error:
        return JudgedCall(call, Decision(Verdict.DENY, UNKNOWN_TOOL, str(error), call.name[:MOST_EVIDENCE_CHARS]))
    if not bench.met.issuperset(tool.conditions):
        reason = f"The tool {tool.name} is not offered now."
        return JudgedCall(call, Decision(Verdict.DENY, NOT_OFFERED, reason, remedy="Do without it."))
    context = None if bench.context is None else bench.context.called(call.id, read)
    arguments, own = tool.decide(call.arguments, context)
    if bench.workspace.dry_run:
        level = own.level or tool.level
        if level is SafetyLevel.SYSTEM and not tool.is_in_workspace:
            return JudgedCall(call, _not_in_dry_run(tool.name))
        if tool.is_in_workspace:  # nothing is changed, so nothing must be asked for; what others send is sent
            own = replace(own, level=min(level, *(policy.level for policy in bench.policies)))
    try:
        spelled = tool.canonical(arguments) if arguments else arguments  # what was bad has none
        places = places_of(tool, arguments, bench.policies, bench.workspace)
        decision = _judged_by_all(bench, tool, own, (arguments, spelled, places), read)
        if any(policy.flow for policy in bench.policies):
            brought = frozenset[Label]() if tool.spec.hosted is None else tool.labels
            decision = judge_flow(read, tool.name, _written(tool, arguments), decision, bench.above, brought)
    except RecursionError:
        return JudgedCall(call, Decision(Verdict.DENY, BAD_ARGUMENTS, "The arguments nest too deeply to be judged."))
    return JudgedCall(call, decision, tool, arguments, expected=expected(arguments, places))


def _judged_by_all(
    bench: ToolPolicyContext,
    tool: Tool[..., Any],
    own: Decision,
    known: tuple[Mapping[str, Any], Mapping[str, Any], CallFacts],
    read: Sequence[Message],
) -> Decision:
    """What the strictest policy says. The prompt of agents that have read something is no person's own words."""
    is_about_words = not bench.above and any(policy.is_about_words for policy in bench.policies)
    arguments, canonical, places = known
    said = _said(tool, arguments, read) if is_about_words else frozenset[str]()
    facts = replace(places, said=said)
    judged = [policy.judge(tool.name, tool.level, own, arguments, canonical, facts) for policy in bench.policies]
    decision, egress = strictest(judged), any(each.egress for each in judged)
    return decision if decision.egress is egress else replace(decision, egress=egress)


def _said(tool: Tool[..., Any], arguments: Mapping[str, Any], read: Sequence[Message]) -> frozenset[str]:
    """The names of the arguments that the person wrote, with those that have their default: nothing of these is new."""
    written = _written(tool, arguments)
    return said_in(read, written) | (arguments.keys() - written.keys())


def _written(tool: Tool[..., Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the model has written of the arguments: no defaults, and a name that the tool does not know, as words."""
    known = tool.spec.parameters.get("properties", {})
    written = tool.without_defaults(arguments)
    return {name: value if name in known else {name: value} for name, value in written.items()}


def _not_in_dry_run(tool: str) -> Decision:
    reason = f"This is a dry run, and nobody can tell what {tool} would change."
    return Decision(Verdict.DENY, "dry-run", reason, remedy="Say what you would have done with it.")
