"""Decisions of the policy engine: verdict, rule, reason, evidence and remedy."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from agentkit._dataclass import dataclass
from agentkit.levels import SafetyLevel


class Verdict(StrEnum):
    """`deny` binds everybody; `ask` binds a model; `allow` lets the call happen."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Label(StrEnum):
    """What a tool's results may hold; an agent whose run holds both must ask before data can leave."""

    UNTRUSTED = "untrusted"
    """Text that strangers wrote, which may try to give orders."""
    PRIVATE = "private"
    """Data of this machine or its user."""


MOST_EVIDENCE_CHARS = 200
"""How much of an argument is told as evidence."""

_STRICTNESS = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


@dataclass(frozen=True, slots=True)
class Decision:
    """One judgment: what, by which rule, why, on what evidence, and what to do instead.

    `evidence` is the very span of the argument that decided, `remedy` a way that would be allowed;
    both may be empty. `level` is the harm of this very call when it is not its tool's, and `egress` says whether the
    call could carry data out. `destroys` says, as the rest of a sentence, what the call deletes or overwrites for good;
    it is empty for every other call. Code that calls a tool directly must confirm a call that destroys, whatever its
    verdict. Raises ValueError for a verdict that is none.
    """

    verdict: Verdict
    rule: str
    reason: str
    evidence: str = ""
    remedy: str = ""
    level: SafetyLevel | None = None
    egress: bool = False
    destroys: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", Verdict(self.verdict))

    @property
    def allowed(self) -> bool:
        """Whether the call may happen without asking anybody."""
        return self.verdict is Verdict.ALLOW

    @property
    def denied(self) -> bool:
        """Whether the call may not happen, whoever asks."""
        return self.verdict is Verdict.DENY

    def to_dict(self) -> dict[str, str]:
        """What was decided and why, JSON-ready: verdict, rule, reason, evidence, remedy."""
        return {key: str(getattr(self, key)) for key in ("verdict", "rule", "reason", "evidence", "remedy")}

    def __str__(self) -> str:
        """One readable line: verdict, reason, rule and remedy."""
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.verdict}: {self.reason} (rule: {self.rule}){remedy}"


def strictest(decisions: Iterable[Decision]) -> Decision:
    """The decision that binds: deny before ask before allow, the earliest among equals.

    Raises ValueError when there is none: no opinion is no permission.
    """
    return max(decisions, key=lambda decision: _STRICTNESS.index(decision.verdict))
