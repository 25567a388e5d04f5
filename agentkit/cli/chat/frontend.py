"""Chat front ends for terminals and pipes, and the approval prompt."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import click

from agentkit.agents.result import RunFinished
from agentkit.cli.ask import Screen, approver, error_stream
from agentkit.cli.chat.keyboard import Keyboard, typing
from agentkit.cli.chat.screen import ChatScreen
from agentkit.cli.display import json_line, run_document
from agentkit.cli.terminal import tell
from agentkit.decisions import Verdict
from agentkit.events import Event, RequestStarted, TextDelta
from agentkit.safety.approval import Approval, ApprovalRequest, Approver, Grants, Said
from agentkit.safety.terminal_approver import ANSWERS, calls_alike, is_offered
from agentkit.settings import has_colour

_NOES = ("n", "no", "")
_MOST_LINES = 20
_UNCLEAR = "Not understood. Answer with one of the letters; to say why not, write: n because ..."


class AskLine(Protocol):
    """Asks the person for a line of text. Raises EOFError when there will be none."""

    def __call__(self, question: str, default: str = "") -> str:
        """What the person typed, `default` to begin with."""
        ...


class ApprovalPrompt:
    """Asks in place what a call may do; what was approved for always holds until the conversation is left.

    Ctrl-C at a question stops the run; Ctrl-D is a no.
    """

    def __init__(self, tell: Callable[[str, str], None], ask: AskLine) -> None:
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


_COLOURS = ("red", "yellow", "green")


class TerminalFrontend(ChatScreen):
    """A person at a terminal: Markdown that grows, questions in place."""

    def __init__(self, keyboard: Keyboard, *, yes: bool) -> None:
        super().__init__(sys.stdout, has_colour=has_colour(sys.stdout))
        self.approve: Approver | None = ApprovalPrompt(self.tell, keyboard.answer)
        if yes:
            self.approve = approver(self.status, yes=True, can_wait=False)

    def aside(self) -> AbstractContextManager[None]:
        """Around another program that the person uses: what is typed meanwhile is for that."""
        return typing(is_seen=True)

    def clear(self) -> None:
        """Begin at the top of an empty screen; what was shown can be scrolled back to."""
        click.clear()


class PlainFrontend(Screen):
    """Lines: answers on standard output, all else on standard error; or a JSON document a line for each prompt."""

    def __init__(self, *, as_json: bool, yes: bool) -> None:
        status = error_stream()
        super().__init__(status, "", shows_text=not as_json, shows_calls=not as_json)
        self._as_json = as_json
        self.approve = approver(status, yes=yes, can_wait=False)
        self.said = ""

    def begin(self) -> None:
        """Another run is about to begin: nothing is to be done."""

    def aside(self) -> AbstractContextManager[None]:
        """Nothing is to be done."""
        return nullcontext()

    def hear(self, event: Event) -> None:
        """Show an event; in JSON, the whole run when it is over."""
        match event:
            case RequestStarted():
                self.said = ""
            case TextDelta(text):
                self.said += text
        super().hear(event)
        if self._as_json and isinstance(event, RunFinished):
            click.echo(json_line(run_document(event.result)))

    def rest(self) -> None:
        """End the line."""
        self.end_line()

    def tell(self, text: str, style: str = "") -> None:
        """Lines on standard error, in a style such as `red` or `dim`."""
        self.end_line()
        colour = next((colour for colour in _COLOURS if colour in style), None)
        tell(text, colour, faint=style == "dim")

    def markdown(self, text: str) -> None:
        """The text as it was written."""
        self.tell(text)

    def diff(self, text: str) -> None:
        """The diff as it is; JSON has no place for it."""
        if not self._as_json:
            self.tell(text)

    def clear(self) -> None:
        """Lines that were written stay."""


Front = TerminalFrontend | PlainFrontend
"""What shows a conversation, and who is asked in it. `said` is the text since the last request to the model."""
