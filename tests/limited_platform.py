"""A pytest plugin that removes what only POSIX systems have: `pytest -p tests.limited_platform`.

For agentkit, Python looks as on Windows: without the modules and `os` functions for users, forks, folder descriptors
and locks. `msvcrt.locking` is implemented with byte-range locks. Paths are those of this system, third-party packages
are loaded before, and pytest needs `os.getuid`.
"""

import builtins
import errno
import fcntl
import os
import struct
import sys
import types
from pathlib import Path

from pydantic import BaseModel

LOADED = (BaseModel,)
GONE = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"}
FLAGS = ("NOFOLLOW", "CLOEXEC", "NONBLOCK", "NOCTTY", "DIRECTORY", "PATH", "TMPFILE", "SYNC", "DSYNC")
FUNCTIONS = (
    *("fork", "forkpty", "killpg", "setsid", "getpgrp", "getpgid", "geteuid", "getegid", "getgid", "fchmod"),
    *("fchown", "chown", "lchown", "mkfifo", "mknod", "memfd_create", "pidfd_open", "posix_spawn", "sysconf", "uname"),
    *("register_at_fork", "setresuid", "getxattr", "listxattr", "setxattr", "statvfs", "wait", "nice", "getgroups"),
)
WINDOWS = types.ModuleType("msvcrt")
WINDOWS.LK_LOCK, WINDOWS.LK_NBLCK = 1, 2
real_open, real_import, control = os.open, builtins.__import__, fcntl.fcntl
OPERATIONS = {1: fcntl.F_OFD_SETLKW, 2: fcntl.F_OFD_SETLK}
WRITING = fcntl.F_WRLCK


def locking(descriptor, mode, count):
    """Lock bytes from the current position or raise OSError, as Windows does."""
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        control(descriptor, OPERATIONS[mode], struct.pack("hhqqi0q", WRITING, os.SEEK_SET, place, count, 0))
    except OSError as error:
        raise OSError(errno.EACCES, "locked") from error


def limited_import(name, *rest, **named):
    """Import a module that exists on this platform."""
    where = (rest[0] if rest else named.get("globals")) or {}
    if name.partition(".")[0] in GONE and str(where.get("__name__", "")).startswith("agentkit"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real_import(name, *rest, **named)


def limited_open(path, flags, mode=0o777, *, dir_fd=None):
    """Open a file, but no folder or path relative to a folder."""
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if not isinstance(path, int) and Path(os.fsdecode(path)).is_dir():
        raise PermissionError(errno.EACCES, "Permission denied", path)
    return real_open(path, flags, mode)


def pytest_configure():
    """Remove what the platform lacks before the tests import agentkit."""
    WINDOWS.locking = locking
    sys.modules["msvcrt"] = WINDOWS
    for flag in FLAGS:
        vars(os).pop(f"O_{flag}", None)
    for function in FUNCTIONS:
        vars(os).pop(function, None)
    os.supports_dir_fd = set()
    vars(os)["open"] = limited_open
    vars(builtins)["__import__"] = limited_import
