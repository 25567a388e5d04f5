"""An approver at the terminal: a question, one letter for an answer, silence means no."""

from __future__ import annotations

import sys
import threading
from typing import TextIO

from agentkit.safety.approval import Approval, ApprovalRequest, visible
from agentkit.safety.flow import FLOW

_MOST_SHOWN_CHARS = 100
_ANSWERS = {
    "y": Approval.ONCE,
    "yes": Approval.ONCE,
    "r": Approval.RUN,
    "run": Approval.RUN,
    "a": Approval.ALWAYS,
    "always": Approval.ALWAYS,
}


class TerminalApprover:
    """Asks on `target` and reads the answer from `source`; by default standard error and standard input.

    Where the source is no terminal there is nobody to ask, and the answer is no.
    """

    def __init__(self, source: TextIO | None = None, target: TextIO | None = None) -> None:
        self._source, self._target = source, target
        self._one_at_a_time = threading.Lock()

    def __call__(self, request: ApprovalRequest) -> Approval:
        """The answer: y once, r for this very call until the run ends, a for it always, anything else no."""
        source, target = self._source or sys.stdin, self._target or sys.stderr
        if source is None or target is None or not source.isatty():
            return Approval.NO
        with self._one_at_a_time:
            _forget_typed(source)
            target.write(f"\n{request}\n{_choices(request)} ")
            target.flush()
            return _ANSWERS.get(source.readline().strip().lower(), Approval.NO)


def _forget_typed(source: TextIO) -> None:
    """Drop what was typed before the question was seen: it cannot be an answer to it."""
    try:
        import termios
    except ImportError:  # where terminals are none of POSIX's
        return
    termios.tcflush(source, termios.TCIFLUSH)


def _choices(request: ApprovalRequest) -> str:
    if request.decision.rule == FLOW:
        return "[y] once  [N] no:"
    origins = [tests["origin"] for tests in request.pattern.where.values() if "origin" in tests]
    like = f"this call to any address at {visible(origins[0])[:_MOST_SHOWN_CHARS]}" if origins else "exactly this call"
    return f"[y] once  [r] {like}, until the run ends  [a] the same, always  [N] no:"
