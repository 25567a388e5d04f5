"""May this tool call happen, and what is a model told of it? Find the tool, judge, run or refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentkit.decisions import Decision, Verdict
from agentkit.errors import UnknownTool
from agentkit.messages import ToolCall, ToolResult
from agentkit.safety.policy import Policy
from agentkit.tooling.result import UNKNOWN_TOOL, denial, failure
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset

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

    def refusal(self) -> ToolResult:
        """What the model is told of a call that may not happen."""
        return denial(self.call.name, self.decision)

    def interruption(self) -> ToolResult:
        """What the model is told of a call that was cut off before it had a result."""
        error = "The run was interrupted before this call had a result; whether it took effect is unknown."
        return failure(self.call.name, error, "interrupted", self.decision)


def judge_call(call: ToolCall, tools: Toolset, policy: Policy) -> JudgedCall:
    """The call with its tool, its checked arguments and the strictest decision on it."""
    try:
        tool = tools.find(call.name)
    except UnknownTool as error:
        return JudgedCall(call, Decision(Verdict.DENY, UNKNOWN_TOOL, str(error), call.name[:_EVIDENCE_CHARS]))
    arguments, own = tool.decide(call.arguments)
    return JudgedCall(call, policy.judge(tool.name, tool.level, own), tool, arguments)
