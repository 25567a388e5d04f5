"""Tests for the status line of long activities."""

import io
import threading

from agentkit.cli.terminal import StatusLine


class Screen(io.StringIO):
    """A stream that signals when something is written."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def flush(self):
        """Signal that text was written."""
        super().flush()
        self.written.set()


def test_status_line_is_shown_and_erased(monkeypatch):
    """The status line is cleaned, cut to the terminal width, and erased at the end."""
    monkeypatch.setenv("COLUMNS", "20")
    screen = Screen()
    with StatusLine(screen, after_seconds=0) as status:
        status.show("asking \x1b[31ma model with a long name")
        assert screen.written.wait(30)
    text = screen.getvalue()
    assert text.startswith("\r\x1b[K⠋ asking a mod… 0 s")
    assert text.endswith("\r\x1b[K")
    assert "\x1b[31m" not in text


def test_short_activity_is_not_shown():
    """An activity that ends before the delay is not shown."""
    screen = Screen()
    with StatusLine(screen, after_seconds=600) as status:
        status.show("one")
        status.show("two")
        status.clear()
        status.clear()
    assert screen.getvalue() == ""


def test_no_thread_without_a_stream():
    """Without a stream, no thread is started."""
    before = threading.active_count()
    with StatusLine(None, after_seconds=600) as status:
        status.show("one")
        assert threading.active_count() == before
