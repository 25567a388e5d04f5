"""What do the notes of a run tell of it? Its changes in order, and how far each of them came."""

from __future__ import annotations

from dataclasses import field, replace

from agentkit.errors import ToolError
from agentkit.slotted import dataclass
from agentkit.workspace.recording.store import Contents, Note, Store
from agentkit.workspace.states import Change, State

_SIDES = ("before", "after")
_TEXT, _WHOLE, _NUMBER = (str,), (int,), (int, float)
_KINDS_OF_NOTES: dict[str, dict[str, tuple[type, ...]]] = {
    "run": {"run": _TEXT, "label": _TEXT, "started": _NUMBER},
    "path": {"root": _TEXT, "path": _TEXT, "tool": _TEXT, "time": _NUMBER, "before": (dict,), "after": (dict,)},
    "done": {"done": _WHOLE, "count": _WHOLE},
    "watch": {"watch": _TEXT, "places": _WHOLE, "root": _TEXT, "tool": _TEXT},
    "watched": {"watched": _TEXT},
    "note": {"note": _TEXT},
    "undone": {"undone": _NUMBER},
}
"""By its first key, what a note must have."""


@dataclass(slots=True)
class History:
    """What a record tells: changes in order, which of them were seen done or are undone, commands without an end."""

    changes: list[Change] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    undone: set[int] = field(default_factory=set)
    watches: dict[str, Note] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    is_undone: bool = False

    def add(self, note: Note, contents: Contents) -> None:
        """Take a note in. Raises ToolError when it is none."""
        kind = kind_of(note)
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
            self.told.append(note["note"])
        elif kind == "undone":
            count = note["count"] if type(note.get("count")) is int else len(self.changes)
            self.undone = set(range(len(self.changes))[:count]).difference(_indices(note.get("pending")))
            self.is_undone = count == len(self.changes)

    def _finish(self, note: Note) -> None:
        """Changes are done; those that were pending when the run was undone, too, are now there to be undone."""
        done = range(max(note["done"], 0), min(note["done"] + note["count"], len(self.changes)))
        self.done.update(done)
        if not self.undone.issuperset(done):
            self.is_undone = False
        modes = note.get("modes")
        for index, mode in zip(done, modes if isinstance(modes, list) else (), strict=False):
            change = self.changes[index]
            if type(mode) is int and change.after.kind == "file":
                self.changes[index] = replace(change, after=replace(change.after, mode=mode))


def history_in(store: Store) -> History:
    """What a store tells of a run. Raises ToolError for a note that is none."""
    history = History()
    for note, contents in store.read():
        history.add(note, contents)
    return history


def kind_of(note: Note) -> str:
    """The key that tells what a note is for, "" for one without. Raises ToolError when the rest does not fit."""
    kind = next((key for key in ("run", "watch", "path", *_KINDS_OF_NOTES) if key in note), "")
    for name, types in _KINDS_OF_NOTES.get(kind, {}).items():
        if type(note.get(name)) not in types:
            raise ToolError(f"A note of the kind {kind!r} has no {name!r} of the right kind.")
    return kind


def _change(note: Note, contents: Contents) -> Change:
    if len(contents) != len(_SIDES):
        raise ToolError("A change has no two contents.")
    before, after = (State.from_dict(note[side], content) for side, content in zip(_SIDES, contents, strict=True))
    return Change(note["root"], note["path"], before, after, note["tool"], note["time"])


def _indices(values: object) -> list[int]:
    return [value for value in values if type(value) is int] if isinstance(values, list) else []
