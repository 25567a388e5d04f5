"""Who is asked when a decision says ask, and what does the answer change? (pure)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentkit.decisions import Decision, Verdict


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked: may `agent` call `tool` with these arguments, given this decision?"""

    agent: str
    tool: str
    arguments: Mapping[str, Any]
    decision: Decision


Approver = Callable[[ApprovalRequest], bool | Awaitable[bool]]
"""Answers True to approve; any other value means no.

An approver that raises has not approved: the call is denied, the model is told why, and the run goes on. Only what
ends a program (KeyboardInterrupt, SystemExit) ends the run.
"""


def answered(decision: Decision, answer: object) -> Decision:
    """The decision after an approver's answer: what it said or raised, None when there is no approver."""
    if answer is True:
        return replace(decision, verdict=Verdict.ALLOW, reason=f"Approved. {decision.reason}", remedy="")
    if answer is None:
        return replace(decision, verdict=Verdict.DENY, reason=f"{decision.reason} There is nobody to approve it.")
    refusal = "Approval was refused."
    if isinstance(answer, Exception):
        refusal = f"It could not be approved: the approver failed ({type(answer).__name__}: {answer})."
    remedy = "Do without it, or ask what to do instead."
    return replace(decision, verdict=Verdict.DENY, reason=f"{decision.reason} {refusal}", remedy=remedy)
