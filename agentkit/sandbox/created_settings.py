"""Removal of settings that a command created and that other programs would execute.

After a command, new settings are set aside: they are read, removed and returned to the caller. Harmless settings, such
as a new repository created by `git init` or the paths that an installer adds to a virtual environment, are left.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator

from agentkit._dataclass import dataclass
from agentkit.safety import paths
from agentkit.sandbox.secret_search import Survey
from agentkit.text_encoding import split_lines

MAX_KEPT_BYTES = 10_000_000
_MAX_FILES = 1_000
_MAX_SETTINGS_BYTES = 100_000
_FILE = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "CLOEXEC", "NONBLOCK"))  # not on every platform
_FOLDER = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "CLOEXEC", "DIRECTORY"))

_GIT_SECTION = re.compile(r'\[(?P<section>[A-Za-z0-9-]+)(?:[ \t]+"[^"\\\n]*")?\]')
_GIT_SETTING = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9-]*)(?:[ \t]*=[^\\\n]*)?")
_HARMLESS_GIT_SETTINGS = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol "
    "safecrlf worktree",
    "extensions": "objectformat refstorage",
    "init": "defaultbranch",
    "user": "name email",
    "branch": "remote merge rebase",
    "remote": "url fetch pushurl tagopt mirror",
    "submodule": "url active",
    "pull": "rebase",
}
"""Settings of a repository that cannot name a program."""


@dataclass(frozen=True, slots=True)
class RemovedSetting:
    """A removed file or link: its path relative to the workspace, its content (a link's target), its mode.

    `content` is None if it was too large to store.
    """

    path: str
    content: bytes | None
    mode: int = 0
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class Created:
    """The settings that a command created: `removed` with their `contents`, and those that are `left`.

    Settings are left if they are permitted or cannot be removed.
    """

    left: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    contents: tuple[RemovedSetting, ...] = ()


NOTHING_CREATED = Created()


def remove_created_settings(
    folder: str, before: Survey, after: Survey, permitted: Callable[[str], bool], outside: Iterable[str] = ()
) -> Created:
    """Remove the settings in a workspace that a command created.

    `permitted` returns whether a setting, given by its path relative to the workspace, can be left; settings of
    agentkit are always removed. The folders `outside` the workspace contain its repository: all new settings there are
    removed, with absolute paths in the result and without their contents.
    """
    created = _remove_new_settings(folder, before, after, permitted)
    for place in outside:
        more = _remove_new_settings(place, before, after, lambda _: False)
        left, removed = ([f"{place}/{path}" for path in paths] for paths in (more.left, more.removed))
        created = Created((*created.left, *left), (*created.removed, *removed), created.contents)
    return created


def _remove_new_settings(folder: str, before: Survey, after: Survey, permitted: Callable[[str], bool]) -> Created:
    made = [path[len(folder) + 1 :] for path in _new_settings(before, after) if path.startswith(f"{folder}/")]
    remover = _Remover(folder)
    stays = [permitted(path) and not paths.own_settings(path) for path in made]
    removed = [path for path, stay in zip(made, stays, strict=True) if not stay and remover.remove(path)]
    left = [path for path in made if path not in removed]
    for path, target in before.links.items():
        if path[len(folder) + 1 :] in removed:
            remover.link(path[len(folder) + 1 :], target)
    return Created(tuple(left), tuple(removed), tuple(remover.contents))


def _new_settings(before: Survey, after: Survey) -> Iterator[str]:
    """Yield the new settings that may run something, and replaced links, but not settings that were only moved."""
    known = {identity[:2] for identity in before.locked.values()}
    for path, identity in after.locked.items():
        if path not in before.locked and identity[:2] not in known and not _is_harmless_repository(path):
            yield path
    for path, target in before.links.items():
        if after.links.get(path) != target:
            yield path
    fresh = after.environments - before.environments
    for path, identity in after.packaged.items():
        is_same = before.packaged.get(path) == identity
        if not is_same and not any(path.startswith(f"{place}/") for place in fresh) and not _only_adds_paths(path):
            yield path


def _is_harmless_repository(path: str) -> bool:
    """Whether this is a part of a repository with which git runs no program."""
    name = os.path.basename(path)
    if name == "hooks":
        with contextlib.suppress(OSError):
            return not os.path.islink(path) and all(each.endswith(".sample") for each in os.listdir(path))
        return False
    if name == "commondir":
        return "/.git/worktrees/" in path and small_text(path).strip() == "../.."
    if name in ("config", "config.worktree", "attributes") and _is_empty(path):
        return True
    return name in ("config", "config.worktree") and _names_no_program(small_text(path))


def _is_empty(path: str) -> bool:
    """Whether this is an empty file, like those that `git_access` creates so that commands cannot create them."""
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        return stat.S_ISREG(status.st_mode) and status.st_size == 0
    return False


def _names_no_program(settings: str) -> bool:
    allowed: list[str] = []
    for line in split_lines(settings):
        text = line.strip()
        section = _GIT_SECTION.fullmatch(text)
        if section:
            allowed = _HARMLESS_GIT_SETTINGS.get(section["section"].lower(), "").split()
        elif text and not text.startswith(("#", ";")):
            setting = _GIT_SETTING.fullmatch(text)
            if setting is None or setting["key"].lower() not in allowed:
                return False
    return settings != ""


def _only_adds_paths(path: str) -> bool:
    """Whether a path configuration file of Python contains no code."""
    text = small_text(path)
    return path.endswith(".pth") and text != "" and not re.search(r"(?:^|[\n\r])[ \t]*import[ \t]", text)


def small_text(path: str) -> str:
    """Return the text of a small regular file; empty for any other file."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        descriptor = os.open(path, _FILE)
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                data = file.read(_MAX_SETTINGS_BYTES + 1)
                return data.decode() if len(data) <= _MAX_SETTINGS_BYTES else ""
    return ""


class _Remover:
    """Removes settings and stores their contents. It follows no links, even if files are moved concurrently."""

    def __init__(self, folder: str) -> None:
        self.contents: list[RemovedSetting] = []
        self._folder, self._left = folder, MAX_KEPT_BYTES

    def remove(self, path: str) -> bool:
        """Remove a file, a link or a folder with its contents, or else rename it; return whether the path is free."""
        with contextlib.suppress(OSError), self._parent(path) as parent:
            self._delete(parent, path.rpartition("/")[2], path)
        return not os.path.lexists(f"{self._folder}/{path}")

    def link(self, path: str, target: str) -> None:
        """Restore a link that was replaced."""
        with contextlib.suppress(OSError), self._parent(path) as parent:
            os.symlink(target, path.rpartition("/")[2], dir_fd=parent)

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[int]:
        """Open the folder of a path, and make it writable for the duration of the block."""
        with contextlib.ExitStack() as opened:
            parent = os.open(self._folder, _FOLDER)
            opened.callback(os.close, parent)
            for each in path.split("/")[:-1]:
                parent = os.open(each, _FOLDER, dir_fd=parent)
                opened.callback(os.close, parent)
            mode = os.fstat(parent).st_mode & 0o7777
            if mode & 0o300 != 0o300:
                os.fchmod(parent, mode | 0o300)
                opened.callback(os.fchmod, parent, mode)
            yield parent

    def _delete(self, parent: int, name: str, path: str) -> None:
        try:
            self._store(parent, name, path)
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)
        except (OSError, RecursionError):
            os.rename(name, f"{name}.set-aside-{secrets.token_hex(4)}", src_dir_fd=parent, dst_dir_fd=parent)

    def _store(self, parent: int, name: str, path: str) -> None:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        mode = status.st_mode & 0o777
        if stat.S_ISLNK(status.st_mode):
            self.contents.append(
                RemovedSetting(path, os.fsencode(os.readlink(name, dir_fd=parent)), mode, is_link=True)
            )
        elif stat.S_ISREG(status.st_mode):
            self.contents.append(RemovedSetting(path, self._read(parent, name, status.st_size), mode))
        elif stat.S_ISDIR(status.st_mode):
            folder = os.open(name, _FOLDER, dir_fd=parent)
            try:
                for each in sorted(os.listdir(folder)):
                    if len(self.contents) < _MAX_FILES:
                        self._store(folder, each, f"{path}/{each}")
            finally:
                os.close(folder)

    def _read(self, parent: int, name: str, size: int) -> bytes | None:
        if size > self._left:
            return None
        with os.fdopen(os.open(name, _FILE, dir_fd=parent), "rb") as file:
            content = file.read(size)
        self._left -= len(content)
        return content
