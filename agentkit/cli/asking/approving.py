"""Who is asked about a call that must be asked for? A person at the terminal, nobody, or nobody as all is approved."""

from __future__ import annotations

import sys
from collections.abc import Awaitable

import click

from agentkit.cli.asking.status import StatusLine
from agentkit.safety.approval import Approval, ApprovalRequest, Approver, Said
from agentkit.safety.terminal import TerminalApprover


def approver(status: StatusLine, *, yes: bool, can_wait: bool) -> Approver | None:
    """What answers; None when there is no terminal. With `can_wait`, `l` or Ctrl-C leaves a question for later."""
    if yes:
        return _yes
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    return Person(TerminalApprover(can_wait=can_wait), status, can_wait=can_wait)


def _yes(_: ApprovalRequest) -> bool:
    return True


class Person:
    """Asks at the terminal, with nothing else on its line."""

    def __init__(self, ask: Approver, status: StatusLine, *, can_wait: bool) -> None:
        self._ask, self._status, self._can_wait = ask, status, can_wait

    def __call__(self, request: ApprovalRequest) -> Said | Awaitable[Said]:
        """The answer of the person. Raises KeyboardInterrupt where the question cannot wait."""
        self._status.clear()
        try:
            return self._ask(request)
        except KeyboardInterrupt:
            click.echo(err=True)
            if self._can_wait:
                return Approval.LATER
            raise
