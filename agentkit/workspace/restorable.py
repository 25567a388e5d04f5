"""Snapshots of what a command could delete, taken only if the journal can restore all of it.

A pattern is a path relative to the workspace, including everything below it. Within a part, `*` and `?` match any
characters, `[*]` a literal `*`, and the part `**` any number of folders. Case is ignored. A pattern that ends in a
slash includes the targets of matching links. One that begins with a slash is for names that the command itself reads:
names that the command could misinterpret are refused.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from agentkit._dataclass import dataclass
from agentkit.errors import ToolError
from agentkit.portable_files import is_own
from agentkit.settings import state_folder
from agentkit.workspace.change_detection import (
    MAX_BYTES,
    MAX_FILES,
    YOUNG_NANOSECONDS,
    Signature,
    WorkspaceSnapshot,
    signature,
)
from agentkit.workspace.root import Root
from agentkit.workspace.snapshots import ABSENT, State

MAX_PLACES = 200_000
"""Maximum number of files and folders examined to find matches of the patterns."""

_ANY_DEPTH = "**"
_WILDCARD = re.compile(r"[*?](?!\])")
_ESCAPED = re.compile(r"\[([*?\[])\]")
_UNUSUAL = re.compile(r"[\s'\"\\*?\[]|(^|/)-")
_LIKE_AN_OPTION = re.compile(r"(^|\s)-")
_PERMISSIONS = 0o777
_LISTABLE = 0o500
_REPOSITORY = ".git"
_LOST_ATTRIBUTES = ("user.", "system.posix_acl_")

Found = Iterator[tuple[str, os.stat_result]]


def snapshot_matches(
    root: Root, patterns: Collection[str], *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES
) -> WorkspaceSnapshot:
    """Take a snapshot of everything that matches the patterns, also in folders that are otherwise skipped.

    Paths that do not exist are recorded as absent. Raises ToolError if anything could not be restored exactly: too many
    or too large files, special files, other owners, hard links or attributes.
    """
    selected: dict[str, os.stat_result] = {}
    missing: set[str] = set()
    left = max_bytes
    for pattern in patterns:
        for place, status in _select(root, pattern, missing):
            if place in selected:
                continue
            _check_restorable(root, place, status)
            selected[place] = status
            left -= status.st_size if stat.S_ISREG(status.st_mode) else 0
            if len(selected) > max_files or left < 0:
                raise ToolError(f"more than {max_files:,} files or {max_bytes // 1_000_000:,} MB")
    places: dict[str, tuple[Signature, State]] = dict.fromkeys(missing, ((), ABSENT))
    states = dict(root.inspect_all(selected, max_bytes))
    unread = next((place for place in selected if place not in states or not _is_whole(states[place])), None)
    if unread is not None:
        raise ToolError(f"{unread!r} cannot be read")
    young = time.time_ns() - YOUNG_NANOSECONDS
    signs = {place: signature(status) if status.st_ctime_ns < young else () for place, status in selected.items()}
    return WorkspaceSnapshot(places | {place: (signs[place], state) for place, state in states.items()}, is_whole=False)


def _is_whole(state: State) -> bool:
    return state.kind == "folder" or (state.kind in ("file", "link") and state.content is not None)


def _check_restorable(root: Root, place: str, status: os.stat_result) -> None:
    kind = stat.S_IFMT(status.st_mode)
    path = f"{root.folder}/{place}"
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise ToolError(f"{place!r} is a special file")
    if kind == stat.S_IFREG and status.st_nlink > 1:
        raise ToolError(f"{place!r} has more than one name (hard links)")
    if not is_own(status):
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
    listed: Callable[..., list[str]] | None = getattr(os, "listxattr", None)  # Linux only
    try:
        return listed(path, follow_symlinks=False) if listed else []
    except OSError:  # a file system without attributes
        return []


def _select(root: Root, pattern: str, missing: set[str]) -> Found:
    """Yield what a pattern matches and everything below; a literal path that does not exist is added to `missing`."""
    parts = pattern.strip("/").split("/")
    is_read, through = pattern.startswith("/"), pattern.endswith("/")
    count = next((index for index, part in enumerate(parts) if _WILDCARD.search(part)), len(parts))
    plain = [_ESCAPED.sub(r"\1", part) for part in parts[:count] if part != "."]
    if count == len(parts) and plain:
        yield from _select_literal(root, plain, missing, through=through)
        return
    parts = parts if count < len(parts) else [*parts, "*"]  # the workspace itself means everything in it
    base = _resolve(root, plain)
    if base is not None and (not base or _status(root, base) is not None):
        match = _CompiledPattern.of(parts[count:], through=through, is_read=is_read)
        for place, below, status in _walk(root, base, match):
            is_link = stat.S_ISLNK(status.st_mode)
            if match.covered.fullmatch(below):
                _refuse_ambiguous(match, place, below)
                yield place, status
                if is_link and match.through and match.named.fullmatch(below):
                    yield from _link_target_files(root, place, folders=not match.is_deep)
            elif is_link and not match.is_deep and match.is_above(below):
                raise ToolError(f"{place!r} is a symbolic link, which leads the pattern to another folder")


def _select_literal(root: Root, parts: list[str], missing: set[str], *, through: bool) -> Found:
    parent = _resolve(root, parts[:-1])
    if parent is None:
        return
    place = f"{parent}/{parts[-1]}".strip("/")
    status = _status(root, place)
    if status is None and place.endswith(f"{_REPOSITORY}/index"):
        raise ToolError("the git repository is not a plain folder of the workspace")
    if status is None:
        missing.update(_missing_paths(root, place))
    else:
        yield from _with_below(root, place, status)
        yield from _link_target_files(root, place) if through and stat.S_ISLNK(status.st_mode) else ()


def _missing_paths(root: Root, place: str) -> Iterator[str]:
    """Yield a path that does not exist, and its missing parent folders."""
    while place and _status(root, place) is None:
        yield place
        place = place.rpartition("/")[0]


def _with_below(root: Root, place: str, status: os.stat_result) -> Found:
    """Yield a path, and everything below it."""
    yield place, status
    waiting = [place] if stat.S_ISDIR(status.st_mode) else []
    while waiting:
        for inner, found in _entries(root, waiting.pop()):
            yield inner, found
            if stat.S_ISDIR(found.st_mode):
                waiting.append(inner)


def _link_target_files(root: Root, link: str, *, folders: bool = True) -> Found:
    """Yield the target of a link within the workspace: a file, or, with `folders`, a folder with its contents."""
    place = _resolve(root, link.split("/"))
    status = _status(root, place) if place else None
    if place and status is not None and (folders or not stat.S_ISDIR(status.st_mode)):
        yield from _with_below(root, place, status)


@dataclass(frozen=True, slots=True)
class _CompiledPattern:
    """The regular expressions of a pattern, for paths below a folder.

    `named` matches the pattern itself, `covered` also everything below, `above` the folders that could contain matches.
    With `through`, the targets of links are included; with `is_read`, a command has read the names.
    """

    parts: tuple[str, ...]
    named: re.Pattern[str]
    covered: re.Pattern[str]
    above: tuple[re.Pattern[str], ...]
    through: bool
    is_read: bool

    @classmethod
    def of(cls, parts: Sequence[str], *, through: bool, is_read: bool) -> _CompiledPattern:
        """Compile the expressions for these parts."""
        above = tuple(_expression(parts[:count]) for count in range(1, len(parts)))
        covered = _expression(parts, "(?:/.*)?")
        return cls(tuple(parts), _expression(parts), covered, above, through, is_read)

    @property
    def is_deep(self) -> bool:
        """Whether the pattern matches at any depth, like the results of `find`, which follows no links to folders."""
        return _ANY_DEPTH in self.parts

    def is_above(self, place: str) -> bool:
        """Whether matches could be below the path."""
        return self.is_deep or any(each.fullmatch(place) for each in self.above)


def _refuse_ambiguous(match: _CompiledPattern, place: str, below: str) -> None:
    if match.is_read and _UNUSUAL.search(below):
        raise ToolError(f"{place!r} is an unusual name, which a command could interpret differently")
    if _REPOSITORY in place.split("/") and _REPOSITORY not in match.parts:
        raise ToolError(f"{place!r} is a part of a git repository")


def _walk(root: Root, base: str, match: _CompiledPattern) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield each path in folders that could contain matches: path in the workspace, path below `base`, status."""
    waiting, left = [base], MAX_PLACES
    while waiting:
        for place, status in _entries(root, waiting.pop()):
            below = place[len(base) :].lstrip("/")
            yield place, below, status
            if stat.S_ISDIR(status.st_mode) and (match.covered.fullmatch(below) or match.is_above(below)):
                waiting.append(place)
            left -= 1
            if left < 0:
                raise ToolError(f"more than {MAX_PLACES:,} files would have to be looked at")


def _entries(root: Root, place: str) -> list[tuple[str, os.stat_result]]:
    try:
        with os.scandir(f"{root.folder}/{place}") as scan:
            return [(f"{place}/{each.name}".lstrip("/"), each.stat(follow_symlinks=False)) for each in scan]
    except OSError:  # gone, or not listable, which is reported when the snapshot is taken
        return []


@functools.lru_cache(maxsize=256)
def _part_expression(part: str) -> str:
    if part == _ANY_DEPTH:
        return "(?:[^/]+/)*"
    pieces = re.split(r"(\[[*?\[]\]|[*?])", part)
    special = {"*": "[^/]*", "?": "[^/]"}
    return "".join(special.get(piece) or re.escape(_ESCAPED.sub(r"\1", piece)) for piece in pieces)


def _expression(parts: Sequence[str], below: str = "") -> re.Pattern[str]:
    text = "".join(_part_expression(part) + ("" if part == _ANY_DEPTH else "/") for part in parts).rstrip("/")
    return re.compile(text + below, re.IGNORECASE | re.DOTALL)


def _resolve(root: Root, parts: list[str]) -> str | None:
    """Return the real path, links resolved; None outside the workspace, "" for the workspace itself."""
    path = os.path.realpath("/".join([root.folder, *parts]))
    if path == root.folder:
        return ""
    return path[len(root.folder) + 1 :] if path.startswith(root.folder.rstrip("/") + "/") else None


def _status(root: Root, place: str) -> os.stat_result | None:
    try:
        return os.lstat(f"{root.folder}/{place}")
    except (OSError, ValueError):
        return None


def ambiguous_name(root: Root) -> str:
    """The name of a file or folder that a command could take for an option, as the rest of a sentence; "" if none.

    Such a name begins with a dash, or has one behind white space, where bash or xargs may split it.
    """
    left = MAX_PLACES
    for _, folders, names in os.walk(root.folder):
        found = next((name for name in (*folders, *names) if _LIKE_AN_OPTION.search(name)), None)
        if found is not None:
            return f"there is {found!r}"
        left -= len(folders) + len(names)
        if left < 0:
            return f"there are more than {MAX_PLACES:,} files, and not all were looked at"
    return ""
