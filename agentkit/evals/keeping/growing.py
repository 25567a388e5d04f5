"""How does a file grow by whole lines? Locked, for its owner alone, and what is not ours in it stays as it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from agentkit.errors import SessionError
from agentkit.keeping import usable


class GrowingFile:
    """A file that lines are appended to, by one writer at a time. `lines` are the complete ones it had when opened.

    `begins` is how the first line of such a file begins, `what` names its content in errors. Raises SessionError when
    the path is no file, when it cannot be read or written, and when another run writes to it.
    """

    def __init__(self, path: Path, begins: bytes, what: str) -> None:
        self.path = path
        self._begins = begins
        self._file = self._opened(what)
        whole, _, self._torn = self._content().rpartition(b"\n")
        self.lines = whole.split(b"\n") if whole else []
        self._length = len(whole) + 1 if whole else 0

    @property
    def is_foreign(self) -> bool:
        """Whether the file holds something else: it is not empty, and does not begin as such a file does."""
        head = b"".join(self.lines[:1]) or self._torn
        return not self._begins.startswith(head[: len(self._begins)])

    def mend(self) -> None:
        """Drop a last line that was cut off, and let only the owner read the file. Raises SessionError.

        Both change the file, so check first that it is one of ours.
        """
        try:
            if self._torn:
                os.ftruncate(self._file, self._length)
            mode = stat.S_IMODE(os.fstat(self._file).st_mode)
            if mode & 0o077:
                os.fchmod(self._file, mode & 0o700)
        except OSError as error:
            raise self._failed(error) from error

    def add(self, line: str) -> None:
        """Add a line; when this returns it is on the disk. Raises SessionError."""
        rest = memoryview(f"{line}\n".encode())
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Let others write to the file."""
        os.close(self._file)

    def _opened(self, what: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        try:
            file = os.open(usable(self.path), flags, 0o600)
        except OSError as error:
            raise self._failed(error) from error
        try:
            self._claim(file, what)
        except BaseException:
            os.close(file)
            raise
        return file

    def _claim(self, file: int, what: str) -> None:
        import fcntl  # which not every system has

        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise SessionError(f"{self.path} is no file that {what} could be kept in. Name another one.")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SessionError(f"Another run writes to {self.path}. Wait for it to end.") from None

    def _content(self) -> bytes:
        with open(self._file, "rb", closefd=False) as file:
            return file.read()

    def _failed(self, error: OSError) -> SessionError:
        return SessionError(f"{self.path} cannot be kept: {error.strerror}. Is its folder writable?")
