"""Detection of files changed by a command: a snapshot before, a comparison after."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from agentkit._dataclass import dataclass
from agentkit.errors import ToolError
from agentkit.git.index import has_same_entries
from agentkit.settings import state_folder
from agentkit.workspace.journal_store import JournalStore
from agentkit.workspace.root import Root
from agentkit.workspace.snapshots import ABSENT, FileChange, State

MAX_FILES = 2_000
MAX_BYTES = 20_000_000
SKIPPED = frozenset(
    {
        *(
            *(".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".eggs"),
            *(".cache",),
        ),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".terraform"),
    }
)
"""Folders excluded from snapshots: version control has its own history, and caches and packages can be regenerated."""

MAX_PLACES_AFTER = 20_000
MAX_REPOSITORY_FILES, MAX_REPOSITORY_BYTES = 20_000, 100_000_000
_SKIPPED_IN_REPOSITORY = frozenset({"objects", "hooks", "logs", "lfs", "annex", "fsmonitor--daemon"})
_TEMPORARY = (".lock", "/COMMIT_EDITMSG", "/FETCH_HEAD", "/gc.pid", "/gc.log")
_STASHES = "logs/refs/stash"
_MAX_READ_BYTES = 1_000_000
YOUNG_NANOSECONDS = 50_000_000
"""Files changed within this time are compared by content, because a later change can have the same timestamp."""

Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WorkspaceSnapshot:
    """A snapshot of a workspace: by path, a signature that changes with the file, and its state.

    A snapshot that is not `is_whole` does not cover other paths: files found there later could have existed before.
    """

    places: dict[str, tuple[Signature, State]]
    is_whole: bool = True

    @property
    def size(self) -> int:
        """The total size of all contents in bytes."""
        return sum(len(state.content or b"") for _, state in self.places.values())

    def keep(self, store: JournalStore) -> None:
        """Store the snapshot."""
        notes = ((path, signature, state) for path, (signature, state) in self.places.items())
        store.add([({"path": path, "signature": sign, "state": s.to_dict()}, (s.content,)) for path, sign, s in notes])

    @classmethod
    def load(cls, store: JournalStore, *, is_whole: bool = True) -> WorkspaceSnapshot:
        """Load a stored snapshot."""
        places: dict[str, tuple[Signature, State]] = {}
        for note, contents in store.read():
            path, signature, state = (note.get(name) for name in ("path", "signature", "state"))
            if (
                isinstance(path, str)
                and isinstance(signature, list | tuple)
                and isinstance(state, dict)
                and len(contents) == 1
            ):
                places[path] = (tuple(signature), State.from_dict(state, contents[0]))
        return cls(places, is_whole)


NOTHING = WorkspaceSnapshot({}, is_whole=False)


def take_snapshot(
    root: Root, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES, is_repository: bool = False
) -> WorkspaceSnapshot:
    """Take a snapshot of every file below the root. Raises ToolError if there are too many.

    For a git repository, the snapshot contains branches, index and configuration, but not the objects.
    """
    signatures: dict[str, Signature] = {}
    bytes_left, young = max_bytes, time.time_ns() - YOUNG_NANOSECONDS
    for path, status in _walk(root, is_repository=is_repository):
        signatures[path] = signature(status) if status.st_ctime_ns < young else ()
        bytes_left -= status.st_size
        if len(signatures) > max_files or bytes_left < 0:
            most = f"{max_files:,} files or {max_bytes // 1_000_000:,} MB"
            raise ToolError(f"the folder has more than {most}, so its contents were not recorded before")
    return WorkspaceSnapshot(
        {path: (signatures[path], state) for path, state in root.inspect_all(signatures, max_bytes)}
    )


def differences(
    snapshot: WorkspaceSnapshot,
    root: Root,
    tool: str,
    *,
    max_paths: int = MAX_PLACES_AFTER,
    is_repository: bool = False,
) -> tuple[list[FileChange], str]:
    """Return the changes since the snapshot, and a description of what could not be recorded, or "".

    All paths of the snapshot are compared; at most `max_paths` existing paths are examined for new files.
    """
    now = time.time()
    changes: list[FileChange] = []
    remaining = dict(snapshot.places)
    unreadable, incomplete = 0, ""
    for count, (path, status) in enumerate(_paths_to_compare(snapshot, root, is_repository=is_repository)):
        if count >= max_paths:
            incomplete = f"more than {max_paths:,} files exist now; not all of them were compared"
            break
        known, before = remaining.pop(path, ((), ABSENT))
        if known == signature(status):
            continue
        after = dict(root.inspect_all([path], max(_MAX_READ_BYTES, before.size))).get(path)
        if after is None:
            unreadable += 1
        elif _differ(before, after) and not (is_repository and is_same_index(before, after)):
            changes.append(FileChange(root.folder, path, before, after, tool, now))
    for path, (_, before) in remaining.items():
        after = root.inspect(path, max(_MAX_READ_BYTES, before.size))
        if _differ(before, after):
            changes.append(FileChange(root.folder, path, before, after, tool, now))
    return changes, incomplete or (f"{unreadable:,} new files have names that cannot be recorded" if unreadable else "")


def _differ(before: State, after: State) -> bool:
    return not after.is_like(before) or after.mode != before.mode


def _paths_to_compare(
    snapshot: WorkspaceSnapshot, root: Root, *, is_repository: bool
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the paths that could be new: all, or those below the outermost paths of a partial snapshot."""
    if snapshot.is_whole:
        yield from _walk(root, is_repository=is_repository)
        return
    for place in snapshot.places:
        if place.rpartition("/")[0] not in snapshot.places and root.inspect(place, 0).kind == "folder":
            yield from root.walk(place)


def is_same_index(one: State, other: State) -> bool:
    """Whether both are git indexes listing the same content; git rewrites its index after examining files."""
    contents = one.content, other.content
    if contents[0] is None or contents[1] is None or not contents[0].startswith(b"DIRC"):
        return False
    return has_same_entries(contents[0], contents[1])


def _walk(root: Root, *, is_repository: bool) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every path, except where agentkit stores its own records."""
    base, state_prefix = root.folder.rstrip("/"), f"{os.path.realpath(state_folder())}/"
    places = root.walk(prune=_is_stored) if is_repository else root.walk(skip=SKIPPED)
    for place, status in places:
        if not f"{base}/{place}/".startswith(state_prefix):
            yield place, status


def _is_stored(place: str) -> bool:
    """Whether a path in a repository is excluded: objects never change, and logs except the stash log are append-only.

    A branch can have any name, including the name of such a folder.
    """
    names = place.split("/")
    if "logs" in names and "refs" not in names[: names.index("logs")]:
        within = "/".join(names[names.index("logs") :])
        return not (_STASHES.startswith(within) or within == _STASHES)
    if "refs" in names[:-1]:
        return place.endswith(".lock")
    return names[-1] in _SKIPPED_IN_REPOSITORY or f"/{place}".endswith(_TEMPORARY)


def signature(status: os.stat_result) -> Signature:
    """Return a value that changes whenever the file does."""
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
