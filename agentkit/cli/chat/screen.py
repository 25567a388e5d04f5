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
from agentkit.cli.approvals import STORED_NOTE, CommandApprover, StoredApprovals, approve_all, command_approver
from agentkit.cli.ask import OFFLINE_NAME, Screen, error_stream
from agentkit.cli.chat.keyboard import Keyboard, typing
from agentkit.cli.chat.markdown import Line, MarkdownBlock, Renderer, blocks, stable_part, text_width, truncate
from agentkit.cli.display import json_line, judgment_text, outcome_text, run_document, started_line, was_refused
from agentkit.cli.terminal import StatusLine, clean, print_note
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
from agentkit.safety.approval import ApprovalRequest, Approver, ApproverReply
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
        self._last_kind: list[Line] = []
        self._columns = 0

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the shown lines by the last of these that fit the screen."""
        available_lines = max(1, self._size().lines - _SPARE_ROWS)
        self._draw(lines[-available_lines:])

    def commit(self, lines: Sequence[Line]) -> None:
        """Replace the shown lines by all of these, permanently."""
        self._draw(lines)
        self._last_kind = []

    def _draw(self, lines: Sequence[Line]) -> None:
        size = self._size()
        unchanged = 0
        if size.columns == self._columns:
            pairs = zip(self._last_kind, lines, strict=False)
            unchanged = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if unchanged == len(self._last_kind) == len(lines):
            return
        rows = min(sum(_rows(line, size.columns) for line in self._last_kind[unchanged:]), size.lines - 1)
        up = f"\x1b[{rows}A\r" if rows else ""
        text = "".join(f"{line.text}{_ERASE_REST}\n" for line in lines[unchanged:])
        self._stream.write(f"{_BEGIN}{up}{text}{_ERASE_BELOW}{_END}")
        self._stream.flush()
        self._last_kind, self._columns = list(lines), size.columns


def _rows(line: Line, columns: int) -> int:
    """The number of screen rows that a line takes."""
    return max(1, -(-line.width // max(columns, 1)))


_MAX_COLUMNS = 110
"""Longer lines are hard to read."""

_MIN_SECONDS, _SHARE = 0.03, 3
"""The minimum interval between redraws: in seconds, and as a multiple of the time that a redraw takes."""

_MAX_DIFF_LINES = 120
_INDENT = "  "
_MIN_ROOM = 12


class LiveText:
    """One streamed text of the model: complete blocks are final, the last block is redrawn."""

    def __init__(self, renderer: Renderer, live: LiveRegion, columns: int) -> None:
        self._renderer, self._live, self.columns = renderer, live, columns
        self._pending, self._number = "", 0
        self._has_output = self._is_in_list = False
        self._next_drawing = 0.0

    def add(self, text: str) -> None:
        """Add the next piece of text."""
        self._pending += text
        now = time.monotonic()
        if now >= self._next_drawing:
            # Make the blocks final that are followed by another
            complete, newline, rest = self._pending.rpartition("\n")
            *done, last = blocks(complete + newline) or [MarkdownBlock("")]
            if done:
                self._live.commit([line for block in done for line in self._block(block.source, block.item)])
                self._pending = last.source + rest
            self._live.show(self._preview())
            self._next_drawing = now + max(_MIN_SECONDS, _SHARE * (time.monotonic() - now))

    def finish(self) -> None:
        """Render the remaining text as final."""
        self._live.commit([line for block in blocks(self._pending) for line in self._block(block.source, block.item)])
        self._pending = ""

    def _preview(self) -> list[Line]:
        """The lines of the incomplete text."""
        state = self._has_output, self._is_in_list, self._number
        lines = [line for block in blocks(stable_part(self._pending)) for line in self._block(block.source, block.item)]
        self._has_output, self._is_in_list, self._number = state
        return lines

    def _block(self, source: str, item: int | None) -> list[Line]:
        """Render a block, with a blank line before it unless it continues a list."""
        is_item = item is not None
        continues_list = self._is_in_list and is_item and bool(self._number) == bool(item)
        number = self._number + 1 if continues_list and item else item
        lines = self._renderer.markdown(source, self.columns, number)
        if lines and self._has_output and not continues_list:
            lines = [Line("", 0), *lines]
        if lines:
            self._has_output, self._is_in_list, self._number = True, is_item, number or 0
        return lines


class ChatScreen:
    """Render runs at a terminal: text as Markdown, tool calls with decision and duration, and a status line."""

    def __init__(self, stream: TextIO, *, has_colour: bool) -> None:
        self._stream, self.renderer = stream, Renderer(has_colour=has_colour)
        self.status, self._live = StatusLine(stream), LiveRegion(stream)
        self._live_text: LiveText | None = None
        self._status_text = self._last_kind = ""
        self.model = ""
        self.text = ""
        """The text of the model since the last request."""

    def begin(self) -> None:
        """Prepare for another run."""
        self._last_kind = ""

    def render(self, event: Event) -> None:
        """Render an event, after the person has answered a question that another thread asks."""
        with self.status.turn:
            self._render(event)

    def _render(self, event: Event) -> None:
        match event:
            case RequestStarted():
                self.text = ""
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
                self._print_call(event)
            case RunFinished():
                self.end_output()

    def end_output(self) -> None:
        """Finish the current output, so that the next begins on a new line."""
        self.status.clear()
        self._status_text = ""
        if self._live_text is not None:
            self._live_text.finish()
            self._live_text = None

    def print(self, text: str, style: str = "") -> None:
        """Print lines of agentkit itself, in a style such as `red`."""
        self.end_output()
        self._write_lines(*self.renderer.wrap(text, style or "none", shutil.get_terminal_size().columns - 1))

    def markdown(self, text: str) -> None:
        """Render a complete text as Markdown."""
        self.end_output()
        self._begin_block("text")
        live_text = LiveText(self.renderer, self._live, self._columns())
        live_text.add(clean(text))
        live_text.finish()

    def diff(self, text: str) -> None:
        """Render a unified diff."""
        self.end_output()
        self._begin_block("diff")
        lines = self.renderer.diff(text.strip("\n"))
        self._write_lines(*(f"{_INDENT}{line}" for line in lines[:_MAX_DIFF_LINES]))
        if len(lines) > _MAX_DIFF_LINES:
            omitted = len(lines) - _MAX_DIFF_LINES
            self.print(f"{_INDENT}… {omitted:,} more lines. All of them: agentkit undo --diff", "dim")

    def _write(self, text: str) -> None:
        if self.model == OFFLINE_NAME:  # it answers with results of tools, which are not Markdown
            self.text += text
            self.end_output()
            self._begin_block("text")
            self.print(text)
            return
        if self._live_text is None:
            if not text.strip():
                return
            self.end_output()
            self._begin_block("text")
            self._live_text = LiveText(self.renderer, self._live, self._columns())
        self._live_text.columns = self._columns()
        self.text += text
        self._live_text.add(text)

    def _wait(self, text: str) -> None:
        if text != self._status_text:
            self.end_output()
            self._status_text = text
            self.status.show(text)

    def _print_call(self, used: ToolCallFinished) -> None:
        """Print a call on one line, or on several if it is too long."""
        self.end_output()
        self._begin_block("call")
        result, width = used.result, shutil.get_terminal_size().columns - 1
        if result.ok and (plan := plan_text(used.call)):
            self._write_lines(*self.renderer.wrap(indent(clean(plan), _INDENT), "none", width))
            return
        style = "red" if was_refused(result) else "dim"
        call, outcome = started_line(used.call), outcome_text(result)
        tail = " · ".join(filter(None, (judgment_text(result), seconds_text(result.seconds))))
        line = f"{_INDENT}{call} → {outcome}  [{tail}]"
        if text_width(line) <= width:
            self._write_lines(self.renderer.apply_style(line, style))
            return
        outcome = f"→ {outcome}"
        available_width = width - text_width(tail) - 8
        if not result.ok:  # an error is shown in full
            *rows, last = self.renderer.wrap(outcome, "none", width - 4)
            joined = f"{last}  [{tail}]"
            rows += [joined] if text_width(joined) <= width - 4 else [last, f"[{tail}]"]
        elif available_width >= _MIN_ROOM:
            rows = [f"{truncate(outcome, available_width)}  [{tail}]"]
        else:
            rows = [truncate(outcome, width - 4), f"[{tail}]"]
        rows = [f"{_INDENT}{truncate(call, width - 2)}", *(f"{_INDENT * 2}{row}" for row in rows)]
        self._write_lines(*(self.renderer.apply_style(row, style) for row in rows))

    def _begin_block(self, kind: str) -> None:
        """Print a blank line if this output is of another kind than the last."""
        if kind != self._last_kind:
            self._write_lines("")
        self._last_kind = kind

    def _write_lines(self, *lines: str) -> None:
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()

    @staticmethod
    def _columns() -> int:
        return min(shutil.get_terminal_size().columns - 1, _MAX_COLUMNS)


_COLOURS = ("red", "yellow", "green")


class TerminalFrontend(ChatScreen):
    """The front end for terminals: Markdown that is redrawn as it streams, and inline approval."""

    def __init__(self, keyboard: Keyboard, *, yes: bool, stored: StoredApprovals | None) -> None:
        super().__init__(sys.stdout, has_colour=has_colour(sys.stdout))
        duration_note = "in this chat" if stored is None else STORED_NOTE
        dialog = ApprovalDialog(
            self.print,
            keyboard.answer,
            lasting=duration_note,
            in_workspace="in this chat; /safety revokes it",
            can_wait=True,
        )
        self.approvals = CommandApprover(self._ask_alone(dialog), stored)
        self._ask = keyboard.answer
        self.approve: Approver | None = approve_all if yes else self.approvals

    def _ask_alone(self, dialog: ApprovalDialog) -> Approver:
        def ask(request: ApprovalRequest) -> ApproverReply:
            with self.status.turn:
                return dialog(request)

        return ask

    def suspend(self) -> AbstractContextManager[None]:
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

    def __init__(self, *, as_json: bool, yes: bool, stored: StoredApprovals | None) -> None:
        status = error_stream()
        super().__init__(status, "", shows_text=not as_json, shows_calls=not as_json)
        self._as_json = as_json
        self.approvals = command_approver(status, sys.stdin, can_wait=False, stored=stored, in_workspace="in this chat")
        self.approve: Approver | None = approve_all if yes else self.approvals
        self.text = ""

    def begin(self) -> None:
        """Do nothing at the start of a run."""

    def suspend(self) -> AbstractContextManager[None]:
        """Return a context manager that does nothing."""
        return nullcontext()

    def render(self, event: Event) -> None:
        """Render an event; in JSON mode, print the whole run when it is finished."""
        match event:
            case RequestStarted():
                self.text = ""
            case TextDelta(text):
                self.text += text
        super().render(event)
        if self._as_json and isinstance(event, RunFinished):
            click.echo(json_line(run_document(event.result)))

    def end_output(self) -> None:
        """End the line."""
        self.end_line()

    def print(self, text: str, style: str = "") -> None:
        """Print lines on stderr, in a style such as `red` or `dim`."""
        self.end_line()
        colour = next((colour for colour in _COLOURS if colour in style), None)
        print_note(text, colour, faint=style == "dim")

    def markdown(self, text: str) -> None:
        """Print the Markdown source."""
        self.print(text)

    def diff(self, text: str) -> None:
        """Print the diff unchanged; JSON mode omits it."""
        if not self._as_json:
            self.print(text)

    def confirm(self, question: str) -> bool:
        """Whether the person answers yes."""
        return click.confirm(question.removesuffix(" [N] "), err=True)

    def clear(self) -> None:
        """Do nothing: printed lines stay."""


Frontend = TerminalFrontend | PlainFrontend
"""A front end that renders a chat and asks for approval. `text` is the text since the last model request."""
