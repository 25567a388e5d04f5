"""File locks that show which runs are in progress, released by the system when a process dies.

On Linux each lock is a byte range of one file, far apart, that belongs to an open file and not to a process, so that it
also tells apart the threads and objects of one process. Elsewhere each lock is a file.
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
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from agentkit.errors import SessionError
from agentkit.sessions.store import Release, in_use

_RANGE = "hhqqi0q"
"""`struct flock`: type, whence, start, length, process."""

_SHORT_WAIT_SECONDS = 0.01
_FEW_TRIES = 5


class RunLocks:
    """Who is at which run of which session, told by locks. Who renames or deletes a session is waited for so long."""

    def __init__(self, locks: Locks, wait_seconds: float = 2.0) -> None:
        self._locks = locks
        self._wait_seconds = wait_seconds

    def hold(self, session: str, run: str) -> Release | None:
        """Claim a run; None when somebody has it."""
        release_session = self._share(session)
        release_run = self._locks.take(_run_name(session, run))
        if release_run is None:
            release_session()
            return None
        return partial(_release_both, release_run, release_session)

    def is_held(self, session: str, run: str) -> bool:
        """Whether somebody has it."""
        return self._locks.is_taken(_run_name(session, run))

    @contextmanager
    def alone(self, session: str) -> Iterator[None]:
        """Keep everybody from the session. Raises SessionError when a run of it is held."""
        release = self._locks.take(session)
        if release is None:
            raise in_use(session)
        try:
            yield
        finally:
            release()

    def _share(self, session: str) -> Release:
        """Keep the session from being renamed or deleted. Who is just doing that is quickly done."""
        deadline = time.monotonic() + self._wait_seconds
        while True:
            release = self._locks.take(session, shared=True)
            if release is not None:
                return release
            if time.monotonic() >= deadline:
                raise in_use(session)
            time.sleep(_SHORT_WAIT_SECONDS)


def locks_beside(path: Path, platform: str = sys.platform) -> Locks:
    """The locks for what is kept at `path`. Raises SessionError where we know of none."""
    if platform == "win32":
        raise SessionError(
            "Sessions cannot be kept in a file on Windows, as yet; use a PostgreSQL database, or ':memory:'."
        )
    if platform == "linux":
        return RangeLocks(path.with_name(f"{path.name}-locks"))
    return FileLocks(path.with_name(f"{path.name}-locks"))


class _Files:
    """Opens files to lock, and closes them in every child that is forked off: locks are the parent's alone."""

    def __init__(self) -> None:
        self._open: weakref.WeakSet[BinaryIO] = weakref.WeakSet()
        os.register_at_fork(after_in_child=partial(_close_all, weakref.ref(self._open)))

    def open(self, path: Path) -> BinaryIO:
        """The file, made when there is none, readable for its owner only. Raises SessionError, also for a link."""
        try:
            file = os.fdopen(_descriptor(path), "r+b", buffering=0)
        except OSError as error:
            raise _cannot_lock(path, error) from None
        self._open.add(file)
        return file


class RangeLocks:
    """Each lock is one byte of a file, at a place that its name determines. The file stays empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = _Files()

    def take(self, name: str, *, shared: bool = False) -> Release | None:
        """Lock the byte, alone or with others who share it; None when it is taken. Raises SessionError."""
        import fcntl

        file = self._files.open(self._path)
        wish = _range(fcntl.F_RDLCK if shared else fcntl.F_WRLCK, name)
        return file.close if _got(file, fcntl.fcntl, fcntl.F_OFD_SETLK, wish) else None

    def is_taken(self, name: str) -> bool:
        """Ask who would be in the way."""
        import fcntl

        with self._files.open(self._path) as file:
            found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _range(fcntl.F_WRLCK, name))
        return bool(struct.unpack(_RANGE, found)[0] != fcntl.F_UNLCK)


class FileLocks:
    """Each lock is a file in a folder; who has it alone removes it at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = _Files()

    def take(self, name: str, *, shared: bool = False) -> Release | None:
        """Lock the file. Who only asks whether it is taken has it for a moment, so a few tries are made."""
        import fcntl

        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        path = self._folder / hashlib.sha256(name.encode()).hexdigest()
        for _ in range(_FEW_TRIES):
            file = self._files.open(path)
            if _got(file, fcntl.flock, kind | fcntl.LOCK_NB):
                if _is_at(file, path):
                    return file.close if shared else partial(_remove, file, path)
                file.close()
            else:
                time.sleep(_SHORT_WAIT_SECONDS)
        return None

    def is_taken(self, name: str) -> bool:
        """Try to have it."""
        release = self.take(name)
        if release is not None:
            release()
        return release is None


Locks = RangeLocks | FileLocks
"""Named locks between all threads and processes of a machine."""


def refuse_others(path: Path, found: os.stat_result) -> None:
    """Raise SessionError for a symbolic link, and for what belongs to another user, who could read along."""
    if stat.S_ISLNK(found.st_mode):
        raise SessionError(f"{path} is a symbolic link, which nothing is kept behind; name the file itself.")
    if found.st_uid != os.geteuid():
        raise SessionError(
            f"{path} belongs to another user (id {found.st_uid}), who could read and change what is kept in it;"
            " name a file of your own, or check its owner."
        )


def _descriptor(path: Path) -> int:
    """The file, opened. Raises SessionError and OSError."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        if path.is_symlink():
            refuse_others(path, path.lstat())
        raise
    try:
        found = os.fstat(descriptor)
        refuse_others(path, found)
        if found.st_mode & 0o077:
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _got(file: BinaryIO, lock: Callable[..., object], *wishes: object) -> bool:
    """Whether the lock was to be had; if not, the file is closed."""
    try:
        lock(file, *wishes)
    except (BlockingIOError, PermissionError):
        file.close()
        return False
    except OSError as error:
        file.close()
        raise _cannot_lock(Path(str(file.name)), error) from None
    return True


def _range(kind: int, name: str) -> bytes:
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 2
    return struct.pack(_RANGE, kind, os.SEEK_SET, place, 1, 0)


def _is_at(file: BinaryIO, path: Path) -> bool:
    """Whether the file is still the one at the path, and was not removed by who had it before."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _remove(file: BinaryIO, path: Path) -> None:
    if not file.closed:
        path.unlink(missing_ok=True)
        file.close()


def _release_both(first: Release, second: Release) -> None:
    first()
    second()


def _run_name(session: str, run: str) -> str:
    return f"{session}\0{run}"


def _close_all(files: weakref.ref[weakref.WeakSet[BinaryIO]]) -> None:
    for file in files() or ():
        file.close()


def _cannot_lock(path: Path, error: OSError) -> SessionError:
    return SessionError(f"The session's lock {path} cannot be had ({error.strerror}); check the folder's permissions.")
