"""Storage of journal records, readable after a crash at any point."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from agentkit.errors import ToolError
from agentkit.workspace.safe_open import CLOEXEC, DIRECTORY, NOFOLLOW

Note = dict[str, Any]
"""A few JSON values. The key `sizes` is the store's own."""

Contents = tuple[bytes | None, ...]

NOT_DONE = ", so nothing was done."
"""How the error of a journal ends that cannot be written."""

_MOST_NOTE_BYTES = 10_000_000
_YOUNG_SECONDS = 3_600


_NOT_THERE = (FileNotFoundError, NotADirectoryError)
"""What says that there is no file: services have /dev/null for a home."""


class JournalStore(Protocol):
    """An ordered list of notes, each with contents. What was added is never changed."""

    @property
    def room(self) -> int:
        """How many bytes of contents can still be kept."""
        ...

    def add(self, notes: Sequence[tuple[Note, Contents]], *, durable: bool = False) -> None:
        """Add notes, all or none. `durable` waits until they would survive a loss of power. Raises ToolError."""
        ...

    def read(self) -> Iterator[tuple[Note, Contents]]:
        """The notes in order, up to the first that was not written to its end."""
        ...


class InMemoryJournalStore:
    """Keeps notes for as long as the process lives, and at most `most_bytes` of contents; the rest become None."""

    def __init__(self, most_bytes: int = 50_000_000) -> None:
        self._notes: list[tuple[Note, Contents]] = []
        self._left = most_bytes

    def add(self, notes: Sequence[tuple[Note, Contents]], *, durable: bool = False) -> None:
        """Add notes."""
        del durable  # nothing here survives the process
        first = [self._kept(contents[:1]) for _, contents in notes]  # what was there before matters most
        others = [self._kept(contents[1:]) for _, contents in notes]
        self._notes += [(note, (*a, *b)) for (note, _), a, b in zip(notes, first, others, strict=True)]

    @property
    def room(self) -> int:
        """How many bytes of contents can still be kept."""
        return self._left

    def _kept(self, contents: Contents) -> Contents:
        """The contents, or None for each of them when there is no room."""
        size = sum(len(content or b"") for content in contents)
        if size > self._left:
            return (None,) * len(contents)
        self._left -= size
        return contents

    def read(self) -> Iterator[tuple[Note, Contents]]:
        """The notes in order."""
        return iter(list(self._notes))


class FileJournalStore:
    """Keeps notes in one file that only its owner can read: a line of JSON for each, then its contents.

    The file is made with its first note, in a folder that `prepare` has made ready.
    """

    def __init__(self, path: str | Path, prepare: Callable[[], None] | None = None) -> None:
        self._place = os.fspath(path)
        self._prepare = prepare

    @property
    def room(self) -> int:
        """How many bytes of contents can still be kept: a full disk is told of when something is added."""
        return sys.maxsize

    @property
    def path(self) -> Path:
        """The file's place."""
        return Path(self._place)

    def add(self, notes: Sequence[tuple[Note, Contents]], *, durable: bool = False) -> None:
        """Add notes after what can be read of the file."""
        pieces: list[bytes] = []
        for note, contents in notes:
            sizes = [None if content is None else len(content) for content in contents]
            pieces.append(json.dumps({**note, "sizes": sizes}, separators=(",", ":")).encode() + b"\n")
            pieces += [content for content in contents if content]
            pieces.append(b"\n")
        try:
            if self._prepare is not None:
                self._prepare()
                self._prepare = None
            self._append(b"".join(pieces), durable=durable)
        except OSError as error:
            raise ToolError(f"The journal cannot be written ({error.strerror}){NOT_DONE}") from None

    def _append(self, whole: bytes, *, durable: bool) -> None:
        file = os.open(self._place, os.O_WRONLY | os.O_CREAT | os.O_APPEND | CLOEXEC | NOFOLLOW, 0o600)
        _lock(file)
        size = os.fstat(file).st_size
        try:
            remaining = memoryview(whole)
            while remaining:
                remaining = remaining[os.write(file, remaining) :]
            if durable:
                os.fsync(file)
        except OSError:
            os.ftruncate(file, size)
            raise
        finally:
            os.close(file)
        if durable and size == 0:
            _sync_folder(self.path.parent)

    def read(self) -> Iterator[tuple[Note, Contents]]:
        """The notes in order, up to the first that was not written to its end. Raises ToolError for what is no file."""
        if self._is_missing():
            return
        with contextlib.suppress(*_NOT_THERE), self._open("rb") as file:
            while (read := _next(file)) is not None:
                yield read

    def mend(self) -> None:
        """Cut off a note that was not written to its end, so that others can follow."""
        with contextlib.suppress(*_NOT_THERE), self._open("r+b") as file:
            _lock(file.fileno())  # what another process is writing just now is not torn
            end = 0
            while _next(file) is not None:
                end = file.tell()
            file.truncate(end)

    def _is_missing(self) -> bool:
        """Whether there is no file, as of every run that changes nothing. A look is much cheaper than a failed open."""
        try:
            os.lstat(self._place)
        except OSError as error:
            return isinstance(error, _NOT_THERE)  # any other is told by whoever opens it
        return False

    @contextlib.contextmanager
    def _open(self, mode: Literal["rb", "r+b"]) -> Iterator[BinaryIO]:
        try:
            with self.path.open(mode) as file:
                yield file
        except _NOT_THERE:
            raise
        except OSError as error:
            raise ToolError(f"The record {self.path.name!r} cannot be read ({error.strerror}).") from None

    def remove(self) -> None:
        """Forget everything."""
        with contextlib.suppress(OSError):  # what cannot be removed is forgotten later, with the oldest
            self.path.unlink(missing_ok=True)


class CallStore(FileJournalStore):
    """Keeps the notes of one direct call in a file if it can, and otherwise in memory: `problem` says then why.

    The notes survive the end of the process; a loss of power may take them.
    """

    def __init__(self, path: str | Path, prepare: Callable[[], None]) -> None:
        super().__init__(path, prepare)
        self.problem = ""
        self._memory: InMemoryJournalStore | None = None
        self._is_begun = False

    @property
    def room(self) -> int:
        """How many bytes of contents can still be kept."""
        return super().room if self._memory is None else self._memory.room

    def add(self, notes: Sequence[tuple[Note, Contents]], *, durable: bool = False) -> None:
        """Add notes. What can be kept in no file is kept in memory, unless the file was begun already."""
        del durable  # nobody waits for a disk to answer a plain call
        if self._memory is None:
            try:
                super().add(notes)
            except ToolError as error:
                if self._is_begun:
                    raise
                self.problem, self._memory = str(error).removesuffix(NOT_DONE), InMemoryJournalStore()
        if self._memory is not None:
            self._memory.add(notes)
        self._is_begun = True

    def read(self) -> Iterator[tuple[Note, Contents]]:
        """The notes in order."""
        return super().read() if self._memory is None else self._memory.read()

    def mend(self) -> None:
        """Cut off a note that was not written to its end."""
        if self._memory is None:
            super().mend()


def forget_oldest(paths: Sequence[Path], most_files: int, most_bytes: int) -> None:
    """Remove the first of these files, with what stands beside them, so far as the last ones reach a limit.

    Not the young ones, which may still be written.
    """
    left, count = most_bytes, most_files
    for path in reversed(paths):
        with contextlib.suppress(OSError):  # another process may be forgetting too
            status = path.stat()
            left, count = left - status.st_size, count - 1
            if min(left, count) < 0 and time.time() - status.st_mtime > _YOUNG_SECONDS:
                for each in path.parent.glob(f"{glob.escape(path.stem)}*"):
                    each.unlink(missing_ok=True)


def _next(file: BinaryIO) -> tuple[Note, Contents] | None:
    try:
        note = json.loads(file.readline(_MOST_NOTE_BYTES))
    except (ValueError, RecursionError):
        return None
    sizes = note.pop("sizes", None) if isinstance(note, dict) else None
    left = os.fstat(file.fileno()).st_size - file.tell()
    if not isinstance(sizes, list) or not all(size is None or (type(size) is int and size >= 0) for size in sizes):
        return None
    if sum(size or 0 for size in sizes) >= left:  # a line break follows
        return None
    contents = tuple(None if size is None else file.read(size) for size in sizes)
    return (note, contents) if file.read(1) == b"\n" else None


def _lock(file: int) -> None:
    """Let no other process write to an open file until it is closed."""
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):  # not every file system can
            fcntl.flock(file, fcntl.LOCK_EX)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | DIRECTORY | CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
