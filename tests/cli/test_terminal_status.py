"""One line that says what takes its time."""

import io
import threading

from agentkit.cli.terminal import StatusLine


class Screen(io.StringIO):
    """A stream that tells when something was written."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def flush(self):
        """What was written is seen."""
        super().flush()
        self.written.set()


def test_the_line_appears_and_goes(monkeypatch):
    """The line says what is going on, cleaned and cut to the terminal, and is erased when it ends."""
    monkeypatch.setenv("COLUMNS", "20")
    screen = Screen()
    with StatusLine(screen, after_seconds=0) as status:
        status.show("asking \x1b[31ma model with a long name")
        assert screen.written.wait(30)
    text = screen.getvalue()
    assert text.startswith("\r\x1b[K⠋ asking a mod… 0 s")
    assert text.endswith("\r\x1b[K")
    assert "\x1b[31m" not in text


def test_what_is_quick_is_not_mentioned():
    """What ends before its time is never shown; one thing follows another."""
    screen = Screen()
    with StatusLine(screen, after_seconds=600) as status:
        status.show("one")
        status.show("two")
        status.clear()
        status.clear()
    assert screen.getvalue() == ""


def test_without_a_terminal_nothing_is_shown():
    """Where there is no stream, nothing is begun."""
    before = threading.active_count()
    with StatusLine(None, after_seconds=600) as status:
        status.show("one")
        assert threading.active_count() == before
