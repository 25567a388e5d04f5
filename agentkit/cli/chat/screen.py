"""Chat front ends: streaming Markdown with a redrawn last block at a terminal, plain text through pipes."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import takewhile
from textwrap import indent
from typing import TextIO

import click

from agentkit.agents.result import RunFinished
from agentkit.cli.approvals import KEPT, CommandApprover, KeptApprovals, approve_all, command_approver
from agentkit.cli.ask import Screen, error_stream
from agentkit.cli.chat.keyboard import Keyboard, typing
from agentkit.cli.chat.markdown import Line, MarkdownBlock, Renderer, blocks, columns_of, cut, steadied
from agentkit.cli.display import json_line, judgment_text, outcome_text, run_document, started_line, was_refused
from agentkit.cli.terminal import StatusLine, clean, tell
from agentkit.event_rendering import plan_text, seconds_text
from agentkit.events import (
    Event,
    ReasoningDelta,
    RequestStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from agentkit.safety.approval import Approver
from agentkit.safety.terminal_approver import ApprovalDialog
from agentkit.settings import has_colour

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized-update escape sequences: the terminal shows the output between them at once, or ignores them."""

_ERASE_REST, _ERASE_BELOW = "\x1b[K", "\x1b[J"
_SPARE_ROWS = 2


class LiveRegion:
    """The last lines of a terminal, which can be redrawn until they are final.

    Only changed lines are written, in one piece. A terminal that became narrower has rewrapped the lines, so their
    rows are counted at the current width. If there are more lines than the screen has rows, the last are shown.
    """

    def __init__(self, stream: TextIO, size: Callable[[], os.terminal_size] = shutil.get_terminal_size) -> None:
        self._stream, self._size = stream, size
        self._shown: list[Line] = []
        self._columns = 0

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the shown lines by the last of these that fit the screen."""
        room = max(1, self._size().lines - _SPARE_ROWS)
        self._draw(lines[-room:])

    def keep(self, lines: Sequence[Line]) -> None:
        """Replace the shown lines by all of these, permanently."""
        self._draw(lines)
        self._shown = []

    def _draw(self, lines: Sequence[Line]) -> None:
        size = self._size()
        same = 0
        if size.columns == self._columns:
            pairs = zip(self._shown, lines, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if same == len(self._shown) == len(lines):
            return
        rows = min(sum(_rows(line, size.columns) for line in self._shown[same:]), size.lines - 1)
        up = f"\x1b[{rows}A\r" if rows else ""
        text = "".join(f"{line.text}{_ERASE_REST}\n" for line in lines[same:])
        self._stream.write(f"{_BEGIN}{up}{text}{_ERASE_BELOW}{_END}")
        self._stream.flush()
        self._shown, self._columns = list(lines), size.columns


def _rows(line: Line, columns: int) -> int:
    """The number of screen rows that a line takes."""
    return max(1, -(-line.width // max(columns, 1)))


_MOST_COLUMNS = 110
"""Longer lines are hard to read."""

_LEAST_SECONDS, _SHARE = 0.03, 3
"""The minimum interval between redraws: in seconds, and as a multiple of the time that a redraw takes."""

_MOST_DIFF_LINES = 120
_INDENT = "  "
_LEAST_ROOM = 12


class Writing:
    """One streamed text of the model: complete blocks are final, the last block is redrawn."""

    def __init__(self, renderer: Renderer, live: LiveRegion, columns: int) -> None:
        self._renderer, self._live, self.columns = renderer, live, columns
        self._pending, self._number = "", 0
        self._has_begun = self._is_in_list = False
        self._next_drawing = 0.0

    def add(self, text: str) -> None:
        """Add the next piece of text."""
        self._pending += text
        now = time.monotonic()
        if now >= self._next_drawing:
            # Make the blocks final that are followed by another
            whole, newline, rest = self._pending.rpartition("\n")
            *done, last = blocks(whole + newline) or [MarkdownBlock("")]
            if done:
                self._live.keep([line for block in done for line in self._block(block.source, block.item)])
                self._pending = last.source + rest
            self._live.show(self._growing())
            self._next_drawing = now + max(_LEAST_SECONDS, _SHARE * (time.monotonic() - now))

    def finish(self) -> None:
        """Render the remaining text as final."""
        self._live.keep([line for block in blocks(self._pending) for line in self._block(block.source, block.item)])
        self._pending = ""

    def _growing(self) -> list[Line]:
        """The lines of the incomplete text."""
        known = self._has_begun, self._is_in_list, self._number
        lines = [line for block in blocks(steadied(self._pending)) for line in self._block(block.source, block.item)]
        self._has_begun, self._is_in_list, self._number = known
        return lines

    def _block(self, source: str, item: int | None) -> list[Line]:
        """Render a block, with a blank line before it unless it continues a list."""
        is_item = item is not None
        goes_on = self._is_in_list and is_item and bool(self._number) == bool(item)
        number = self._number + 1 if goes_on and item else item
        lines = self._renderer.markdown(source, self.columns, number)
        if lines and self._has_begun and not goes_on:
            lines = [Line("", 0), *lines]
        if lines:
            self._has_begun, self._is_in_list, self._number = True, is_item, number or 0
        return lines


class ChatScreen:
    """Render runs at a terminal: text as Markdown, tool calls with decision and duration, and a status line."""

    def __init__(self, stream: TextIO, *, has_colour: bool) -> None:
        self._stream, self.renderer = stream, Renderer(has_colour=has_colour)
        self.status, self._live = StatusLine(stream), LiveRegion(stream)
        self._writing: Writing | None = None
        self._waits_for = self._shown = ""
        self.model = ""
        self.said = ""
        """The text of the model since the last request."""

    def begin(self) -> None:
        """Prepare for another run."""
        self._shown = ""

    def hear(self, event: Event) -> None:
        """Render an event."""
        match event:
            case RequestStarted():
                self.said = ""
                self._wait(f"asking {self.model}")
            case ReasoningDelta():
                self._wait("thinking")
            case TextDelta(text):
                self._write(clean(text))
            case ToolCallDelta(name=name) if name:
                self._wait(f"writing a call of {name}")
            case ToolCallStarted(call, decision) if decision.allowed:
                self._wait(started_line(call))
            case ToolCallFinished():
                self._tell_call(event)
            case RunFinished():
                self.rest()

    def rest(self) -> None:
        """Finish the current output, so that the next begins on a new line."""
        self.status.clear()
        self._waits_for = ""
        if self._writing is not None:
            self._writing.finish()
            self._writing = None

    def tell(self, text: str, style: str = "") -> None:
        """Print lines of agentkit itself, in a style such as `red`."""
        self.rest()
        self._print(*self.renderer.wrapped(text, style or "none", shutil.get_terminal_size().columns - 1))

    def markdown(self, text: str) -> None:
        """Render a complete text as Markdown."""
        self.rest()
        self._part("text")
        writing = Writing(self.renderer, self._live, self._columns())
        writing.add(clean(text))
        writing.finish()

    def diff(self, text: str) -> None:
        """Render a unified diff."""
        self.rest()
        self._part("diff")
        lines = self.renderer.diff(text.strip("\n"))
        self._print(*(f"{_INDENT}{line}" for line in lines[:_MOST_DIFF_LINES]))
        if len(lines) > _MOST_DIFF_LINES:
            left = len(lines) - _MOST_DIFF_LINES
            self.tell(f"{_INDENT}… {left:,} more lines. All of them: agentkit undo --diff", "dim")

    def _write(self, text: str) -> None:
        if self._writing is None:
            if not text.strip():
                return
            self.rest()
            self._part("text")
            self._writing = Writing(self.renderer, self._live, self._columns())
        self._writing.columns = self._columns()
        self.said += text
        self._writing.add(text)

    def _wait(self, text: str) -> None:
        if text != self._waits_for:
            self.rest()
            self._waits_for = text
            self.status.show(text)

    def _tell_call(self, used: ToolCallFinished) -> None:
        """Print a call on one line, or on several if it is too long."""
        self.rest()
        self._part("call")
        result, width = used.result, shutil.get_terminal_size().columns - 1
        if result.ok and (plan := plan_text(used.call)):
            self._print(*self.renderer.wrapped(indent(clean(plan), _INDENT), "none", width))
            return
        style = "red" if was_refused(result) else "dim"
        call, came = started_line(used.call), outcome_text(result)
        tail = " · ".join(filter(None, (judgment_text(result), seconds_text(result.seconds))))
        line = f"{_INDENT}{call} → {came}  [{tail}]"
        if columns_of(line) <= width:
            self._print(self.renderer.styled(line, style))
            return
        came = f"→ {came}"
        room = width - columns_of(tail) - 8
        rows = [f"{cut(came, room)}  [{tail}]"] if room >= _LEAST_ROOM else [cut(came, width - 4), f"[{tail}]"]
        rows = [f"{_INDENT}{cut(call, width - 2)}", *(f"{_INDENT * 2}{row}" for row in rows)]
        self._print(*(self.renderer.styled(row, style) for row in rows))

    def _part(self, kind: str) -> None:
        """Print a blank line if this output is of another kind than the last."""
        if kind != self._shown:
            self._print("")
        self._shown = kind

    def _print(self, *lines: str) -> None:
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()

    @staticmethod
    def _columns() -> int:
        return min(shutil.get_terminal_size().columns - 1, _MOST_COLUMNS)


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
