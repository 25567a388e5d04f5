"""How does a file hear of runs? A line of JSON for each milestone, whoever else is writing to it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentkit.errors import ConfigError
from agentkit.events import Event, RequestFailed, ResponseReceived
from agentkit.tracing.lines import is_told, line_of
from agentkit.tracing.listening import Origin, ToolUse, Work, origin
from agentkit.tracing.silence import Silence

_LOCK_SECONDS = 1.0
"""How long a line waits for others to have written theirs."""


class JSONLines:
    """A listener that writes into a file what runs do: `Agent(..., listeners=[JSONLines("trace.jsonl")])`.

    One may listen to any number of agents, and any number of processes may write to one file: no line is torn. The
    file is for its owner only, and is opened for each line, so that it may be moved away at any time. What recognisably
    is a secret is hidden. It never raises into a run: a line that cannot be written is lost, with a warning in the log
    `agentkit.tracing`, once.

    Args:
        path: The file, made when it is not there.
        content: Write down what was said, too: prompts, answers, arguments and results. Otherwise their lengths.

    Raises:
        ConfigError: The file cannot be written to, is no plain file, or belongs to another user.
    """

    def __init__(self, path: str | os.PathLike[str], *, content: bool = False) -> None:
        self.path = Path(path)
        self._content = content
        self._seconds: dict[str, float] = {}
        self._silence = Silence(f"The trace cannot be written to {self.path}", "Look at the disk and the folder.")
        try:
            os.close(_opened(self.path))
        except OSError as error:
            raise ConfigError(
                f"The trace cannot be written to {self.path}: {error.strerror or error}. "
                "Name a file of your own, in a folder that is there."
            ) from None

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        if is_told(event):
            self._silence.call(self._write, event, origin())

    @contextmanager
    def around(self, work: Work) -> Iterator[None]:
        """Take the time of a request; a tool's result has its own."""
        began = time.perf_counter()
        try:
            yield
        finally:
            if not isinstance(work, ToolUse):
                self._seconds[work.origin.run] = time.perf_counter() - began

    def _write(self, event: Event, source: Origin) -> None:
        has_time = isinstance(event, ResponseReceived | RequestFailed)
        seconds = self._seconds.pop(source.run, None) if has_time else None
        append(self.path, line_of(event, source, seconds, content=self._content))


def append(path: Path, line: bytes) -> None:
    """Write a line whole, or nothing of it. Raises OSError."""
    descriptor = _opened(path)
    try:
        with _locked(descriptor):
            end = os.fstat(descriptor).st_size
            try:
                _write_whole(descriptor, line)
            except OSError:
                os.ftruncate(descriptor, end)
                raise
    finally:
        os.close(descriptor)


def _write_whole(descriptor: int, line: bytes) -> None:
    written = os.write(descriptor, line)
    if written < len(line):
        raise OSError(f"only {written} of {len(line)} bytes could be written")


def _opened(path: Path) -> int:
    """The file, opened to write at its end. Raises OSError for a link, and for what is no plain file of one's own."""
    careful = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | careful, 0o600)
    try:
        found = os.fstat(descriptor)
        _refuse_strange(found)
        if found.st_mode & 0o077:
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_strange(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a plain file")
    if found.st_uid != os.geteuid():
        raise OSError("it belongs to another user, who could read and change what is written")


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Nobody else who keeps to this writes meanwhile; closing the file unlocks it. Raises OSError when that is long."""
    import fcntl

    ends = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.001)
    yield
