"""An approver at the terminal: a question, one letter for an answer, silence means no."""

from __future__ import annotations

import sys
import threading
from typing import TextIO

from agentkit.safety.approval import Approval, ApprovalRequest, visible

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
        """The answer: y once, r for calls like it in this run, a always for calls like it, anything else no."""
        source, target = self._source or sys.stdin, self._target or sys.stderr
        if source is None or target is None or not source.isatty():
            return Approval.NO
        with self._one_at_a_time:
            target.write(f"\n{request}\n{_choices(request)} ")
            target.flush()
            return _ANSWERS.get(source.readline().strip().lower(), Approval.NO)


def _choices(request: ApprovalRequest) -> str:
    like = ", ".join(f"{name} {test} {operand!r}" for name, test, operand in _described(request))
    return f"[y] once  [r] this run  [a] always ({visible(like)})  [N] no:"


def _described(request: ApprovalRequest) -> list[tuple[str, str, object]]:
    where = request.pattern.where
    return [(name, test, operand) for name, tests in where.items() for test, operand in tests.items()]
