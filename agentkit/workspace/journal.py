"""The journal: records of changes and the contents before. A record holds the changes of one run."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.errors import AgentKitError, ConfigError, ToolError
from agentkit.settings import state_folder
from agentkit.undo import Undone
from agentkit.workspace.change_detection import (
    MAX_BYTES,
    MAX_FILES,
    MAX_REPOSITORY_BYTES,
    MAX_REPOSITORY_FILES,
    NOTHING,
    WorkspaceSnapshot,
    differences,
    take_snapshot,
)
from agentkit.workspace.journal_store import (
    NOT_DONE,
    CallStore,
    Contents,
    FileJournalStore,
    InMemoryJournalStore,
    JournalStore,
    Note,
    forget_oldest,
)
from agentkit.workspace.root import Root
from agentkit.workspace.safe_open import quote_path
from agentkit.workspace.snapshots import FileChange, State, merge_changes, unified_diff
from agentkit.workspace.undo import Roots, has_state, undo

_SIDES = ("before", "after")
_TEXT, _WHOLE, _NUMBER = (str,), (int,), (int, float)
_NOTE_KEYS: dict[str, dict[str, tuple[type, ...]]] = {
    "run": {"run": _TEXT, "label": _TEXT, "started": _NUMBER},
    "path": {"root": _TEXT, "path": _TEXT, "tool": _TEXT, "time": _NUMBER, "before": (dict,), "after": (dict,)},
    "done": {"done": _WHOLE, "count": _WHOLE},
    "watch": {"watch": _TEXT, "places": _WHOLE, "root": _TEXT, "tool": _TEXT},
    "watched": {"watched": _TEXT},
    "note": {"note": _TEXT},
    "undone": {"undone": _NUMBER},
}
"""The required keys of a note and their types, by the key that identifies its kind. A record is a list of notes:

| kind | meaning |
|---|---|
| `run` | the header of the record: the run, its label and its start |
| `path` | the state of one path before and after a change by a tool; the change is about to be made |
| `done` | `count` changes from index `done` on have been made; `modes` can have the modes of the written files |
| `watch` | a command that changes files by itself has started; the path of its snapshot, which has `places` entries |
| `watched` | the changes since the snapshot at this path have been recorded |
| `note` | a text for people, such as a change that cannot be undone |
| `undone` | the time of an undo of the first `count` changes, without the indices in `pending` |
"""


@dataclass(slots=True)
class History:
    """The contents of a record: changes in order, which of them are completed or undone, unfinished commands."""

    changes: list[FileChange] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    undone: set[int] = field(default_factory=set)
    watches: dict[str, Note] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    is_undone: bool = False

    def add(self, note: Note, contents: Contents) -> None:
        """Process a note. Raises ToolError if it is invalid."""
        kind = note_kind(note)
        if kind == "path":
            self.changes.append(_change(note, contents))
            self.is_undone = False
        elif kind == "done":
            self._finish(note)
        elif kind == "watch":
            self.watches[note["watch"]] = note
        elif kind == "watched":
            self.watches.pop(note["watched"], None)
        elif kind == "note":
            self.notes.append(note["note"])
        elif kind == "undone":
            count = note["count"] if type(note.get("count")) is int else len(self.changes)
            self.undone = set(range(len(self.changes))[:count]).difference(_indices(note.get("pending")))
            self.is_undone = count == len(self.changes)

    def _finish(self, note: Note) -> None:
        """Mark changes as completed; those still pending during an earlier undo become available for undo."""
        done = range(max(note["done"], 0), min(note["done"] + note["count"], len(self.changes)))
        self.done.update(done)
        if not self.undone.issuperset(done):
            self.is_undone = False
        modes = note.get("modes")
        for index, mode in zip(done, modes if isinstance(modes, list) else (), strict=False):
            change = self.changes[index]
            if type(mode) is int and change.after.kind == "file":
                self.changes[index] = replace(change, after=replace(change.after, mode=mode))


def read_history(store: JournalStore) -> History:
    """Read the history of a run from a store. Raises ToolError for an invalid note."""
    history = History()
    for note, contents in store.read():
        history.add(note, contents)
    return history


def note_kind(note: Note) -> str:
    """Return the key that identifies the type of a note, or "". Raises ToolError if required keys are invalid."""
    kind = next((key for key in ("run", "watch", "path", *_NOTE_KEYS) if key in note), "")
    for name, types in _NOTE_KEYS.get(kind, {}).items():
        if type(note.get(name)) not in types:
            raise ToolError(f"A note of the kind {kind!r} has no valid {name!r}.")
    return kind


def _change(note: Note, contents: Contents) -> FileChange:
    if len(contents) != len(_SIDES):
        raise ToolError("A change must have two different states.")
    before, after = (State.from_dict(note[side], content) for side, content in zip(_SIDES, contents, strict=True))
    return FileChange(note["root"], note["path"], before, after, note["tool"], note["time"])


def _indices(values: object) -> list[int]:
    return [value for value in values if type(value) is int] if isinstance(values, list) else []


_SUFFIX, _SPOOL, _CALL = ".journal", ".before", "call-"
_MAX_AFTER_BYTES = 1_000_000
_MAX_RUNS_IN_MEMORY = 10
_MAX_NAMED = 3
_CALLS_BETWEEN_CLEANUPS = 20
_ID = re.compile(r"[\w.-]{1,100}", re.ASCII)


class Record:
    """The changes of one run. `id` identifies the run; `label` is for people; `started` is in seconds since 1970.

    With `since`, the record existed before, with `count` changes. A change is recorded before it is made. Thread-safe.
    """

    def __init__(
        self,
        run_id: str,
        label: str,
        store: JournalStore,
        *,
        roots: Roots = Root,
        since: float | None = None,
        count: int = 0,
    ) -> None:
        self.id, self.label, self.started = run_id, label, time.time() if since is None else since
        self._store = store
        self._roots = roots
        self._lock = threading.RLock()
        self.is_begun = since is not None
        self.remarks: list[str] = []
        self._count = count

    @classmethod
    def load(cls, store: FileJournalStore) -> Record:
        """Load the record in a file. Raises ToolError if it is invalid."""
        header = next((note for note, _ in store.read()), {})
        try:
            is_header = note_kind(header) == "run" and _ID.fullmatch(header["run"])
            count = len(read_history(store).changes) if is_header else 0
        except ToolError as error:
            raise ToolError(f"{store.path.name!r} is not the record of a run: {error}") from None
        if not is_header:
            raise ToolError(f"{store.path.name!r} is not the record of a run.")
        return cls(header["run"], header["label"], store, since=header["started"], count=count)

    def __getstate__(self) -> dict[str, Any]:
        """Exclude the lock; a copy in another process uses the real files."""
        return self.__dict__ | {"_lock": None, "_roots": Root}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    @contextlib.contextmanager
    def making(self, changes: Sequence[FileChange]) -> Iterator[None]:
        """Record changes, then run the block that makes them. If it raises, they count as not made."""
        with self._lock:
            first = self._write(changes)
            yield
            modes = [change.after.mode or self._mode(change) for change in changes]
            with contextlib.suppress(ToolError):  # on a full disk, the files show that they were made
                self._add([({"done": first, "count": len(changes), "modes": modes}, ())])

    @contextlib.contextmanager
    def observing(
        self,
        root: Root,
        tool: str,
        guaranteed: Collection[str] = (),
        possible: Collection[str] = (),
        *,
        is_repository: bool = False,
    ) -> Iterator[None]:
        """Record all changes below the root during the block, by any process; note what cannot be undone.

        Paths matching the patterns in `guaranteed` (see `snapshot_matches`) can be restored, or ToolError is raised
        before the block runs. Those in `possible` are recorded as far as possible. The root can be a git repository,
        whose branches, index and configuration are recorded.
        """
        if is_repository:
            snapshot = self._snapshot_repository(root, tool)
        else:
            snapshot = self._snapshot_workspace(root, tool, guaranteed, possible)
        if snapshot is None:
            yield
            return
        spool = self._store_snapshot(snapshot, root, tool, is_repository=is_repository)
        try:
            yield
        finally:
            with contextlib.suppress(ToolError):  # on a full disk, the snapshot still shows the changes
                self._record_observed(*differences(snapshot, root, tool, is_repository=is_repository), tool, spool)

    def _snapshot_repository(self, root: Root, tool: str) -> WorkspaceSnapshot | None:
        """Snapshot branches, index and configuration of a git repository; None, with a note, if there are too many."""
        try:
            return take_snapshot(
                root, max_files=MAX_REPOSITORY_FILES, max_bytes=MAX_REPOSITORY_BYTES, is_repository=True
            )
        except ToolError as error:
            self.note(f"The changes of {tool} cannot be undone: {error}")
            return None

    def _snapshot_workspace(
        self, root: Root, tool: str, guaranteed: Collection[str], possible: Collection[str]
    ) -> WorkspaceSnapshot | None:
        """Snapshot as much as possible, noting what is missing."""
        try:
            named = self._snapshot_patterns(root, guaranteed).places if guaranteed else {}
        except ToolError as error:
            raise ToolError(f"It was not run, because its deletions can no longer be undone: {error}") from None
        for pattern in possible:
            with contextlib.suppress(ToolError):
                named |= self._snapshot_patterns(root, [pattern], WorkspaceSnapshot(named)).places
        try:
            whole = take_snapshot(root)
        except ToolError as error:
            beyond = f" beyond {', '.join(sorted(named)[:_MAX_NAMED])}" if named else ""
            self.note(f"The changes of {tool}{beyond} cannot be undone: {error}")
            return WorkspaceSnapshot(named, is_whole=False) if named else None
        return WorkspaceSnapshot({**named, **whole.places})

    def _snapshot_patterns(
        self, root: Root, patterns: Collection[str], existing: WorkspaceSnapshot = NOTHING
    ) -> WorkspaceSnapshot:
        """Snapshot what the patterns match, within the limits left by an existing snapshot."""
        from agentkit.workspace.restorable import snapshot_matches

        left = MAX_BYTES - existing.size
        snapshot = snapshot_matches(root, patterns, max_files=MAX_FILES - len(existing.places), max_bytes=left)
        if snapshot.size + existing.size > self._store.room:
            raise ToolError("the journal has no room left")
        return snapshot

    def unrestorable(self, root: Root, patterns: Collection[str]) -> str:
        """Return why deletions of what the patterns match could not be undone; "" if they could."""
        try:
            self._snapshot_patterns(root, patterns)
        except ToolError as error:
            return str(error)
        return ""

    def _record_observed(
        self, changes: Sequence[FileChange], left_out: str, tool: str, spool: FileJournalStore | None
    ) -> None:
        with self.making(changes):
            pass
        if left_out:
            self.note(f"Not all changes of {tool} can be undone: {left_out}")
        if spool is not None:
            self._add([({"watched": str(spool.path)}, ())])
            spool.remove()

    def note(self, text: str) -> None:
        """Store a remark for the person who undoes the run."""
        self.remarks.append(text)
        self._add([({"note": text}, ())])

    @property
    def has_changes(self) -> bool:
        """Whether any change was recorded, made or not."""
        return self._count > 0

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """The changes of the run, merged by path, including those of a command during which the process died."""
        return tuple(merge_changes(change for _, change in self._made_changes(read_history(self._store))))

    @property
    def notes(self) -> tuple[str, ...]:
        """The reasons why something cannot be undone, and remarks to consider before an undo."""
        history = read_history(self._store)
        cut = [watch["tool"] for watch in history.watches.values()]
        return (
            *history.notes,
            *(f"{tool} was interrupted: all changes since its start are attributed to it" for tool in cut),
        )

    @property
    def is_undone(self) -> bool:
        """Whether the run was undone and has changed nothing since."""
        return read_history(self._store).is_undone

    @property
    def diff(self) -> str:
        """The changes of the run as one unified diff in the order of paths, limited in length."""
        return unified_diff(sorted(self.changes, key=lambda change: (change.root, change.path)))

    def undo(self) -> Undone:
        """Restore everything to the state before the run, if nothing has changed since; otherwise change nothing.

        Files whose contents were not stored are left alone and named. A continued run can be undone again, back to
        where it continued. Raises ToolError naming what has changed since, or if the run is already undone.
        """
        with self._lock:
            if isinstance(self._store, FileJournalStore):
                self._store.repair()
            history = read_history(self._store)
            if history.is_undone:
                raise ToolError(f"The run {self.id} is already undone.")
            made = self._made_changes(history)
            seen = {index for index, _ in made}
            pending = [index for index in range(len(history.changes)) if index not in seen | history.undone]
            outstanding = [change for index, change in made if index not in history.undone]
            undone = undo(outstanding, self._open_root, self.notes)
            try:
                self._add([({"undone": time.time(), "count": len(history.changes), "pending": pending}, ())])
            except ToolError:
                return replace(
                    undone, notes=(*undone.notes, "The journal cannot be written, so the change is not recorded")
                )
            return undone

    def _mode(self, change: FileChange) -> int:
        with contextlib.suppress(AgentKitError):
            return self._open_root(change.root).inspect(change.path, 0).mode
        return 0

    def _open_root(self, folder: str) -> Root:
        try:
            return self._roots(folder)
        except (ValueError, OSError):
            raise ToolError(f"{quote_path(folder)} cannot be used as the workspace folder.") from None

    def _add(self, notes: Sequence[tuple[Note, Contents]], *, durable: bool = False) -> None:
        with self._lock:
            header: list[tuple[Note, Contents]] = []
            if not self.is_begun:
                header = [({"run": self.id, "label": self.label, "started": self.started, "version": 1}, ())]
            self._store.add([*header, *notes], durable=durable)
            self.is_begun = True

    def _write(self, changes: Sequence[FileChange]) -> int:
        notes: list[tuple[Note, Contents]] = []
        for change in changes:
            note = {"root": change.root, "path": change.path, "tool": change.tool, "time": change.time}
            note |= {"before": change.before.to_dict(), "after": change.after.to_dict()}
            after = change.after.content
            short = after if after is None or len(after) <= _MAX_AFTER_BYTES else None
            notes.append((note, (change.before.content, short)))
        with self._lock:
            self._add(notes, durable=True)
            first, self._count = self._count, self._count + len(changes)
        return first

    def _store_snapshot(
        self, snapshot: WorkspaceSnapshot, root: Root, tool: str, *, is_repository: bool
    ) -> FileJournalStore | None:
        """Store a snapshot next to the journal, in case this process dies during the command."""
        if not isinstance(self._store, FileJournalStore):
            return None
        self._add([])  # also creates the folder
        if isinstance(self._store, CallStore) and self._store.problem:
            return None
        spool = FileJournalStore(self._store.path.with_suffix(f".{secrets.token_hex(4)}{_SPOOL}"))
        try:
            snapshot.keep(spool)
        except ToolError:
            if isinstance(self._store, CallStore):
                return None
            raise
        watch = {"watch": str(spool.path), "places": len(snapshot.places), "root": root.folder, "tool": tool}
        watch |= {"whole": snapshot.is_whole, "repository": is_repository}
        self._add([(watch, ())])
        return spool

    def _made_changes(self, history: History) -> list[tuple[int, FileChange]]:
        """Return the changes that were made, in order, with their indices; -1 for those of unfinished commands.

        Whether an uncompleted change was made is inferred from the next change of the path, or from the file itself.
        """
        made: list[tuple[int, FileChange]] = []
        found: dict[tuple[str, str], State] = {}
        for index, change in reversed([*enumerate(history.changes)]):
            place = change.root, change.path
            was_next = found[place].is_like(change.after) if place in found else self._was_made(change)
            if index in history.done or was_next:
                made.append((index, change))
                found[place] = change.before
        return made[::-1] + [
            (-1, change) for watch in history.watches.values() for change in self._interrupted_changes(watch)
        ]

    def _was_made(self, change: FileChange) -> bool:
        with contextlib.suppress(AgentKitError):
            return has_state(self._open_root(change.root), change.path, change.after)
        return False

    def _interrupted_changes(self, watch: Note) -> list[FileChange]:
        """Return the changes during a command whose end was not recorded."""
        if not isinstance(self._store, FileJournalStore):
            return []
        spool = FileJournalStore(self._store.path.with_name(Path(watch["watch"]).name))
        snapshot = WorkspaceSnapshot.load(spool, is_whole=watch.get("whole") is not False)
        if len(snapshot.places) != watch["places"]:  # incomplete snapshot: known files would look new
            return []
        with contextlib.suppress(AgentKitError):
            root, is_repository = self._open_root(watch["root"]), watch.get("repository") is True
            return differences(snapshot, root, watch["tool"], is_repository=is_repository)[0]
        return []


class Journal:
    """The records of runs: in files below `folder`, which outlive the process, or in memory without one.

    Limited to `max_runs` records and `max_bytes` in files for runs, and as many for direct calls; in memory, to ten
    records of at most 50 MB. The oldest are removed when a run begins.
    """

    def __init__(self, folder: str | Path | None = None, *, max_runs: int = 100, max_bytes: int = 500_000_000) -> None:
        self._folder = None if folder is None else Path(folder).absolute()
        self._max_runs, self._max_bytes = max_runs, max_bytes
        self._uses_state_folder = False
        self._calls_begun = 0
        self.damaged: tuple[str, ...] = ()

    @classmethod
    def of_this_machine(cls) -> Journal:
        """Return the journal used by agents and the command line, so that a later process can undo changes.

        Its folder is looked up on each use.
        """
        journal = cls()
        journal._uses_state_folder = True
        return journal

    @property
    def folder(self) -> Path | None:
        """The folder of the records; None if they are stored in memory."""
        return (state_folder() / "journal").absolute() if self._uses_state_folder else self._folder

    @property
    def _in_memory(self) -> deque[Record]:
        """The newest in-memory records. Created on demand, because most journals do not need it."""
        max_runs = min(self._max_runs, _MAX_RUNS_IN_MEMORY)
        records: deque[Record] = self.__dict__.setdefault("_records", deque(maxlen=max_runs))
        return records

    @property
    def _calls(self) -> deque[CallStore]:
        """The records of direct calls made by this process, the oldest first."""
        calls: deque[CallStore] = self.__dict__.setdefault("_made", deque())
        return calls

    def begin(self, label: str = "", run_id: str | None = None) -> Record:
        """Create a record. Nothing is written until the run changes something."""
        name = run_id or f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        if run_id and not _ID.fullmatch(name):
            raise ConfigError(f"{name!r} cannot be the id of a run: letters, digits, '-', '_' and '.', at most 100.")
        if self.folder is None:
            record = Record(name, label, InMemoryJournalStore())
            self._in_memory.append(record)
            return record
        path = f"{self.folder}/{time.time_ns():020d}~{name}{_SUFFIX}"
        return Record(name, label, FileJournalStore(path, self._prepare))

    @contextlib.contextmanager
    def one_call(self, tool: str) -> Iterator[Record]:
        """Create a record for one direct tool call; it is removed if the call changes nothing.

        These records have the same limits as those of runs, counted separately. If this process makes more of them
        within a short time, it removes the oldest.
        """
        name = f"{_CALL}{secrets.token_hex(4)}"
        store = CallStore(f"{self.folder}/{time.time_ns():020d}~{name}{_SUFFIX}", self._prepare_for_call)
        record = Record(name, f"{tool}, called directly", store)
        try:
            yield record
        except BaseException:  # recorded changes might not have been made
            with contextlib.suppress(ToolError):
                self._finish(record, store, has_changes=bool(record.changes))
            raise
        self._finish(record, store, has_changes=record.has_changes)

    def _finish(self, record: Record, store: CallStore, *, has_changes: bool) -> None:
        """Remove the record of a call that has changed nothing, and the oldest of too many others."""
        if not has_changes:
            store.remove()
            record.is_begun = False
        elif store.problem:
            record.remarks.append(f"`agentkit undo` cannot take it back: {store.problem}.")
        else:
            self._calls.append(store)
            while len(self._calls) > self._max_runs:
                self._calls.popleft().remove()

    def continued(self, label: str, run_id: str) -> Record:
        """Return the record of a resumed run, or a new one if it has changed nothing yet."""
        return self._find(run_id) or self.begin(label, run_id)

    def runs(self) -> list[Record]:
        """Return the records of runs that changed something, the oldest first.

        Invalid files are skipped; `damaged` then lists them with the reasons.
        """
        if self.folder is None:
            return [record for record in self._in_memory if record.is_begun]
        records, damaged = [], []
        for path in self._files():
            try:
                records.append(Record.load(FileJournalStore(path)))
            except ToolError as error:
                damaged.append(str(error))
        self.damaged = tuple(damaged)
        return records

    def last(self) -> Record | None:
        """Return the record of the latest run that changed something and was not undone, or None."""
        return next((record for record in reversed(self.runs()) if not record.is_undone and record.changes), None)

    def find(self, run_id: str) -> Record:
        """Return the record of a run. Raises ToolError if it does not exist."""
        known = self._find(run_id)
        if known is None:
            raise ToolError(f"The journal has no run {quote_path(run_id)}.")
        return known

    def _find(self, run_id: str) -> Record | None:
        """Return the newest record of a run, reading no other record; None if it does not exist."""
        if self.folder is None:
            return next((record for record in reversed(self.runs()) if record.id == run_id), None)
        for path in reversed(self._files(f"~{run_id}") if _ID.fullmatch(run_id) else []):
            with contextlib.suppress(ToolError):  # a damaged record
                return Record.load(FileJournalStore(path))
        return None

    def _files(self, name_end: str = "") -> list[Path]:
        """The files of records, the oldest first. Comparing names takes a third of the time of `Path.glob`."""
        folder = self.folder
        if folder is None or not folder.is_dir():
            return []
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries if each.name.endswith(f"{name_end}{_SUFFIX}"))
        return [Path(f"{folder}/{name}") for name in names]

    def _prepare_for_call(self) -> None:
        """Create the folder; old records are removed only on some calls, because that is slow. Raises ToolError."""
        self._prepare(makes_room=self._calls_begun % _CALLS_BETWEEN_CLEANUPS == 0)
        self._calls_begun += 1

    def _prepare(self, *, makes_room: bool = True) -> None:
        """Create the folder and remove old records. Raises ToolError."""
        folder = self.folder or Path()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        except OSError as error:
            raise ToolError(f"The journal cannot be stored in {str(folder)!r} ({error.strerror}){NOT_DONE}") from None
        files = self._files() if makes_room else []
        calls = [path for path in files if f"~{_CALL}" in path.name]
        for each in (calls, [path for path in files if f"~{_CALL}" not in path.name]):
            forget_oldest(each, self._max_runs, self._max_bytes)
