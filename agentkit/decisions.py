"""Safety levels, and the decisions of the policy engine: verdict, rule, reason, evidence and remedy."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Literal

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError

NO_RULE = "no-rule"
"""The rule of the decision on a tool without a judge."""


class SafetyLevel(IntEnum):
    """SAFE < NETWORK < SYSTEM. A tool has one level; an agent has the highest level it can use without approval."""

    SAFE = 0
    """Computes from its arguments; no side effects."""
    NETWORK = 1
    """Communicates with other machines; changes nothing on this one."""
    SYSTEM = 2
    """Accesses files, processes or devices of this machine, or changes something elsewhere."""

    @classmethod
    def of(cls, value: SafetyLevel | str | int) -> SafetyLevel:
        """Convert a level, its name in any case, or its number to a level.

        Raises ConfigError naming the three levels if `value` is invalid; True and False are invalid.
        """
        if isinstance(value, cls):
            return value
        key = value.upper() if isinstance(value, str) else value
        for level in cls:
            if key in (level.name, level.value) and not isinstance(key, bool):
                return level
        raise ConfigError(f"{value!r} is not a safety level; use SAFE, NETWORK or SYSTEM.")


Level = SafetyLevel | Literal["safe", "network", "system", "SAFE", "NETWORK", "SYSTEM"]
"""A safety level, or its name."""


class Verdict(StrEnum):
    """The result of judging a call.

    `deny` blocks the call for every caller, `ask` requires approval if a model makes it, and `allow` permits it.
    """

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Label(StrEnum):
    """What a tool's results can contain; once a run has seen both labels, sending data out requires approval."""

    UNTRUSTED = "untrusted"
    """Text written by third parties, which can contain prompt injections."""
    PRIVATE = "private"
    """Data of this machine or its user."""


MAX_EVIDENCE_CHARS = 200
"""Maximum length of the evidence quoted from an argument."""

_STRICTNESS = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of the policy: verdict, rule, reason, evidence and remedy.

    `evidence` is the exact part of the argument that decided and `remedy` an alternative that would be allowed; both
    can be empty. `level` is the safety level of this call when it differs from its tool's, and `egress` states whether
    the call could send data out. `destroys` completes a sentence about what the call irrevocably deletes or overwrites;
    it is empty for every other call. Code that calls a tool directly must confirm a destructive call, whatever its
    verdict. Raises ValueError if the verdict is invalid.
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
        """Whether the call can run without approval."""
        return self.verdict is Verdict.ALLOW

    @property
    def denied(self) -> bool:
        """Whether the call is blocked for every caller."""
        return self.verdict is Verdict.DENY

    def to_dict(self) -> dict[str, str]:
        """JSON-compatible dictionary with verdict, rule, reason, evidence and remedy."""
        return {key: str(getattr(self, key)) for key in ("verdict", "rule", "reason", "evidence", "remedy")}

    def __str__(self) -> str:
        """One line with verdict, reason, rule and remedy."""
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.verdict}: {self.reason} (rule: {self.rule}){remedy}"


def strictest(decisions: Iterable[Decision]) -> Decision:
    """The strictest decision: deny before ask before allow, the first among equals.

    Raises ValueError for an empty iterable: without a decision, nothing is permitted.
    """
    return max(decisions, key=lambda decision: _STRICTNESS.index(decision.verdict))
