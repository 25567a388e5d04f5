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
from agentkit.event_rendering import collapse, escape_invisible, value_text
from agentkit.safety.data_flow import FLOW
from agentkit.safety.policy import BY_LEVEL, NEEDS_APPROVAL
from agentkit.safety.rules import Rule, origin
from agentkit.text_encoding import as_sentence

_MAX_SHOWN_CHARS, _TAIL_CHARS = 2_000, 500
_MAX_SHOWN_LINES, _TAIL_LINES = 40, 10
_MAX_HOSTS = 5
MAX_TASK_CHARS = 200
"""Length in characters to which the request to another agent is cut in a question."""
_MAX_ARGUMENTS, _TAIL_ARGUMENTS = 30, 10
_INTERPRETERS = frozenset({"bash", "node", "perl", "python", "python3", "ruby", "sh"})
_WITH_SUBCOMMANDS = frozenset(
    {
        *("apt", "brew", "bun", "cargo", "docker", "dotnet", "gh", "git", "go", "gradle", "hg", "just", "kubectl"),
        *("make", "mvn", "npm", "pip", "pip3", "pipx", "pnpm", "poetry", "ruff", "svn", "terraform", "uv", "yarn"),
    }
)
_RUNNERS = frozenset(
    {
        *(
            "awk",
            "command",
            "doas",
            "env",
            "eval",
            "exec",
            "find",
            "flock",
            "ionice",
            "nice",
            "nohup",
            "npx",
            "parallel",
        ),
        *("setsid", "ssh", "stdbuf", "strace", "sudo", "time", "timeout", "unshare", "uvx", "watch", "xargs"),
    }
)
"""Programs that run the programs in their arguments: their first words do not limit what they do."""
_FOREIGN_HOST = re.compile(r"://((?=[^\s/?#:@\"'<>]{0,99}[^\x00-\x7f])[^\s/?#:@\"'<>]{1,100})")


@dataclass(frozen=True, slots=True)
class CallPreview:
    """The effect that a call would have now, as far as its tool can predict it.

    `summary` has one line for each effect, such as "replaces a.py (50 lines)". `diff` is a unified diff, which shows
    the arguments named in `covers`. `failure` is the error of a call that cannot succeed. `is_confined` states whether
    the call can change nothing but files of the workspace.
    """

    summary: tuple[str, ...] = ()
    diff: str = ""
    covers: frozenset[str] = frozenset()
    failure: str = ""
    is_confined: bool = False


NO_PREVIEW = CallPreview()


class Approval(StrEnum):
    """An approver's answer. True means `once`; any invalid answer means `no`."""

    NO = "no"
    ONCE = "once"
    RUN = "run"
    """For calls of this pattern until the run ends; not available for the data-flow rule."""
    WORKSPACE = "workspace"
    """For all calls that only change files of this workspace, for the lifetime of the agent."""
    ALWAYS = "always"
    """For calls of this pattern for the lifetime of the agent."""
    PATTERN = "pattern"
    """For plain commands of the shell that begin with the same words, such as `git push`, as long as `always`."""
    IMPOSSIBLE = "impossible"
    """The call cannot succeed, so the approver was not called; the text is the error."""
    LATER = "later"
    """Not now: the run ends paused and can be resumed with an answer, also in another process."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request to approve that `agent` calls `tool` with these arguments in this folder, given this decision.

    `within` is the tool whose call makes this one, such as `run_program`; it is empty if the model makes it. `bound`
    maps each path of the call to its resolved target, with the digest of a script: an approval applies only to these.
    `preview` is the effect that the call would have now. `task` is the request that another agent has given to this
    one, which tells apart workers with the same name; it is empty if a person has written the prompt.
    """

    agent: str
    tool: str
    arguments: Mapping[str, Any]
    decision: Decision
    folder: str = ""
    call_id: str = ""
    within: str = ""
    bound: Mapping[str, str] = field(default_factory=dict, repr=False)
    preview: CallPreview = field(default=NO_PREVIEW, repr=False)
    task: str = ""

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
        """The calls that `Approval.RUN` applies to: exactly this one, or one to the same origin."""
        return Rule(
            Verdict.ALLOW, self.tool, {name: _similar_value(name, value) for name, value in self.arguments.items()}
        )

    @property
    def lasting_pattern(self) -> Rule:
        """The calls that `Approval.ALWAYS` applies to: those of `pattern`, or changes of the same file."""
        free = self.preview.covers if self.is_confined else frozenset[str]()
        fixed = {name: value for name, value in self.arguments.items() if name not in free}
        return Rule(Verdict.ALLOW, self.tool, {name: _similar_value(name, value) for name, value in fixed.items()})

    @property
    def first_words(self) -> list[str]:
        """The first words of the command that `Approval.PATTERN` applies to; empty if it is not available."""
        words = str(self.arguments.get("command", "")).split() if self.tool == "run_shell" else []
        if not words or words[0] in _RUNNERS:
            return []
        has_second = len(words) > 1 and words[1][0].isalpha()
        if words[0] in _INTERPRETERS and not has_second:
            return []
        first = words[: 2 if has_second and words[0] in _INTERPRETERS | _WITH_SUBCOMMANDS else 1]
        is_plain = Rule(Verdict.ALLOW, self.tool, {"command": {"words": first}}).fits(self.tool, self.arguments)
        return first if is_plain else []

    @property
    def is_confined(self) -> bool:
        """Whether approval is needed only because the call changes files of the workspace."""
        return self.preview.is_confined and self.decision.rule == BY_LEVEL and not self.decision.destroys

    @property
    def reason(self) -> str:
        """The reason why approval is needed, for the approver."""
        reason = self.decision.reason
        if self.decision.rule == WORDS:
            return reason
        if reason.endswith(NEEDS_APPROVAL):
            return f"{reason.removesuffix(NEEDS_APPROVAL)}needs your approval."
        return f"{self.tool} needs your approval: {reason}"

    @property
    def details(self) -> str:
        """The complete question, without shortened values."""
        return "\n".join(self._lines(_format_whole))

    def __str__(self) -> str:
        """The question shown to a person: deceptive characters are made visible, long values are cut in the middle."""
        return "\n".join(self._lines(_format_shortened))

    def _lines(self, shown: Callable[[str], str]) -> list[str]:
        within = f" within {_format_shortened(self.within)}" if self.within else ""
        lines = [f"{_format_shortened(self.agent)} wants to call {_format_shortened(self.tool)}{within}"]
        lines += [f"for the task: {collapse(self.task, MAX_TASK_CHARS)}"] if self.task else []
        lines += [f"in {_format_shortened(self.folder)}"] if self.folder else []
        covered = self.preview.covers if self.preview.diff else frozenset[str]()
        uncovered = {name: value for name, value in self.arguments.items() if name not in covered}
        lines += _format_arguments(uncovered, shown)
        lines += [f"  {_format_shortened(each)}" for each in self.preview.summary]
        lines += [f"  │ {shown(self.preview.diff.rstrip())}"] if self.preview.diff else []
        return [*lines, _format_shortened(self.reason)]


ApproverReply = bool | Approval | str | Mapping[str, Any]
"""Valid answers of an approver: True or False, an Approval, a reason for a refusal, or changed arguments."""

Approver = Callable[[ApprovalRequest], ApproverReply | Awaitable[ApproverReply]]
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
    def of(cls, answer: object) -> ApproverAnswer:
        """Normalise what an approver returned or raised; None means that no approver is set."""
        match answer:
            case ApproverAnswer():
                return answer
            case Approval():
                return cls(answer)
            case Mapping():
                return cls(Approval.ONCE, arguments=answer)
            case True:
                return cls(Approval.ONCE)
        return cls(Approval.NO, _refusal_reason(answer))


_ENDS = (".", "!", "?", "…", "。")
"""Sentence endings."""

_CONSENT_TEXTS = frozenset(
    {"y", "yes", "ok", "okay", "sure", "true", "allow", "allowed", "approve", "approved", *Approval} - {Approval.NO}
)
"""Texts that express consent, so that returning one of them is a mistake: a text is a reason for a refusal."""


def is_mistaken(answer: object) -> bool:
    """Whether the answer is a text that expresses consent; texts mean refusal, and code that approves returns True."""
    return (
        isinstance(answer, str)
        and not isinstance(answer, Approval)
        and answer.strip(" .!").casefold() in _CONSENT_TEXTS
    )


def _refusal_reason(answer: object) -> str:
    """The reason for the refusal that an answer, exception or missing answer amounts to."""
    match answer:
        case None:
            return "There is no approver."
        case Exception():
            return f"It could not be approved: the approver failed ({type(answer).__name__}: {answer})."
        case str() if is_mistaken(answer):
            return f"It could not be approved: the approver returned the text {answer!r}; return True to approve."
        case str() if answer.strip():
            reason = answer.rstrip()
            return f"Approval was refused: {reason}{'' if reason.endswith(_ENDS) else '.'}"
        case bool() | str():
            return "Approval was refused."
    return f"It could not be approved: the approver returned {type(answer).__name__}; return True to approve."


@dataclass(frozen=True, slots=True)
class Grant:
    """An approval for later calls that match the pattern, have no other arguments, and the same folder and rule.

    The paths and scripts that the call is bound to must be the same as well. Arguments in `free` can have any value. A
    grant without a pattern applies to all calls that only change files of the folder.
    """

    pattern: Rule | None
    rule: str
    folder: str
    bound: Mapping[str, str] = field(default_factory=dict)
    free: frozenset[str] = frozenset()

    @classmethod
    def of(cls, request: ApprovalRequest, approval: Approval) -> Grant:
        """The grant that an answer to this request gives."""
        rule, folder = request.decision.rule, request.folder
        if approval is Approval.WORKSPACE:
            return cls(None, rule, folder)
        if approval is Approval.PATTERN:
            return cls(Rule(Verdict.ALLOW, request.tool, {"command": {"words": request.first_words}}), rule, folder)
        pattern = request.lasting_pattern if approval is Approval.ALWAYS else request.pattern
        return cls(pattern, rule, folder, dict(request.bound), frozenset(request.arguments.keys() - pattern.where))

    def covers(self, request: ApprovalRequest) -> bool:
        """Whether the grant includes this call; False for arguments nested too deeply to compare."""
        if (self.rule, self.folder) != (request.decision.rule, request.folder):
            return False
        if self.pattern is None:
            return request.is_confined
        is_prefix = any(test == "words" for _, test, _ in self.pattern.tests)
        if request.decision.destroys if is_prefix else self.bound != request.bound:
            return False
        if self.free and not request.is_confined:
            return False
        try:
            is_alike = self.pattern.fits(request.tool, request.arguments)
        except RecursionError:
            return False
        return is_alike and {*self.pattern.where, *self.free} == request.arguments.keys()


def is_offered(approval: Approval, request: ApprovalRequest) -> bool:
    """Whether an answer is available: data-flow approvals cover one call, approvals of destruction end with the run."""
    if approval in (Approval.ONCE, Approval.NO, Approval.LATER):
        return True
    if request.decision.rule == FLOW:
        return False
    if approval is Approval.WORKSPACE:
        return request.is_confined
    if approval is Approval.PATTERN and not request.first_words:
        return False
    return approval is Approval.RUN or not request.decision.destroys


_LASTING_ANSWERS = (Approval.RUN, Approval.WORKSPACE, Approval.ALWAYS, Approval.PATTERN)
"""Answers that apply to more than one call."""


@dataclass(slots=True)
class Grants:
    """Approvals for later calls: for one run, and for the lifetime of the agent, which its runs share."""

    lasting: list[Grant] = field(default_factory=list)
    run: list[Grant] = field(default_factory=list)

    def enter(self, request: ApprovalRequest, approval: Approval, *, lasting: bool = True) -> None:
        """Store an answer that applies to more than one call; without `lasting`, for this run only."""
        if approval in _LASTING_ANSWERS and is_offered(approval, request):
            grants = self.lasting if lasting and approval is not Approval.RUN else self.run
            grants.append(Grant.of(request, approval))

    def applied(self, request: ApprovalRequest) -> Decision:
        """The decision in the request; allowed if it asks and a grant covers the call."""
        decision = request.decision
        if decision.verdict is not Verdict.ASK or not any(
            grant.covers(request) for grant in (*self.run, *self.lasting)
        ):
            return decision
        reason = f"{APPROVED} earlier for calls like it. {decision.reason}"
        return replace(decision, verdict=Verdict.ALLOW, reason=reason, remedy="")


APPROVED = "Approved"
"""The first word of the reason of an approved call."""

SILENT = "It could not be approved: the approver returned None; return True to approve, False to refuse."
"""The reason of a denial if the approver returned None, as a function without `return` does."""

WORDS = "question"
"""Rule name of the decision for a tool that waits for a text answer."""

CANNOT_SUCCEED = "cannot-succeed"
"""Rule name of the decision on a call that would fail, which needs no approval."""

NOBODY = ApproverAnswer.of(None)
"""The answer without an approver."""


def answered(decision: Decision, answer: ApproverAnswer) -> Decision:
    """Apply an approver's answer to the decision."""
    if answer.approval is Approval.IMPOSSIBLE:
        return Decision(Verdict.DENY, CANNOT_SUCCEED, answer.text, level=decision.level)
    if answer.approval is not Approval.NO:
        return replace(decision, verdict=Verdict.ALLOW, reason=f"{APPROVED}. {decision.reason}", remedy="")
    why = answer.text or "Approval was refused."
    remedy = decision.remedy if answer == NOBODY else "Continue without it, or ask what to do instead."
    return replace(
        decision, verdict=Verdict.DENY, reason=f"{as_sentence(decision.reason)} {as_sentence(why)}", remedy=remedy
    )


def _format_arguments(arguments: Mapping[str, Any], shown: Callable[[str], str]) -> list[str]:
    """Render the arguments; of many, only the first and the last to keep the question readable."""
    entries, left_out = [*arguments.items()], len(arguments) - _MAX_ARGUMENTS
    lines = [_format_argument(name, value, shown) for name, value in entries[: _MAX_ARGUMENTS - _TAIL_ARGUMENTS]]
    lines += [f"[… {left_out:,} arguments are not shown …]"] if left_out > 0 else []
    rest = entries[_MAX_ARGUMENTS - _TAIL_ARGUMENTS :]
    return lines + [_format_argument(name, value, shown) for name, value in rest[-_TAIL_ARGUMENTS:]]


def _format_argument(name: str, value: Any, shown: Callable[[str], str]) -> str:
    """Render an argument, followed by the real form of its hosts."""
    text = value_text(value)
    return "\n".join([f"  {_format_shortened(name)}: {shown(text)}", *_hosts_in(text)])


def _format_whole(text: str) -> str:
    """Render a text completely, with a mark before each further line."""
    return escape_invisible(text).replace("\n", "\n  │ ")


def _format_shortened(text: str) -> str:
    """Render a text: cut in the middle, with a mark before each further line."""
    lines = text.split("\n")
    is_high = len(lines) > _MAX_SHOWN_LINES
    if is_high or len(text) > _MAX_SHOWN_CHARS:
        first = "\n".join(lines[: _MAX_SHOWN_LINES - _TAIL_LINES]) if is_high else text
        last = "\n".join(lines[-_TAIL_LINES:]) if is_high else text
        head, tail = first[: _MAX_SHOWN_CHARS - _TAIL_CHARS], last[-_TAIL_CHARS:]
        shown_lines = head.count("\n") + tail.count("\n") + 2
        left_out = [f"{len(lines) - shown_lines:,} lines"] if is_high else []
        if not is_high or (head, tail) != (first, last):
            left_out.append(f"{len(text) - len(head) - len(tail):,} characters")
        text = f"{head}\n[… {' and '.join(left_out)} are not shown …]\n{tail}"
    return _format_whole(text)


def _hosts_in(text: str) -> list[str]:
    """The ASCII form of hosts with non-ASCII letters, which could be mistaken for others."""
    found = dict.fromkeys(_FOREIGN_HOST.findall(text))
    if not found:
        return []
    from agentkit.safety.urls import read_url  # most questions do not need it

    hosts = [*found][:_MAX_HOSTS]
    parsed = [(escape_invisible(host), read_url(f"https://{host}/")) for host in hosts]
    return [f"  ! {host}: {url.reason if isinstance(url, Decision) else url.host}" for host, url in parsed]


def _similar_value(name: str, value: Any) -> dict[str, Any]:
    """The condition on an argument of similar calls: the same value, or a URL of the same origin."""
    found = origin(value) if name == "url" and "\\" not in str(value) else None
    return {"origin": found} if found else {"equals": value}
