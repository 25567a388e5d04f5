"""The policy of an agent: rules first, then the tool's own judgement and the safety level (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.decisions import NO_RULE, Decision, SafetyLevel, Verdict, strictest
from agentkit.errors import ConfigError
from agentkit.safety.paths import NO_FACTS, CallFacts
from agentkit.safety.rules import Rule, rules_from

BY_LEVEL = "safety-level"
"""The rule of a decision that the safety level of the call determines."""

NEEDS_APPROVAL = "needs approval."
"""The end of a reason that states the effect of a call and that it therefore needs approval."""

RAISE_LEVEL = "Approve it, or allow it with safety={!r}."
"""The remedy for a call above the agent's level."""

_EFFECTS = {
    "workspace.write": "changes files",
    "workspace.read": "reads files",
    "shell.writes": "changes files",
    "shell.undoable": "deletes or replaces files, which can be undone",
    "shell.runs": "runs the workspace's own code",
}
_LEVEL_EFFECTS = {
    SafetyLevel.SAFE: "computes from its arguments",
    SafetyLevel.NETWORK: "contacts other machines",
    SafetyLevel.SYSTEM: "can change this machine or data elsewhere",
}


@dataclass(frozen=True, slots=True)
class Policy:
    """Calls up to `level` are allowed; calls above it need approval, unless a rule says otherwise.

    Of several matching `rules`, the strictest binds. A rule can tighten any decision and loosen an `ask`, but not a
    denial by the tool's judge. `checks_data_flow=False` disables approval of calls that could carry data out of a run
    that has read untrusted text and private data.
    """

    level: SafetyLevel = SafetyLevel.NETWORK
    rules: tuple[Rule, ...] = ()
    checks_data_flow: bool = True

    if TYPE_CHECKING:

        def __init__(
            self,
            level: SafetyLevel | str = ...,
            rules: Iterable[Rule | Mapping[str, Any]] = ...,
            *,
            checks_data_flow: bool = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        given: object = self.level
        if isinstance(given, list | tuple | Rule):
            raise ConfigError("A policy's first argument is its level. Write: Policy(rules=[...])")
        object.__setattr__(self, "level", SafetyLevel.of(self.level))
        if self.rules != ():
            object.__setattr__(self, "rules", rules_from(self.rules))

    def judge(
        self,
        tool: str,
        level: SafetyLevel,
        tool_decision: Decision,
        arguments: Mapping[str, Any] | None = None,
        canonical: Mapping[str, Any] | None = None,
        facts: CallFacts = NO_FACTS,
    ) -> Decision:
        """The decision on a call of `tool`, which has the safety level `level` and whose judge decided `tool_decision`.

        Rules see the arguments in their canonical spelling; those that tighten, also as they were written. The judge
        can set a level for this call. If rules and judge agree, the judge's decision is returned, because it has seen
        the arguments.
        """
        if tool_decision.denied:
            return tool_decision
        level = level if tool_decision.level is None else tool_decision.level
        if level <= self.level:
            by_level = Decision(Verdict.ALLOW, BY_LEVEL, f"{tool} is {level.name}, which is allowed for this agent.")
        else:
            effect, remedy = (
                _EFFECTS.get(tool_decision.rule, _LEVEL_EFFECTS[level]),
                RAISE_LEVEL.format(level.name.lower()),
            )
            by_level = Decision(Verdict.ASK, BY_LEVEL, f"{tool} {effect}, so it {NEEDS_APPROVAL}", remedy=remedy)
        default = strictest((by_level, tool_decision) if tool_decision.rule == NO_RULE else (tool_decision, by_level))
        spellings = arguments or {}, canonical or arguments or {}
        fitting = self._fitting(tool, spellings, facts) if self.rules else []
        by_rules = strictest(rule.decision(arguments or {}) for rule in fitting) if fitting else None
        decision = default if by_rules is None else by_rules if by_rules.allowed else strictest((by_rules, default))
        # Data sent to an address that the user named does not count as egress.
        is_asked_for = decision is by_rules and by_rules.allowed and any(rule.checks_user_text for rule in fitting)
        egress = tool_decision.egress and not is_asked_for
        is_same = (decision.level, decision.egress) == (tool_decision.level, egress)
        return decision if is_same else replace(decision, level=tool_decision.level, egress=egress)

    def _fitting(
        self, tool: str, spellings: tuple[Mapping[str, Any], Mapping[str, Any]], facts: CallFacts
    ) -> list[Rule]:
        written, canonical = spellings
        return [
            rule
            for rule in self.rules
            if rule.fits(tool, canonical, facts.user_written, facts)
            or (rule.verdict is not Verdict.ALLOW and rule.fits(tool, written, facts.user_written, facts))
        ]
