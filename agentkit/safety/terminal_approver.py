"""The approval dialog for a person at a terminal, and an approver that uses standard streams."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import Any, Protocol, TextIO

from agentkit.event_rendering import escape_invisible
from agentkit.safety.approval import WORDS, Approval, ApprovalRequest, ApproverReply, is_offered
from agentkit.settings import has_colour

_MAX_ORIGIN_CHARS = 100
_MIN_READING_SECONDS = 0.4
"""Seconds in which nobody can have read a question: input typed before is not an answer to it."""
_DEFAULT_ROWS, _DEFAULT_COLUMNS = 24, 80
_SPARE_ROWS, _MIN_COLUMNS = 2, 20
_MAX_CLOSE_ROWS = 20
"""A question with more rows may have scrolled off the screen when the person answers."""

ANSWERS: Mapping[str, Approval] = {
    "y": Approval.ONCE,
    "yes": Approval.ONCE,
    "r": Approval.RUN,
    "run": Approval.RUN,
    "w": Approval.WORKSPACE,
    "workspace": Approval.WORKSPACE,
    "a": Approval.ALWAYS,
    "always": Approval.ALWAYS,
    "p": Approval.PATTERN,
    "pattern": Approval.PATTERN,
    "l": Approval.LATER,
    "later": Approval.LATER,
}
_REFUSALS = ("n", "no", "")
_EDIT = ("e", "edit")
_VIEW = ("v", "view")
_STYLES = {"bold yellow": "1;33", "bold": "1", "yellow": "33", "green": "32", "red": "31", "cyan": "36", "dim": "2"}
_DIFF_STYLES = (("  │ +", "green"), ("  │ -", "red"), ("  │ @@", "cyan"))
_NO_TERMINAL = "there is no terminal to ask at."
_UNCLEAR = "Answer with one of the letters; to give a reason for a no, write: n because ..."
_MORE = "-- {} of {} lines; Enter: more, q: stop -- "


class AskLine(Protocol):
    """Ask the person for a line of text. Raises EOFError at the end of the input."""

    def __call__(self, question: str, default: str = "") -> str:
        """Return the typed text; `default` is the initial text."""
        ...


class ApprovalDialog:
    """Ask a person for approval, with a preview of the call.

    `print_text(text, style)` prints lines and `ask` reads a line. `lasting` describes how long the answers `a` and `p`
    apply, `in_workspace` that of `w`; an empty text means that the answer is not offered. With `can_wait`, a person
    can postpone the answer, which pauses the run. Ctrl-D denies the call.
    """

    def __init__(
        self,
        print_text: Callable[[str, str], object],
        ask: AskLine,
        *,
        lasting: str = "",
        in_workspace: str = "",
        can_wait: bool = False,
    ) -> None:
        self._print, self._ask = print_text, ask
        self._lasting, self._in_workspace, self._can_wait = lasting, in_workspace, can_wait

    def __call__(self, request: ApprovalRequest) -> ApproverReply:
        """Return the person's answer."""
        rows = f"{request}".split("\n")
        self._print(f"\n{rows[0]}", "bold yellow")
        self._show(rows[1:])
        try:
            if request.decision.rule == WORDS:
                # The answer to a question of a tool, which is a text
                text = self._ask("Answer: ").strip()
                return text or (Approval.LATER if self._can_wait else Approval.NO)
            if len(rows) > _MAX_CLOSE_ROWS:
                self._print(rows[0], "bold yellow")
            self._print("\n".join(self._choices(request)), "dim")
            return self._answer(request)
        except EOFError:
            return Approval.NO

    def _show(self, rows: list[str]) -> None:
        """Print rows; consecutive rows of one style are printed together."""
        pending: list[str] = []
        style = ""
        for index, row in enumerate(rows):
            own = next((each for start, each in _DIFF_STYLES if row.startswith(start)), "")
            own = "bold" if index == len(rows) - 1 and not row.startswith(" ") else own
            if own != style and pending:
                self._print("\n".join(pending), style)
                pending = []
            style = own
            pending.append(row)
        if pending:
            self._print("\n".join(pending), style)

    def _choices(self, request: ApprovalRequest) -> list[str]:
        """The letters that answer this request, with their meanings."""
        lines = ["y  once"]
        if is_offered(Approval.RUN, request):
            lines.append(f"r  {calls_alike(request)}, until the run ends")
        if self._in_workspace and is_offered(Approval.WORKSPACE, request):
            lines.append(f"w  all changes in this workspace, {self._in_workspace}")
        if self._lasting and is_offered(Approval.ALWAYS, request):
            lines.append(f"a  always for {calls_of_pattern(request)}, {self._lasting}")
        if self._lasting and is_offered(Approval.PATTERN, request):
            lines.append(f"p  always for commands like {' '.join([*request.first_words, '*'])!r}, {self._lasting}")
        if request.details != str(request):
            lines.append(f"v  view all {request.details.count(chr(10)) + 1:,} lines")
        lines.append("e  edit the arguments")
        if self._can_wait:
            lines.append("l  later: the run waits for your answer")
        width = max(_screen_size()[0] - 1, _MIN_COLUMNS)
        lines = [f"  {line}" for line in (*lines, "n  no; with a reason: n because ...")]
        return [row for line in lines for row in wrap(line, width, subsequent_indent="     ")]

    def _answer(self, request: ApprovalRequest) -> ApproverReply:
        while True:
            word, _, reason = self._ask("Allow it? [N] ").strip().partition(" ")
            word = word.lower().rstrip(":,")
            if word in _EDIT:
                return self._edited(request)
            if word in _VIEW:
                self._page(request.details.split("\n"))
                self._print("\n".join(self._choices(request)), "dim")  # the letters have scrolled away
            elif word in _REFUSALS:
                return reason.strip() or Approval.NO
            elif word in ANSWERS and not reason and self._is_offered(ANSWERS[word], request):
                return ANSWERS[word]
            else:
                self._print(_UNCLEAR, "yellow")

    def _is_offered(self, answer: Approval, request: ApprovalRequest) -> bool:
        offers: Mapping[Approval, object] = {
            Approval.LATER: self._can_wait,
            Approval.ALWAYS: self._lasting,
            Approval.PATTERN: self._lasting,
            Approval.WORKSPACE: self._in_workspace,
        }
        return bool(offers.get(answer, True)) and is_offered(answer, request)

    def _page(self, rows: list[str]) -> None:
        """Show all rows, a screen at a time."""
        start = 0
        while start < len(rows):
            end = _page_end(rows, start)
            self._show([*rows[start:end], *([] if end < len(rows) else [" "])])
            if end < len(rows) and self._ask(_MORE.format(end, len(rows))).strip().lower().startswith("q"):
                return
            start = end

    def _edited(self, request: ApprovalRequest) -> ApproverReply:
        """Ask for edited arguments until they are a JSON object."""
        text = json.dumps(dict(request.arguments), ensure_ascii=False, indent=1, default=str)
        self._print("Change the arguments and press Enter; Alt-Enter begins a new line. Ctrl-D means no.", "dim")
        while True:
            text = self._ask("", text)
            try:
                arguments: Any = json.loads(text)
            except (ValueError, RecursionError) as error:
                self._print(f"This is not JSON: {error}", "yellow")
                continue
            if isinstance(arguments, dict):
                return arguments
            self._print('Arguments are an object: {"name": value}', "yellow")


class TerminalApprover:
    """Asks on `target` and reads the answer from `source`; by default standard error and standard input.

    If the source is not a terminal, the answer is no, with this reason. With `can_wait`, a person can postpone the
    answer, which pauses the run. `lasting` and `in_workspace` describe how long the answers `a` and `w` apply; an empty
    text means that the answer is not offered. `edit` returns the edited form of a text; without it, a line of JSON is
    read.
    """

    def __init__(
        self,
        source: TextIO | None = None,
        target: TextIO | None = None,
        *,
        can_wait: bool = False,
        lasting: str = "while this agent exists",
        in_workspace: str = "while this agent exists",
        edit: Callable[[str], str | None] | None = None,
    ) -> None:
        self._source, self._target, self._edit = source, target, edit
        self._dialog = ApprovalDialog(
            self._print, self._ask, lasting=lasting, in_workspace=in_workspace, can_wait=can_wait
        )
        self._one_at_a_time = threading.Lock()

    def __call__(self, request: ApprovalRequest) -> ApproverReply:
        """Return the person's answer."""
        source, target = self._streams()
        if source is None or target is None or not source.isatty():
            return _NO_TERMINAL
        with self._one_at_a_time:
            return self._dialog(request)

    def _streams(self) -> tuple[TextIO | None, TextIO | None]:
        return self._source or sys.stdin, self._target or sys.stderr

    def _print(self, text: str, style: str) -> None:
        _, target = self._streams()
        if target is not None:
            fitted = _fitted(text, target)
            code = _STYLES.get(style) if has_colour(target) else None
            target.write(f"\x1b[{code}m{fitted}\x1b[0m\n" if code else f"{fitted}\n")
            target.flush()

    def _ask(self, question: str, default: str = "") -> str:
        source, target = self._streams()
        if source is None or target is None:
            raise EOFError
        if default and self._edit is not None:
            return self._edit(default) or default
        discard_typed(source)
        target.write(f"{default}\nArguments as JSON on one line: " if default else question)
        target.flush()
        line = source.readline()
        if not line:
            raise EOFError
        return line.strip()


def discard_typed(source: TextIO) -> None:
    """Discard input typed before the current question could be read: it cannot be an answer to it."""
    try:
        import termios
    except ImportError:  # not a POSIX platform
        return
    time.sleep(_MIN_READING_SECONDS)
    termios.tcflush(source, termios.TCIFLUSH)


def _page_end(rows: list[str], start: int) -> int:
    """The index after the last row that fits on the screen, at least one row."""
    columns, height = _screen_size()
    left = max(height - _SPARE_ROWS, 1)
    for end in range(start, len(rows)):
        left -= max(1, -(-len(rows[end]) // columns))
        if left < 0:
            return max(end, start + 1)
    return len(rows)


def _screen_size() -> tuple[int, int]:
    for stream in (sys.stderr, sys.stdout, sys.stdin):
        try:
            size = os.get_terminal_size(stream.fileno())
        except (AttributeError, OSError, ValueError):  # missing, closed, or not a terminal
            continue
        if size.columns and size.lines:
            return size.columns, size.lines
    return _DEFAULT_COLUMNS, _DEFAULT_ROWS


def _fitted(text: str, target: TextIO) -> str:
    """Wrap sentences at the width of the terminal; arguments, which are indented, are left unchanged."""
    try:
        width = os.get_terminal_size(target.fileno()).columns
    except (OSError, ValueError):  # not a terminal, or closed
        return text
    from textwrap import fill

    lines = text.split("\n")
    return "\n".join(line if not width or line.startswith(" ") else fill(line, width) for line in lines)


def calls_alike(request: ApprovalRequest) -> str:
    """Description of the calls that are approved together with this one."""
    return f"this call {_origin(request)}".strip() if _origin(request) else "exactly this call"


def calls_of_pattern(request: ApprovalRequest) -> str:
    """Description of the calls that are approved for good together with this one."""
    if request.is_confined and request.preview.covers:
        return f"{request.tool} of {escape_invisible(str(request.arguments.get('path', '')))[:_MAX_ORIGIN_CHARS]!r}"
    return calls_alike(request)


def _origin(request: ApprovalRequest) -> str:
    origins = [tests["origin"] for tests in request.pattern.where.values() if "origin" in tests]
    return f"to any address at {escape_invisible(origins[0])[:_MAX_ORIGIN_CHARS]}" if origins else ""
