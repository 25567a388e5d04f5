"""Reading, writing and listing of files below one folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import groupby, islice
from pathlib import Path
from types import MappingProxyType

from agentkit._dataclass import dataclass
from agentkit.errors import Blocked, ConfigError, ToolError
from agentkit.workspace import safe_open
from agentkit.workspace.safe_open import (
    CLOEXEC,
    DIRECTORY,
    NOFOLLOW,
    OPEN_ANY,
    OPEN_FILE,
    OPEN_FOLDER,
    open_by_component,
    shown,
)
from agentkit.workspace.snapshots import ABSENT, Kind, State

MOST_READ_BYTES = 16_000_000
MOST_WRITTEN_BYTES = 10_000_000
MOST_KEPT_BYTES = 50_000_000
"""Files above this size are not read to be remembered: a change of them cannot be undone."""

_MOST_NAMES = 100_000
_PIECE_BYTES = 4_096
_LIST_FOLDER = os.O_RDONLY | DIRECTORY | CLOEXEC
_PERMISSIONS = 0o777
_NAMES_OF_FOLDERS = ("", ".", "..")
_COPIED_ATTRIBUTES = ("user.", "system.posix_acl_access")
_KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_NO_FILES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

Check = Callable[[str], None]
"""Told the real place of a file, relative to the workspace, before it is touched; raises to refuse it."""

_NOTHING: Mapping[str, str] = MappingProxyType({})

EXPECTED: ContextVar[Mapping[str, str]] = ContextVar("agentkit_expected_places", default=_NOTHING)
"""The real place that each path of the call at work had when rules were matched against it."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file, at most as much as was asked for. `path` is its real place in the workspace."""

    path: str
    content: bytes
    size: int
    links: int


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A name in a folder. `kind` is what it leads to for a link that stays inside, else "link"."""

    name: str
    kind: Kind


class Root:
    """The files below `folder`. Every access begins there and is refused when it would lead elsewhere.

    `opener` follows the names; by default the best way that the machine has. Raises ConfigError when there is no
    such folder. All methods raise ToolError, and Blocked for what is outside.

    `read`, `locate`, `missing_folders` and `entries` take a path and follow links that stay inside. What changes
    something takes a real place, as those give it, and follows no link at all: nobody can move it meanwhile.
    """

    def __init__(self, folder: str | Path, *, opener: safe_open.Opener | None = None) -> None:
        self._spelled = str(Path(folder).absolute())
        self.folder = os.path.realpath(folder)
        self._opener = opener or safe_open.best_opener()
        if not Path(self.folder).is_dir():
            raise ConfigError(f"The workspace {str(folder)!r} is not a folder; make it, or name another one.")

    def read(self, path: str, most_bytes: int = MOST_READ_BYTES, *, check: Check | None = None) -> FileContent:
        """The first bytes of a regular file. Links are followed as long as they stay inside."""
        with _translated(path), self._open(self.named(path), OPEN_FILE) as file:
            status = os.fstat(file)
            _refuse_special(status, path)
            place = self._place(file, path)
            if check:
                check(place)
            return FileContent(place, _read(file, most_bytes, status.st_size), status.st_size, status.st_nlink)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The folder's absolute spellings: the real one, and the one by which it was given."""
        return tuple(dict.fromkeys((self.folder, self._spelled)))

    def name(self, path: str) -> str:
        """A path by its name alone, relative to the workspace, which itself is ""."""
        return "/".join(self._components(path))

    def locate(self, path: str) -> tuple[str, str]:
        """A path by its name alone, and the real place that it leads to, all links followed.

        Both are relative to the workspace, which itself is "". A path may lead to what does not exist yet.
        """
        names = self._components(path)
        place, missing = self._existing(names, len(names), OPEN_ANY, path)
        return "/".join(names), _joined(place, *missing)

    def missing_folders(self, path: str) -> tuple[str, list[str]]:
        """The real place where a file of that path stands or would, itself not followed if it is a link.

        With it the folders that must be made before, outermost first.
        """
        names = self.named(path)
        place, missing = self._existing(names, len(names) - 1, OPEN_FOLDER, path)
        *folders, whole = (_joined(place, *missing[:count]) for count in range(1, len(missing) + 1))
        return whole, folders

    def inspect(self, place: str, most_bytes: int = MOST_KEPT_BYTES) -> State:
        """What stands at a real place. The content of a larger file is not kept."""
        nowhere = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with _translated(place), nowhere, self._parent(place) as (parent, name):
            return _state(parent, name, most_bytes)
        return ABSENT

    def inspect_all(self, places: Iterable[str], most_bytes: int) -> Iterator[tuple[str, State]]:
        """Each place with what stands there, but for those that cannot be named or read; quick for whole folders."""
        for folder, group in groupby(places, key=lambda place: place.rpartition("/")[0]):
            names = self._components(folder or ".")
            with contextlib.suppress(OSError), self._open(names, OPEN_FOLDER, open_by_component) as parent:
                for place in group:
                    with contextlib.suppress(OSError, ToolError):
                        yield place, _state(parent, self.named(place)[-1], most_bytes)

    def write(self, place: str, content: bytes, mode: int | None = None) -> None:
        """Put a file with this content in place, in one step: at any instant there is the old file or the new one.

        The permissions are `mode`, else those of the old file, else the usual ones. The folder must exist.
        """
        with _translated(place), self._parent(place) as (parent, name):
            old = _status(parent, name)
            if old is not None:
                _refuse_special(old, place)
            _replace(parent, name, content, _Look(mode, old, unnamed=self._opener is safe_open.open_beneath))

    def make_folder(self, place: str) -> None:
        """Make one folder."""
        with _translated(place), self._parent(place) as (parent, name):
            os.mkdir(name, dir_fd=parent)

    def dress_folder(self, place: str, mode: int) -> None:
        """Give a folder these permissions."""
        with _translated(place), self._open(self.named(place), _LIST_FOLDER, open_by_component) as folder:
            os.fchmod(folder, mode)

    def link(self, place: str, target: bytes) -> None:
        """Make a symbolic link where nothing stands."""
        with _translated(place), self._parent(place) as (parent, name):
            os.symlink(os.fsdecode(target), name, dir_fd=parent)

    def remove(self, place: str) -> None:
        """Remove a file, a link or an empty folder."""
        with _translated(place), self._parent(place) as (parent, name):
            status = os.lstat(name, dir_fd=parent)
            (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(name, dir_fd=parent)

    def entries(self, path: str, *, check: Check | None = None) -> tuple[str, list[DirectoryEntry]]:
        """The real place of a folder, and what is in it by name; of a huge folder the first 100,000 names."""
        with _translated(path), self._open(self._components(path), _LIST_FOLDER) as folder:
            place = self._place(folder, path)
            if check:
                check(place)
            with os.scandir(folder) as scan:
                found = [DirectoryEntry(each.name, self._kind(place, each)) for each in islice(scan, _MOST_NAMES)]
        return place, sorted(found, key=lambda entry: entry.name)

    def walk(
        self, path: str = ".", skip: Collection[str] = (), prune: Callable[[str], bool] = lambda _place: False
    ) -> Iterator[tuple[str, os.stat_result]]:
        """Every place below a folder with its status, links not followed.

        Folders whose name is in `skip`, and places for which `prune` is true, are left out with all below them.
        """
        waiting = [path]
        while waiting:
            inner = []
            for place, status in self._statuses(waiting.pop()):
                if prune(place):
                    continue
                if stat.S_ISDIR(status.st_mode):
                    if place.rpartition("/")[2] in skip:
                        continue
                    inner.append(place)
                yield place, status
            waiting += reversed(inner)

    def _statuses(self, path: str) -> list[tuple[str, os.stat_result]]:
        """The real places in a folder with their statuses; nothing when it has gone or may not be read."""
        with (
            contextlib.suppress(OSError),
            self._open(self._components(path), _LIST_FOLDER) as folder,
            os.scandir(folder) as scan,
        ):
            place = self._place(folder, path)
            return sorted((_joined(place, each.name), each.stat(follow_symlinks=False)) for each in scan)
        return []

    def files(self, path: str = ".", skip: Collection[str] = ()) -> Iterator[tuple[str, int]]:
        """The places of the regular files below a folder, with their sizes."""
        for place, status in self.walk(path, skip):
            if stat.S_ISREG(status.st_mode):
                yield place, status.st_size

    def _kind(self, folder: str, entry: os.DirEntry[str]) -> Kind:
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        if not entry.is_symlink():
            return "file" if entry.is_file(follow_symlinks=False) else "other"
        with contextlib.suppress(OSError), self._open([*filter(None, folder.split("/")), entry.name], OPEN_FOLDER):
            return "folder"
        return "link"

    def _components(self, path: str) -> tuple[str, ...]:
        return safe_open.components(path, self.folder, self._spelled)

    def named(self, path: str) -> tuple[str, ...]:
        """The names that lead to a file; `sub/`, `sub/.`, `sub/x/..` are none: they would hide its name from rules."""
        names = self._components(path)
        if not names:
            raise ToolError(f"{shown(path)} is the workspace itself; name a file in it.")
        if path.rpartition("/")[2] in _NAMES_OF_FOLDERS:
            raise ToolError(f"{shown(path)} ends like a folder and so names a folder; name a file.")
        return names

    @contextlib.contextmanager
    def _open(self, names: Sequence[str], flags: int, opener: safe_open.Opener | None = None) -> Iterator[int]:
        """What the names lead to, open for a while."""
        root = os.open(self.folder, OPEN_FOLDER)
        try:
            opened = (opener or self._opener)(root, names, flags)
            try:
                yield opened
            finally:
                os.close(opened)
        finally:
            os.close(root)

    @contextlib.contextmanager
    def _parent(self, place: str) -> Iterator[tuple[int, str]]:
        *folders, name = self.named(place)
        with self._open(folders, OPEN_FOLDER, open_by_component) as parent:
            yield parent, name

    def _existing(self, names: Sequence[str], most: int, flags: int, path: str) -> tuple[str, Sequence[str]]:
        """The real place of as many of the names as exist, at most `most`, and the names that are left."""
        for count in range(most, -1, -1):
            try:
                with self._open(names[:count], flags) as opened:
                    return self._place(opened, _joined(*names[:count]) or "."), names[count:]
            except FileNotFoundError:
                continue
            except OSError as error:
                raise safe_open.explained(error, path) from None
        raise ToolError(f"The workspace {self.folder} is gone.")

    def _place(self, opened: int, path: str) -> str:
        if self._opener is not safe_open.open_beneath:  # no link was followed: it is where its name says
            return _joined(*self._components(path))
        place = safe_open.real_place(self.folder, opened)
        if place is None:
            raise safe_open.outside(path)
        return place


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise safe_open.explained(error, path) from None


def _joined(*names: str) -> str:
    return "/".join(filter(None, names))


def _refuse_special(status: os.stat_result, path: str) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        raise Blocked(f"{shown(path)} is a symbolic link; name the file that it leads to.")
    if kind != stat.S_IFREG:
        raise ToolError(f"{shown(path)} is {_NO_FILES.get(kind, 'a special file')}, not a file.")


def _status(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return None


def _read(file: int, most_bytes: int, size: int) -> bytes:
    """The first bytes of a file, which is thought to have this size."""
    pieces = []
    while most_bytes > 0:
        asked = min(most_bytes, max(size + 1, _PIECE_BYTES))
        piece = os.read(file, asked)
        pieces.append(piece)
        most_bytes -= len(piece)
        if len(piece) < asked:  # of a regular file less is given only at its end
            break
    return b"".join(pieces)


def _state(parent: int, name: str, most_bytes: int) -> State:
    status = _status(parent, name)
    if status is None:
        return ABSENT
    kind, mode = _KINDS.get(stat.S_IFMT(status.st_mode), "other"), status.st_mode & _PERMISSIONS
    if kind == "link":
        return State.of(kind, os.fsencode(os.readlink(name, dir_fd=parent)))
    if kind != "file":
        return State(kind, mode=mode)
    if status.st_size > most_bytes:
        return State(kind, None, mode, f"{status.st_ino} {status.st_mtime_ns}", status.st_size, status.st_nlink)
    file = os.open(name, OPEN_FILE | NOFOLLOW, dir_fd=parent)
    try:
        return State.of(kind, _read(file, most_bytes, status.st_size), mode, status.st_nlink)
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class _Look:
    """How a new file is to look: its permissions, those of the file it replaces, and whether it may have no name."""

    mode: int | None
    old: os.stat_result | None
    unnamed: bool

    @property
    def permissions(self) -> int | None:
        if self.mode is not None or self.old is None:
            return self.mode
        return self.old.st_mode & _PERMISSIONS


def _replace(parent: int, name: str, content: bytes, look: _Look) -> None:
    hidden = f".agentkit-{secrets.token_hex(8)}.tmp"
    file, is_named = _new_file(parent, hidden, look)
    try:
        remaining = memoryview(content)
        while remaining:
            remaining = remaining[os.write(file, remaining) :]
        if look.old is not None:
            _copy_attributes(parent, name, file)
        _dress(file, look)
        if not is_named and look.old is None:  # a process that is killed here leaves nothing but the file
            with contextlib.suppress(FileExistsError):
                return os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=parent)
        if not is_named:
            os.link(f"/proc/self/fd/{file}", hidden, dst_dir_fd=parent)
            is_named = True
        os.rename(hidden, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        if is_named:
            os.unlink(hidden, dir_fd=parent)
        raise
    finally:
        os.close(file)


def _new_file(parent: int, hidden: str, look: _Look) -> tuple[int, bool]:
    """A new file, and whether it has a name yet: one without vanishes with a process that is killed."""
    mode = 0o666 if look.permissions is None else 0o600
    flags = os.O_WRONLY | CLOEXEC
    if look.unnamed:
        with contextlib.suppress(OSError):  # not every file system can
            return os.open(".", flags | os.O_TMPFILE, mode, dir_fd=parent), False
    return os.open(hidden, flags | os.O_CREAT | os.O_EXCL | NOFOLLOW, mode, dir_fd=parent), True


def _copy_attributes(parent: int, name: str, file: int) -> None:
    """Give a new file the extended attributes of the one that it replaces, as far as that may be done."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        old = os.open(name, OPEN_FILE | NOFOLLOW, dir_fd=parent)
        try:
            for attribute in os.listxattr(old):
                if attribute.startswith(_COPIED_ATTRIBUTES):
                    with contextlib.suppress(OSError):
                        os.setxattr(file, attribute, os.getxattr(old, attribute))
        finally:
            os.close(old)


def _dress(file: int, look: _Look) -> None:
    old = look.old
    if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(file, old.st_uid, old.st_gid)
    if look.permissions is not None:
        os.fchmod(file, look.permissions)
