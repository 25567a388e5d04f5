"""How is everything put back as it was, or nothing at all? First compare, then restore."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentkit.errors import ToolError
from agentkit.workspace.root import MOST_KEPT_BYTES, Root
from agentkit.workspace.states import ABSENT, FOLDER, Change, State, net

_MOST_NAMED = 10

Roots = Callable[[str], Root]


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did: places that are as they were before, places that are gone again, what it could not do."""

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        did = [
            f"{verb} {_listed(paths)}"
            for verb, paths in (("restored", self.restored), ("removed", self.removed))
            if paths
        ]
        return ". ".join([" and ".join(did).capitalize() or "Nothing was to be undone", *self.notes]) + "."


def undo(made: Sequence[Change], roots: Roots, notes: tuple[str, ...] = ()) -> Undone:
    """Put back what these changes, in the order in which they were made, have changed.

    Does nothing and raises ToolError when something was changed since, or cannot be restored.
    """
    changes = [change for change in net(made) if not _is_nothing(change)]
    opened = {root: roots(root) for root in {change.root for change in changes}}
    problems = [problem for change in changes if (problem := _problem(change, made, opened[change.root]))]
    if problems:
        raise ToolError(f"Nothing was undone: {'; '.join(problems[:_MOST_NAMED])}.")
    _restore(changes, opened)
    files = [change for change in changes if {change.before.kind, change.after.kind} != {"folder", "absent"}]
    restored = tuple(change.path for change in files if change.before.kind != "absent")
    return Undone(restored, tuple(change.path for change in files if change.before.kind == "absent"), notes)


def stands(root: Root, path: str, state: State) -> bool:
    """Whether this is what stands at the path now."""
    return root.inspect(path, MOST_KEPT_BYTES if state.was_read else 0).is_like(state)


def _is_nothing(change: Change) -> bool:
    return change.before.is_like(change.after) and change.before.mode == change.after.mode


def _problem(change: Change, made: Sequence[Change], root: Root) -> str:
    """Why a change cannot be undone, or ""."""
    before = change.before
    if before.kind == "other" or (before.kind in ("file", "link") and before.content is None):
        return f"what {change.path!r} was before is not kept"
    own = [each.before for each in made if (each.root, each.path) == (change.root, change.path)]
    known = [change.after, *own, *([ABSENT, FOLDER] if FOLDER.kind in (before.kind, change.after.kind) else [])]
    if any(stands(root, change.path, state) for state in known):
        return ""
    return f"{change.path!r} was changed since"


def _restore(changes: Sequence[Change], roots: dict[str, Root]) -> None:
    """Files go before the folders they are in, and come back after them."""
    by_depth = sorted(changes, key=lambda change: change.path.count("/"))
    for change in reversed(by_depth):
        _clear(roots[change.root], change)
    for change in by_depth:
        _rebuild(roots[change.root], change)


def _clear(root: Root, change: Change) -> None:
    """Remove what stands in the way: a new file, a file that was a folder, an empty new folder."""
    now = root.inspect(change.path, 0)
    if now.kind not in ("absent", change.before.kind):
        is_folder = now.kind == "folder"
        with contextlib.suppress(ToolError) if is_folder else contextlib.nullcontext():  # others use the folder by now
            root.remove(change.path)


def _rebuild(root: Root, change: Change) -> None:
    before, path = change.before, change.path
    if before.kind == "folder":
        if root.inspect(path, 0).kind == "absent":
            root.make_folder(path)
        root.dress_folder(path, before.mode)
    elif before.kind == "link":
        with contextlib.suppress(ToolError):
            root.remove(path)
        root.link(path, before.content or b"")
    elif before.kind == "file" and before.content is not None:
        for folder in root.missing_folders(path)[1]:
            root.make_folder(folder)
        root.write(path, before.content, before.mode)


def _listed(paths: Sequence[str]) -> str:
    more = len(paths) - _MOST_NAMED
    return ", ".join([*map(repr, paths[:_MOST_NAMED]), *([f"{more:,} more"] if more > 0 else [])])
