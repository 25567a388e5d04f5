"""File locks on the runs in progress, released by the system when a process dies.

On Linux all locks are byte ranges, far apart, of one file. They belong to the open file rather than the process, so
that they also exclude threads and objects of the same process. Elsewhere each lock is a file.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from agentkit.errors import SessionError
from agentkit.portable_files import CLOEXEC, NOFOLLOW, has_range_locks, is_own, lock, set_mode
from agentkit.sessions.store import Release, in_use

_RANGE = "hhqqi0q"
"""`struct flock`: type, whence, start, length, process."""

_SHORT_WAIT_SECONDS = 0.01
_FEW_TRIES = 5


class RunLocks:
    """Locks on the runs of sessions. `wait_seconds` is the time to wait for a rename or deletion to finish."""

    def __init__(self, locks: Locks, wait_seconds: float = 2.0) -> None:
        self._locks = locks
        self._wait_seconds = wait_seconds

    def lock(self, session: str, run: str) -> Release | None:
        """Lock a run; None if it is locked already."""
        release_session = self._share(session)
        release_run = self._locks.take(_run_name(session, run))
        if release_run is None:
            release_session()
            return None

        def release() -> None:
            release_run()
            release_session()

        return release

    def is_locked(self, session: str, run: str) -> bool:
        """Whether the run is locked."""
        return self._locks.is_taken(_run_name(session, run))

    @contextmanager
    def exclusive(self, session: str) -> Iterator[None]:
        """Lock the whole session. Raises SessionError if one of its runs is locked."""
        release = self._locks.take(session)
        if release is None:
            raise in_use(session)
        try:
            yield
        finally:
            release()

    def _share(self, session: str) -> Release:
        """Take a shared lock, which prevents renames and deletions. Waits for one in progress, since it is quick."""
        deadline = time.monotonic() + self._wait_seconds
        while True:
            release = self._locks.take(session, shared=True)
            if release is not None:
                return release
            if time.monotonic() >= deadline:
                raise in_use(session)
            time.sleep(_SHORT_WAIT_SECONDS)


def lock_path_of(path: Path, platform: str = sys.platform) -> Locks:
    """Return the locks for the store at `path`."""
    if platform == "linux" and has_range_locks():
        return RangeLocks(path.with_name(f"{path.name}-locks"))
    return FileLocks(path.with_name(f"{path.name}-locks"))


class _Files:
    """Opens lock files, and closes them in forked children: locks belong to the parent alone."""

    def __init__(self) -> None:
        self._open: weakref.WeakSet[BinaryIO] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_close_all, weakref.ref(self._open)))

    def open(self, path: Path) -> BinaryIO:
        """Open the file, creating it readable for its owner only. Raises SessionError, also for a symbolic link."""
        try:
            file = os.fdopen(_descriptor(path), "r+b", buffering=0)
        except OSError as error:
            raise _cannot_lock(path, error) from None
        self._open.add(file)
        return file


class RangeLocks:
    """Each lock is one byte of a file, at an offset derived from its name. The file stays empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = _Files()

    def take(self, name: str, *, shared: bool = False) -> Release | None:
        """Lock the byte, exclusively or shared; None if it is locked. Raises SessionError."""
        import fcntl

        file = self._files.open(self._path)
        request = _range(fcntl.F_RDLCK if shared else fcntl.F_WRLCK, name)
        return file.close if _try_lock(file, fcntl.fcntl, file, fcntl.F_OFD_SETLK, request) else None

    def is_taken(self, name: str) -> bool:
        """Whether the byte is locked, without locking it."""
        import fcntl

        with self._files.open(self._path) as file:
            found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _range(fcntl.F_WRLCK, name))
        return bool(struct.unpack(_RANGE, found)[0] != fcntl.F_UNLCK)


class FileLocks:
    """Each lock is a file in a folder; an exclusive holder removes it on release."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = _Files()

    def take(self, name: str, *, shared: bool = False) -> Release | None:
        """Lock the file. Retries a few times, because `is_taken` holds the lock for a moment."""
        path = self._folder / hashlib.sha256(name.encode()).hexdigest()
        for _ in range(_FEW_TRIES):
            file = self._files.open(path)
            if _try_lock(file, partial(lock, shared=shared), file.fileno()):
                if _is_at(file, path):
                    return file.close if shared else partial(_remove, file, path)
                file.close()
            else:
                time.sleep(_SHORT_WAIT_SECONDS)
        return None

    def is_taken(self, name: str) -> bool:
        """Whether the file is locked, tested by locking it."""
        release = self.take(name)
        if release is not None:
            release()
        return release is None


Locks = RangeLocks | FileLocks
"""Named locks shared by all threads and processes of a machine."""


def refuse_others(path: Path, found: os.stat_result) -> None:
    """Raise SessionError for a symbolic link, or a file of another user."""
    if stat.S_ISLNK(found.st_mode):
        raise SessionError(f"{path} is a symbolic link, which is not followed. Name the file itself.")
    if not is_own(found):
        raise SessionError(
            f"{path} belongs to another user (id {found.st_uid}), who could read and change its contents."
            " Use a file that you own."
        )


def _descriptor(path: Path) -> int:
    """Open the file. Raises SessionError and OSError."""
    flags = os.O_RDWR | os.O_CREAT | CLOEXEC | NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o600)
    except OSError:
        if path.is_symlink():
            refuse_others(path, path.lstat())
        raise
    try:
        found = os.fstat(descriptor)
        refuse_others(path, found)
        if found.st_mode & 0o077:
            set_mode(descriptor, stat.S_IMODE(found.st_mode) & 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _try_lock(file: BinaryIO, locking: Callable[..., object], *arguments: object) -> bool:
    """Try to lock the file; if that fails, close it and return False."""
    try:
        locking(*arguments)
    except (BlockingIOError, PermissionError):
        file.close()
        return False
    except OSError as error:
        file.close()
        raise _cannot_lock(Path(str(file.name)), error) from None
    return True


def _range(kind: int, name: str) -> bytes:
    offset = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 2
    return struct.pack(_RANGE, kind, os.SEEK_SET, offset, 1, 0)


def _is_at(file: BinaryIO, path: Path) -> bool:
    """Whether the open file is still the one at the path: the previous holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _remove(file: BinaryIO, path: Path) -> None:
    if not file.closed:
        with suppress(PermissionError):  # Windows does not remove an open file
            path.unlink(missing_ok=True)
        file.close()


def _run_name(session: str, run: str) -> str:
    return f"{session}\0{run}"


def _close_all(files: weakref.ref[weakref.WeakSet[BinaryIO]]) -> None:
    for file in files() or ():
        file.close()


def _cannot_lock(path: Path, error: OSError) -> SessionError:
    return SessionError(f"The lock file {path} cannot be opened ({error.strerror}). Check the folder's permissions.")
