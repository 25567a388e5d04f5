"""`Workspace`: the files of one folder, whose changes are journalled; dry runs use an overlay."""

from __future__ import annotations

import contextlib
import errno
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.errors import Blocked, ToolError
from agentkit.event_rendering import one_line
from agentkit.text_encoding import DecodedText, split_lines
from agentkit.undo import Undone, add_record
from agentkit.workspace.journal import Journal, Record
from agentkit.workspace.journal_store import InMemoryJournalStore
from agentkit.workspace.root import (
    MAX_KEPT_BYTES,
    MAX_READ_BYTES,
    MAX_WRITTEN_BYTES,
    Check,
    DirectoryEntry,
    FileContent,
    Root,
)
from agentkit.workspace.safe_open import Opener, quote_path, to_tool_error
from agentkit.workspace.snapshots import ABSENT, FOLDER, FileChange, State, unified_diff
from agentkit.workspace.text import LineRange, decode, redact_text, select

if TYPE_CHECKING:
    from agentkit.workspace.search import Matches, Query


class Overlay(Root):
    """A root whose changes never reach the disk."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._states: dict[str, State] = {}

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES, *, check: Check | None = None) -> FileContent:
        """Read the first bytes of a file in the overlay."""
        self.file_components(path)
        _, place = self.locate(path)
        state = self._states.get(place)
        if state is None:
            return super().read(path, max_bytes, check=check)
        if check:
            check(place)
        if state.kind != "file":
            raise ToolError(f"File {quote_path(path)} does not exist.")
        content = state.content or b""
        return FileContent(place, content[:max_bytes], len(content), 1)

    def inspect(self, place: str, max_bytes: int = MAX_KEPT_BYTES) -> State:
        """Return the state of a path in the overlay."""
        return self._states.get(place) or super().inspect(place, max_bytes)

    def missing_folders(self, path: str) -> tuple[str, list[str]]:
        """Return the real path of a file, and the folders that would have to be created."""
        place, folders = super().missing_folders(path)
        kinds = {folder: self._states.get(folder, ABSENT).kind for folder in folders}
        if not {*kinds.values()} <= {"absent", "folder"}:
            raise to_tool_error(NotADirectoryError(errno.ENOTDIR, ""), path)
        return place, [folder for folder in folders if kinds[folder] == "absent"]

    def write(self, place: str, content: bytes, mode: int | None = None) -> None:
        """Write a file to the overlay."""
        old = self.inspect(place, 0)
        if old.kind == "link":
            raise Blocked(f"{quote_path(place)} is a symbolic link; name the file that it leads to.")
        if old.kind not in ("absent", "file"):
            raise ToolError(
                f"{quote_path(place)} is {'a folder' if old.kind == 'folder' else 'a special file'}, not a file."
            )
        self._states[place] = State.of("file", content, mode or old.mode or 0o644)

    def make_folder(self, place: str) -> None:
        """Create a folder in the overlay."""
        if self.inspect(place, 0).kind != "absent":
            raise to_tool_error(FileExistsError(errno.EEXIST, ""), place)
        self._states[place] = FOLDER

    def remove(self, place: str) -> None:
        """Mark a path as removed."""
        self._states[place] = ABSENT

    def entries(self, path: str, *, check: Check | None = None) -> tuple[str, list[DirectoryEntry]]:
        """Return the real path of a folder and its entries in the overlay, by name."""
        _, place = self.locate(path)
        names: dict[str, DirectoryEntry] = {}
        if self._states.get(place) is None:
            place, entries = super().entries(path, check=check)
            names = {entry.name: entry for entry in entries}
        elif self._states[place].kind != FOLDER.kind:
            raise ToolError(f"Folder {quote_path(path)} does not exist.")
        for each, state in self._states.items():
            folder, _, name = each.rpartition("/")
            if folder == place:
                names[name] = DirectoryEntry(name, state.kind)
        return place, sorted((e for e in names.values() if e.kind != ABSENT.kind), key=lambda entry: entry.name)

    def files(self, path: str = ".", skip: Collection[str] = ()) -> Iterator[tuple[str, int]]:
        """Yield the paths of the files below a folder in the overlay, with their sizes."""
        _, inside = self.locate(path)
        sizes = dict(super().files(path, skip)) if inside not in self._states else {}
        for place, state in self._states.items():
            sizes.pop(place, None)
            is_inside = not inside or f"{place}/".startswith(f"{inside}/")
            if state.kind == "file" and is_inside and not set(place.split("/")).intersection(skip):
                sizes[place] = state.size
        yield from sorted(sizes.items())


_MAX_DIFF_CHARS = 10_000
_MAX_COMPARED_LINES, _MAX_SIMILAR_LINES = 5_000, 200
_MAX_COMPARING_SECONDS = 0.3
_SIMILAR = 0.6
_MAX_LINE_CHARS = 200
_MAX_ALIGNED = 50
_LINE_NUMBER = re.compile(r"\d{1,6} ?[\t:|→] ?")
_WRITABLE = 0o222

Remarks = list[str]


@dataclass(frozen=True, slots=True)
class FileText:
    """Lines of a file, its size in bytes, its encoding, and whether the file itself is text.

    `note` states damage, and how certain a detected encoding is.
    """

    lines: LineRange
    size: int
    encoding: str
    is_text: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write: the new size in bytes, the change, and a note if it cannot be undone later."""

    size: int
    change: FileChange
    note: str = ""

    @property
    def path(self) -> str:
        """The real path of the file."""
        return self.change.path

    @property
    def before(self) -> State:
        """The state before the write."""
        return self.change.before

    @property
    def diff(self) -> str:
        """The change as a unified diff, limited in length."""
        return unified_diff([self.change], _MAX_DIFF_CHARS)

    @property
    def full_diff(self) -> str:
        """The change as a unified diff; of a very large change, only its size."""
        return unified_diff([self.change])


class Workspace:
    """A folder that file tools can access, by default the current folder at each call.

    Changes are recorded in `journal`, by default one in memory, under one run: `changes` is their diff, `undo` reverts
    them. With `dry_run` they stay in memory and are visible to reads, and the disk is unchanged. Thread-safe. Raises
    ConfigError if the folder does not exist; the methods raise ToolError, and Blocked for paths outside.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        journal: Journal | None = None,
        run: Record | None = None,
        dry_run: bool = False,
        opener: Opener | None = None,
    ) -> None:
        self.journal = Journal() if journal is None else journal
        self.dry_run = dry_run
        self._opener = opener
        self._lock = threading.RLock()
        self._fixed = None if root is None else Root(root, opener=opener)
        self._roots: dict[str, Root] = {}
        self.begun_record = run
        """The record, once the run has changed something, or if it could have done so before it was resumed."""
        self._run_id: str | None = None
        self._label = "changes without a run"
        self._records_calls = False

    @classmethod
    def for_direct_calls(cls, root: str | Path | None = None) -> Workspace:
        """Create a workspace for tools called directly by a program: each change has its own record.

        The records are stored on this machine, where `agentkit undo` finds them. A change that cannot be recorded there
        is made anyway, with a note.
        """
        workspace = cls(root, journal=Journal.of_this_machine())
        workspace._records_calls = True
        return workspace

    def __getstate__(self) -> dict[str, Any]:
        """Exclude the lock; a copy in another process uses the real files."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def for_run(
        self, run_id: str | None = None, label: str = "", *, dry_run: bool | None = None, is_new: bool = False
    ) -> Workspace:
        """Return a workspace with the same folder and journal for one run, whose changes are undone together.

        With `is_new`, the run has no earlier record under that id, and one begins with the first change.
        """
        is_dry = self.dry_run if dry_run is None else dry_run
        workspace = Workspace(journal=self.journal, dry_run=is_dry, opener=self._opener)
        workspace._fixed, workspace._lock = self._fixed, self._lock
        workspace._run_id, workspace._label = run_id, label
        if run_id is not None and not is_new and not is_dry:
            workspace.begun_record = self.journal.continued(label, run_id)
        return workspace

    @property
    def is_fixed(self) -> bool:
        """Whether it is a fixed folder, rather than the current folder at each call."""
        return self._fixed is not None

    @property
    def folder(self) -> str:
        """The absolute path of the folder, without links."""
        return self._root().folder

    @property
    def spellings(self) -> tuple[str, ...]:
        """The folder's absolute paths: the real one, and the one as given."""
        return self._root().spellings

    @property
    def record(self) -> Record:
        """The record of the changes, in order."""
        with self._lock:
            if self.begun_record is None:
                self.begun_record = self._new_record()
            return self.begun_record

    @property
    def record_id(self) -> str:
        """The id of the record, which begins with the first change."""
        return self._run_id or self.record.id

    @property
    def changes(self) -> str:
        """The changes of the run as one unified diff, limited in length."""
        return "" if self.begun_record is None else self.begun_record.diff

    def undo(self) -> Undone:
        """Revert all changes of the run, or nothing. Raises ToolError naming what was changed since."""
        with self._lock:
            return self.record.undo()

    def name(self, path: str) -> str:
        """Normalise a path relative to the folder, without file access."""
        return self._root().name(_expand_home(path))

    def locate(self, path: str) -> tuple[str, str]:
        """Return the normalised path, and the real path with links resolved, both relative to the folder."""
        return self._root().locate(_expand_home(path))

    def read(
        self,
        path: str,
        offset: int | None = None,
        limit: int | None = None,
        *,
        column: int | None = None,
        check: Check | None = None,
        words: Callable[[bytes], str | None] | None = None,
    ) -> FileText:
        """Read lines of a text file without its secrets, from line `offset` on (counted from 1), at most `limit`.

        The first line begins at character `column` (counted from 1). `words` extracts the text of a file that is not
        text, or returns None.
        """
        found = self._root().read(_expand_home(path), check=check)
        is_whole = found.size <= len(found.content)
        extracted = words(found.content) if words is not None and is_whole else None
        text = decode(found.content, quote_path(path), found.size) if extracted is None else DecodedText(extracted)
        lines = select(redact_text(text.text), offset, limit, column=column, complete=is_whole)
        return FileText(lines, found.size, text.encoding, is_text=extracted is None, note=text.note)

    def write(self, path: str, content: str, *, tool: str = "write_file", check: Check | None = None) -> WriteResult:
        """Write a file, creating its folders."""
        return self._write(_expand_home(path), _encode(content), tool, check)

    def edit(
        self, path: str, old_text: str, new_text: str, *, tool: str = "edit_file", check: Check | None = None
    ) -> WriteResult:
        """Replace the only occurrence of `old_text`. Raises ToolError if it occurs never or several times."""
        with self._lock:
            place, content = self._plan_edit(path, old_text, new_text, check)
            return self._write(place, content, tool, check)

    def preview_write(self, path: str, content: str) -> WriteResult:
        """Return the result that `write` would have now, without writing. Raises ToolError if it would fail."""
        with self._lock:
            return self._preview(_expand_home(path), _encode(content), "write_file")

    def preview_edit(self, path: str, old_text: str, new_text: str) -> WriteResult:
        """Return the result that `edit` would have now, without writing. Raises ToolError if it would fail."""
        with self._lock:
            place, content = self._plan_edit(path, old_text, new_text, None)
            return self._preview(place, content, "edit_file")

    def _preview(self, path: str, content: bytes, tool: str) -> WriteResult:
        _, _, change = self._plan_write(path, content, tool, None)
        if change.before.kind not in ("absent", "file"):
            kind = {"folder": "a folder", "link": "a link"}.get(change.before.kind, "a special file")
            raise ToolError(f"{quote_path(path)} is {kind}, not a file.")
        return WriteResult(len(content), change)

    def _plan_edit(self, path: str, old_text: str, new_text: str, check: Check | None) -> tuple[str, bytes]:
        """The real path of a file and its content after an edit. Raises ToolError if the edit is not possible."""
        _encode(new_text)
        found = self._root().read(_expand_home(path), MAX_WRITTEN_BYTES + 1, check=check)
        if found.size > MAX_WRITTEN_BYTES:
            raise ToolError(
                f"{quote_path(path)} has {found.size:,} bytes; at most {MAX_WRITTEN_BYTES:,} can be edited."
            )
        text = decode(found.content, quote_path(path), errors="surrogateescape")
        if text.encode(text.text) != found.content:
            raise ToolError(
                f"{quote_path(path)} cannot be edited: decoding it as {text.encoding} and encoding it again changes "
                "its bytes."
            )
        replaced = _replace_once(text, old_text, new_text, path)
        if replaced is None:
            raise ToolError(
                f"old_text does not occur in {quote_path(path)}. {_closest(redact_text(text.text), old_text)}"
            )
        return found.path, text.encode(replaced)

    def count(self, path: str, piece: str) -> int:
        """Count the occurrences of a text in a file, without redaction; 0 if the file is not text or not readable."""
        try:
            found = self._root().read(_expand_home(path))
            return decode(found.content, quote_path(path), found.size).text.count(piece)
        except ToolError:
            return 0

    def list(self, path: str = ".", *, check: Check | None = None) -> list[DirectoryEntry]:
        """List a folder, by name."""
        return self._root().entries(_expand_home(path), check=check)[1]

    def search(self, query: Query) -> Matches:
        """Search the files for a regular expression."""
        from agentkit.workspace.search import search

        return search(self._root(), replace(query, path=_expand_home(query.path)))

    @contextlib.contextmanager
    def observing(
        self,
        tool: str,
        guaranteed: Collection[str] = (),
        possible: Collection[str] = (),
        *,
        repository: str | None = None,
    ) -> Iterator[Remarks]:
        """Record the changes during the block, for a tool that changes files by itself.

        Paths matching the patterns in `guaranteed` (see `snapshot_matches`) can be restored, or ToolError is raised
        before the block runs. Those in `possible` are recorded as far as possible, even if the whole workspace is too
        large. With the folder of a git repository, its branches and index are recorded as well. Yields a list that
        afterwards contains what cannot be undone of a direct call.
        """
        if self.dry_run:
            raise ToolError(f"{tool} changes files directly, which a dry run cannot prevent.")
        remarks: Remarks = []
        with (
            self._recording(tool) as record,
            record.observing(self._root(), tool, guaranteed, possible),
            self._observing_repository(record, tool, repository),
        ):
            yield remarks
        remarks += record.remarks if self._records_calls else ()

    def _observing_repository(
        self, record: Record, tool: str, repository: str | None
    ) -> contextlib.AbstractContextManager[None]:
        if repository is None:
            return contextlib.nullcontext()
        return record.observing(Root(repository, opener=self._opener), tool, is_repository=True)

    @contextlib.contextmanager
    def _recording(self, tool: str) -> Iterator[Record]:
        """Yield the record for a change: that of the run, or a new one for a direct call."""
        if not self._records_calls:
            yield self.record
            return
        with self.journal.one_call(tool) as record:
            yield record
        if record.is_begun:
            add_record(record)

    def unrestorable(self, patterns: Collection[str]) -> str:
        """Return why `undo` could not restore what the patterns match if it were deleted now; "" if it could."""
        with self._recording("undo") as record:  # stays empty, so it is removed
            return record.unrestorable(self._root(), patterns)

    def ambiguous_name(self) -> str:
        """The reason why a name in the workspace could be read as an option, or ""."""
        from agentkit.workspace.restorable import ambiguous_name

        return ambiguous_name(self._root())

    def record_removed(self, states: Sequence[tuple[str, State]], tool: str) -> None:
        """Record files that a tool created and removed again, so that their contents are not lost."""
        folder, now = self._root().folder, time.time()
        with self._recording(tool) as record:
            for before, after in ((False, True), (True, False)):
                changes = [
                    FileChange(folder, path, state if before else ABSENT, state if after else ABSENT, tool, now)
                    for path, state in states
                ]
                with record.making(changes):
                    pass

    def _write(self, path: str, content: bytes, tool: str, check: Check | None) -> WriteResult:
        with self._lock:
            root, folders, change = self._plan_write(path, content, tool, check)
            if not change.after.is_like(change.before):
                made = [FileChange(root.folder, folder, ABSENT, FOLDER, tool, change.time) for folder in folders]
                with self._recording(tool) as record, record.making([*made, change]), _created_folders(root, folders):
                    root.write(change.path, content)
                return WriteResult(len(content), change, " ".join(record.remarks) if self._records_calls else "")
        return WriteResult(len(content), change)

    def _plan_write(
        self, path: str, content: bytes, tool: str, check: Check | None
    ) -> tuple[Root, Sequence[str], FileChange]:
        """The change that writing a file makes, and the folders it needs. Raises ToolError if it is not possible."""
        if len(content) > MAX_WRITTEN_BYTES:
            raise ToolError(f"The content has {len(content):,} bytes; at most {MAX_WRITTEN_BYTES:,} can be written.")
        root = self._root()
        place, folders = root.missing_folders(path)
        if check:
            check(place)
        before = root.inspect(place)
        # Refuse to replace a file that is read-only or too large to be restored
        if before.kind == "file" and before.content is None:
            reason = (
                f"{quote_path(path)} has {before.size:,} bytes, too many to store, so the change could not be undone"
            )
            raise ToolError(f"{reason}; write another file, or replace it with the shell when the user approves.")
        if before.kind == "file" and not before.mode & _WRITABLE:
            raise ToolError(f"{quote_path(path)} is read-only.")
        change = FileChange(root.folder, place, before, State.of("file", content, before.mode), tool, time.time())
        return root, folders, change

    def _root(self) -> Root:
        """Return the current folder's root; a dry run uses an overlay per folder."""
        root = self._fixed
        folder = str(Path.cwd()) if root is None else root.folder
        if root is not None and not self.dry_run:
            return root
        with self._lock:
            if folder not in self._roots:
                self._roots[folder] = Overlay(folder) if self.dry_run else Root(folder, opener=self._opener)
            return self._roots[folder]

    def _new_record(self) -> Record:
        label = one_line(self._label)
        if not self.dry_run:
            return self.journal.begin(label, self._run_id)
        return Record(self._run_id or "dry-run", label, InMemoryJournalStore(), roots=self._roots.__getitem__)


def _encode(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise ToolError("The content has lone surrogates, which no file can contain.") from None


def _expand_home(path: str) -> str:
    """Expand `~` at the start of a path to the user's home, so that no folder of that name is created."""
    if not path.startswith("~"):
        return path
    with contextlib.suppress(RuntimeError):  # no user has this name
        return str(Path(path).expanduser()) + ("/" if path.endswith("/") else "")
    return path


@contextlib.contextmanager
def _created_folders(root: Root, folders: Sequence[str]) -> Iterator[None]:
    """Create folders, and remove them again if the block fails."""
    made: list[str] = []
    try:
        for folder in folders:
            root.make_folder(folder)
            made.append(folder)
        yield
    except ToolError:
        for folder in reversed(made):
            with contextlib.suppress(ToolError):  # another process can be using it by now
                root.remove(folder)
        raise


def _replace_once(text: DecodedText, old_text: str, new_text: str, path: str) -> str | None:
    """Return the text with the only occurrence replaced, or None without one. Adapts to the file's line endings."""
    if not old_text:
        raise ToolError("old_text is empty; give the text to replace.")
    whole = text.text
    if old_text not in whole and "\r\n" in whole:
        old_text, new_text = (each.replace("\r\n", "\n").replace("\n", "\r\n") for each in (old_text, new_text))
    count = whole.count(old_text)
    if count == 1:
        return whole.replace(old_text, new_text)
    if count > 1:
        lines = [str(whole.count("\n", 0, at) + 1) for at in _places(whole, old_text)]
        where = f"{', '.join(lines)}{' and more' if count > len(lines) else ''}"
        advice = "give more of the text around the right place"
        raise ToolError(f"old_text occurs {count:,} times in {quote_path(path)} (lines {where}); {advice}.")
    return None


def _places(whole: str, old_text: str) -> list[int]:
    places = [whole.find(old_text)]
    while len(places) < 10 and (at := whole.find(old_text, places[-1] + 1)) >= 0:
        places.append(at)
    return places


def _closest(whole: str, old_text: str) -> str:
    """Describe the lines that look most like those of the text."""
    target = [line.strip() for line in split_lines(old_text.strip("\n"))]
    lines = split_lines(whole)[:_MAX_COMPARED_LINES]
    first = next((line for line in target if line), "")
    if _LINE_NUMBER.match(first) and _LINE_NUMBER.sub("", first) in map(str.strip, lines):
        return "Its lines begin with numbers, which are not in the file: leave them out."
    no_match = "No line is similar to its first line; read the file again."
    return _aligned_text(target, lines) or _similar_text(first, lines) or no_match


def _aligned_text(target: Sequence[str], lines: Sequence[str]) -> str:
    """Return the best match among the places whose first line equals the first wanted one, ignoring blanks."""
    starts = [number for number, line in enumerate(lines) if target and target[0] and line.strip() == target[0]]
    if not starts:
        return ""

    def similarity(start: int) -> int:
        return sum(line.strip() == other for line, other in zip(lines[start:], target[:_MAX_ALIGNED], strict=False))

    start = max(starts[:_MAX_ALIGNED], key=similarity)
    found = lines[start : start + len(target)][:_MAX_ALIGNED]
    place = f"are lines {start + 1:,} to {start + len(found):,}" if len(found) > 1 else f"is line {start + 1:,}"
    suffix = ", identical except for blanks" if similarity(start) == len(target) else ""
    return f"Closest {place}{suffix}:\n" + "\n".join(line[:_MAX_LINE_CHARS] for line in found)


def _similar_text(line_to_match: str, lines: Sequence[str]) -> str:
    """Describe the lines similar to one; empty without any."""
    short = [line[:_MAX_LINE_CHARS] for line in lines]
    close = _similar_lines(
        line_to_match[:_MAX_LINE_CHARS], list(dict.fromkeys(line.strip() for line in short if line.strip()))
    )
    numbered = [f"{number}: {line}" for number, line in enumerate(short, 1) if line.strip() in close]
    return "The closest lines are:\n" + "\n".join(numbered[:5]) if close else ""


def _similar_lines(line_to_match: str, lines: Sequence[str]) -> list[str]:
    """Return up to three similar lines, the most similar first, within a short time limit."""
    import difflib

    deadline = time.monotonic() + _MAX_COMPARING_SECONDS
    matcher = difflib.SequenceMatcher(b=line_to_match)
    ratios: dict[str, float] = {}
    for line in lines:
        if len(ratios) == _MAX_SIMILAR_LINES or time.monotonic() > deadline:
            break
        matcher.set_seq1(line)
        if min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= _SIMILAR:
            ratios[line] = matcher.ratio()
    ordered = sorted(ratios, key=ratios.__getitem__, reverse=True)
    return [line for line in ordered if ratios[line] >= _SIMILAR][:3]
