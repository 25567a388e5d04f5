"""The judge of an agent: what the tool's own judge said, and the safety level (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit.decisions import Decision, Verdict, strictest
from agentkit.levels import SafetyLevel


@dataclass(frozen=True, slots=True)
class Policy:
    """Calls up to `level` happen unasked; what is above it must be asked for."""

    level: SafetyLevel = SafetyLevel.NETWORK

    def judge(self, tool: str, level: SafetyLevel, own: Decision) -> Decision:
        """The decision on a call of `tool`, which has the safety level `level` and whose own judge said `own`.

        Where both say the same, the tool's judge explains an objection: it has seen the arguments.
        """
        by_level = self._by_level(tool, level)
        return strictest((by_level, own) if own.allowed else (own, by_level))

    def _by_level(self, tool: str, level: SafetyLevel) -> Decision:
        if level <= self.level:
            return Decision(Verdict.ALLOW, "safety-level", f"{tool} is {level.name}, which this agent may use.")
        return Decision(
            Verdict.ASK,
            "safety-level",
            f"{tool} is {level.name}, and this agent may use tools up to {self.level.name} unasked.",
            remedy=f"Allow it with safety=SafetyLevel.{level.name}, or name an approver with approve=.",
        )
