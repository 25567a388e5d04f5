"""File-system features that not every platform has: flags for opening, owners, permissions and locks."""

from __future__ import annotations

import contextlib
import os
from typing import Any

HAS_FOLDER_DESCRIPTORS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
"""Whether files can be opened relative to an open folder, which keeps a path from being exchanged meanwhile."""

CLOEXEC, NOFOLLOW, NONBLOCK, NOCTTY, BINARY = (
    getattr(os, f"O_{name}", 0) for name in ("CLOEXEC", "NOFOLLOW", "NONBLOCK", "NOCTTY", "BINARY")
)
"""Flags for `os.open`; 0 where the platform has none of that name."""

_LOCKED_AT, _SHARES = 1 << 30, 64
"""The place of locks on Windows, far behind the content of a file, and the number of programs that can share one."""


def is_own(status: os.stat_result) -> bool:
    """Whether a file belongs to this user. On a platform without numbers for users, its permissions decide."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def set_mode(descriptor: int, mode: int) -> None:
    """Set the permissions of an open file, where files have any."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)


def has_range_locks() -> bool:
    """Whether parts of a file can be locked for an open file, rather than for a process."""
    try:
        import fcntl
    except ImportError:
        return False
    return hasattr(fcntl, "F_OFD_SETLK")


def lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open file against other programs until it is closed; `wait` waits for them.

    Raises BlockingIOError if it is locked, and OSError if this file or platform supports no locks.
    """
    try:
        import fcntl
    except ImportError:
        _lock_range(descriptor, shared=shared, wait=wait)
        return
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)


def _lock_range(descriptor: int, *, shared: bool, wait: bool) -> None:
    """Lock as Windows does, where all locks are exclusive: one of 64 bytes to share, and all of them otherwise."""
    windows: Any  # whose functions the types of other platforms lack
    try:
        import msvcrt as windows
    except ImportError:
        raise OSError("this platform has no file locks") from None
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        for start in range(_SHARES if shared else 1):
            with contextlib.suppress(OSError):
                os.lseek(descriptor, _LOCKED_AT + start, os.SEEK_SET)
                windows.locking(descriptor, windows.LK_LOCK if wait else windows.LK_NBLCK, 1 if shared else _SHARES)
                return
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)
    raise BlockingIOError("another program has locked this file")
