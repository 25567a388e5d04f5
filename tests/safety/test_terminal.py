"""What does a person at a terminal see, and what does the answer mean?"""

import io
import os
import pty

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.safety.approval import Approval, ApprovalRequest
from agentkit.safety.terminal import TerminalApprover

REQUEST = ApprovalRequest(
    "helper", "run_shell", {"command": "git push\x1b[8m --force"}, Decision(Verdict.ASK, "shell.network", "It leaves.")
)


@pytest.fixture
def terminal():
    """A real terminal: what is typed into the first end is read from the second."""
    keyboard, screen = pty.openpty()
    with os.fdopen(keyboard, "w", buffering=1) as typed, os.fdopen(screen, "r") as read:
        yield typed, read


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y\n", Approval.ONCE),
        ("Yes\n", Approval.ONCE),
        ("r\n", Approval.RUN),
        ("a\n", Approval.ALWAYS),
        ("n\n", Approval.NO),
        ("\n", Approval.NO),
        ("yy\n", Approval.NO),
        ("\x04", Approval.NO),
    ],
)
def test_one_letter_answers(terminal, typed, answer):
    """A y approves once, r for this run, a for always; anything else, and the end of input, is a no."""
    keyboard, screen = terminal
    keyboard.write(typed)
    keyboard.flush()
    shown = io.StringIO()
    assert TerminalApprover(screen, shown)(REQUEST) is answer
    assert "helper wants to call run_shell" in shown.getvalue()
    assert "\x1b" not in shown.getvalue()
    assert "always (command equals" in shown.getvalue()


def test_nobody_is_asked_without_a_terminal():
    """Where the input is a file or a pipe, a yes in it is not a person's."""
    shown = io.StringIO()
    assert TerminalApprover(io.StringIO("y\n"), shown)(REQUEST) is Approval.NO
    assert shown.getvalue() == ""
