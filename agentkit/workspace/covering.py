"""Snapshots of exactly what a command is about to delete or overwrite.

A pattern is the path of what is changed, relative to the workspace, with all that is below it. In a part of it `*` and
`?` stand for any characters, `[*]` for a plain `*`, and the part `**` for any number of folders. Case is ignored.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator

from agentkit.config import state_folder
from agentkit.errors import ToolError
from agentkit.workspace.observing import MOST_BYTES, MOST_FILES, YOUNG_NANOSECONDS, Signature, Snapshot, signature
from agentkit.workspace.root import Root
from agentkit.workspace.states import ABSENT, State

MOST_PLACES = 50_000
"""How many files and folders are looked at to find what the patterns name."""

_ANY_DEPTH = "**"
_MAGIC = re.compile(r"[*?](?!\])")
_QUOTED = re.compile(r"\[([*?\[])\]")
_ODD = re.compile(r"[\s'\"\\*?\[]|(^|/)-")
_PERMISSIONS = 0o777
_LISTABLE = 0o500
_INDEX = "/.git/index"
_LOST_ATTRIBUTES = ("user.", "system.posix_acl_")

Found = Iterator[tuple[str, os.stat_result]]


def cover(
    root: Root, patterns: Collection[str], *, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES
) -> Snapshot:
    """Remember everything that the patterns name, in folders that are otherwise skipped too.

    What does not exist yet is remembered as absent. Raises ToolError when any of it could not be put back exactly as it
    is: too many or too large files, special files, other owners, further names (hard links) or attributes.
    """
    selected: dict[str, os.stat_result] = {}
    missing: set[str] = set()
    left = most_bytes
    for pattern in patterns:
        for place, status in _selected(root, pattern, missing):
            if place in selected:
                continue
            _check_restorable(root, place, status)
            selected[place] = status
            left -= status.st_size if stat.S_ISREG(status.st_mode) else 0
            if len(selected) > most_files or left < 0:
                raise ToolError(f"more than {most_files:,} files or {most_bytes // 1_000_000:,} MB")
    places: dict[str, tuple[Signature, State]] = dict.fromkeys(missing, ((), ABSENT))
    kept = dict(root.inspect_all(selected, most_bytes))
    unread = next((place for place in selected if place not in kept or not _is_whole(kept[place])), None)
    if unread is not None:
        raise ToolError(f"{unread!r} cannot be read")
    young = time.time_ns() - YOUNG_NANOSECONDS
    signs = {place: signature(status) if status.st_ctime_ns < young else () for place, status in selected.items()}
    return Snapshot(places | {place: (signs[place], state) for place, state in kept.items()}, is_whole=False)


def _is_whole(state: State) -> bool:
    return state.kind == "folder" or (state.kind in ("file", "link") and state.content is not None)


def _check_restorable(root: Root, place: str, status: os.stat_result) -> None:
    kind = stat.S_IFMT(status.st_mode)
    path = f"{root.folder}/{place}"
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise ToolError(f"{place!r} is a special file")
    if kind == stat.S_IFREG and status.st_nlink > 1:
        raise ToolError(f"{place!r} has more than one name (hard links)")
    if status.st_uid != os.geteuid():
        raise ToolError(f"{place!r} belongs to another user")
    if kind != stat.S_IFLNK and stat.S_IMODE(status.st_mode) & ~_PERMISSIONS:
        raise ToolError(f"{place!r} has special permission bits")
    if kind == stat.S_IFREG and any(name.startswith(_LOST_ATTRIBUTES) for name in _attributes(path)):
        raise ToolError(f"{place!r} has extended attributes")
    if kind == stat.S_IFDIR and not status.st_mode & _LISTABLE == _LISTABLE:
        raise ToolError(f"{place!r} cannot be listed")
    if f"{path}/".startswith(f"{os.path.realpath(state_folder())}/"):
        raise ToolError(f"{place!r} is a record of agentkit itself")


def _attributes(path: str) -> list[str]:
    listed: Callable[..., list[str]] | None = getattr(os, "listxattr", None)  # Linux alone has it
    try:
        return listed(path, follow_symlinks=False) if listed else []
    except OSError:  # a file system without attributes
        return []


def _selected(root: Root, pattern: str, missing: set[str]) -> Found:
    """What a pattern names and all below it; what it names alone and does not exist is added to `missing`."""
    parts = pattern.split("/")
    count = next((index for index, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    plain = [_QUOTED.sub(r"\1", part) for part in parts[:count]]
    if count == len(parts):
        yield from _literal(root, plain, missing)
        return
    base = _real(root, plain)
    if base is not None and (not base or _status(root, base) is not None):
        yield from _matching(root, base, parts[count:])


def _literal(root: Root, parts: list[str], missing: set[str]) -> Found:
    parent = _real(root, parts[:-1])
    if parent is None:
        return
    place = f"{parent}/{parts[-1]}".strip("/")
    status = _status(root, place)
    if status is None and place.endswith(_INDEX.lstrip("/")):
        raise ToolError("the git repository is not a plain folder of the workspace")
    if status is None:
        missing.update(_absent(root, place))
    else:
        yield from _with_below(root, place, status)


def _absent(root: Root, place: str) -> Iterator[str]:
    """A place that does not exist, and the folders above it that do not exist either."""
    while place and _status(root, place) is None:
        yield place
        place = place.rpartition("/")[0]


def _with_below(root: Root, place: str, status: os.stat_result) -> Found:
    """A place, all below a folder, and what a link leads to in the workspace."""
    yield place, status
    if stat.S_ISDIR(status.st_mode):
        yield from _counted(root, place)
    elif stat.S_ISLNK(status.st_mode):
        target = _real(root, place.split("/"))
        reached = _status(root, target) if target else None
        if target and reached is not None and not stat.S_ISLNK(reached.st_mode):
            yield from _with_below(root, target, reached)


def _matching(root: Root, base: str, parts: list[str]) -> Found:
    names, through = _expression(parts), [_expression(parts[:count], whole=True) for count in range(1, len(parts))]
    for place, status in _counted(root, base or "."):
        below = place[len(base) :].lstrip("/")
        if names.fullmatch(below):
            if _ANY_DEPTH in parts and _ODD.search(below):
                raise ToolError(f"{place!r} is an odd name, which a command may read otherwise")
            yield from _with_below(root, place, status) if stat.S_ISLNK(status.st_mode) else iter([(place, status)])
        elif stat.S_ISLNK(status.st_mode) and _ANY_DEPTH not in parts and any(e.fullmatch(below) for e in through):
            raise ToolError(f"{place!r} is a link, and leads the pattern elsewhere")


def _counted(root: Root, place: str) -> Found:
    for count, found in enumerate(root.walk(place)):
        if count >= MOST_PLACES:
            raise ToolError(f"more than {MOST_PLACES:,} files would have to be looked at")
        yield found


@functools.lru_cache(maxsize=256)
def _translated(part: str) -> str:
    if part == _ANY_DEPTH:
        return "(?:[^/]+/)*"
    pieces = re.split(r"(\[[*?\[]\]|[*?])", part)
    special = {"*": "[^/]*", "?": "[^/]"}
    return "".join(special.get(piece) or re.escape(_QUOTED.sub(r"\1", piece)) for piece in pieces)


def _expression(parts: list[str], *, whole: bool = False) -> re.Pattern[str]:
    """The expression for places that match the parts; unless `whole`, for all below them too."""
    text = "".join(_translated(part) + ("" if part == _ANY_DEPTH else "/") for part in parts).rstrip("/")
    return re.compile(text + ("" if whole else "(?:/.*)?"), re.IGNORECASE | re.DOTALL)


def _real(root: Root, parts: list[str]) -> str | None:
    """The place that a path leads to, links followed; None outside the workspace, "" for the workspace itself."""
    path = os.path.realpath("/".join([root.folder, *parts]))
    if path == root.folder:
        return ""
    return path[len(root.folder) + 1 :] if path.startswith(root.folder.rstrip("/") + "/") else None


def _status(root: Root, place: str) -> os.stat_result | None:
    try:
        return os.lstat(f"{root.folder}/{place}")
    except (OSError, ValueError):
        return None
