"""Search of a workspace for secret and protected paths.

The listing of a folder is cached with its inode and its change time, which programs cannot set, so that a second
search reads only the folders that have changed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace

from agentkit._dataclass import dataclass
from agentkit.safety import paths

MAX_ENTRIES = 500_000
MAX_SECONDS = 10.0
MAX_PLACES = 20_000
"""Hidden and locked paths, each of which is a mount. Linux allows 100,000 mounts."""

_MAX_CACHED = 200_000
_RECENT_NANOSECONDS = 50_000_000
"""A folder that has just changed may change again within one tick of its clock, so its listing is not cached."""

_CONTEXT_PARTS = 3
_NOT_ON_DISK = ("/proc/", "/dev/", "/sys/")
_BRANCH_FOLDERS = ("refs", "logs")
_REPOSITORY_SETTINGS = ("config", "config.worktree", "hooks", "commondir")
_OBJECT_FOLDERS = ("objects", "lfs")
_OCTAL = re.compile(r"\\([0-7]{3})")
_GONE = (errno.ENOENT, errno.ENOTDIR)

Identity = tuple[int, int, int, int]
"""Device, inode, time of the last change in nanoseconds, and size."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of a search; all paths are absolute and without links.

    `hidden` are files, and folders that cannot be searched, with their status. `locked` are settings and folders of
    secrets, `packaged` those in folders of packages, and `links` the targets of those that are links. `checked` are the
    folders on the way to hidden files. `environments` are virtual environments. `incomplete_because` is the reason if
    the search is incomplete. `begun` is its start in nanoseconds. `around` are further folders that were searched.
    """

    hidden: Mapping[str, os.stat_result] = field(default_factory=dict)
    locked: Mapping[str, Identity] = field(default_factory=dict)
    packaged: Mapping[str, Identity] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    checked: Mapping[str, Identity] = field(default_factory=dict)
    environments: frozenset[str] = frozenset()
    incomplete_because: str = ""
    begun: int = 0
    around: tuple[str, ...] = ()

    def merge(self, folder: str, other: Survey, *, locks: bool) -> Survey:
        """Add the search of a further folder; its settings are included only with `locks`."""
        return replace(
            self,
            hidden={**other.hidden, **self.hidden},
            locked={**other.locked, **self.locked} if locks else self.locked,
            links={**other.links, **self.links} if locks else self.links,
            checked={**other.checked, **self.checked},
            incomplete_because=self.incomplete_because or other.incomplete_because,
            around=(*self.around, folder),
        )

    def still_holds(self, search: Callable[[], Survey] | None = None) -> bool:
        """Whether since the search no hidden file was replaced and no folder on the way to one has changed.

        Deleted files do not matter. If other programs may rename folders on purpose, pass `search` to search again: a
        single search can miss a folder that is renamed meanwhile. Every rename changes the folder's time.
        """
        if self.incomplete_because or search is None:
            statuses = ((_status(path), identity) for path, identity in self.checked.items())
            is_same = all(now is not None and _identity(now) == identity for now, identity in statuses)
            return is_same and not any(self.replaced())
        if any(changed > self.begun - _RECENT_NANOSECONDS for _, _, changed, _ in self.checked.values()):
            return False
        again = search()
        known = {path: (status.st_dev, status.st_ino) for path, status in self.hidden.items()}
        return all(known.get(path) == (status.st_dev, status.st_ino) for path, status in again.hidden.items()) and all(
            again.checked.get(path, identity) == identity for path, identity in self.checked.items()
        )

    def matches(self, other: Survey) -> bool:
        """Whether the same paths are hidden and locked."""
        return (self.hidden.keys(), self.locked.keys()) == (other.hidden.keys(), other.locked.keys())

    def appeared(self, before: Survey) -> Iterator[str]:
        """The hidden files that are new or have been replaced since an earlier search."""
        known = {(status.st_dev, status.st_ino) for status in before.hidden.values()}
        return (path for path, status in self.hidden.items() if (status.st_dev, status.st_ino) not in known)

    def replaced(self) -> Iterator[str]:
        """Yield the hidden files that have been replaced by other files."""
        for path, status in self.hidden.items():
            now = _status(path)
            if now is not None and (now.st_dev, now.st_ino) != (status.st_dev, status.st_ino):
                yield path


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


NOTHING_FOUND = Survey()


@dataclass(frozen=True, slots=True)
class _Listing:
    """The listing of a folder: its subfolders with their zones, hidden files, hidden links and locked entries."""

    inode: int
    changed: int
    count: int
    folders: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]
    links: tuple[str, ...]
    locked: tuple[str, ...]
    is_environment: bool
    is_notable: bool


_cache: dict[tuple[str, str, str], _Listing] = {}
"""Listings by the folder of the search (paths are relative to it), the listed folder, and its zone."""


def survey(
    folder: str,
    *,
    is_git_dir: bool = False,
    max_entries: int = MAX_ENTRIES,
    max_places: int = MAX_PLACES,
    max_seconds: float = MAX_SECONDS,
) -> Survey:
    """Search a folder, given without links, for hidden and locked paths."""
    if folder == "/":
        return Survey(incomplete_because="it is the whole file system")
    search = _Search(folder, max_entries, max_places, time.monotonic() + max_seconds)
    return search.result("git" if is_git_dir else "")


class _Search:
    """A search in progress."""

    def __init__(self, folder: str, max_entries: int, max_places: int, deadline: float) -> None:
        self._base, self._left, self._places, self._deadline = folder, max_entries, max_places, deadline
        self._hidden: dict[str, os.stat_result] = {}
        self._links: list[str] = []
        self._locked: dict[str, Identity] = {}
        self._packaged: dict[str, Identity] = {}
        self._locked_links: dict[str, str] = {}
        self._environments: set[str] = set()
        self._unsearched = ""
        self._begun = time.time_ns()
        self._entered: dict[str, os.stat_result] = {}

    def result(self, zone: str) -> Survey:
        """Search, follow the links with hidden names, and find other names and mounts of hidden files."""
        waiting = deque([(self._base, zone)])  # the folders at the top first: their settings count most
        while waiting and not self._unsearched:
            self._enter(waiting.popleft(), waiting)
        for link in self._links:
            self._follow(link)
        self._find_hard_links()
        self._find_mounted()
        if len(self._hidden) + len(self._locked) > self._places:
            self._unsearched = f"it has more than {self._places:,} files that must be hidden or locked"
        checked = self._parent_folders() if len(self._hidden) <= self._places else {}
        found = self._hidden, self._locked, self._packaged, self._locked_links, checked, frozenset(self._environments)
        return Survey(*found, self._unsearched, self._begun)

    def _enter(self, place: tuple[str, str], waiting: deque[tuple[str, str]]) -> None:
        """Process a folder, and add its subfolders to the queue."""
        path, zone = place
        try:
            status = self._entered[path] = os.lstat(path)
            listing = _cache.get((self._base, *place))
            if listing is None or listing.changed != status.st_ctime_ns or listing.inode != status.st_ino:
                listing = self._read(path, zone, status)
        except OSError as error:
            self._handle_error(path, error)
            return
        self._left -= listing.count
        if self._left < 0:
            self._unsearched = "it has too many files to search for secrets"
        elif time.monotonic() > self._deadline:
            self._unsearched = "searching it for secrets takes too long"
        if listing.is_notable:
            self._add_listing(path, listing, zone)
        for name, below in listing.folders:
            waiting.append((f"{path}/{name}", below))

    def _add_listing(self, path: str, listing: _Listing, zone: str) -> None:
        if listing.is_environment:
            self._environments.add(path)
        for name in listing.hidden:
            self._hide(f"{path}/{name}")
        for name in listing.locked:
            self._lock(f"{path}/{name}", self._packaged if zone == "packages" else self._locked)
        self._links += [f"{path}/{name}" for name in listing.links]

    def _read(self, path: str, zone: str, status: os.stat_result) -> _Listing:
        """List a folder, and cache the listing unless the folder has just changed."""
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, path)
        oldest = time.time_ns() - _RECENT_NANOSECONDS
        listing = _read_listing(path, path[len(self._base) + 1 :], zone, status)
        if status.st_ctime_ns < oldest:
            if len(_cache) >= _MAX_CACHED:
                _cache.clear()
            _cache[self._base, path, zone] = listing
        return listing

    def _handle_error(self, path: str, error: OSError) -> None:
        """Handle a folder that cannot be searched: hide it if access is denied.

        Any other error, unless the folder is missing, makes the search incomplete.
        """
        if error.errno == errno.EACCES:
            self._hide(path)
        elif error.errno not in _GONE:
            self._unsearched = f"a folder of it cannot be searched for secrets ({error.strerror})"

    def _hide(self, path: str) -> None:
        try:
            status = os.lstat(path)
        except OSError as error:
            if error.errno not in _GONE:
                self._unsearched = f"a file of it cannot be examined ({error.strerror})"
            return
        if stat.S_ISLNK(status.st_mode):
            self._links.append(path)
        else:
            self._hidden[path] = status

    def _lock(self, path: str, found: dict[str, Identity]) -> None:
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                self._locked_links[path] = os.readlink(path)
        except OSError as error:
            if error.errno not in _GONE:
                self._unsearched = f"a file of it cannot be examined ({error.strerror})"
            return
        found[path] = _identity(status)

    def _follow(self, link: str) -> None:
        """Hide the target of a link with a hidden name: a file of the workspace, or a file with a hidden name.

        If the link is named like a folder of secrets and leads to a folder of the workspace, the files of that folder
        are hidden. Other folders are not, because `.env.old -> .` would hide everything.
        """
        target = os.path.realpath(link)
        is_inside = target.startswith(f"{self._base}/")
        try:
            status = os.lstat(target)
        except OSError:
            return
        is_shown = is_inside or (paths.hidden(target) and not target.startswith(_NOT_ON_DISK))
        if stat.S_ISREG(status.st_mode) and is_shown:
            self._hidden[target] = status
        elif stat.S_ISDIR(status.st_mode) and is_inside and paths.hidden(f"{link[len(self._base) :]}/name"):
            self._hide_below(target)

    def _hide_below(self, folder: str) -> None:
        for parent, _, files in os.walk(folder):
            for name in files:
                if len(self._hidden) <= self._places and not os.path.islink(f"{parent}/{name}"):
                    self._hide(f"{parent}/{name}")

    def _find_hard_links(self) -> None:
        """Hide the files of the workspace that are hard links to hidden ones, except those of packages."""
        hidden_files = {
            (status.st_dev, status.st_ino)
            for path, status in self._hidden.items()
            if status.st_nlink > 1 and stat.S_ISREG(status.st_mode) and not paths.PACKAGE_FOLDERS & {*path.split("/")}
        }
        inodes = {inode for _, inode in hidden_files}
        waiting = [self._base] if hidden_files else []
        while waiting:
            with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.inode() in inodes:
                        status = entry.stat(follow_symlinks=False)
                        if (status.st_dev, status.st_ino) in hidden_files:
                            self._hidden[entry.path] = status

    def _find_mounted(self) -> None:
        """Hide secrets that are mounted in the workspace under other names (bind mounts).

        A mounted file is hidden if it is one of the hidden files, or if its source has a hidden name.
        """
        known = {(status.st_dev, status.st_ino) for status in self._hidden.values()}
        for source, target in _mounts_below(self._base):
            with contextlib.suppress(OSError):
                status = os.lstat(target)
                if stat.S_ISDIR(status.st_mode) and paths.hidden(f"{source}/name"):
                    self._hide_below(target)
                elif (status.st_dev, status.st_ino) in known or paths.hidden(source):
                    self._hide(target)

    def _parent_folders(self) -> dict[str, Identity]:
        """The folders on the way to hidden files, which must not be replaced before the files are covered."""
        folders: set[str] = set()
        for path in self._hidden:
            above = os.path.dirname(path)
            while len(above) > len(self._base) and above not in folders:
                folders.add(above)
                above = os.path.dirname(above)
        return {path: _identity(self._entered[path]) for path in folders if path in self._entered}


def _mounts_below(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the mounts below a folder: the path in the source file system, and the mount point."""
    prefix = f"{folder}/"
    with (
        contextlib.suppress(OSError),
        open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table,
    ):
        for line in table:
            source, target = (_OCTAL.sub(lambda found: chr(int(found[1], 8)), word) for word in line.split(" ")[3:5])
            if target.startswith(prefix):
                yield source, target


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size


def _zone(name: str, zone: str) -> str:
    """The zone of a folder: a repository, names of branches, packages, or none."""
    if zone in ("git", "refs"):
        return "refs" if name in _BRANCH_FOLDERS else zone
    return "git" if name == ".git" else "packages" if name in paths.PACKAGE_FOLDERS else zone


def _read_listing(path: str, place: str, zone: str, status: os.stat_result) -> _Listing:
    """Read a folder and classify its entries."""
    with os.scandir(path) as scan:
        kinds = {entry.name: _kind(entry) for entry in scan}
    below = f"/{place}" if zone in ("git", "refs") or not place else "/" + "/".join(place.split("/")[-_CONTEXT_PARTS:])
    packaged = zone == "packages"
    hidden: list[str] = []
    links: list[str] = []
    locked = [name for name in _REPOSITORY_SETTINGS if name in kinds] if _is_repository(kinds) else []
    is_locked = paths.locked(below, packaged=packaged)
    for name in paths.candidates(below, [*kinds]):
        entry_path = f"{below.rstrip('/')}/{name}"
        if zone != "refs" and paths.hidden(entry_path, packaged=packaged):
            {"link": links, "folder": [], "file": hidden}[kinds[name]].append(name)
            if kinds[name] != "file" and not packaged and paths.hidden(f"{entry_path}/name"):
                locked.append(name)  # a folder of secrets, which can also contain settings
        if not is_locked and paths.locked(entry_path, packaged=packaged):
            locked.append(name)
    folders = tuple((name, _zone(name, zone)) for name, kind in kinds.items() if kind == "folder")
    searched = tuple(each for each in folders if zone != "git" or each[0] not in _OBJECT_FOLDERS)
    is_environment = "pyvenv.cfg" in kinds
    return _Listing(
        status.st_ino,
        status.st_ctime_ns,
        len(kinds),
        searched,
        tuple(hidden),
        tuple(links),
        tuple(dict.fromkeys(locked)),
        is_environment,
        bool(hidden or links or locked or is_environment),
    )


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    return "folder" if entry.is_dir(follow_symlinks=False) else "file"


def _is_repository(kinds: Mapping[str, str]) -> bool:
    """Whether git would recognise a folder with these entries as a repository."""
    return "HEAD" in kinds and ("commondir" in kinds or {"objects", "refs"} <= kinds.keys())
