"""May this call happen? A person in a conversation decides: once, for the run, always, not, or with other arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from agentkit.decisions import Verdict
from agentkit.safety.approval import Approval, ApprovalRequest, Grants, Said
from agentkit.safety.terminal import ANSWERS, calls_alike, is_offered

_NOES = ("n", "no", "")
_MOST_LINES = 20
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
        if len(rest) > _MOST_LINES:
            self._tell(f"{first}: {len(rest):,} lines, of which the first may be out of sight.", "bold yellow")
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
            if word in _NOES:
                return reason.strip() or Approval.NO
            if word in ANSWERS and not reason and is_offered(ANSWERS[word], request):
                return ANSWERS[word]
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
    if is_offered(Approval.RUN, request):
        lines += [f"r  {calls_alike(request)}, until this answer is done", "a  the same, always in this chat"]
    return "\n".join([*lines, "e  edit the arguments", "n  no; with a reason: n because ..."])
