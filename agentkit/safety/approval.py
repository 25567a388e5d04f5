"""Approval requests, answers and grants (pure)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, Verdict
from agentkit.event_rendering import value_text, visible
from agentkit.lines import sentence
from agentkit.safety.data_flow import FLOW
from agentkit.safety.rules import Rule, origin

_MOST_SHOWN_CHARS, _TAIL_CHARS = 2_000, 500
_MOST_SHOWN_LINES, _TAIL_LINES = 40, 10
_MOST_HOSTS = 5
_MOST_ARGUMENTS, _TAIL_ARGUMENTS = 30, 10
_FOREIGN_HOST = re.compile(r"://((?=[^\s/?#:@\"'<>]{0,99}[^\x00-\x7f])[^\s/?#:@\"'<>]{1,100})")


class Approval(StrEnum):
    """An approver's answer. True means `once`; any invalid answer means `no`."""

    NO = "no"
    ONCE = "once"
    RUN = "run"
    """For calls of this pattern until the run ends; not available for the data-flow rule."""
    ALWAYS = "always"
    """For calls of this pattern for the lifetime of the agent."""
    LATER = "later"
    """Not now: the run ends paused and can be resumed with an answer, also in another process."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request to approve that `agent` calls `tool` with these arguments in this folder, given this decision.

    `within` is the tool whose call makes this one, such as `run_program`; it is empty if the model makes it. `bound`
    maps each path of the call to its resolved target, with the digest of a script: an approval applies only to these.
    """

    agent: str
    tool: str
    arguments: Mapping[str, Any]
    decision: Decision
    folder: str = ""
    call_id: str = ""
    within: str = ""
    bound: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def question(self) -> str:
        """The question shown to a person; same as `str(request)`."""
        return str(self)

    @property
    def fingerprint(self) -> str:
        """A hash of tool, arguments and folder: an approval applies to this call only."""
        call = json.dumps([self.tool, self.arguments, self.folder], sort_keys=True, default=repr)
        return hashlib.sha256(call.encode("utf-8", "backslashreplace")).hexdigest()

    @property
    def pattern(self) -> Rule:
        """The calls that `Approval.RUN` and `Approval.ALWAYS` apply to: exactly this one, or one to the same origin."""
        return Rule(Verdict.ALLOW, self.tool, {name: _like(name, value) for name, value in self.arguments.items()})

    def __str__(self) -> str:
        """The question shown to a person: deceptive characters are made visible, long values are cut in the middle."""
        within = f" within {_quoted(self.within)}" if self.within else ""
        lines = [f"{_quoted(self.agent)} wants to call {_quoted(self.tool)}{within}"]
        lines += [f"in {_quoted(self.folder)}"] if self.folder else []
        lines += _shown(self.arguments)
        return "\n".join([*lines, f"Reason: {_quoted(self.decision.reason)}"])


Said = bool | Approval | str | Mapping[str, Any]
"""Valid answers of an approver: True or False, an Approval, a reason for a refusal, or other arguments for the call."""

Approver = Callable[[ApprovalRequest], Said | Awaitable[Said]]
"""Decides on an approval request; any invalid value means no.

If an approver raises, the call is denied, the model receives the reason, and the run continues. Only exceptions that
end a program (KeyboardInterrupt, SystemExit) end the run.
"""


@dataclass(frozen=True, slots=True)
class ApproverAnswer:
    """A normalised answer: `text` is the reason of a refusal, `arguments` replace those of the call."""

    approval: Approval
    text: str = ""
    arguments: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, said: object) -> ApproverAnswer:
        """Normalise what an approver returned or raised; None means that there is no approver."""
        match said:
            case ApproverAnswer():
                return said
            case Approval():
                return cls(said)
            case Mapping():
                return cls(Approval.ONCE, arguments=said)
            case True:
                return cls(Approval.ONCE)
        return cls(Approval.NO, _why_not(said))


_ENDS = (".", "!", "?", "…", "。")
"""Sentence endings."""

_MISTAKEN = frozenset(
    {"y", "yes", "ok", "okay", "sure", "true", "allow", "allowed", "approve", "approved", *Approval} - {Approval.NO}
)
"""Texts that express consent, so that returning one of them is a mistake: a text is a reason for a refusal."""


def is_mistaken(said: object) -> bool:
    """Whether the answer is a text that expresses consent; texts mean refusal, and code that approves returns True."""
    return isinstance(said, str) and not isinstance(said, Approval) and said.strip(" .!").casefold() in _MISTAKEN


def _why_not(said: object) -> str:
    """The reason for the refusal that an answer, exception or missing answer amounts to."""
    match said:
        case None:
            return "There is nobody to approve it."
        case Exception():
            return f"It could not be approved: the approver failed ({type(said).__name__}: {said})."
        case str() if is_mistaken(said):
            return (
                f"It could not be approved: the approver answered the text {said!r}, and a text is a no; a yes is True."
            )
        case str() if said.strip():
            words = said.rstrip()
            return f"Approval was refused: {words}{'' if words.endswith(_ENDS) else '.'}"
        case bool() | str():
            return "Approval was refused."
    return f"It could not be approved: {type(said).__name__}, as the approver answered, is no answer; a yes is True."


@dataclass(frozen=True, slots=True)
class Grant:
    """An approval for later calls that match the pattern, have no other arguments, and the same folder and rule.

    The paths and scripts that the call is bound to must be the same as well.
    """

    pattern: Rule
    rule: str
    folder: str
    bound: Mapping[str, str] = field(default_factory=dict)

    def covers(self, request: ApprovalRequest) -> bool:
        """Whether the grant includes this call; False for arguments nested too deeply to compare."""
        if (self.rule, self.folder, self.bound) != (request.decision.rule, request.folder, request.bound):
            return False
        try:
            is_alike = self.pattern.fits(request.tool, request.arguments)
        except RecursionError:
            return False
        return is_alike and self.pattern.where.keys() == request.arguments.keys()


@dataclass(slots=True)
class Grants:
    """Approvals for later calls: for one run, and for the lifetime of the agent."""

    lasting: list[Grant] = field(default_factory=list)
    run: list[Grant] = field(default_factory=list)

    def for_run(self) -> Grants:
        """Share the lasting grants with a new run."""
        return Grants(self.lasting)

    def enter(self, request: ApprovalRequest, approval: Approval) -> None:
        """Store an answer that applies to more than one call."""
        kept = {Approval.RUN: self.run, Approval.ALWAYS: self.lasting}.get(approval)
        if kept is not None and request.decision.rule != FLOW:
            kept.append(Grant(request.pattern, request.decision.rule, request.folder, dict(request.bound)))

    def applied(self, request: ApprovalRequest) -> Decision:
        """The decision in the request; allowed if it asks and a grant covers the call."""
        decision = request.decision
        if decision.verdict is not Verdict.ASK or not any(
            grant.covers(request) for grant in (*self.run, *self.lasting)
        ):
            return decision
        reason = f"Approved earlier for calls like it. {decision.reason}"
        return replace(decision, verdict=Verdict.ALLOW, reason=reason, remedy="")


SILENT = "It could not be approved: the approver returned nothing, which is no answer; a yes is True, a no is False."
"""Why a call is denied if the approver returned None, as a function without `return` does."""

NOBODY = ApproverAnswer.of(None)
"""The answer without an approver."""


def answered(decision: Decision, answer: ApproverAnswer) -> Decision:
    """Apply an approver's answer to the decision."""
    if answer.approval is not Approval.NO:
        return replace(decision, verdict=Verdict.ALLOW, reason=f"Approved. {decision.reason}", remedy="")
    why = answer.text or "Approval was refused."
    remedy = decision.remedy if answer == NOBODY else "Do without it, or ask what to do instead."
    return replace(decision, verdict=Verdict.DENY, reason=f"{sentence(decision.reason)} {sentence(why)}", remedy=remedy)


def _shown(arguments: Mapping[str, Any]) -> list[str]:
    """Render the arguments; of many, only the first and the last to keep the question readable."""
    entries, left_out = [*arguments.items()], len(arguments) - _MOST_ARGUMENTS
    lines = [_argument(name, value) for name, value in entries[: _MOST_ARGUMENTS - _TAIL_ARGUMENTS]]
    lines += [f"[… {left_out:,} arguments are not shown …]"] if left_out > 0 else []
    rest = entries[_MOST_ARGUMENTS - _TAIL_ARGUMENTS :]
    return lines + [_argument(name, value) for name, value in rest[-_TAIL_ARGUMENTS:]]


def _argument(name: str, value: Any) -> str:
    """Render an argument, followed by the real form of its hosts."""
    text = value_text(value)
    return "\n".join([f"  {_quoted(name)}: {_quoted(text)}", *_hosts_in(text)])


def _quoted(text: str) -> str:
    """Render a text: cut in the middle, with a mark before each further line."""
    lines = text.split("\n")
    is_high = len(lines) > _MOST_SHOWN_LINES
    if is_high or len(text) > _MOST_SHOWN_CHARS:
        first = "\n".join(lines[: _MOST_SHOWN_LINES - _TAIL_LINES]) if is_high else text
        last = "\n".join(lines[-_TAIL_LINES:]) if is_high else text
        head, tail = first[: _MOST_SHOWN_CHARS - _TAIL_CHARS], last[-_TAIL_CHARS:]
        shown_lines = head.count("\n") + tail.count("\n") + 2
        left_out = [f"{len(lines) - shown_lines:,} lines"] if is_high else []
        if not is_high or (head, tail) != (first, last):
            left_out.append(f"{len(text) - len(head) - len(tail):,} characters")
        text = f"{head}\n[… {' and '.join(left_out)} are not shown …]\n{tail}"
    return visible(text).replace("\n", "\n  │ ")


def _hosts_in(text: str) -> list[str]:
    """The ASCII form of hosts with non-ASCII letters, which could be mistaken for others."""
    found = dict.fromkeys(_FOREIGN_HOST.findall(text))
    if not found:
        return []
    from agentkit.safety.urls import read_url  # most questions do not need it

    hosts = [*found][:_MOST_HOSTS]
    parsed = [(visible(host), read_url(f"https://{host}/")) for host in hosts]
    return [f"  ! {host}: {url.reason if isinstance(url, Decision) else url.host}" for host, url in parsed]


def _like(name: str, value: Any) -> dict[str, Any]:
    """The condition on an argument of similar calls: the same value, or a URL of the same origin."""
    found = origin(value) if name == "url" and "\\" not in str(value) else None
    return {"origin": found} if found else {"equals": value}
