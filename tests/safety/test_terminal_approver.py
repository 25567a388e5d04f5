"""What does a person at a terminal see, and what does the answer mean?"""

import fcntl
import io
import os
import pty
import struct
import termios
from dataclasses import replace

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.safety.approval import Approval, ApprovalRequest
from agentkit.safety.terminal_approver import TerminalApprover

REQUEST = ApprovalRequest(
    "helper", "run_shell", {"command": "git push\x1b[8m --force"}, Decision(Verdict.ASK, "shell.network", "It leaves.")
)


@pytest.fixture
def terminal():
    """A real terminal: what is typed into the first end is read from the second."""
    keyboard, screen = pty.openpty()
    with os.fdopen(keyboard, "w", buffering=1) as typed, os.fdopen(screen, "r") as read:
        yield typed, read


class Screen(io.StringIO):
    """A screen before which somebody types as soon as the question is there."""

    def __init__(self, keyboard, typed):
        super().__init__()
        self.keyboard, self.typed = keyboard, typed

    def flush(self):
        """The question is complete."""
        self.keyboard.write(self.typed)
        self.keyboard.flush()


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
    shown = Screen(keyboard, typed)
    assert TerminalApprover(screen, shown)(REQUEST) is answer
    assert "helper wants to call run_shell" in shown.getvalue()
    assert "\x1b" not in shown.getvalue()
    assert "[r] exactly this call, until the run ends  [a] the same, always  [N] no:" in shown.getvalue()


@pytest.mark.parametrize("typed", ["l\n", "Later\n"])
def test_a_question_can_be_left_for_later(terminal, typed):
    """Where the run can wait, an l leaves the question for later and is offered; elsewhere it is a no."""
    keyboard, screen = terminal
    shown = Screen(keyboard, typed)
    assert TerminalApprover(screen, shown, can_wait=True)(REQUEST) is Approval.LATER
    assert "[a] the same, always  [l] later  [N] no:" in shown.getvalue()
    assert TerminalApprover(screen, Screen(keyboard, typed))(REQUEST) is Approval.NO


def test_what_was_typed_before_the_question_is_no_answer(terminal):
    """Only who has seen the question can answer it."""
    keyboard, screen = terminal
    keyboard.write("a\n")
    keyboard.flush()
    assert TerminalApprover(screen, Screen(keyboard, "n\n"))(REQUEST) is Approval.NO


def test_a_narrow_terminal_breaks_no_word(terminal):
    """The reason is broken between words; what stands in an argument is not broken by us."""
    typed, read = terminal
    fcntl.ioctl(read, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))

    class Narrow(Screen):
        """A screen that is a terminal of thirty columns."""

        def fileno(self):
            """The terminal's own."""
            return read.fileno()

    screen = Narrow(typed, "y\n")
    reason = replace(REQUEST.decision, reason="What it would do cannot be taken back by anybody.")
    TerminalApprover(read, screen)(replace(REQUEST, arguments={"command": "one two " * 9}, decision=reason))
    assert "\nReason: What it would do\ncannot be taken back by\nanybody.\n" in screen.getvalue()
    assert "one two " * 8 in screen.getvalue()
    assert screen.getvalue().endswith(
        "\n[y] once  [r] exactly this\ncall, until the run ends  [a]\nthe same, always  [N] no: "
    )


def test_choices_say_what_calls_are_like_it(terminal):
    """Calls to the same origin can be approved together; what the flow rule asks about only once."""
    keyboard, screen = terminal
    for request, choices in (
        (
            replace(REQUEST, arguments={"url": "https://a.example/x"}),
            "[r] this call to any address at https://a.example:443, until the run ends  [a] the same, always",
        ),
        (replace(REQUEST, decision=replace(REQUEST.decision, rule="flow")), "[y] once  [N] no:"),
    ):
        shown = Screen(keyboard, "n\n")
        TerminalApprover(screen, shown)(request)
        assert choices in shown.getvalue()


def test_nobody_is_asked_without_a_terminal():
    """Where the input is a file or a pipe, a yes in it is not a person's."""
    shown = io.StringIO()
    assert TerminalApprover(io.StringIO("y\n"), shown)(REQUEST) is Approval.NO
    assert shown.getvalue() == ""
