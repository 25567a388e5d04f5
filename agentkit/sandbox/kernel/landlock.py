"""Landlock rules for file access."""

from __future__ import annotations

import ctypes
import os

from agentkit.sandbox.kernel.namespaces import landlock_call

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION, _BELOW = 1, 1

_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_REMOVE_FOLDER, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_DEVICES = 1 << 6 | 1 << 11
_MAKE_FOLDER, _MAKE_FILE, _MAKE_LINK = 1 << 7, 1 << 8, 1 << 12
_MAKE_SOCKET, _MAKE_FIFO = 1 << 9, 1 << 10
_MOVE, _TRUNCATE, _CONTROL_DEVICES = 1 << 13, 1 << 14, 1 << 15
_KNOWN_SINCE = ((2, _MOVE), (3, _TRUNCATE), (5, _CONTROL_DEVICES))
_COMPLETE_SINCE = 3
_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _CONTROL_DEVICES
"""The rights that make sense for a file; the others are a folder's."""

RIGHTS = {
    "read": _READ | _LIST,
    "run": _READ | _LIST | _EXECUTE,
    "write": _READ | _LIST | _WRITE | _TRUNCATE | _MOVE | _REMOVE_FOLDER | _REMOVE_FILE | _MAKE_FOLDER | _MAKE_FILE,
    "all": ~_MAKE_DEVICES,
}
"""The access rights of the words of a rule."""

_NETWORK_SINCE, _TCP = 4, 3
_SCOPES_SINCE, _SOCKETS_AND_SIGNALS = 6, 3


def version() -> int:
    """The version of the kernel's Landlock. Raises OSError without it."""
    return landlock_call(_CREATE, None, ctypes.c_size_t(0), _ASK_VERSION)


def is_complete(number: int, *, own_root: bool) -> bool:
    """Whether this version keeps files outside from every change. Older ones let them be truncated, if they are there.

    Without a private root, a process on such a kernel is restricted, but not isolated.
    """
    return own_root or number >= _COMPLETE_SINCE


def restrict(rules: list[tuple[str, str]], *, network: bool = False) -> None:
    """Keep this process to these rights (a word of `RIGHTS`) below these paths. Raises OSError without Landlock.

    Without network it may neither connect nor listen over TCP, and it reaches no signal and no abstract socket
    outside, as far as the kernel's Landlock knows how. Paths that do not exist are left out.
    """
    known = version()
    handled = (1 << 13) - 1
    for since, right in _KNOWN_SINCE:
        handled |= right if known >= since else 0
    tcp = _TCP if known >= _NETWORK_SINCE and not network else 0
    scopes = _SOCKETS_AND_SIGNALS if known >= _SCOPES_SINCE else 0
    wish = (ctypes.c_uint64 * 3)(handled, tcp, scopes)
    size = 24 if known >= _SCOPES_SINCE else 16 if known >= _NETWORK_SINCE else 8
    ruleset = landlock_call(_CREATE, wish, ctypes.c_size_t(size), 0)
    try:
        for word, path in rules:
            _add(ruleset, RIGHTS[word] & handled, path)
        landlock_call(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _add(ruleset: int, rights: int, path: str) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        usable = rights if os.path.isdir(path) else rights & _FILES
        landlock_call(_ADD, ruleset, _BELOW, ctypes.byref(_Below(usable, place)), 0)
    finally:
        os.close(place)


class _Below(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("place", ctypes.c_int32))
