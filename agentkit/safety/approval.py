"""Who is asked when a decision says ask, what are they asked, and what does the answer change? (pure)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from agentkit.decisions import Decision, Verdict
from agentkit.safety.rules import Rule

_SUBCOMMANDS = frozenset({"git", "npm", "pip", "uv", "poetry", "yarn", "pnpm", "cargo", "go", "gh"})
"""Programs whose first two words say what they will do, so that these two can be approved for always."""

_TRICKY = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)


class Approval(StrEnum):
    """An approver's answer. True means `once`; whatever else is no Approval means `no`."""

    NO = "no"
    ONCE = "once"
    RUN = "run"
    """For calls of this pattern until the run ends."""
    ALWAYS = "always"
    """For calls of this pattern as long as the agent lives."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked: may `agent` call `tool` with these arguments in this folder, given this decision?"""

    agent: str
    tool: str
    arguments: Mapping[str, Any]
    decision: Decision
    folder: str = ""

    @property
    def fingerprint(self) -> str:
        """A hash of tool, arguments and folder: an approval is for this very call and no other."""
        call = json.dumps([self.tool, self.arguments, self.folder], sort_keys=True, default=repr)
        return hashlib.sha256(call.encode("utf-8", "backslashreplace")).hexdigest()

    @property
    def pattern(self) -> Rule:
        """The calls that `Approval.RUN` and `Approval.ALWAYS` are for: this one, and those like it."""
        where = next(filter(None, map(_pattern, self.arguments.items())), None)
        exact = {argument: {"equals": value} for argument, value in self.arguments.items()}
        return Rule(Verdict.ALLOW, self.tool, where or exact, name=f"approved {self.tool}")

    def __str__(self) -> str:
        """The question as a person reads it, with every character that could deceive made visible."""
        arguments = "\n".join(f"  {name}: {visible(_shown(value))}" for name, value in self.arguments.items())
        why = visible(self.decision.reason)
        return f"{visible(self.agent)} wants to call {visible(self.tool)}\n{arguments}\nThis must be asked for: {why}"


Approver = Callable[[ApprovalRequest], bool | Approval | Awaitable[bool | Approval]]
"""Answers True or an Approval; any other value means no.

An approver that raises has not approved: the call is denied, the model is told why, and the run goes on. Only what
ends a program (KeyboardInterrupt, SystemExit) ends the run.
"""


@dataclass(slots=True)
class Grants:
    """What has been approved for later calls: for one run, and as long as the agent lives."""

    lasting: list[tuple[Rule, str]] = field(default_factory=list)
    run: list[tuple[Rule, str]] = field(default_factory=list)

    def for_run(self) -> Grants:
        """The same lasting grants for a new run."""
        return Grants(self.lasting)

    def enter(self, request: ApprovalRequest, answer: object) -> None:
        """Remember an answer that is for more than one call."""
        kept = {Approval.RUN: self.run, Approval.ALWAYS: self.lasting}.get(approval_of(answer))
        if kept is not None:
            kept.append((request.pattern, request.decision.rule))

    def applied(self, tool: str, arguments: Mapping[str, Any], decision: Decision) -> Decision:
        """The decision, allowed when calls like this one were approved where the same rule asked."""
        if decision.verdict is not Verdict.ASK:
            return decision
        for pattern, rule in (*self.run, *self.lasting):
            if rule == decision.rule and pattern.fits(tool, arguments):
                reason = f"Approved earlier for calls like it. {decision.reason}"
                return replace(decision, verdict=Verdict.ALLOW, reason=reason, remedy="")
        return decision


def approval_of(answer: object) -> Approval:
    """An approver's answer as an Approval."""
    if isinstance(answer, Approval):
        return answer
    return Approval.ONCE if answer is True else Approval.NO


def answered(decision: Decision, answer: object) -> Decision:
    """The decision after an approver's answer: what it said or raised, None when there is no approver."""
    if approval_of(answer) is not Approval.NO:
        return replace(decision, verdict=Verdict.ALLOW, reason=f"Approved. {decision.reason}", remedy="")
    if answer is None:
        return replace(decision, verdict=Verdict.DENY, reason=f"{decision.reason} There is nobody to approve it.")
    refusal = "Approval was refused."
    if isinstance(answer, Exception):
        refusal = f"It could not be approved: the approver failed ({type(answer).__name__}: {answer})."
    remedy = "Do without it, or ask what to do instead."
    return replace(decision, verdict=Verdict.DENY, reason=f"{decision.reason} {refusal}", remedy=remedy)


def visible(text: str) -> str:
    """The text with control, direction and invisible characters as escapes: what is read is what is meant."""
    return _TRICKY.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def _pattern(argument: tuple[str, Any]) -> dict[str, Any] | None:
    """The tests that calls like one with this argument pass, when the argument says what a call is about."""
    name, value = argument
    if name == "command" and isinstance(value, str):
        words = value.split()[:2]
        rule = {name: {"words": words}}
        if len(words) == 2 and words[0] in _SUBCOMMANDS and words[1].isalpha():
            return rule if Rule(Verdict.ALLOW, "", rule).fits("", {name: value}) else None
    if name == "url" and isinstance(value, str):
        host = _host(value)
        return {name: {"host": host}} if host else None
    return None


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
