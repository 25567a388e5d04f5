"""May this call happen? A person in a conversation decides: once, for the run, always, not, or with other arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from agentkit.decisions import Verdict
from agentkit.safety.approval import Approval, ApprovalRequest, Grants, Said, visible
from agentkit.safety.flow import FLOW

_ANSWERS = {
    "y": Approval.ONCE,
    "yes": Approval.ONCE,
    "r": Approval.RUN,
    "run": Approval.RUN,
    "a": Approval.ALWAYS,
    "always": Approval.ALWAYS,
    "n": Approval.NO,
    "no": Approval.NO,
    "": Approval.NO,
}
_MOST_SHOWN_CHARS = 100
_UNCLEAR = "Not understood. Answer with one of the letters; to say why not, write: n because ..."


class Asks(Protocol):
    """Asks the person for a line of text. Raises EOFError when there will be none."""

    def __call__(self, question: str, default: str = "") -> str:
        """What the person typed, `default` to begin with."""
        ...


class Decider:
    """Asks in place what a call may do; what was approved for always holds until the conversation is left.

    Ctrl-C at a question stops the run; Ctrl-D is a no.
    """

    def __init__(self, tell: Callable[[str, str], None], ask: Asks) -> None:
        self._tell, self._ask = tell, ask
        self._grants = Grants()

    def __call__(self, request: ApprovalRequest) -> Said:
        """The person's answer."""
        if self._grants.applied(request).verdict is Verdict.ALLOW:
            return Approval.ONCE
        first, *rest = str(request).split("\n")
        self._tell(f"\n{first}", "bold yellow")
        self._tell("\n".join(rest), "")
        self._tell(choices(request), "dim")
        try:
            said = self._answer(request)
        except EOFError:
            said = Approval.NO
        if said is Approval.ALWAYS:
            self._grants.enter(request, said)
        return said

    def _answer(self, request: ApprovalRequest) -> Said:
        while True:
            word, _, reason = self._ask("Allow it? [N] ").strip().partition(" ")
            word = word.lower().rstrip(":,")
            if word in {"e", "edit"}:
                return self._edited(request)
            if word in {"n", "no"}:
                return reason.strip() or Approval.NO
            if word in _ANSWERS and not reason and _is_offered(word, request):
                return _ANSWERS[word]
            self._tell(_UNCLEAR, "yellow")

    def _edited(self, request: ApprovalRequest) -> Said:
        """Other arguments, as JSON; asked for again while they are none."""
        text = json.dumps(dict(request.arguments), ensure_ascii=False, indent=1, default=str)
        self._tell("Change the arguments and press Enter; a new line is Alt-Enter. Ctrl-D is a no.", "dim")
        while True:
            text = self._ask("", text)
            try:
                arguments: Any = json.loads(text)
            except (ValueError, RecursionError) as error:
                self._tell(f"That is no JSON: {error}", "yellow")
                continue
            if isinstance(arguments, dict):
                return arguments
            self._tell('Arguments are an object: {"name": value}', "yellow")


def choices(request: ApprovalRequest) -> str:
    """The letters that are an answer to this question, and what each means."""
    lines = ["y  once"]
    if request.decision.rule != FLOW:
        lines += [f"r  {_like(request)}, until this answer is done", "a  the same, always in this chat"]
    return "\n".join([*lines, "e  edit the arguments", "n  no; with a reason: n because ..."])


def _is_offered(word: str, request: ApprovalRequest) -> bool:
    return request.decision.rule != FLOW or _ANSWERS[word] in (Approval.ONCE, Approval.NO)


def _like(request: ApprovalRequest) -> str:
    """Which calls are approved together with this one, in words."""
    origins = [tests["origin"] for tests in request.pattern.where.values() if "origin" in tests]
    return f"this call to any address at {visible(origins[0])[:_MOST_SHOWN_CHARS]}" if origins else "exactly this call"
