"""What was changed by which run, how was it before, and how is it changed back?"""

from __future__ import annotations

import contextlib
import glob
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentkit.config import state_folder
from agentkit.errors import AgentKitError, ConfigError, ToolError
from agentkit.workspace.observing import Snapshot, differences, take
from agentkit.workspace.opening import shown
from agentkit.workspace.root import Root
from agentkit.workspace.states import Change, State, net, unified
from agentkit.workspace.store import Contents, FileStore, MemoryStore, Note, Store
from agentkit.workspace.undoing import Roots, Undone, stands, undo

_SUFFIX, _SPOOL = ".journal", ".before"
_SIDES = ("before", "after")
_MOST_AFTER_BYTES = 1_000_000
_MOST_RUNS_IN_MEMORY = 10
_YOUNG_SECONDS = 3_600
_ID = re.compile(r"[\w.-]{1,100}", re.ASCII)


class Record:
    """The changes of one run. `id` tells runs apart; `label` is for people; `started` are seconds since 1970.

    A change is written down before it is made. Any thread may use it.
    """

    def __init__(self, run_id: str, label: str, store: Store, *, roots: Roots = Root) -> None:
        self.id, self.label, self.started = run_id, label, time.time()
        self._store = store
        self._roots = roots
        self._lock = threading.RLock()
        self.is_begun = False
        self._count = 0

    @classmethod
    def kept(cls, store: FileStore) -> Record:
        """The record in a file. Raises ToolError when it is none."""
        notes = [note for note, _ in store.read()]
        if not notes or "run" not in notes[0]:
            raise ToolError(f"{store.path} is not the record of a run.")
        record = cls(notes[0]["run"], notes[0]["label"], store)
        record.started, record.is_begun = notes[0]["started"], True
        record._count = sum("path" in note for note in notes)
        return record

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock; a copy in another process finds the real files."""
        return self.__dict__ | {"_lock": None, "_roots": Root}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    @contextlib.contextmanager
    def making(self, changes: Sequence[Change]) -> Iterator[None]:
        """Write changes down and then let them happen. When that raises, they count as not made."""
        with self._lock:
            first = self._write(changes)
            yield
            self._add([({"done": first, "count": len(changes)}, ())])

    @contextlib.contextmanager
    def observing(self, root: Root, tool: str) -> Iterator[None]:
        """Record whatever is changed below the root meanwhile, by whomever; what cannot be undone is noted."""
        try:
            snapshot = take(root)
        except ToolError as error:
            self.note(f"What {tool} changed cannot be undone: {error}")
            yield
            return
        kept = self._keep(snapshot, root, tool)
        try:
            yield
        finally:
            changes, left_out = differences(snapshot, root, tool)
            with self.making(changes):
                pass
            if left_out:
                self.note(f"Not all that {tool} changed can be undone: {left_out}")
            if kept is not None:
                self._add([({"watched": str(kept.path)}, ())])
                kept.remove()

    def note(self, text: str) -> None:
        """Keep a remark for whoever undoes the run."""
        self._add([({"note": text}, ())])

    @property
    def changes(self) -> tuple[Change, ...]:
        """What the run changed, one change a path; also what a command changed that its process did not survive."""
        return tuple(net(self._made()))

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be undone, or must be known before, and why."""
        notes = [note for note, _ in self._store.read()]
        ended = {note["watched"] for note in notes if "watched" in note}
        cut = [note["tool"] for note in notes if "watch" in note and note["watch"] not in ended]
        told = [note["note"] for note in notes if "note" in note]
        return (
            *told,
            *(f"{tool} was cut off: all that has changed since it began counts as its doing" for tool in cut),
        )

    @property
    def is_undone(self) -> bool:
        """Whether the run was undone."""
        return any("undone" in note for note, _ in self._store.read())

    @property
    def diff(self) -> str:
        """What the run changed, as one unified diff of bounded length."""
        return unified(self.changes)

    def undo(self) -> Undone:
        """Put everything back as it was before the run, if nothing has been changed since; else change nothing.

        Raises ToolError naming what has changed since, or that the run is undone already.
        """
        with self._lock:
            if self.is_undone:
                raise ToolError(f"The run {self.id} is undone already.")
            if isinstance(self._store, FileStore):
                self._store.mend()
            undone = undo(self._made(), self._roots, self.notes)
            self._add([({"undone": time.time()}, ())])
            return undone

    def _add(self, notes: Sequence[tuple[Note, Contents]], *, durable: bool = False) -> None:
        with self._lock:
            header: list[tuple[Note, Contents]] = []
            if not self.is_begun:
                header = [({"run": self.id, "label": self.label, "started": self.started, "version": 1}, ())]
            self._store.add([*header, *notes], durable=durable)
            self.is_begun = True

    def _write(self, changes: Sequence[Change]) -> int:
        notes: list[tuple[Note, Contents]] = []
        for change in changes:
            note = {"root": change.root, "path": change.path, "tool": change.tool, "time": change.time}
            note |= {"before": change.before.to_dict(), "after": change.after.to_dict()}
            after = change.after.content
            short = after if after is None or len(after) <= _MOST_AFTER_BYTES else None
            notes.append((note, (change.before.content, short)))
        with self._lock:
            self._add(notes, durable=True)
            first, self._count = self._count, self._count + len(changes)
        return first

    def _keep(self, snapshot: Snapshot, root: Root, tool: str) -> FileStore | None:
        """Write a snapshot beside the journal, for the case that this process does not survive the command."""
        if not isinstance(self._store, FileStore):
            return None
        self._add([])  # and with it the folder
        spool = FileStore(self._store.path.with_suffix(f".{secrets.token_hex(4)}{_SPOOL}"))
        snapshot.keep(spool)
        watch = {"watch": str(spool.path), "places": len(snapshot.places), "root": root.folder, "tool": tool}
        self._add([(watch, ())])
        return spool

    def _made(self) -> list[Change]:
        """The changes that were made, in order. Of one that nobody saw done, the disk must say whether it was."""
        changes: list[Change] = []
        done: set[int] = set()
        watches: dict[str, Note] = {}
        for note, contents in self._store.read():
            if "path" in note:
                before, after = (
                    State.from_dict(note[side], content) for side, content in zip(_SIDES, contents, strict=True)
                )
                changes.append(Change(note["root"], note["path"], before, after, note["tool"], note["time"]))
            elif "done" in note:
                done.update(range(note["done"], note["done"] + note["count"]))
            elif "watch" in note:
                watches[note["watch"]] = note
            elif "watched" in note:
                watches.pop(note["watched"], None)
        made = [change for index, change in enumerate(changes) if index in done or self._happened(change)]
        for watch in watches.values():
            made += self._unwatched(watch)
        return made

    def _happened(self, change: Change) -> bool:
        with contextlib.suppress(AgentKitError):
            return stands(self._roots(change.root), change.path, change.after)
        return False

    def _unwatched(self, watch: Note) -> list[Change]:
        """What changed while a command ran whose end nobody saw."""
        snapshot = Snapshot.kept(FileStore(Path(watch["watch"])))
        if len(snapshot.places) != watch["places"]:  # a part was lost: what stands there must not pass for new
            return []
        with contextlib.suppress(AgentKitError):
            return differences(snapshot, self._roots(watch["root"]), watch["tool"])[0]
        return []


class Journal:
    """The records of runs: in files below `folder`, which outlive the process, or in memory without one.

    At most `most_runs` records and `most_bytes` in files are kept, in memory ten records of at most 50 MB; older ones
    are forgotten when a run begins.
    """

    def __init__(
        self, folder: str | Path | None = None, *, most_runs: int = 100, most_bytes: int = 500_000_000
    ) -> None:
        self.folder = None if folder is None else Path(folder).absolute()
        self._most_runs, self._most_bytes = most_runs, most_bytes
        self._in_memory: deque[Record] = deque(maxlen=min(most_runs, _MOST_RUNS_IN_MEMORY))

    @classmethod
    def of_this_machine(cls) -> Journal:
        """Where agents and the command line keep what was there before, so that a later process can undo it."""
        return cls(state_folder() / "journal")

    def begin(self, label: str = "", run_id: str | None = None) -> Record:
        """A new record. Nothing is written until the run changes something."""
        name = run_id or f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        if not _ID.fullmatch(name):
            raise ConfigError(f"{name!r} cannot be the id of a run: letters, digits, '-', '_' and '.', at most 100.")
        if self.folder is None:
            record = Record(name, label, MemoryStore())
            self._in_memory.append(record)
            return record
        path = self.folder / f"{time.time_ns():020d}~{name}{_SUFFIX}"
        return Record(name, label, FileStore(path, self._prepare))

    def runs(self) -> list[Record]:
        """The records of runs that changed something, the oldest first."""
        if self.folder is None:
            return [record for record in self._in_memory if record.is_begun]
        records = []
        for path in self._files():
            with contextlib.suppress(ToolError):
                records.append(Record.kept(FileStore(path)))
        return records

    def last(self) -> Record | None:
        """The record of the latest run that changed something and was not undone, None when there is none."""
        return next((record for record in reversed(self.runs()) if not record.is_undone and record.changes), None)

    def find(self, run_id: str) -> Record:
        """The record of a run. Raises ToolError when there is none."""
        for record in reversed(self.runs()):
            if record.id == run_id:
                return record
        raise ToolError(f"The journal has no run {shown(run_id)}.")

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{_SUFFIX}")) if self.folder else []

    def _prepare(self) -> None:
        """Make the folder, and room in it. Raises ToolError."""
        folder = self.folder or Path()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        except OSError as error:
            reason = f"The journal cannot be kept in {str(folder)!r} ({error.strerror}), so nothing was done."
            raise ToolError(reason) from None
        self._forget()

    def _forget(self) -> None:
        """Remove the oldest records beyond the limits; not the young ones, whose runs may still go on."""
        left, count = self._most_bytes, self._most_runs
        for path in reversed(self._files()):
            with contextlib.suppress(FileNotFoundError):  # another process may be forgetting too
                status = path.stat()
                left, count = left - status.st_size, count - 1
                if min(left, count) < 0 and time.time() - status.st_mtime > _YOUNG_SECONDS:
                    for each in path.parent.glob(f"{glob.escape(path.stem)}*"):
                        each.unlink(missing_ok=True)
