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
from agentkit.portable_files import BINARY, CLOEXEC, HAS_FOLDER_DESCRIPTORS, NOFOLLOW, lock
from agentkit.workspace.safe_open import DIRECTORY

Note = dict[str, Any]
"""A few JSON values. The key `sizes` is reserved for the store."""

Contents = tuple[bytes | None, ...]

NOT_DONE = ", so nothing was done."
"""The end of the error message for a journal that cannot be written."""

_MAX_NOTE_BYTES = 10_000_000
_YOUNG_SECONDS = 3_600


_NOT_THERE = (FileNotFoundError, NotADirectoryError)
"""Errors for a missing file; NotADirectoryError because services have /dev/null as their home."""


class JournalStore(Protocol):
    """An append-only list of notes, each with contents."""

    @property
    def room(self) -> int:
        """The number of bytes of contents that can still be stored."""
        ...

    def add(self, notes: Sequence[tuple[Note, Contents]], *, durable: bool = False) -> None:
        """Append notes, all or none. `durable` waits until they would survive a power failure. Raises ToolError."""
        ...

    def read(self) -> Iterator[tuple[Note, Contents]]:
        """Yield the notes in order, up to the first incomplete one."""
        ...


class InMemoryJournalStore:
    """Stores notes in memory with at most `max_bytes` of contents; further contents become None."""

    def __init__(self, max_bytes: int = 50_000_000) -> None:
        self._notes: list[tuple[Note, Contents]] = []
        self._bytes_left = max_bytes

    def add(self, notes: Sequence[tuple[Note, Contents]], *, durable: bool = False) -> None:
        """Append notes."""
        del durable  # memory does not survive the process anyway
        first = [
            self._limit_contents(contents[:1]) for _, contents in notes
        ]  # the contents before the change matter most
        others = [self._limit_contents(contents[1:]) for _, contents in notes]
        self._notes += [(note, (*a, *b)) for (note, _), a, b in zip(notes, first, others, strict=True)]

    @property
    def room(self) -> int:
        """The number of bytes of contents that can still be stored."""
        return self._bytes_left

    def _limit_contents(self, contents: Contents) -> Contents:
        """Return the contents, or None for each of them if the limit is reached."""
        size = sum(len(content or b"") for content in contents)
        if size > self._bytes_left:
            return (None,) * len(contents)
        self._bytes_left -= size
        return contents

    def read(self) -> Iterator[tuple[Note, Contents]]:
        """Yield the notes in order."""
        return iter(list(self._notes))


class FileJournalStore:
    """Stores notes in one file that only its owner can read: a line of JSON for each, followed by its contents.

    The file is created with its first note; `prepare` creates the folder.
    """

    def __init__(self, path: str | Path, prepare: Callable[[], None] | None = None) -> None:
        self._path = os.fspath(path)
        self._prepare = prepare

    @property
    def room(self) -> int:
        """The number of bytes that can still be stored: unlimited, because a full disk raises on writing."""
        return sys.maxsize

    @property
    def path(self) -> Path:
        """The path of the file."""
        return Path(self._path)

    def add(self, notes: Sequence[tuple[Note, Contents]], *, durable: bool = False) -> None:
        """Append notes to the file."""
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
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | CLOEXEC | NOFOLLOW | BINARY, 0o600)
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
        if durable and size == 0 and HAS_FOLDER_DESCRIPTORS:
            descriptor = os.open(self.path.parent, os.O_RDONLY | DIRECTORY | CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read(self) -> Iterator[tuple[Note, Contents]]:
        """Yield the notes in order, up to the first incomplete one. Raises ToolError if the file cannot be read."""
        if self._is_missing():
            return
        with contextlib.suppress(*_NOT_THERE), self._open("rb") as file:
            while (read := _next(file)) is not None:
                yield read

    def repair(self) -> None:
        """Truncate an incomplete note at the end, so that others can be appended."""
        with contextlib.suppress(*_NOT_THERE), self._open("r+b") as file:
            _lock(file.fileno())  # so that a concurrent write is not truncated
            end = 0
            while _next(file) is not None:
                end = file.tell()
            file.truncate(end)

    def _is_missing(self) -> bool:
        """Whether the file does not exist, as for every run without changes. Much cheaper than a failed open."""
        try:
            os.lstat(self._path)
        except OSError as error:
            return isinstance(error, _NOT_THERE)  # other errors are raised on opening
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
        """Delete the file."""
        with contextlib.suppress(OSError):  # removed later with the oldest records
            self.path.unlink(missing_ok=True)


class CallStore(FileJournalStore):
    """Stores the notes of one direct call in a file if possible, otherwise in memory: `problem` is then the reason.

    The notes survive the end of the process, but not necessarily a power failure.
    """

    def __init__(self, path: str | Path, prepare: Callable[[], None]) -> None:
        super().__init__(path, prepare)
        self.problem = ""
        self._memory: InMemoryJournalStore | None = None
        self._is_begun = False

    @property
    def room(self) -> int:
        """The number of bytes of contents that can still be stored."""
        return super().room if self._memory is None else self._memory.room

    def add(self, notes: Sequence[tuple[Note, Contents]], *, durable: bool = False) -> None:
        """Append notes, in memory if the file cannot be written and was not begun already."""
        del durable  # direct calls do not wait for the disk
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
        """Yield the notes in order."""
        return super().read() if self._memory is None else self._memory.read()

    def repair(self) -> None:
        """Truncate an incomplete note at the end."""
        if self._memory is None:
            super().repair()


def forget_oldest(paths: Sequence[Path], max_files: int, max_bytes: int) -> None:
    """Remove the oldest of these files, with their companion files, once the newer ones reach a limit.

    Recent files stay, because they could still be written.
    """
    bytes_left, count = max_bytes, max_files
    for path in reversed(paths):
        with contextlib.suppress(OSError):  # another process could be removing files, too
            status = path.stat()
            bytes_left, count = bytes_left - status.st_size, count - 1
            if min(bytes_left, count) < 0 and time.time() - status.st_mtime > _YOUNG_SECONDS:
                for each in path.parent.glob(f"{glob.escape(path.stem)}*"):
                    each.unlink(missing_ok=True)


def _next(file: BinaryIO) -> tuple[Note, Contents] | None:
    try:
        note = json.loads(file.readline(_MAX_NOTE_BYTES))
    except (ValueError, RecursionError):
        return None
    sizes = note.pop("sizes", None) if isinstance(note, dict) else None
    bytes_left = os.fstat(file.fileno()).st_size - file.tell()
    if not isinstance(sizes, list) or not all(size is None or (type(size) is int and size >= 0) for size in sizes):
        return None
    if sum(size or 0 for size in sizes) >= bytes_left:  # a line break follows
        return None
    contents = tuple(None if size is None else file.read(size) for size in sizes)
    return (note, contents) if file.read(1) == b"\n" else None


def _lock(file: int) -> None:
    """Lock an open file against other processes until it is closed."""
    with contextlib.suppress(OSError):  # not every file system supports locks
        lock(file, wait=True)
