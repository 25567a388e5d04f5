"""Undo: verify that nothing changed since, then restore everything or nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from agentkit.errors import ToolError
from agentkit.undo import Undone, format_paths
from agentkit.workspace.change_detection import is_same_index
from agentkit.workspace.root import MAX_KEPT_BYTES, Root
from agentkit.workspace.snapshots import ABSENT, FOLDER, FileChange, State, merge_changes

_MAX_NAMED = 10

Roots = Callable[[str], Root]


def undo(made: Sequence[FileChange], roots: Roots, notes: tuple[str, ...] = ()) -> Undone:
    """Undo these changes, given in the order in which they were made.

    Files whose contents were not stored are left alone and named in the notes. Changes nothing and raises ToolError if
    something was changed since, cannot be restored, or if no contents were stored at all.
    """
    effective = [change for change in merge_changes(made) if not _is_unchanged(change)]
    changes = [change for change in effective if _is_restorable(change.before)]
    lost = [
        f"the earlier content of {change.path!r} is not stored"
        for change in effective
        if not _is_restorable(change.before)
    ]
    open_roots = {root: roots(root) for root in {change.root for change in changes}}
    problems = [
        f"{change.path!r} was changed since"
        for change in changes
        if _was_changed_since(change, open_roots[change.root])
    ]
    if problems or (lost and not changes):
        raise ToolError(f"Nothing was undone: {'; '.join([*problems, *lost][:_MAX_NAMED])}.")
    notes = (*notes, *lost)
    _restore_all(changes, open_roots)
    files = [change for change in changes if {change.before.kind, change.after.kind} != {"folder", "absent"}]
    restored = tuple(change.path for change in files if change.before.kind != "absent")
    return Undone(restored, tuple(change.path for change in files if change.before.kind == "absent"), notes)


def has_state(root: Root, path: str, state: State) -> bool:
    """Whether the path has this state now, including the permissions if they are known."""
    now = root.inspect(path, MAX_KEPT_BYTES if state.was_read else 0)
    return now.is_like(state) and state.mode in (0, now.mode)


def _is_unchanged(change: FileChange) -> bool:
    return change.before.is_like(change.after) and change.before.mode == change.after.mode


def _is_restorable(before: State) -> bool:
    return before.kind != "other" and (before.kind not in ("file", "link") or before.content is not None)


def _was_changed_since(change: FileChange, root: Root) -> bool:
    """Whether the path has a state other than those before and after the run."""
    kinds = {change.before.kind, change.after.kind}
    expected = [change.after, change.before]
    if FOLDER.kind in kinds and len(kinds) > 1:  # an empty folder can be removed without loss
        expected += [ABSENT, State(FOLDER.kind)]
    return not (any(has_state(root, change.path, state) for state in expected) or _is_index(root, change))


def _is_index(root: Root, change: FileChange) -> bool:
    """Whether git has only rewritten its index since, with the same content."""
    if change.path.rpartition("/")[2] != "index":
        return False
    return is_same_index(change.after, root.inspect(change.path, MAX_KEPT_BYTES))


def _restore_all(changes: Sequence[FileChange], roots: dict[str, Root]) -> None:
    """Restore everything; on failure, revert what was restored and raise ToolError."""
    present = [replace(each, after=each.before, before=roots[each.root].inspect(each.path)) for each in changes]
    try:
        _restore(changes, roots)
    except ToolError as error:
        unrestored = [change.path for change in _by_depth(present) if not _put_back(change, roots)]
        if unrestored:
            raise ToolError(
                f"Only a part was undone, and {format_paths(unrestored)} cannot be put back: {error}"
            ) from None
        raise ToolError(f"Nothing was undone: {error}") from None


def _put_back(change: FileChange, roots: dict[str, Root]) -> bool:
    root = roots[change.root]
    with contextlib.suppress(ToolError):
        if not has_state(root, change.path, change.before):
            _restore([change], roots)
        return has_state(root, change.path, change.before)
    return False


def _restore(changes: Sequence[FileChange], roots: dict[str, Root]) -> None:
    """Remove files before their folders, and recreate them after their folders."""
    by_depth = _by_depth(changes)
    for change in reversed(by_depth):
        # Remove what is in the way: a new file, a file that was a folder, an empty new folder
        root = roots[change.root]
        now = root.inspect(change.path, 0)
        if now.kind not in ("absent", change.before.kind):
            is_folder = now.kind == "folder"
            with contextlib.suppress(ToolError) if is_folder else contextlib.nullcontext():  # it is in use by now
                root.remove(change.path)
    for change in by_depth:
        if not has_state(roots[change.root], change.path, change.before):
            _rebuild(roots[change.root], change)


def _by_depth(changes: Sequence[FileChange]) -> list[FileChange]:
    return sorted(changes, key=lambda change: change.path.count("/"))


def _rebuild(root: Root, change: FileChange) -> None:
    before, path = change.before, change.path
    if before.kind == "folder":
        if root.inspect(path, 0).kind == "absent":
            root.make_folder(path)
        root.set_folder_mode(path, before.mode)
    elif before.kind == "link":
        with contextlib.suppress(ToolError):
            root.remove(path)
        root.link(path, before.content or b"")
    elif before.kind == "file" and before.content is not None:
        for folder in root.missing_folders(path)[1]:
            root.make_folder(folder)
        root.write(path, before.content, before.mode)
