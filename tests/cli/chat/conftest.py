"""Fixtures for chats: one at a pseudo-terminal, and one in this process with a recording front end."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from contextlib import nullcontext

import pytest

from agentkit.cli.approvals import CommandApprover
from agentkit.cli.ask_options import AskOptions
from agentkit.cli.chat.repl import ChatDispatcher
from agentkit.cli.settings import load_settings

SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[=>]|\r")
ASKS_WHERE = b"\x1b[6n"
SECONDS = 60


class Typist:
    """A user at a terminal, who types keys and reads the output without colours."""

    def __init__(self, keyboard, process):
        self.keyboard, self.process = keyboard, process
        self.raw, self._read_up_to = "", 0

    @property
    def shown(self):
        """Return all output, without control sequences."""
        return SEQUENCE.sub("", self.raw)

    def until(self, text):
        """Wait for a text after the previously awaited one; return the output up to and including it."""
        deadline = time.monotonic() + SECONDS
        while (at := self.shown.find(text, self._read_up_to)) < 0:
            assert time.monotonic() < deadline, (
                f"{text!r} was not written; the output is {self.shown[self._read_up_to :]!r}"
            )
            assert self._read(), (
                f"The process ended before {text!r} was written; the output is {self.shown[self._read_up_to :]!r}"
            )
        before, self._read_up_to = self._read_up_to, at + len(text)
        return self.shown[before : self._read_up_to]

    def type(self, keys):
        """Press keys."""
        os.write(self.keyboard, keys.encode())

    def say(self, line):
        """Type a line once there is a prompt."""
        self.until("> ")
        self.type(f"{line}\r")

    def ends(self):
        """Wait for the process to exit; return the exit code and the remaining output."""
        while self._read():
            pass
        return self.process.wait(SECONDS), self.shown[self._read_up_to :]

    def _read(self):
        ready, _, _ = select.select([self.keyboard], [], [], SECONDS)
        try:
            data = os.read(self.keyboard, 65_536) if ready else b""
        except OSError:  # the other end is closed
            data = b""
        if ASKS_WHERE in data:
            os.write(self.keyboard, b"\x1b[1;1R")
        self.raw += data.decode("utf-8", "replace")
        return bool(data)


@pytest.fixture
def at_terminal(spawn, tmp_path):
    """Start `agentkit chat ARGUMENTS` in a new pseudo-terminal, in an empty folder."""
    opened = []

    def start(*arguments, server=None, columns=100, rows=40, variables=()):
        keyboard, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

        def take():
            os.setsid()
            fcntl.ioctl(screen, termios.TIOCSCTTY, 0)

        known = {name: os.environ.get(name) for name in dict(variables)}
        os.environ.update(variables)
        try:
            process = spawn(
                *("chat", *arguments),
                server=server,
                stdin=screen,
                stdout=screen,
                stderr=screen,
                cwd=tmp_path,
                preexec_fn=take,
            )
        finally:
            for name, value in known.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        os.close(screen)
        opened.append((keyboard, process))
        return Typist(keyboard, process)

    yield start
    for keyboard, process in opened:
        if process.poll() is None:
            process.kill()
        process.wait(SECONDS)
        os.close(keyboard)


class Notes:
    """A front end that records notices and events, and gives the listed answers."""

    def __init__(self, approve=None):
        self.model = self.text = ""
        self.approve = approve
        self.approvals = CommandApprover(None, None)
        self.confirms = True
        self.told, self.events = [], []

    def begin(self):
        """Do nothing."""

    def suspend(self):
        """Do nothing."""
        return nullcontext()

    def render(self, event):
        """Record an event."""
        self.events.append(event)

    def end_output(self):
        """Do nothing."""

    def print(self, text, _style=""):
        """Record a notice."""
        self.told.append(text)

    def markdown(self, text):
        """Record a text."""
        self.told.append(text)

    diff = markdown

    def confirm(self, question):
        """Store the question and answer it."""
        self.told.append(question)
        return self.confirms

    def clear(self):
        """Record that the screen was cleared."""
        self.told.append("(an empty screen)")

    @property
    def printed(self):
        """Return all notices recorded since the last access, and clear them."""
        text, self.told = "\n".join(self.told), []
        return text


@pytest.fixture
def notes():
    """Collect the notices and events of a conversation in this process."""
    return Notes()


@pytest.fixture
def room_with(notes, monkeypatch, tmp_path):
    """Return a function that creates a chat in this process and in an empty folder."""
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "AZURE_", "ANTHROPIC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def enter(server=None, *, approve=None, is_person=True, **flags):
        if server is not None:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        order = AskOptions(**flags)
        settings = load_settings(order.flags)
        notes.approve = approve
        return ChatDispatcher(order, settings, settings.llm(), notes, is_person=is_person)

    return enter


if sys.platform == "win32":
    pytest.skip("terminals are POSIX's", allow_module_level=True)
