"""Opening of files below a root without following links or races out of it."""

from __future__ import annotations

import errno
import functools
import os
import re
import struct
import sys
from collections.abc import Callable, Sequence

from agentkit.errors import Blocked, ToolError
from agentkit.event_rendering import cut

Opener = Callable[[int, Sequence[str], int], int]
"""Opens a path, given as names below an open folder, with these flags; returns a new descriptor. Raises OSError."""

CLOEXEC, DIRECTORY, NOFOLLOW, NONBLOCK, NOCTTY = (
    getattr(os, f"O_{name}", 0) for name in ("CLOEXEC", "DIRECTORY", "NOFOLLOW", "NONBLOCK", "NOCTTY")
)
"""Flags that some systems lack; those systems cannot open files safely below a folder either."""

OPEN_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | DIRECTORY | CLOEXEC
OPEN_ANY = getattr(os, "O_PATH", os.O_RDONLY | NONBLOCK) | CLOEXEC
OPEN_FILE = os.O_RDONLY | NONBLOCK | NOCTTY | CLOEXEC

REMEDY = "File tools reach only what is in the workspace; give workspace=... to work on another folder."
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAX_NAME_BYTES, _MAX_PATH_BYTES, _DEEPEST = 255, 4_000, 100
_MAX_SHOWN = 120

_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 0x02, 0x08
_MAX_TRIES = 64
_AGAIN = {errno.EAGAIN, errno.EINTR}
"""Error numbers after which the kernel asks to retry, e.g. because of a concurrent rename."""

_DELETED = " (deleted)"
_link_target = os.readlink  # faster than Path, which would cost as much as the access itself

_SENTENCES = {
    errno.ENOENT: "{path} does not exist.",
    errno.ENOTDIR: "{path} goes through something that is not a folder.",
    errno.EISDIR: "{path} is a folder.",
    errno.EACCES: "{path} may not be touched: permission denied.",
    errno.EPERM: "{path} may not be touched: the operating system forbids it.",
    errno.EROFS: "{path} is on a file system that is read-only.",
    errno.ENOSPC: "The disk is full; {path} is as it was.",
    errno.EDQUOT: "The disk quota is used up; {path} is as it was.",
    errno.ENAMETOOLONG: "{path} is too long for this file system.",
    errno.EEXIST: "{path} is in the way: it exists already, perhaps as a link that leads nowhere.",
    errno.ENOTEMPTY: "{path} is not empty.",
    errno.ENXIO: "{path} is a socket or a device, not a file.",
}
_ESCAPES = {
    errno.EXDEV: "{path} leads out of the workspace through a symbolic link.",
    errno.ELOOP: "{path} goes through a symbolic link that is not followed: it leads out, or in a circle.",
    errno.EAGAIN: "{path} is being moved about while it is opened.",
}


def components(path: str, *roots: str) -> tuple[str, ...]:
    """Split a path into the names below the workspace; empty for the workspace itself.

    A path is relative to the workspace, or absolute and inside one of the `roots` (spellings of the workspace). Names
    are literal: `~`, variables and `%xx` are not expanded. Raises ToolError for an invalid path, and Blocked for a path
    that leaves the workspace, even if it returns.
    """
    _refuse_malformed(path)
    inner = path
    if path.startswith("/"):
        inside = [root for root in roots if f"{path}/".startswith(f"{root.rstrip('/')}/")]
        if not inside:
            raise outside(path)
        inner = path[len(max(inside, key=len)) :]
    names: list[str] = []
    for name in inner.split("/"):
        if name == ".." and not names:
            raise outside(path)
        if name == "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    if len(names) > _DEEPEST:
        raise ToolError(f"{shown(path)} is {len(names)} folders deep; at most {_DEEPEST} are allowed.")
    return tuple(names)


def outside(path: str) -> Blocked:
    """Return the error for a path outside the workspace."""
    return Blocked(f"{shown(path)} is outside the workspace. {REMEDY}")


def shown(path: str) -> str:
    """Format a path for an error message: quoted, without control characters, limited in length."""
    return repr(cut(path, _MAX_SHOWN))


def explained(error: OSError, path: str) -> ToolError:
    """Convert an OSError to a sentence; Blocked if a link would have led outside."""
    number = error.errno or 0
    if number in _ESCAPES:
        return Blocked(f"{_ESCAPES[number].format(path=shown(path))} {REMEDY}")
    sentence = _SENTENCES.get(number, "{path} cannot be used: " + (os.strerror(number) if number else str(error)) + ".")
    return ToolError(sentence.format(path=shown(path)))


def open_beneath(root: int, names: Sequence[str], flags: int) -> int:
    """Let the kernel resolve the path; it refuses every way out, at the moment of opening (Linux 5.6)."""
    import ctypes

    path = os.fsencode("/".join(names) or ".")
    how = struct.pack("=QQQ", flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    arguments = (_OPENAT2, root, path, how, len(how))
    tries = _MAX_TRIES
    descriptor = _syscall()(*arguments)
    while descriptor < 0 and (number := ctypes.get_errno()):
        tries -= 1
        if number not in _AGAIN or not tries:
            raise OSError(number, os.strerror(number), path)
        descriptor = _syscall()(*arguments)
    return descriptor


def open_by_component(root: int, names: Sequence[str], flags: int) -> int:
    """Open folder by folder without following any link, for kernels without a better way."""
    folder = root
    try:
        for name in names[:-1]:
            inner = os.open(name, OPEN_FOLDER | NOFOLLOW, dir_fd=folder)
            folder, left = inner, folder
            _close(left, root)
        return os.open(names[-1] if names else ".", flags | NOFOLLOW, dir_fd=folder)
    finally:
        _close(folder, root)


@functools.cache
def best_opener() -> Opener:
    """Return `open_beneath` if the system supports it, else `open_by_component`."""
    return open_beneath if sys.platform == "linux" and _kernel_follows() else open_by_component


def _kernel_follows() -> bool:
    """Whether the kernel can confine a path to a folder, and report the path of an open file."""
    root = os.open("/", OPEN_FOLDER)
    try:
        opened = open_beneath(root, (), OPEN_FOLDER)
        try:
            return real_place("/", opened) == ""
        finally:
            os.close(opened)
    except OSError:
        return False
    finally:
        os.close(root)


def real_place(folder: str, descriptor: int) -> str | None:
    """Return the real path of an open file, relative to its real root folder; None if it is outside."""
    place = _link_target(f"/proc/self/fd/{descriptor}")
    if place.endswith(_DELETED) and os.fstat(descriptor).st_nlink == 0:
        place = place.removesuffix(_DELETED)
    if place == folder:
        return ""
    base = folder.rstrip("/") + "/"
    return place[len(base) :] if place.startswith(base) else None


def _refuse_malformed(path: str) -> None:
    if not path:
        raise ToolError('The path is empty; give the name of a file, or "." for the workspace itself.')
    if _CONTROL.search(path):
        raise ToolError(f"{shown(path)} has control characters, which no name of a file may have here.")
    if path.isascii() and len(path) <= _MAX_NAME_BYTES:
        return
    try:
        size = max(len(os.fsencode(name)) for name in path.split("/"))
        length = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise ToolError(f"{shown(path)} has characters that no name of a file can have.") from None
    if size > _MAX_NAME_BYTES or length > _MAX_PATH_BYTES:
        limit = f"a name may have {_MAX_NAME_BYTES} bytes, a path {_MAX_PATH_BYTES:,}"
        raise ToolError(f"{shown(path)} is too long: {limit}.")


def _close(folder: int, root: int) -> None:
    if folder != root:
        os.close(folder)


@functools.cache
def _syscall() -> Callable[..., int]:
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    function.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    return function
