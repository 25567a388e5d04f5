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
from agentkit.portable_files import BINARY, CLOEXEC, HAS_FOLDER_DESCRIPTORS, NOFOLLOW, set_mode
from agentkit.workspace import safe_open
from agentkit.workspace.safe_open import (
    DIRECTORY,
    OPEN_ANY,
    OPEN_FILE,
    OPEN_FOLDER,
    Handle,
    at,
    close,
    open_by_component,
    quote_path,
)
from agentkit.workspace.snapshots import ABSENT, Kind, State

MAX_READ_BYTES = 16_000_000
MAX_WRITTEN_BYTES = 10_000_000
MAX_KEPT_BYTES = 50_000_000
"""Larger files are not read for snapshots, so their changes cannot be undone."""

_MAX_NAMES = 100_000
_PIECE_BYTES = 4_096
_LIST_FOLDER = os.O_RDONLY | DIRECTORY | CLOEXEC
_PERMISSIONS = 0o777
_NAMES_OF_FOLDERS = ("", ".", "..")
_COPIED_ATTRIBUTES = ("user.", "system.posix_acl_access")
_KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_SPECIAL_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

Check = Callable[[str], None]
"""Called with the real path of a file, relative to the workspace, before it is accessed; raises to refuse it."""

_NOTHING: Mapping[str, str] = MappingProxyType({})

EXPECTED: ContextVar[Mapping[str, str]] = ContextVar("agentkit_expected_places", default=_NOTHING)
"""The real path of each path argument of the current call, at the time when rules were matched."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file, up to the requested size. `path` is its real path in the workspace."""

    path: str
    content: bytes
    size: int
    links: int


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A name in a folder. `kind` is that of the target for a link that stays inside, else "link"."""

    name: str
    kind: Kind


class Root:
    """The files below `folder`. Every access starts there and is refused if it would lead outside.

    `opener` resolves paths; by default the safest one that the system supports. Raises ConfigError if the folder does
    not exist. All methods raise ToolError, and Blocked for paths outside.

    `read`, `locate`, `missing_folders` and `entries` take a path and follow links that stay inside. Methods that change
    something take a real path, as returned by those, and follow no links, so that the target cannot be swapped
    meanwhile.
    """

    def __init__(self, folder: str | Path, *, opener: safe_open.Opener | None = None) -> None:
        self._given_folder = str(Path(folder).absolute())
        self.folder = os.path.realpath(folder)
        self._opener = opener or safe_open.best_opener()
        if not Path(self.folder).is_dir():
            raise ConfigError(f"The workspace {str(folder)!r} is not a folder. Create it, or name another folder.")

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES, *, check: Check | None = None) -> FileContent:
        """Read the first bytes of a regular file. Links are followed as long as they stay inside."""
        with _os_errors_as_tool_errors(path), self._open(self.file_components(path), OPEN_FILE) as file:
            status = os.stat(file)
            _refuse_special(status, path)
            place = self._place(file, path)
            if check:
                check(place)
            return FileContent(place, _read(int(file), max_bytes, status.st_size), status.st_size, status.st_nlink)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The folder's absolute paths: the real one, and the one as given."""
        return tuple(dict.fromkeys((self.folder, self._given_folder)))

    def name(self, path: str) -> str:
        """Normalise a path relative to the workspace, which itself is "", without resolving links."""
        return "/".join(self._components(path))

    def locate(self, path: str) -> tuple[str, str]:
        """Return the normalised path, and the real path with all links resolved.

        Both are relative to the workspace, which itself is "". The path need not exist.
        """
        names = self._components(path)
        place, missing = self._existing(names, len(names), OPEN_ANY, path)
        return "/".join(names), _join(place, *missing)

    def missing_folders(self, path: str) -> tuple[str, list[str]]:
        """Return the real path of a file, without following the file itself if it is a link.

        Also returns the folders that have to be created for it, outermost first.
        """
        names = self.file_components(path)
        place, missing = self._existing(names, len(names) - 1, OPEN_FOLDER, path)
        *folders, whole = (_join(place, *missing[:count]) for count in range(1, len(missing) + 1))
        return whole, folders

    def inspect(self, place: str, max_bytes: int = MAX_KEPT_BYTES) -> State:
        """Return the state of a real path, without the content of a larger file."""
        missing = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with _os_errors_as_tool_errors(place), missing, self._parent(place) as (parent, name):
            return _state(parent, name, max_bytes)
        return ABSENT

    def inspect_all(self, places: Iterable[str], max_bytes: int) -> Iterator[tuple[str, State]]:
        """Yield the state of each path, skipping those that cannot be read; fast for whole folders."""
        for folder, group in groupby(places, key=lambda place: place.rpartition("/")[0]):
            names = self._components(folder or ".")
            with contextlib.suppress(OSError), self._open(names, OPEN_FOLDER, open_by_component) as parent:
                for place in group:
                    with contextlib.suppress(OSError, ToolError):
                        yield place, _state(parent, self.file_components(place)[-1], max_bytes)

    def write(self, place: str, content: bytes, mode: int | None = None) -> None:
        """Write a file atomically: at any instant there is either the old file or the new one.

        The permissions are `mode`, else those of the old file, else the default. The folder must exist.
        """
        with _os_errors_as_tool_errors(place), self._parent(place) as (parent, name):
            old = _status(parent, name)
            if old is not None:
                _refuse_special(old, place)
            _replace(parent, name, content, _FileAttributes(mode, old, unnamed=self._opener is safe_open.open_beneath))

    def make_folder(self, place: str) -> None:
        """Create one folder."""
        with _os_errors_as_tool_errors(place), self._parent(place) as (parent, name):
            path, where = at(parent, name)
            os.mkdir(path, **where)

    def set_folder_mode(self, place: str, mode: int) -> None:
        """Set the permissions of a folder."""
        with (
            _os_errors_as_tool_errors(place),
            self._open(self.file_components(place), _LIST_FOLDER, open_by_component) as folder,
        ):
            os.chmod(folder, mode)

    def link(self, place: str, target: bytes) -> None:
        """Create a symbolic link at an unused path."""
        with _os_errors_as_tool_errors(place), self._parent(place) as (parent, name):
            path, where = at(parent, name)
            os.symlink(os.fsdecode(target), path, **where)

    def remove(self, place: str) -> None:
        """Remove a file, a link or an empty folder."""
        with _os_errors_as_tool_errors(place), self._parent(place) as (parent, name):
            path, where = at(parent, name)
            (os.rmdir if stat.S_ISDIR(os.lstat(path, **where).st_mode) else os.unlink)(path, **where)

    def entries(self, path: str, *, check: Check | None = None) -> tuple[str, list[DirectoryEntry]]:
        """Return the real path of a folder and its entries by name; at most the first 100,000 names."""
        with _os_errors_as_tool_errors(path), self._open(self._components(path), _LIST_FOLDER) as folder:
            place = self._place(folder, path)
            if check:
                check(place)
            with os.scandir(folder) as scan:
                found = [DirectoryEntry(each.name, self._kind(place, each)) for each in islice(scan, _MAX_NAMES)]
        return place, sorted(found, key=lambda entry: entry.name)

    def walk(
        self, path: str = ".", skip: Collection[str] = (), prune: Callable[[str], bool] = lambda _place: False
    ) -> Iterator[tuple[str, os.stat_result]]:
        """Yield every path below a folder with its status, without following links.

        Folders whose name is in `skip`, and paths for which `prune` is true, are excluded with everything below them.
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
        """Return the real paths in a folder with their statuses; empty if it is gone or not readable."""
        with (
            contextlib.suppress(OSError),
            self._open(self._components(path), _LIST_FOLDER) as folder,
            os.scandir(folder) as scan,
        ):
            place = self._place(folder, path)
            return sorted((_join(place, each.name), each.stat(follow_symlinks=False)) for each in scan)
        return []

    def files(self, path: str = ".", skip: Collection[str] = ()) -> Iterator[tuple[str, int]]:
        """Yield the paths of the regular files below a folder, with their sizes."""
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
        return safe_open.components(path, self.folder, self._given_folder)

    def file_components(self, path: str) -> tuple[str, ...]:
        """Split the path of a file into names.

        Rejects `sub/`, `sub/.` and `sub/x/..`, which would hide the file's name from rules.
        """
        names = self._components(path)
        if not names:
            raise ToolError(f"{quote_path(path)} is the workspace itself; name a file in it.")
        if path.rpartition("/")[2] in _NAMES_OF_FOLDERS:
            raise ToolError(f"{quote_path(path)} ends with a slash, so it names a folder; name a file.")
        return names

    @contextlib.contextmanager
    def _open(self, names: Sequence[str], flags: int, opener: safe_open.Opener | None = None) -> Iterator[Handle]:
        """Open a path for the duration of the block."""
        root: Handle = os.open(self.folder, OPEN_FOLDER) if HAS_FOLDER_DESCRIPTORS else self.folder
        try:
            opened = (opener or self._opener)(root, names, flags)
            try:
                yield opened
            finally:
                close(opened)
        finally:
            close(root)

    @contextlib.contextmanager
    def _parent(self, place: str) -> Iterator[tuple[Handle, str]]:
        *folders, name = self.file_components(place)
        with self._open(folders, OPEN_FOLDER, open_by_component) as parent:
            yield parent, name

    def _existing(self, names: Sequence[str], most: int, flags: int, path: str) -> tuple[str, Sequence[str]]:
        """Return the real path of the longest existing prefix, of at most `most` names, and the remaining names."""
        for count in range(most, -1, -1):
            try:
                with self._open(names[:count], flags) as opened:
                    return self._place(opened, _join(*names[:count]) or "."), names[count:]
            except FileNotFoundError:
                continue
            except OSError as error:
                raise safe_open.to_tool_error(error, path) from None
        raise ToolError(f"The workspace {self.folder} is gone.")

    def _place(self, opened: Handle, path: str) -> str:
        if self._opener is not safe_open.open_beneath:  # no link was followed, so the path is already real
            return _join(*self._components(path))
        place = safe_open.real_path(self.folder, opened)
        if place is None:
            raise safe_open.outside(path)
        return place


@contextlib.contextmanager
def _os_errors_as_tool_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise safe_open.to_tool_error(error, path) from None


def _join(*names: str) -> str:
    return "/".join(filter(None, names))


def _refuse_special(status: os.stat_result, path: str) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        raise Blocked(f"{quote_path(path)} is a symbolic link; name the file that it leads to.")
    if kind != stat.S_IFREG:
        raise ToolError(f"{quote_path(path)} is {_SPECIAL_KINDS.get(kind, 'a special file')}, not a file.")


def _status(parent: Handle, name: str) -> os.stat_result | None:
    path, where = at(parent, name)
    try:
        return os.lstat(path, **where)
    except FileNotFoundError:
        return None


def _read(file: int, max_bytes: int, size: int) -> bytes:
    """Read the first bytes of a file with this expected size."""
    pieces = []
    while max_bytes > 0:
        size_to_read = min(max_bytes, max(size + 1, _PIECE_BYTES))
        piece = os.read(file, size_to_read)
        pieces.append(piece)
        max_bytes -= len(piece)
        if len(piece) < size_to_read:  # a short read of a regular file means its end
            break
    return b"".join(pieces)


def _state(parent: Handle, name: str, max_bytes: int) -> State:
    status = _status(parent, name)
    path, where = at(parent, name)
    if status is None:
        return ABSENT
    kind, mode = _KINDS.get(stat.S_IFMT(status.st_mode), "other"), status.st_mode & _PERMISSIONS
    if kind == "link":
        return State.of(kind, os.fsencode(os.readlink(path, **where)))
    if kind != "file":
        return State(kind, mode=mode)
    if status.st_size > max_bytes:
        return State(kind, None, mode, f"{status.st_ino} {status.st_mtime_ns}", status.st_size, status.st_nlink)
    file = os.open(path, OPEN_FILE | NOFOLLOW, **where)
    try:
        return State.of(kind, _read(file, max_bytes, status.st_size), mode, status.st_nlink)
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class _FileAttributes:
    """The attributes of a new file: permissions, status of the replaced file, and whether O_TMPFILE can be used."""

    mode: int | None
    old: os.stat_result | None
    unnamed: bool

    @property
    def permissions(self) -> int | None:
        if self.mode is not None or self.old is None:
            return self.mode
        return self.old.st_mode & _PERMISSIONS


def _replace(parent: Handle, name: str, content: bytes, attributes: _FileAttributes) -> None:
    hidden = f".agentkit-{secrets.token_hex(8)}.tmp"
    file, is_named = _new_file(parent, hidden, attributes)
    try:
        remaining = memoryview(content)
        while remaining:
            remaining = remaining[os.write(file, remaining) :]
        _copy_metadata(parent, name, file, attributes)
        if not is_named and attributes.old is None:  # if the process is killed here, no temporary file is left
            with contextlib.suppress(FileExistsError):
                return _link_open(file, parent, name)
        if not is_named:
            _link_open(file, parent, hidden)
            is_named = True
        os.close(file)  # before the renaming: Windows renames no open file
        file = -1
        (source, of), (target, to) = at(parent, hidden, "src_dir_fd"), at(parent, name, "dst_dir_fd")
        if not hasattr(os, "fchmod") and attributes.permissions is not None:
            os.chmod(source, attributes.permissions)
        os.replace(source, target, **of, **to)
    except BaseException:
        if is_named:
            path, where = at(parent, hidden)
            os.unlink(path, **where)
        raise
    finally:
        if file >= 0:
            os.close(file)


def _link_open(file: int, parent: Handle, name: str) -> None:
    path, where = at(parent, name, "dst_dir_fd")
    os.link(f"/proc/self/fd/{file}", path, **where)


def _new_file(parent: Handle, hidden: str, attributes: _FileAttributes) -> tuple[int, bool]:
    """Create a new file; return whether it has a name. An unnamed one vanishes if the process is killed."""
    mode = 0o666 if attributes.permissions is None else 0o600
    flags = os.O_WRONLY | CLOEXEC | BINARY
    if attributes.unnamed and isinstance(parent, int):
        with contextlib.suppress(OSError):  # not every file system supports it
            return os.open(".", flags | os.O_TMPFILE, mode, dir_fd=parent), False
    path, where = at(parent, hidden)
    return os.open(path, flags | os.O_CREAT | os.O_EXCL | NOFOLLOW, mode, **where), True


def _copy_attributes(parent: Handle, name: str, file: int) -> None:
    """Copy the extended attributes of the replaced file, as far as permitted."""
    if sys.platform != "linux" or not isinstance(parent, int):
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


def _copy_metadata(parent: Handle, name: str, file: int, attributes: _FileAttributes) -> None:
    """Give a new file the attributes, the owner and the permissions of the replaced one."""
    old = attributes.old
    if old is not None:
        _copy_attributes(parent, name, file)
    if old is not None and hasattr(os, "fchown") and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(file, old.st_uid, old.st_gid)
    if attributes.permissions is not None:
        set_mode(file, attributes.permissions)
