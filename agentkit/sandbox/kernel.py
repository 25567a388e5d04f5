"""Kernel isolation: namespaces, a private root file system, dropped privileges, and Landlock rules.

Runs in the child, on Linux, and imports little, because every start pays for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat

from agentkit.sandbox.protocol import make_cover

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACES = {
    "user": 0x1000_0000,
    "net": 0x4000_0000,
    "ipc": 0x0800_0000,
    "uts": 0x0400_0000,
    "mount": 0x0002_0000,
    "pid": 0x2000_0000,
}
"""The namespaces in the order in which they are left; `pid` applies to the next child only."""

Mount = tuple[str, str, str]
"""A part of a root: its kind (ro, rw, tmpfs, proc, dev, cover, seal), its path, and its source, its size, or the
description of its cover."""

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442
_NO_SETUID, _NO_DEVICES, _NO_EXECUTION, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x4_0000
_READ_ONLY, _DETACH, _AT_FDCWD, _WHOLE_TREE = 1, 2, -100, 0x8000
_PARENT_DEATH, _NO_NEW_PRIVILEGES, _SECCOMP, _BOUNDING, _SUBREAPER = 1, 38, 22, 24, 36
_KILL, _FILTER_MODE, _CAPABILITIES, _CAPABILITY_VERSION = 9, 2, 41, 0x2008_0522
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}

_own_file_systems: set[int] = set()
"""The device numbers of the file systems in memory that this process has mounted."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _syscall(number: int, *words: object) -> int:
    """The result of a system call. Raises OSError."""
    return _check(_libc.syscall(number, *words))


def _prctl(option: int, argument: int = 0, pointer: object = None) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(argument), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0)))


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that started it ends."""
    _prctl(_PARENT_DEATH, _KILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none can escape."""
    _prctl(_SUBREAPER, 1)


def leave_namespaces(requested: list[str], host_name: str) -> list[str]:
    """Leave the host's namespaces of these names, set the host name, and return the namespaces that were left.

    Without a user namespace none is left, because unprivileged users can create the others only inside one.
    """
    user, group = os.geteuid(), os.getegid()
    left: list[str] = []
    for name, flag in NAMESPACES.items():
        if name in requested and _libc.unshare(flag) == 0:
            left.append(name)
            if name == "user":
                _map_identity(user, group)
            elif name == "uts":
                _libc.sethostname(host_name.encode(), ctypes.c_size_t(len(host_name)))
        elif name == "user":
            return []
    return left


def _map_identity(user: int, group: int) -> None:
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def enter_root(mounts: list[Mount], machine: str) -> None:
    """Build a root of these parts, in order, and replace the current root by it. Raises OSError.

    Needs a mount namespace. The first part is the root itself.
    """
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", _NO_SETUID | _NO_DEVICES, "size=1m")
    for name in ("/tmp/old", "/tmp/new", "/tmp/covers"):
        os.mkdir(name)
    _pivot("/tmp", "/tmp/old", machine)
    for number, (kind, path, source) in enumerate(mounts):
        if kind == "cover":
            make_cover(f"/covers/{number}", source)
            if os.path.lexists(f"/new{path}"):
                with contextlib.suppress(FileNotFoundError):  # if the file was moved; the host checks that afterwards
                    _bind_with_attributes(_READ_ONLY, f"/new{path}", f"/covers/{number}", above="")
        else:
            _MOUNTERS[kind](f"/new{path}", source)
    os.chdir("/new")
    _pivot(".", ".", machine)  # the old root is now mounted on the new one, where it can be unmounted
    _check(_libc.umount2(b".", _DETACH))
    os.chdir("/")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options)))


def _pivot(root: str, old: str, machine: str) -> None:
    _syscall(_PIVOT_ROOT[machine], os.fsencode(root), os.fsencode(old))


def _bind(target: str, source: str, above: str = "/old") -> None:
    _make_mount_point(target, is_folder=stat.S_ISDIR(os.stat(f"{above}{source}").st_mode))
    _mount(f"{above}{source}", target, None, _BIND | _RECURSIVE)


def _bind_with_attributes(attributes: int, target: str, source: str, above: str = "/old") -> None:
    _bind(target, source, above)
    _set_attributes(target, attributes | _NO_SETUID, _WHOLE_TREE)


def _make_tmpfs(target: str, size: str) -> None:
    _make_mount_point(target, is_folder=True)
    _mount("tmpfs", target, "tmpfs", _NO_SETUID | _NO_DEVICES, f"size={size},nr_inodes=20000,mode=0755")
    _own_file_systems.add(os.stat(target).st_dev)


def _make_proc(target: str, _: str) -> None:
    _make_mount_point(target, is_folder=True)
    _mount("proc", target, "proc", _NO_SETUID | _NO_DEVICES | _NO_EXECUTION)


def _make_devices(target: str, size: str) -> None:
    _make_tmpfs(target, size)
    for name in _DEVICES:
        _bind(f"{target}/{name}", f"/dev/{name}")
    for name, aim in _DEVICE_LINKS.items():
        os.symlink(aim, f"{target}/{name}")
    os.mkdir(f"{target}/shm")


_MOUNTERS: dict[str, Callable[[str, str], None]] = {
    "ro": lambda target, source: _bind_with_attributes(_READ_ONLY, target, source),
    "rw": lambda target, source: _bind_with_attributes(0, target, source),
    "tmpfs": _make_tmpfs,
    "proc": _make_proc,
    "dev": _make_devices,
    "seal": lambda target, _: _set_attributes(target, _READ_ONLY, 0),
    "link": lambda target, aim: os.symlink(aim, target),
}


def _make_mount_point(target: str, *, is_folder: bool) -> None:
    """Create a mount point if it does not exist; only in our own file systems, never in a folder of the host."""
    if os.path.lexists(target):
        return
    existing = os.path.dirname(target)
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    if os.stat(existing).st_dev not in _own_file_systems:
        raise FileNotFoundError(errno.ENOENT, "The folder of this mount point was moved", target)
    os.makedirs(target if is_folder else os.path.dirname(target), exist_ok=True)
    if not is_folder:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))


def _set_attributes(target: str, attributes: int, flags: int) -> None:
    attributes_struct = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    _syscall(
        _MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(target),
        flags,
        attributes_struct,
        ctypes.c_size_t(ctypes.sizeof(attributes_struct)),
    )


def drop_privileges() -> None:
    """Drop all privileges, and prevent any program from gaining new ones."""
    _prctl(_NO_NEW_PRIVILEGES, 1)
    for capability in range(_CAPABILITIES):
        _libc.prctl(_BOUNDING, ctypes.c_ulong(capability), None, None, None)  # fails if it was not held
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def filter_calls(program: bytes) -> None:
    """Restrict this process and its descendants to the system calls that the filter allows."""
    steps = ctypes.create_string_buffer(program, len(program))
    filter_program = _FilterProgram(len(program) // 8, ctypes.addressof(steps))
    _prctl(_SECCOMP, _FILTER_MODE, ctypes.byref(filter_program))


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_VERSION, _BELOW = 1, 1

_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_REMOVE_FOLDER, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_DEVICES = 1 << 6 | 1 << 11
_MAKE_FOLDER, _MAKE_FILE, _MAKE_LINK = 1 << 7, 1 << 8, 1 << 12
_MAKE_SOCKET, _MAKE_FIFO = 1 << 9, 1 << 10
_MOVE, _TRUNCATE, _CONTROL_DEVICES = 1 << 13, 1 << 14, 1 << 15
_RIGHTS_SINCE = ((2, _MOVE), (3, _TRUNCATE), (5, _CONTROL_DEVICES))
_COMPLETE_SINCE = 3
_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _CONTROL_DEVICES
"""The rights that apply to a file; the others apply to folders only."""

RIGHTS = {
    "read": _READ | _LIST,
    "run": _READ | _LIST | _EXECUTE,
    "write": _READ | _LIST | _WRITE | _TRUNCATE | _MOVE | _REMOVE_FOLDER | _REMOVE_FILE | _MAKE_FOLDER | _MAKE_FILE,
    "all": ~_MAKE_DEVICES,
}
"""The access rights of the words of a rule."""

_NETWORK_SINCE, _TCP = 4, 3
_SCOPES_SINCE, _SOCKETS_AND_SIGNALS = 6, 3


def landlock_version() -> int:
    """The version of the kernel's Landlock. Raises OSError without it."""
    return _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _READ_VERSION)


def landlock_is_complete(number: int, *, own_root: bool) -> bool:
    """Whether this version protects files outside from every change. With older ones they can be truncated.

    Without a private root, a process on such a kernel is restricted, but not isolated.
    """
    return own_root or number >= _COMPLETE_SINCE


def restrict_access(rules: list[tuple[str, str]], *, network: bool = False) -> None:
    """Restrict this process to these rights (keys of `RIGHTS`) below these paths. Raises OSError without Landlock.

    Without `network` it can neither connect nor listen over TCP. Signals and abstract sockets of outside processes
    are blocked if the kernel's version of Landlock supports that. Paths that do not exist are left out.
    """
    known = landlock_version()
    handled = (1 << 13) - 1
    for since, right in _RIGHTS_SINCE:
        handled |= right if known >= since else 0
    tcp = _TCP if known >= _NETWORK_SINCE and not network else 0
    scopes = _SOCKETS_AND_SIGNALS if known >= _SCOPES_SINCE else 0
    ruleset_struct = (ctypes.c_uint64 * 3)(handled, tcp, scopes)
    size = 24 if known >= _SCOPES_SINCE else 16 if known >= _NETWORK_SINCE else 8
    ruleset = _syscall(_CREATE_RULESET, ruleset_struct, ctypes.c_size_t(size), 0)
    try:
        for word, path in rules:
            _allow_below(ruleset, RIGHTS[word] & handled, path)
        _syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow_below(ruleset: int, rights: int, path: str) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        usable = rights if os.path.isdir(path) else rights & _FILES
        _syscall(_ADD_RULE, ruleset, _BELOW, ctypes.byref(_PathRule(usable, place)), 0)
    finally:
        os.close(place)


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("place", ctypes.c_int32))
