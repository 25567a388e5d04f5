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
    """Ask the person for a line of text. Raises EOFError at the end of the input."""

    def __call__(self, question: str, default: str = "") -> str:
        """Return the typed text; `default` is the initial text."""
        ...


class ApprovalPrompt:
    """Ask for approval inline; a call approved with "always" stays approved until the chat ends.

    Ctrl-C at a question stops the run; Ctrl-D denies the call.
    """

    def __init__(self, tell: Callable[[str, str], None], ask: AskLine) -> None:
        self._tell, self._ask = tell, ask
        self._grants = Grants()

    def __call__(self, request: ApprovalRequest) -> Said:
        """Return the person's answer."""
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
        """Ask for edited arguments until they are a JSON object."""
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
    """List the letters that answer this request, with their meanings."""
    lines = ["y  once"]
    if is_offered(Approval.RUN, request):
        lines += [f"r  {calls_alike(request)}, until this answer is done", "a  the same, always in this chat"]
    return "\n".join([*lines, "e  edit the arguments", "n  no; with a reason: n because ..."])


_COLOURS = ("red", "yellow", "green")


class TerminalFrontend(ChatScreen):
    """The front end for terminals: Markdown that is redrawn as it streams, and inline approval."""

    def __init__(self, keyboard: Keyboard, *, yes: bool) -> None:
        super().__init__(sys.stdout, has_colour=has_colour(sys.stdout))
        self.approve: Approver | None = ApprovalPrompt(self.tell, keyboard.answer)
        if yes:
            self.approve = approver(self.status, yes=True, can_wait=False)

    def aside(self) -> AbstractContextManager[None]:
        """Restore echo and line input while another program uses the terminal."""
        return typing(is_seen=True)

    def clear(self) -> None:
        """Clear the screen; earlier output stays in the scrollback."""
        click.clear()


class PlainFrontend(Screen):
    """The front end for pipes: answers on stdout, everything else on stderr; or one JSON document per prompt."""

    def __init__(self, *, as_json: bool, yes: bool) -> None:
        status = error_stream()
        super().__init__(status, "", shows_text=not as_json, shows_calls=not as_json)
        self._as_json = as_json
        self.approve = approver(status, yes=yes, can_wait=False)
        self.said = ""

    def begin(self) -> None:
        """Do nothing at the start of a run."""

    def aside(self) -> AbstractContextManager[None]:
        """Return a context manager that does nothing."""
        return nullcontext()

    def hear(self, event: Event) -> None:
        """Render an event; in JSON mode, print the whole run when it is finished."""
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
        """Print lines on stderr, in a style such as `red` or `dim`."""
        self.end_line()
        colour = next((colour for colour in _COLOURS if colour in style), None)
        tell(text, colour, faint=style == "dim")

    def markdown(self, text: str) -> None:
        """Print the Markdown source."""
        self.tell(text)

    def diff(self, text: str) -> None:
        """Print the diff unchanged; JSON mode omits it."""
        if not self._as_json:
            self.tell(text)

    def clear(self) -> None:
        """Do nothing: printed lines stay."""


Front = TerminalFrontend | PlainFrontend
"""A front end that renders a chat and asks for approval. `said` is the text since the last model request."""
