"""An approver that asks at the terminal."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import TextIO

from agentkit.event_rendering import visible
from agentkit.safety.approval import Approval, ApprovalRequest
from agentkit.safety.data_flow import FLOW

_MOST_SHOWN_CHARS = 100
_UNREAD_SECONDS = 0.4
"""Time in seconds in which nobody can have read a question: input typed before is not an answer to it."""

ANSWERS: Mapping[str, Approval] = {
    "y": Approval.ONCE,
    "yes": Approval.ONCE,
    "r": Approval.RUN,
    "run": Approval.RUN,
    "a": Approval.ALWAYS,
    "always": Approval.ALWAYS,
}


_LATER = ("l", "later")


class TerminalApprover:
    """Asks on `target` and reads the answer from `source`; by default standard error and standard input.

    If the source is not a terminal, the answer is no. With `can_wait`, a person can postpone the answer, which pauses
    the run.
    """

    def __init__(self, source: TextIO | None = None, target: TextIO | None = None, *, can_wait: bool = False) -> None:
        self._source, self._target, self._can_wait = source, target, can_wait
        self._one_at_a_time = threading.Lock()

    def __call__(self, request: ApprovalRequest) -> Approval:
        """The answer: y once, r for this call until the run ends, a always, l later, anything else no."""
        source, target = self._source or sys.stdin, self._target or sys.stderr
        if source is None or target is None or not source.isatty():
            return Approval.NO
        with self._one_at_a_time:
            target.write(f"\n{_fitted(f'{request}', target)}\n")
            target.flush()
            forget_typed(source)
            later = "[l] later  " if self._can_wait else ""
            target.write(f"{_fitted(f'{_choices(request)}{later}[N] no:', target)} ")
            target.flush()
            word = source.readline().strip().lower()
        if self._can_wait and word in _LATER:
            return Approval.LATER
        said = ANSWERS.get(word, Approval.NO)
        return said if is_offered(said, request) else Approval.NO


def forget_typed(source: TextIO) -> None:
    """Discard input typed before the current question could be read: it cannot be an answer to it."""
    try:
        import termios
    except ImportError:  # not a POSIX platform
        return
    time.sleep(_UNREAD_SECONDS)
    termios.tcflush(source, termios.TCIFLUSH)


def _fitted(question: str, target: TextIO) -> str:
    """Wrap the sentences of the question at the width of the terminal; arguments are left unchanged."""
    try:
        width = os.get_terminal_size(target.fileno()).columns
    except (OSError, ValueError):  # not a terminal, or closed
        return question
    from textwrap import fill

    lines = question.split("\n")
    return "\n".join(line if not width or line.startswith(" ") else fill(line, width) for line in lines)


def is_offered(said: Approval, request: ApprovalRequest) -> bool:
    """Whether the answer is available for this question: the data-flow rule covers one call only."""
    return request.decision.rule != FLOW or said in (Approval.ONCE, Approval.NO)


def calls_alike(request: ApprovalRequest) -> str:
    """Description of the calls that are approved together with this one."""
    origins = [tests["origin"] for tests in request.pattern.where.values() if "origin" in tests]
    return f"this call to any address at {visible(origins[0])[:_MOST_SHOWN_CHARS]}" if origins else "exactly this call"


def _choices(request: ApprovalRequest) -> str:
    if not is_offered(Approval.RUN, request):
        return "[y] once  "
    return f"[y] once  [r] {calls_alike(request)}, until the run ends  [a] the same, always  "
