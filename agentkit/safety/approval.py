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
"""Answers True to approve. Anything else, an exception or silence means no."""


def answered(decision: Decision, answer: object) -> Decision:
    """The decision after an approver's answer; None says that there is no approver."""
    if answer is True:
        return replace(decision, verdict=Verdict.ALLOW, reason=f"Approved. {decision.reason}")
    why = "There is nobody to approve it." if answer is None else "Approval was refused."
    return replace(decision, verdict=Verdict.DENY, reason=f"{decision.reason} {why}")
