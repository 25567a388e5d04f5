"""May this tool call happen, and what is a model told of it? Find the tool, judge, run or refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentkit.decisions import Decision, Label, Verdict
from agentkit.errors import UnknownTool
from agentkit.levels import SafetyLevel
from agentkit.messages import Message, ToolCall, ToolResult
from agentkit.safety.approval import Grants
from agentkit.safety.flow import judge_flow
from agentkit.safety.policy import Policy
from agentkit.tooling.result import BAD_ARGUMENTS, UNKNOWN_TOOL, denial, failure
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.workspace.workspace import Workspace

_EVIDENCE_CHARS = 200


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A tool call with the judgment on it. `tool` is None when there is no such tool."""

    call: ToolCall
    decision: Decision
    tool: Tool[..., Any] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> ToolResult:
        """Run it, blocking, if the decision allows it."""
        if self.tool is None or not self.decision.allowed:
            return self.refusal()
        return self.tool.run(self.arguments, self.decision)

    async def arun(self) -> ToolResult:
        """Like `run`, awaiting."""
        if self.tool is None or not self.decision.allowed:
            return self.refusal()
        return await self.tool.arun(self.arguments, self.decision)

    @property
    def labels(self) -> frozenset[Label]:
        """What the result may hold; that of a call that may not happen holds nothing."""
        return frozenset() if self.tool is None or not self.decision.allowed else self.tool.labels

    def refusal(self) -> ToolResult:
        """What the model is told of a call that may not happen."""
        return denial(self.call.name, self.decision)

    def interruption(self) -> ToolResult:
        """What the model is told of a call that was cut off before it had a result."""
        error = "The run was interrupted before this call had a result; whether it took effect is unknown."
        return failure(self.call.name, error, "interrupted", self.decision)


@dataclass(frozen=True, slots=True)
class Bench:
    """What the calls of a run are judged by: its tools and policy, what was approved for later, and its workspace."""

    tools: Toolset
    policy: Policy
    grants: Grants
    workspace: Workspace


def judge_call(call: ToolCall, bench: Bench, read: Sequence[Message]) -> JudgedCall:
    """The call with its tool, its checked arguments and the decision on it, given what the model has read."""
    try:
        tool = bench.tools.find(call.name)
    except UnknownTool as error:
        return JudgedCall(call, Decision(Verdict.DENY, UNKNOWN_TOOL, str(error), call.name[:_EVIDENCE_CHARS]))
    arguments, own = tool.decide(call.arguments)
    if bench.workspace.dry_run:
        level = own.level or tool.level
        if level is SafetyLevel.SYSTEM and not tool.is_in_workspace:
            return JudgedCall(call, _not_in_dry_run(tool.name))
        own = replace(own, level=min(level, bench.policy.level))  # nothing is changed, so nothing must be asked for
    try:
        decision = bench.policy.judge(tool.name, tool.level, own, arguments, tool.canonical(arguments))
        if bench.policy.flow:
            decision = judge_flow(read, tool.name, arguments, decision)
    except RecursionError:
        return JudgedCall(call, Decision(Verdict.DENY, BAD_ARGUMENTS, "The arguments nest too deeply to be judged."))
    return JudgedCall(call, decision, tool, arguments)


def _not_in_dry_run(tool: str) -> Decision:
    reason = f"This is a dry run, and nobody can tell what {tool} would change."
    return Decision(Verdict.DENY, "dry-run", reason, remedy="Say what you would have done with it.")
