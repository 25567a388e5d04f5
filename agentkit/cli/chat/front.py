"""What shows a conversation? A terminal, or plain lines for a pipe."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

import click

from agentkit.agents.result import RunFinished
from agentkit.cli.asking.approving import approver
from agentkit.cli.asking.writing import Screen, error_stream
from agentkit.cli.chat.deciding import Decider
from agentkit.cli.chat.keyboard import Keyboard, typing
from agentkit.cli.chat.showing.screen import ChatScreen
from agentkit.cli.display import json_line, run_document
from agentkit.cli.terminal import tell
from agentkit.config import has_colour
from agentkit.events import Event, RequestStarted, TextDelta
from agentkit.safety.approval import Approver

_COLOURS = ("red", "yellow", "green")


class Terminal(ChatScreen):
    """A person at a terminal: Markdown that grows, questions in place."""

    def __init__(self, keyboard: Keyboard, *, yes: bool) -> None:
        super().__init__(sys.stdout, has_colour=has_colour(sys.stdout))
        self.approve: Approver | None = Decider(self.tell, keyboard.answer)
        if yes:
            self.approve = approver(self.status, yes=True, can_wait=False)

    def aside(self) -> AbstractContextManager[None]:
        """Around another program that the person uses: what is typed meanwhile is for that."""
        return typing(is_seen=True)

    def clear(self) -> None:
        """Begin at the top of an empty screen; what was shown can be scrolled back to."""
        click.clear()


class Plain(Screen):
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


Front = Terminal | Plain
"""What shows a conversation, and who is asked in it. `said` is the text since the last request to the model."""
