"""Is it still at it? One line on a terminal, once something takes longer than a moment."""

from __future__ import annotations

import shutil
import threading
import time
from types import TracebackType
from typing import TextIO

from agentkit.cli.display import line_text

_SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ERASE = "\r\x1b[K"
_EVERY_SECONDS = 0.1


class StatusLine:
    """A line that says what is going on and for how long, from `after_seconds` on. Without a stream it does nothing."""

    def __init__(self, stream: TextIO | None, after_seconds: float = 0.3) -> None:
        self._stream, self._after_seconds = stream, after_seconds
        self._over: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def show(self, text: str) -> None:
        """Say from now on that this is going on."""
        self.clear()
        if self._stream is not None:
            self._over = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._stream, text, self._over), daemon=True)
            self._thread.start()

    def clear(self) -> None:
        """Say nothing from now on; the line is empty when this returns."""
        if self._over is not None and self._thread is not None:
            self._over.set()
            self._thread.join()
            self._over = self._thread = None

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def _run(self, stream: TextIO, text: str, over: threading.Event) -> None:
        began, count = time.monotonic(), 0
        pause = self._after_seconds
        while not over.wait(pause):
            stream.write(f"{_ERASE}{_line(_SIGNS[count % len(_SIGNS)], text, time.monotonic() - began)}")
            stream.flush()
            pause, count = _EVERY_SECONDS, count + 1
        if count:
            stream.write(_ERASE)
            stream.flush()


def _line(sign: str, text: str, seconds: float) -> str:
    """Sign, text and seconds, no wider than the terminal."""
    columns = shutil.get_terminal_size().columns
    tail = f" {seconds:.0f} s"
    room = max(1, columns - len(tail) - len(sign) - 2)
    return f"{sign} {line_text(text, room)}{tail}"
