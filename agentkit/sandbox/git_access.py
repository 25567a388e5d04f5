"""Access of sandboxed git to the repository of the workspace.

This module does not run git. It provides commands with

- the repository that `agentkit.git.repository.find` accepts for the workspace, also if it is outside of the workspace;
- a system-wide git configuration with the user's name and e-mail, but no other settings of the user;
- covers of hidden files that look unchanged to git, and an exclude file that lists them.

Commands cannot change the settings and hooks of the repository, or the state of other work trees.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentkit._dataclass import dataclass
from agentkit.git import index, settings
from agentkit.git.repository import Repository, find
from agentkit.sandbox.mounts import SCRATCH, Mount, MountPlan, home_folders
from agentkit.sandbox.secret_search import Survey, survey

_CONFIG_PATH = f"{'/run' if os.path.isdir('/run') else SCRATCH}/agentkit-gitconfig"
"""The path of the system-wide git configuration inside the sandbox."""

_SETTINGS = ("config", "config.worktree", "info/attributes", "objects/info/alternates", "hooks")
"""Settings that determine which programs git runs and where it reads; commands cannot change them."""

_CREATED = {"config.worktree": False, "info/attributes": False, "hooks": True}
"""Settings that are created empty if they are missing, so that a command cannot create them; True for folders."""

_POINTERS = ("gitdir", "commondir", "config.worktree", "locked")
_PASSED = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_SPECIAL = re.compile(r"([\\*?\[\]!# ])")
_MAX_COVERED = 2_000


def is_git_settings(mount: Mount) -> bool:
    """Whether a mount is the system-wide configuration of git."""
    return mount[1] == _CONFIG_PATH


def repository_of(folder: str, hidden: Iterable[str] = ()) -> Repository | None:
    """Find the repository of a workspace; None if it is in a hidden folder, or if its work tree contains a home."""
    return find(folder, homes=home_folders(), refused=[os.path.realpath(path) for path in hidden])


def search(folder: str, repository: Repository | None) -> Survey:
    """Search a workspace, the work tree around it, and the folders of its repository, for hidden and locked paths.

    The work tree around the workspace is read-only, so only the hidden paths in it are included.
    """
    found = survey(folder)
    if repository is None:
        return found
    if repository.top != folder:
        found = found.merge(repository.top, survey(repository.top), locks=False)
    for path in repository.folders:
        if not _is_in(path, folder):
            found = found.merge(path, survey(path, is_git_dir=True), locks=True)
    return found


def create_missing_settings(repository: Repository) -> None:
    """Create the missing settings of a repository as empty files: only existing files can be mounted read-only.

    They are not deleted afterwards, because other running sandboxes would lose their mounts on them.
    """
    for git_dir in (repository.common_dir, *(repository.nested() or ())):
        for name, is_folder in _CREATED.items():
            _ensure_exists(f"{git_dir}/{name}", is_folder=is_folder)


@dataclass(frozen=True, slots=True)
class Git:
    """The access of one command to git; `scratch` is a folder of the host that the command cannot change."""

    folder: str
    scratch: str
    writable: bool
    repository: Repository | None

    @property
    def outside(self) -> list[str]:
        """The folders of the repository that are outside of the workspace."""
        folders = self.repository.folders if self.repository else ()
        return [path for path in folders if not _is_in(path, self.folder)]

    def search(self) -> Survey:
        """Search the visible parts of the workspace and its repository."""
        return search(self.folder, self.repository)

    def environment(self, home: str, host: Mapping[str, str]) -> dict[str, str]:
        """The environment variables of a command with this home folder; git takes no locks in a read-only workspace."""
        passed = {name: host[name] for name in _PASSED if name in host}
        passed["GIT_CONFIG_SYSTEM"] = _CONFIG_PATH if home == SCRATCH else f"{self.scratch}/gitconfig"
        return passed | ({} if self.writable else {"GIT_OPTIONAL_LOCKS": "0"})

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Write the configuration for the command: that of the system, and the user's name and address.

        Missing settings of the repository are created empty, so that the command cannot create them.
        """
        if self.repository is not None and self.writable:
            create_missing_settings(self.repository)
        who = settings.identity(environment, self.repository.git_dir if self.repository else None)
        lines = ["[include]", "\tpath = /etc/gitconfig", "[core]", "\tcheckStat = minimal", "[user]"]
        lines += [f"\t{key} = {_quote(value)}" for key, value in (("name", who.name), ("email", who.email)) if value]
        with open(f"{self.scratch}/gitconfig", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def with_repository(self, view: MountPlan) -> MountPlan:
        """Add the mounts and access rules of the repository to a plan."""
        own: Mount = ("ro", _CONFIG_PATH, f"{self.scratch}/gitconfig")
        if self.repository is None:
            return replace(view, mounts=(*view.mounts, own))
        covers = self._covers(self.repository, view.mounts)
        mounts = covers.applied(view.mounts)
        may_write = self.writable and not _has_linked_settings(self.repository)
        around: list[Mount] = []
        if self.repository.top != self.folder:
            around.append(("ro", self.repository.top, self.repository.top))
        around += [("rw" if may_write else "ro", path, path) for path in self.outside]
        protected: list[Mount] = []
        if may_write:
            protected = [mount for mount in self._protected(self.repository) if mount not in mounts]
        elif self.writable:
            protected = [("ro", path, path) for path in self.repository.folders]
        place = next(at for at, mount in enumerate(mounts) if mount[1] == self.folder and mount[0] in ("ro", "rw"))
        end = place  # the covers come last: a later mount would reveal the files that they hide
        while end < len(mounts) and mounts[end][0] in ("ro", "rw"):
            end += 1
        mounts = [*mounts[:place], *around, *mounts[place:end], *protected, *mounts[end:]]
        if may_write:
            mounts += self._excluded(self.repository, covers.untracked)
        rules = tuple(("all" if may_write else "run", path) for path in self.outside)
        return replace(view, mounts=(*mounts, own), rules=(*view.rules, *rules))

    def finish(self) -> None:
        """Delete `commondir` files created by the command: they redirect git to settings in other folders."""
        if self.repository is not None and self.writable:
            for git_dir in {self.repository.common_dir, *(self.repository.nested() or ())}:
                with contextlib.suppress(OSError):
                    os.unlink(f"{git_dir}/commondir")

    def _protected(self, repository: Repository) -> list[Mount]:
        """The mounts that protect settings, hooks, pointers and other work trees from a command that can write."""
        mounts = _settings_mounts(repository.common_dir)
        worktrees = f"{repository.common_dir}/worktrees"
        for name in sorted(os.listdir(worktrees)) if os.path.isdir(worktrees) else ():
            mounts += self._protected_worktree(f"{worktrees}/{name}", repository)
        if repository.git_dir != repository.common_dir:
            mounts += _read_only(repository.common_dir, ("HEAD", "index", "modules"))
        nested = repository.nested()
        if nested is None:
            return mounts + _read_only(repository.git_dir, ("modules",))
        return mounts + [mount for path in nested for mount in _settings_mounts(path)]

    def _protected_worktree(self, path: str, repository: Repository) -> list[Mount]:
        """The read-only mounts of a linked work tree: all of it, or only its pointers if it is in the workspace."""
        with contextlib.suppress(OSError):
            with open(f"{path}/gitdir", encoding="utf-8", errors="surrogateescape") as file:
                place = os.path.realpath(os.path.join(path, file.read(4096).strip()))
            if path == repository.git_dir or _is_in(place, self.folder):
                return _read_only(path, _POINTERS)
        return _read_only(os.path.dirname(path), (os.path.basename(path),))

    def _covers(self, repository: Repository, mounts: Iterable[Mount]) -> _Covers:
        """The covers of hidden files in the work tree, with which tracked files look unchanged to git."""
        prefix = f"{repository.top}/"
        hidden = {path: kind for kind, path, _ in mounts if kind in ("cover", "tmpfs") and path.startswith(prefix)}
        names = {os.fsencode(path.removeprefix(prefix)): path for path in hidden}
        place, length = f"{repository.git_dir}/index", repository.oid_bytes
        found = index.load(place, names, length) if names else None
        if found is None:
            return _Covers((*names,), {}, {})
        folders = tuple(name + b"/" for name, path in names.items() if hidden[path] == "tmpfs")
        tracked = [name for name in found.entries if name in names or name.startswith(folders)][:_MAX_COVERED]
        paths = {name: prefix + os.fsdecode(name) for name in tracked}
        racy = {n: path for n, path in paths.items() if found.is_racy(found.entries[n]) and os.path.isfile(path)}
        if racy and index.refresh(place, found, racy, length):
            found = index.load(place, names, length) or found
        entries = {path: found.entries[name] for name, path in paths.items() if name in found.entries}
        # The size and time in the index, and the executable bits.
        covers = {
            path: f"{entry.size} {0o111 & entry.mode:o} {entry.mtime * 10**9 + entry.mtime_ns}"
            for path, entry in entries.items()
        }
        below = {path: {at: covers[at] for at in covers if at.startswith(f"{path}/")} for path in hidden}
        return _Covers(tuple(name for name in names if name not in paths), covers, below)

    def _excluded(self, repository: Repository, untracked: Iterable[bytes]) -> list[Mount]:
        """The mount of an exclude file that also lists the hidden files, so that git does not try to add them."""
        lines = [f"/{_SPECIAL.sub(chr(92) * 2 + '1', os.fsdecode(name))}" for name in untracked if b"\n" not in name]
        if not lines:
            return []
        place, text = f"{repository.common_dir}/info/exclude", ""
        with contextlib.suppress(OSError), open(place, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(1_000_000)
        with open(f"{self.scratch}/exclude", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("\n".join([text.rstrip("\n"), *lines, ""]))
        if os.path.realpath(place) != place or not _ensure_exists(place, is_folder=False):
            return []
        return [("ro", place, f"{self.scratch}/exclude")]


@dataclass(frozen=True, slots=True)
class _Covers:
    """The untracked hidden paths, the covers of tracked files, and those of tracked files `below` hidden folders."""

    untracked: tuple[bytes, ...]
    files: dict[str, str]
    below: dict[str, dict[str, str]]

    def applied(self, mounts: Iterable[Mount]) -> list[Mount]:
        """Add the covers to mounts; a hidden folder still shows the names of its tracked files."""
        found: list[Mount] = []
        for kind, path, source in mounts:
            found.append((kind, path, self.files.get(path, source) if kind == "cover" else source))
            if kind == "tmpfs":
                found += [("cover", place, description) for place, description in self.below.get(path, {}).items()]
        return found


def _settings_mounts(git_dir: str) -> list[Mount]:
    """The read-only mounts of the settings of one repository."""
    return _read_only(git_dir, _SETTINGS)


def _has_linked_settings(repository: Repository) -> bool:
    """Whether the path of settings or hooks contains a link, which a mount cannot protect from replacement."""
    names = ("config", "config.worktree", "hooks", "info", "info/attributes", "objects", "objects/info", "worktrees")
    paths = [f"{folder}/{name}" for folder in repository.folders for name in names]
    return any(os.path.lexists(path) and os.path.realpath(path) != path for path in paths)


def _ensure_exists(path: str, *, is_folder: bool) -> bool:
    """Create a file or folder if it is missing, unless its folder is a link; return whether the path exists."""
    parent = os.path.dirname(path)
    if not os.path.lexists(path) and not (os.path.lexists(parent) and os.path.realpath(parent) != parent):
        with contextlib.suppress(OSError):
            os.makedirs(path if is_folder else parent, exist_ok=True)
            if not is_folder:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    return os.path.lexists(path)


def _read_only(folder: str, names: Iterable[str]) -> list[Mount]:
    """Read-only mounts of existing entries of a folder, without links, whose targets would become visible."""
    paths = (f"{folder}/{name}" for name in names)
    return [("ro", path, path) for path in paths if os.path.lexists(path) and os.path.realpath(path) == path]


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")
