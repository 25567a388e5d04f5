"""Chat front ends for terminals and pipes."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

import click

from agentkit.agents.result import RunFinished
from agentkit.cli.approvals import KEPT, CommandApprover, KeptApprovals, approve_all, command_approver
from agentkit.cli.ask import Screen, error_stream
from agentkit.cli.chat.keyboard import Keyboard, typing
from agentkit.cli.chat.screen import ChatScreen
from agentkit.cli.display import json_line, run_document
from agentkit.cli.terminal import tell
from agentkit.events import Event, RequestStarted, TextDelta
from agentkit.safety.approval import Approver
from agentkit.safety.terminal_approver import ApprovalDialog
from agentkit.settings import has_colour

_COLOURS = ("red", "yellow", "green")


class TerminalFrontend(ChatScreen):
    """The front end for terminals: Markdown that is redrawn as it streams, and inline approval."""

    def __init__(self, keyboard: Keyboard, *, yes: bool, kept: KeptApprovals | None) -> None:
        super().__init__(sys.stdout, has_colour=has_colour(sys.stdout))
        lasting = "in this chat" if kept is None else KEPT
        dialog = ApprovalDialog(
            self.tell, keyboard.answer, lasting=lasting, in_workspace="in this chat; /safety revokes it", can_wait=True
        )
        self.approvals = CommandApprover(dialog, kept)
        self._ask = keyboard.answer
        self.approve: Approver | None = approve_all if yes else self.approvals

    def aside(self) -> AbstractContextManager[None]:
        """Restore echo and line input while another program uses the terminal."""
        return typing(is_seen=True)

    def confirm(self, question: str) -> bool:
        """Whether the person answers yes."""
        try:
            return self._ask(question).strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            return False

    def clear(self) -> None:
        """Clear the screen; earlier output stays in the scrollback."""
        click.clear()


class PlainFrontend(Screen):
    """The front end for pipes: answers on stdout, everything else on stderr; or one JSON document per prompt."""

    def __init__(self, *, as_json: bool, yes: bool, kept: KeptApprovals | None) -> None:
        status = error_stream()
        super().__init__(status, "", shows_text=not as_json, shows_calls=not as_json)
        self._as_json = as_json
        self.approvals = command_approver(status, sys.stdin, can_wait=False, kept=kept, in_workspace="in this chat")
        self.approve: Approver | None = approve_all if yes else self.approvals
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

    def confirm(self, question: str) -> bool:
        """Whether the person answers yes."""
        return click.confirm(question.removesuffix(" [N] "), err=True)

    def clear(self) -> None:
        """Do nothing: printed lines stay."""


Front = TerminalFrontend | PlainFrontend
"""A front end that renders a chat and asks for approval. `said` is the text since the last model request."""
