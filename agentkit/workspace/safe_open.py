"""Opening of files below a root without following links or races out of it."""

from __future__ import annotations

import errno
import functools
import os
import re
import stat
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

from agentkit.errors import Blocked, ToolError
from agentkit.event_rendering import truncate
from agentkit.portable_files import BINARY, CLOEXEC, HAS_FOLDER_DESCRIPTORS, NOCTTY, NOFOLLOW, NONBLOCK

Handle = int | str
"""The descriptor of an open file or folder; the path of a folder where folders have no descriptors (Windows)."""

Opener = Callable[[Handle, Sequence[str], int], Handle]
"""Opens a path, given as names below an open folder, with these flags; returns a new handle. Raises OSError."""

_UNOPENED = 0 if HAS_FOLDER_DESCRIPTORS else 1 << 29
DIRECTORY = getattr(os, "O_DIRECTORY", 0) if HAS_FOLDER_DESCRIPTORS else 1 << 28
OPEN_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | DIRECTORY | CLOEXEC
OPEN_ANY = getattr(os, "O_PATH", os.O_RDONLY | NONBLOCK) | CLOEXEC | _UNOPENED
OPEN_FILE = os.O_RDONLY | NONBLOCK | NOCTTY | CLOEXEC | BINARY
"""Flags for folders, for anything that is only located, and for files to read."""

REMEDY = "File tools reach only what is in the workspace; give workspace=... to work on another folder."
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAX_NAME_BYTES, _MAX_PATH_BYTES, _MAX_DEPTH = 255, 4_000, 100
_MAX_SHOWN = 120
_DOTS = (".", "..")
_DRIVE = re.compile(r"[A-Za-z]:")
_INVALID_ON_WINDOWS = re.compile(r"(?i)[:*?\"<>|]|[ .]\Z|\A(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\.|\Z)")
"""Names with a colon or a wildcard, names of devices, and names whose end Windows drops."""

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
    errno.EACCES: "{path} cannot be accessed: permission denied.",
    errno.EPERM: "{path} cannot be accessed: the operating system forbids it.",
    errno.EROFS: "{path} is on a file system that is read-only.",
    errno.ENOSPC: "The disk is full; {path} is unchanged.",
    getattr(errno, "EDQUOT", -1): "The disk quota is exceeded; {path} is unchanged.",
    errno.ENAMETOOLONG: "{path} is too long for this file system.",
    errno.EEXIST: "{path} already exists, perhaps as a dangling symbolic link.",
    errno.ENOTEMPTY: "{path} is not empty.",
    errno.ENXIO: "{path} is a socket or a device, not a file.",
}
_ESCAPES = {
    errno.EXDEV: "{path} leads out of the workspace through a symbolic link.",
    errno.ELOOP: "{path} goes through a symbolic link that is not followed: it leads out of the workspace, or is "
    "circular.",
    errno.EAGAIN: "{path} was moved while it was opened.",
}


def components(path: str, *roots: str, windows: bool = os.name == "nt") -> tuple[str, ...]:
    """Split a path into the names below the workspace; empty for the workspace itself.

    A path is relative to the workspace, or absolute and inside one of the `roots` (spellings of the workspace). Names
    are literal: `~`, variables and `%xx` are not expanded. Raises ToolError for an invalid path, and Blocked for a path
    that leaves the workspace, even if it returns. On Windows a backslash separates names too, and a colon, which
    begins another drive or a hidden stream, is refused in a name.
    """
    _check_path(path)
    inner = _relative_path(path, roots, windows=windows)
    names: list[str] = []
    for name in inner.split("/"):
        if name == ".." and not names:
            raise outside(path)
        if name == "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    if len(names) > _MAX_DEPTH:
        raise ToolError(f"{quote_path(path)} is {len(names)} folders deep; at most {_MAX_DEPTH} are allowed.")
    return tuple(names)


def _relative_path(path: str, roots: Sequence[str], *, windows: bool) -> str:
    """A path relative to the workspace, with slashes."""
    if windows:
        path, *roots = (each.replace("\\", "/") for each in (path, *roots))
    if path.startswith("/") or (windows and _DRIVE.match(path)):
        inside = [root for root in roots if f"{path}/".startswith(f"{root.rstrip('/')}/")]
        if not inside:
            raise outside(path)
        path = path[len(max(inside, key=len)) :]
    if windows and any(_INVALID_ON_WINDOWS.search(name) for name in path.split("/") if name not in _DOTS):
        raise ToolError(f"{quote_path(path)} has a name that Windows would interpret differently.")
    return path


def outside(path: str) -> Blocked:
    """Return the error for a path outside the workspace."""
    return Blocked(f"{quote_path(path)} is outside the workspace. {REMEDY}")


def quote_path(path: str) -> str:
    """Format a path for an error message: quoted, without control characters, limited in length."""
    return repr(truncate(path, _MAX_SHOWN))


def to_tool_error(error: OSError, path: str) -> ToolError:
    """Convert an OSError to a sentence; Blocked if a link would have led outside."""
    number = error.errno or 0
    if number in _ESCAPES:
        return Blocked(f"{_ESCAPES[number].format(path=quote_path(path))} {REMEDY}")
    sentence = _SENTENCES.get(number, "{path} cannot be used: " + (os.strerror(number) if number else str(error)) + ".")
    return ToolError(sentence.format(path=quote_path(path)))


def open_beneath(root: Handle, names: Sequence[str], flags: int) -> Handle:
    """Let the kernel resolve the path; it refuses every way out, at the moment of opening (Linux 5.6)."""
    import ctypes

    path = os.fsencode("/".join(names) or ".")
    how = struct.pack("=QQQ", flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    arguments = (_OPENAT2, root, path, how, len(how))
    tries = _MAX_TRIES
    descriptor: int = _syscall()(*arguments)
    while descriptor < 0 and (number := ctypes.get_errno()):
        tries -= 1
        if number not in _AGAIN or not tries:
            raise OSError(number, os.strerror(number), path)
        descriptor = _syscall()(*arguments)
    return descriptor


def open_by_component(root: Handle, names: Sequence[str], flags: int) -> Handle:
    """Open folder by folder without following any link, for kernels without a better way."""
    if isinstance(root, str):
        return _open_by_path(root, names, flags)
    folder = root
    try:
        for name in names[:-1]:
            inner = os.open(name, OPEN_FOLDER | NOFOLLOW, dir_fd=folder)
            folder, previous = inner, folder
            _close(previous, root)
        return os.open(names[-1] if names else ".", flags | NOFOLLOW, dir_fd=folder)
    finally:
        _close(folder, root)


def _open_by_path(root: str, names: Sequence[str], flags: int) -> Handle:
    """Check the way to a file for links, then open the file; a folder is only named.

    For platforms where files cannot be opened below an open folder. The opened file must be the checked one, but a
    file that is created can land elsewhere if another program exchanges its folder at that moment.
    """
    path = root
    status = os.lstat(path)
    for name in names:
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        path = os.path.join(path, name)
        status = os.lstat(path)
        attributes: int = getattr(status, "st_file_attributes", 0)
        if stat.S_ISLNK(status.st_mode) or attributes & stat.FILE_ATTRIBUTE_REPARSE_POINT:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if stat.S_ISDIR(status.st_mode) or flags & _UNOPENED:
        return path
    if flags & DIRECTORY:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    opened = os.open(path, flags)
    if not os.path.samestat(os.fstat(opened), status):  # it was exchanged meanwhile
        os.close(opened)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
    return opened


def at(parent: Handle, name: str, key: str = "dir_fd") -> tuple[str, dict[str, Any]]:
    """The arguments by which functions of `os` find a name in an open folder."""
    return (name, {key: parent}) if isinstance(parent, int) else (os.path.join(parent, name), {})


def close(handle: Handle) -> None:
    """Close a descriptor."""
    if isinstance(handle, int):
        os.close(handle)


@functools.cache
def best_opener() -> Opener:
    """Return `open_beneath` if the system supports it, else `open_by_component`."""
    is_linux = sys.platform == "linux" and HAS_FOLDER_DESCRIPTORS
    return open_beneath if is_linux and _supports_openat2() else open_by_component


def _supports_openat2() -> bool:
    """Whether the kernel can confine a path to a folder, and report the path of an open file."""
    root = os.open("/", OPEN_FOLDER)
    try:
        opened = open_beneath(root, (), OPEN_FOLDER)
        try:
            return real_path("/", opened) == ""
        finally:
            close(opened)
    except (OSError, ImportError):
        return False
    finally:
        os.close(root)


def real_path(folder: str, descriptor: Handle) -> str | None:
    """Return the real path of an open file, relative to its real root folder; None if it is outside."""
    place = _link_target(f"/proc/self/fd/{descriptor}")
    if place.endswith(_DELETED) and os.stat(descriptor).st_nlink == 0:
        place = place.removesuffix(_DELETED)
    if place == folder:
        return ""
    base = folder.rstrip("/") + "/"
    return place[len(base) :] if place.startswith(base) else None


def _check_path(path: str) -> None:
    if not path:
        raise ToolError('The path is empty; give the name of a file, or "." for the workspace itself.')
    if _CONTROL.search(path):
        raise ToolError(f"{quote_path(path)} contains control characters, which are not allowed in file names.")
    if path.isascii() and len(path) <= _MAX_NAME_BYTES:
        return
    try:
        size = max(len(os.fsencode(name)) for name in path.split("/"))
        length = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise ToolError(f"{quote_path(path)} contains characters that are invalid in file names.") from None
    if size > _MAX_NAME_BYTES or length > _MAX_PATH_BYTES:
        limit = f"a name may have {_MAX_NAME_BYTES} bytes, a path {_MAX_PATH_BYTES:,}"
        raise ToolError(f"{quote_path(path)} is too long: {limit}.")


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
