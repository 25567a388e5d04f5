"""The programs that git would run because of what a folder's repositories say, for where no sandbox confines them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from agentkit.git import settings

_MAX_SEARCHED = 20_000


def programs_in(folder: str) -> list[str]:
    """Settings and hooks that make git run programs when it reads in, above or below this folder.

    Every `.git` counts. A folder that is too large to search is reported as such.
    """
    found: list[str] = []
    for git_dir in _git_dirs(folder):
        if git_dir is None:
            return [*found, f"more than {_MAX_SEARCHED:,} files to search for repositories"]
        read = [setting for name in ("config", "config.worktree") for setting in _settings(f"{git_dir}/{name}")]
        found += settings.names_programs(read)
        found += [f"the hook {name}" for name in _hooks(f"{git_dir}/hooks")]
    return list(dict.fromkeys(found))


def _git_dirs(folder: str) -> Iterator[str | None]:
    """Every repository that git may use there; None when the search was given up."""
    above = os.path.realpath(folder)
    while above != "/":
        yield from _named(f"{above}/.git")
        above = os.path.dirname(above)
    left = _MAX_SEARCHED
    for parent, folders, files in os.walk(folder):
        if ".git" in folders or ".git" in files:
            yield from _named(f"{parent}/.git")
            folders[:] = [name for name in folders if name != ".git"]
        left -= len(folders) + len(files)
        if left < 0:
            yield None


def _named(path: str) -> list[str]:
    """The folders whose settings count for a `.git`: itself, or where it points to."""
    if not os.path.lexists(path):
        return []
    place = path
    if os.path.isfile(path):
        place = os.path.join(os.path.dirname(path), _line(path).removeprefix("gitdir: "))
    common = _line(f"{place}/commondir")
    return [place, os.path.join(place, common)] if common else [place]


def _line(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(4_096).strip().replace("\0", "")
    return ""


def _settings(path: str) -> list[settings.Setting]:
    return settings.read(path, lambda *_: True)


def _hooks(folder: str) -> list[str]:
    """The hooks that git would run."""
    with contextlib.suppress(OSError), os.scandir(folder) as scan:
        return sorted(e.name for e in scan if not e.name.endswith(".sample") and os.access(e.path, os.X_OK))
    return []
