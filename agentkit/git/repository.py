"""The repository of a folder: validated pointers to it, and its branches, tags and objects before and after a run."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping

from agentkit._dataclass import dataclass
from agentkit.git import settings
from agentkit.portable_files import CLOEXEC, NOFOLLOW, NONBLOCK, is_own

_MAX_POINTER_BYTES = 4_096
_MAX_NESTED, _MAX_SEARCHED = 200, 5_000
_PARTS = ("HEAD", "objects", "refs")


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree and the location of its repository; all paths are absolute and without links.

    `git_dir` has HEAD and the index of this work tree. `common_dir` has objects, branches and settings; it is another
    folder only for a linked work tree (`git worktree add`).
    """

    top: str
    git_dir: str
    common_dir: str

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that hold the repository, the outer one first."""
        return tuple(dict.fromkeys((self.common_dir, self.git_dir)))

    @property
    def oid_bytes(self) -> int:
        """The length of the names of objects: 20 bytes, or 32 in a repository that uses SHA-256."""
        formats = settings.last_value(settings.read(f"{self.common_dir}/config"), "extensions.objectformat")
        return 32 if formats == "sha256" else 20

    def settings(self) -> list[settings.Setting]:
        """The settings of the repository, every include followed."""
        files = (f"{self.common_dir}/config", f"{self.git_dir}/config.worktree")
        return [found for path in files for found in settings.read(path, lambda *_: True)]

    def nested(self) -> list[str] | None:
        """The repositories of submodules in this one; None if there are too many to list."""
        found: list[str] = []
        waiting, searched = [f"{self.git_dir}/modules"], 0
        while waiting:
            folder = waiting.pop()
            for path in _subfolders(folder):
                searched += 1
                if _is_repository(path):
                    found.append(path)
                    waiting.append(f"{path}/modules")
                else:
                    waiting.append(path)
            if searched > _MAX_SEARCHED or len(found) > _MAX_NESTED:
                return None
        return found


def find(folder: str, *, homes: Collection[str] = (), refused: Collection[str] = ()) -> Repository | None:
    """The repository that `folder` belongs to, or None.

    The nearest `.git` in the folder or above it is used, as in git. It is accepted only if the current user owns it
    and everything that it points to, and:

    - `.git` is a folder with the parts of a repository; or
    - `.git` is a file that names a linked work tree in `<repository>/worktrees/`, whose own `gitdir` file names this
      `.git` file; or
    - `.git` is a file that names the repository of a submodule, whose `core.worktree` is this folder.

    A link called `.git` is not followed. A repository above the folder is ignored if its work tree contains one of
    `homes`, and any repository is ignored if it is in one of `refused`.
    """
    place = os.path.realpath(folder)
    top = place
    while not os.path.lexists(f"{top}/.git"):
        if top == "/":
            return None
        top = os.path.dirname(top)
    if top != place and any(_is_in(home, top) for home in homes):
        return None
    with contextlib.suppress(OSError):
        found = _repository_at(top)
        if found is not None and not _is_misplaced(found, place, refused):
            return found
    return None


def _is_misplaced(found: Repository, place: str, refused: Collection[str]) -> bool:
    """Whether the folder belongs to the repository's own storage, or that storage is in a refused folder."""
    parts = found.folders
    return any(_is_in(place, part) or any(_is_in(part, other) for other in refused) for part in parts)


def _repository_at(top: str) -> Repository | None:
    """The repository of a work tree; None if it cannot be trusted. Raises OSError."""
    path = f"{top}/.git"
    status = os.lstat(path)
    if not (is_own(status) and is_own(os.lstat(top))):
        return None
    if stat.S_ISDIR(status.st_mode):
        is_plain = _is_repository(path) and not os.path.lexists(f"{path}/commondir") and _has_work_tree(path, top, top)
        return Repository(top, path, path) if is_plain else None
    return _linked_repository(top, _read_pointer(path)) if stat.S_ISREG(status.st_mode) else None


def _linked_repository(top: str, text: str) -> Repository | None:
    """The repository that the file `.git` of a work tree names. Raises OSError."""
    git_dir = _resolve(top, text.removeprefix("gitdir: "))
    if not text.startswith("gitdir: ") or not is_own(os.lstat(git_dir)):
        return None
    if os.path.lexists(f"{git_dir}/commondir"):
        common = _resolve(git_dir, _read_pointer(f"{git_dir}/commondir"))
        back = os.path.join(git_dir, _read_pointer(f"{git_dir}/gitdir"))
        points_back = os.path.basename(back) == ".git" and os.path.realpath(os.path.dirname(back)) == top
        is_main = _is_repository(common) and not os.path.lexists(f"{common}/commondir") and is_own(os.lstat(common))
        if points_back and is_main and os.path.dirname(git_dir) == f"{common}/worktrees":
            return Repository(top, git_dir, common)
        return None
    is_submodule = _is_repository(git_dir) and _has_work_tree(git_dir, top, None)
    return Repository(top, git_dir, git_dir) if is_submodule else None


def _has_work_tree(git_dir: str, top: str, default: str | None) -> bool:
    """Whether a repository's own settings name this work tree, or none, which means the default."""
    found = [*settings.read(f"{git_dir}/config"), *settings.read(f"{git_dir}/config.worktree")]
    worktree = settings.last_value(found, "core.worktree")
    return (default if worktree is None else _resolve(git_dir, worktree)) == top


def _resolve(folder: str, path: str) -> str:
    return os.path.realpath(os.path.join(folder, path))


def _read_pointer(path: str) -> str:
    """The one line of a small regular file. Raises OSError."""
    file = os.open(path, os.O_RDONLY | NOFOLLOW | NONBLOCK)
    try:
        if not (stat.S_ISREG(os.fstat(file).st_mode) and is_own(os.fstat(file))):
            raise OSError(f"{path!r} is not a file of the user's")
        return os.fsdecode(os.read(file, _MAX_POINTER_BYTES)).rstrip("\r\n").replace("\0", "\n")
    finally:
        os.close(file)


def _is_repository(path: str) -> bool:
    return all(os.path.lexists(f"{path}/{name}") for name in _PARTS) and os.path.isdir(f"{path}/objects")


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(folder.rstrip("/") + "/")


def _subfolders(folder: str) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as scan:
        yield from sorted(entry.path for entry in scan if entry.is_dir(follow_symlinks=False))


_PROTECTED = ("refs/heads/", "refs/tags/", "refs/remotes/")
_PACKED = re.compile(r"([0-9a-f]{40,64}) (refs/\S+)")
_OID = re.compile(r"[0-9a-f]{40,64}")
_MAX_REFS, _MAX_BYTES, _MAX_REF_BYTES = 50_000, 50_000_000, 1_000


@dataclass(frozen=True, slots=True)
class Refs:
    """Every branch and tag with its object, and the current branches of this work tree."""

    values: Mapping[str, str]
    current: frozenset[str]


def read_refs(repository: Repository) -> Refs:
    """The current branches and tags."""
    common = repository.common_dir
    found = {name: oid for oid, name in _PACKED.findall(_read_text(f"{common}/packed-refs", _MAX_BYTES))}
    for folder, folders, files in os.walk(f"{common}/refs"):
        folders[:] = [name for name in folders if not os.path.islink(f"{folder}/{name}")]
        for name in files:
            path = f"{folder}/{name}"
            value = _read_text(path, _MAX_REF_BYTES).strip()
            if value and not name.endswith(".lock"):
                found[os.path.relpath(path, common)] = value
        if len(found) > _MAX_REFS:
            break
    current = {_read_text(f"{repository.git_dir}/HEAD", _MAX_REF_BYTES).strip().removeprefix("ref: ")}
    for state in ("rebase-merge", "rebase-apply"):  # a branch that is being rebased is not checked out meanwhile
        current.add(_read_text(f"{repository.git_dir}/{state}/head-name", _MAX_REF_BYTES).strip())
    return Refs(found, frozenset(name for name in current if name.startswith("refs/")))


def moved_refs(before: Refs, after: Refs) -> dict[str, tuple[str, str | None]]:
    """Branches and tags that existed before and were moved or deleted: the old object, and the new one or None.

    Branches that were current in the work tree before or after are left out.
    """
    active = before.current | after.current
    return {
        name: (value, after.values.get(name))
        for name, value in before.values.items()
        if name.startswith(_PROTECTED) and name not in active and after.values.get(name) != value
    }


def is_object(value: str | None) -> bool:
    """Whether a branch names an object, and not another branch."""
    return value is not None and bool(_OID.fullmatch(value))


def _read_text(path: str, max_bytes: int) -> str:
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC)
        with os.fdopen(file, "rb") as stream:
            return os.fsdecode(stream.read(max_bytes))
    return ""


_FOLDER = re.compile(r"[0-9a-f]{2}")
_MAX_OBJECTS = 200_000


@dataclass(frozen=True, slots=True)
class Objects:
    """The names of the loose objects of a repository, and of its packs."""

    loose: frozenset[str]
    packs: frozenset[str]


def read_objects(repository: Repository) -> Objects:
    """The current objects, by file names; of more than 200,000 loose ones the rest is left out."""
    place = f"{repository.common_dir}/objects"
    loose: set[str] = set()
    for folder in sorted(filter(_FOLDER.fullmatch, _file_names(place))):
        loose.update(f"{folder}{name}" for name in _file_names(f"{place}/{folder}") if not name.startswith("tmp_obj_"))
        if len(loose) > _MAX_OBJECTS:
            break
    packs = frozenset(name for name in _file_names(f"{place}/pack") if name.endswith(".pack"))
    return Objects(frozenset(loose), packs)


def count_lost(before: Objects, after: Objects) -> int:
    """The number of deleted objects and packs. If a new pack was written, repacked objects do not count as lost."""
    if after.packs - before.packs:
        return 0
    return len(before.loose - after.loose) + len(before.packs - after.packs)


def _file_names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []
