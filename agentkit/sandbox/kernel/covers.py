"""Covers: the regular files that stand in for hidden files inside a sandbox."""

from __future__ import annotations

import os

_READABLE = 0o444
_PERMISSIONS = 0o777


def cover_description(status: os.stat_result) -> str:
    """Describe the cover of a file with this status, in the form that `make_cover` takes.

    The cover has the size, the modification time and the permissions of the file, except that nobody may read it.
    Programs that compare only these (git with `core.checkStat=minimal`) take the file as unchanged.
    """
    mode = status.st_mode & _PERMISSIONS & ~_READABLE
    return f"{status.st_size} {mode:o} {status.st_mtime_ns}"


def make_cover(place: str, description: str) -> None:
    """Create a cover at `place`: a sparse file of zeros that its owner cannot open for reading.

    A process without CAP_DAC_OVERRIDE gets EACCES, and even one that could read it would find only zeros.
    """
    size, mode, modified = description.split()
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, int(size))
        os.fchmod(descriptor, int(mode, 8))
        os.utime(descriptor, ns=(int(modified), int(modified)))
    finally:
        os.close(descriptor)
