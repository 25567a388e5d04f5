"""Tests for approval at a terminal: the displayed request and the answers."""

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
    """A pseudo-terminal: input written to the first end is read from the second."""
    keyboard, screen = pty.openpty()
    with os.fdopen(keyboard, "w", buffering=1) as typed, os.fdopen(screen, "r") as read:
        yield typed, read


class Screen(io.StringIO):
    """A screen that types an answer when the question is shown."""

    def __init__(self, keyboard, typed):
        super().__init__()
        self.keyboard, self.typed = keyboard, typed

    def flush(self):
        """Type the answer when the prompt is complete."""
        if self.getvalue().endswith("Answer: ") or self.getvalue().endswith("[N] "):
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
        ("n it is late\n", "it is late"),
        ("\n", Approval.NO),
        ("\x04", Approval.NO),
    ],
)
def test_letter_answers_the_question(terminal, typed, answer):
    """The letter y approves once, r for this run, a always; n or nothing denies, and words after n are the reason."""
    keyboard, screen = terminal
    shown = Screen(keyboard, typed)
    assert TerminalApprover(screen, shown)(REQUEST) == answer
    assert "helper wants to call run_shell" in shown.getvalue()
    assert "\x1b" not in shown.getvalue()
    assert (
        "  r  exactly this call, until the run ends\n  a  always for exactly this call, while this agent exists\n"
        in (shown.getvalue())
    )


@pytest.mark.parametrize("typed", ["l\n", "Later\n"])
def test_question_can_be_postponed(terminal, typed):
    """If the run can wait, l is offered and postpones the answer."""
    keyboard, screen = terminal
    shown = Screen(keyboard, typed)
    assert TerminalApprover(screen, shown, can_wait=True)(REQUEST) is Approval.LATER
    assert "  l  later: the run waits for your answer\n" in shown.getvalue()


def test_question_of_a_tool_is_answered_with_text(terminal):
    """The answer to a question of `ask_user` is the typed text."""
    keyboard, screen = terminal
    question = replace(REQUEST, decision=Decision(Verdict.ASK, "question", "Which city?"), arguments={})
    shown = Screen(keyboard, "Hue\n")
    assert TerminalApprover(screen, shown)(question) == "Hue"
    assert "\nWhich city?\nAnswer: " in shown.getvalue()


@pytest.mark.parametrize(("edit", "typed"), [(None, '{"command": "ls"}\n'), (lambda _: '{"command": "ls"}', "")])
def test_arguments_are_edited(terminal, edit, typed):
    """After e, the arguments are read as a line of JSON, or edited by a function."""
    keyboard, screen = terminal

    class Typist(Screen):
        """A screen that types e first, and then the arguments."""

        def flush(self):
            """Type the answer to the last question."""
            lines = {"Allow it? [N] ": "e\n", "Arguments as JSON on one line: ": typed}
            self.keyboard.write(next((keys for end, keys in lines.items() if self.getvalue().endswith(end)), ""))
            self.keyboard.flush()

    assert TerminalApprover(screen, Typist(keyboard, ""), edit=edit)(REQUEST) == {"command": "ls"}


def test_earlier_input_is_discarded(terminal):
    """Input typed before the question is shown is discarded."""
    keyboard, screen = terminal
    keyboard.write("a\n")
    keyboard.flush()
    assert TerminalApprover(screen, Screen(keyboard, "n\n"))(REQUEST) is Approval.NO


def test_narrow_terminal_breaks_no_word(terminal):
    """The reason is wrapped between words; arguments are not wrapped."""
    typed, read = terminal
    fcntl.ioctl(read, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))

    class Narrow(Screen):
        """A terminal with thirty columns."""

        def fileno(self):
            """Return the descriptor of the terminal."""
            return read.fileno()

    screen = Narrow(typed, "y\n")
    reason = replace(REQUEST.decision, reason="What it would do cannot be taken back by anybody.")
    TerminalApprover(read, screen)(replace(REQUEST, arguments={"command": "one two " * 9}, decision=reason))
    assert "\nrun_shell needs your approval:\nWhat it would do cannot be\ntaken back by anybody.\n" in screen.getvalue()
    assert "one two " * 8 in screen.getvalue()


def test_choices_describe_similar_calls(terminal):
    """Calls to the same origin can be approved together, except those of the flow rule."""
    keyboard, screen = terminal
    for request, choices in (
        (
            replace(REQUEST, arguments={"url": "https://a.example/x"}),
            "r this call to any address at https://a.example:443, until the run ends "
            "a always for this call to any address at https://a.example:443, while this agent exists e edit",
        ),
        (replace(REQUEST, decision=replace(REQUEST.decision, rule="flow")), "y once e edit"),
    ):
        shown = Screen(keyboard, "n\n")
        TerminalApprover(screen, shown)(request)
        assert choices in " ".join(shown.getvalue().split())


def test_without_a_terminal_the_call_is_denied():
    """If the input is a file or a pipe, a yes in it does not approve the call."""
    shown = io.StringIO()
    assert TerminalApprover(io.StringIO("y\n"), shown)(REQUEST) == "there is no terminal to ask at."
    assert shown.getvalue() == ""
