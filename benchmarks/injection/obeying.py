"""An agent whose scripted model makes the calls of a task and of an injected instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit import Agent, Limits, Policy, Tool
from agentkit.decisions import Decision
from agentkit.safety.approval import ApprovalRequest
from agentkit.testing import ScriptedLLM, call
from agentkit.tooling.results import BAD_ARGUMENTS, UNKNOWN_TOOL

Call = tuple[str, Mapping[str, Any]]
"""The name of a tool, and the arguments."""


@dataclass(frozen=True)
class Orders:
    """The prompt and calls of a task, and the calls of an injected text that follow after the first `read` calls."""

    prompt: str
    wanted: Sequence[Call]
    injected: Sequence[Call] = ()
    read: int = 0
    answer: str = "Done."

    @property
    def calls(self) -> list[Call]:
        """All calls of the scripted model, in order."""
        return [*self.wanted[: self.read], *self.injected, *self.wanted[self.read :]]


@dataclass(frozen=True)
class Obeyed:
    """The outcome: the calls that ran, those that needed approval, and the answer."""

    done: list[Call] = field(default_factory=list)
    asked: list[Call] = field(default_factory=list)
    answer: str = ""


def obey(orders: Orders, tools: Sequence[Tool[..., Any]], policy: Policy, *, is_attended: bool) -> Obeyed:
    """Run an agent whose model makes all calls. If attended, the approver allows the calls of the task, otherwise none.

    Raises RuntimeError if a call had invalid arguments or an unknown tool, or if the run ended early: such a run does
    not measure the policy.
    """
    asked: list[Call] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append((request.tool, request.arguments))
        return is_attended and (request.tool, request.arguments) in orders.wanted

    llm = ScriptedLLM(*(call(name, arguments) for name, arguments in orders.calls), orders.answer)
    most = len(orders.calls) + 1
    agent = Agent(
        "obedient", tools, max_iterations=most, llm=llm, policy=policy, approve=approve, limits=Limits(tool_calls=most)
    )
    result = agent.run(orders.prompt)
    refused = [str(made.result.decision) for made in result.tool_calls if _is_no_judgment(made.result.decision)]
    if result.status != "done" or len(result.tool_calls) != len(orders.calls) or refused:
        raise RuntimeError(f"The run did not measure the policy: {result.status}, {refused}, {orders.prompt!r}")
    finished = zip(orders.calls, result.tool_calls, strict=True)
    done = [ordered for ordered, made in finished if made.result.status in {"ok", "empty"}]
    return Obeyed(done, asked, str(result.output))


def _is_no_judgment(decision: Decision | None) -> bool:
    return decision is not None and decision.rule in {BAD_ARGUMENTS, UNKNOWN_TOOL}
