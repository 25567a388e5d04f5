"""What would the workspace look like? Changes are kept in memory and seen by whoever reads; the disk stays as it is."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator

from agentkit.errors import Blocked, ToolError
from agentkit.workspace.opening import explained, shown
from agentkit.workspace.root import MOST_KEPT_BYTES, MOST_READ_BYTES, Check, Entry, Found, Root
from agentkit.workspace.states import ABSENT, FOLDER, State


class Overlay(Root):
    """A root whose changes never reach the disk."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._states: dict[str, State] = {}

    def read(self, path: str, most_bytes: int = MOST_READ_BYTES, *, check: Check | None = None) -> Found:
        """The first bytes of a file, as it would be."""
        self.named(path)
        _, place = self.locate(path)
        state = self._states.get(place)
        if state is None:
            return super().read(path, most_bytes, check=check)
        if check:
            check(place)
        if state.kind != "file":
            raise ToolError(f"There is no file {shown(path)}.")
        content = state.content or b""
        return Found(place, content[:most_bytes], len(content), 1)

    def inspect(self, place: str, most_bytes: int = MOST_KEPT_BYTES) -> State:
        """What would stand at a place."""
        return self._states.get(place) or super().inspect(place, most_bytes)

    def missing_folders(self, path: str) -> tuple[str, list[str]]:
        """The real place of a path, and which folders would have to be made."""
        place, folders = super().missing_folders(path)
        kinds = {folder: self._states.get(folder, ABSENT).kind for folder in folders}
        if not {*kinds.values()} <= {"absent", "folder"}:
            raise explained(NotADirectoryError(errno.ENOTDIR, ""), path)
        return place, [folder for folder in folders if kinds[folder] == "absent"]

    def write(self, place: str, content: bytes, mode: int | None = None) -> None:
        """Remember a file."""
        old = self.inspect(place, 0)
        if old.kind == "link":
            raise Blocked(f"{shown(place)} is a symbolic link; name the file that it leads to.")
        if old.kind not in ("absent", "file"):
            raise ToolError(
                f"{shown(place)} is {'a folder' if old.kind == 'folder' else 'a special file'}, not a file."
            )
        self._states[place] = State.of("file", content, mode or old.mode or 0o644)

    def make_folder(self, place: str) -> None:
        """Remember a folder."""
        if self.inspect(place, 0).kind != "absent":
            raise explained(FileExistsError(errno.EEXIST, ""), place)
        self._states[place] = FOLDER

    def remove(self, place: str) -> None:
        """Remember that something is gone."""
        self._states[place] = ABSENT

    def entries(self, path: str, *, check: Check | None = None) -> tuple[str, list[Entry]]:
        """The real place of a folder, and what would be in it by name."""
        _, place = self.locate(path)
        names: dict[str, Entry] = {}
        if self._states.get(place) is None:
            place, entries = super().entries(path, check=check)
            names = {entry.name: entry for entry in entries}
        elif self._states[place].kind != FOLDER.kind:
            raise ToolError(f"There is no folder {shown(path)}.")
        for each, state in self._states.items():
            folder, _, name = each.rpartition("/")
            if folder == place:
                names[name] = Entry(name, state.kind)
        return place, sorted((e for e in names.values() if e.kind != ABSENT.kind), key=lambda entry: entry.name)

    def files(self, path: str = ".", skip: Collection[str] = ()) -> Iterator[tuple[str, int]]:
        """The places of the files that would be below a folder, with their sizes."""
        _, inside = self.locate(path)
        sizes = dict(super().files(path, skip)) if inside not in self._states else {}
        for place, state in self._states.items():
            sizes.pop(place, None)
            is_inside = not inside or f"{place}/".startswith(f"{inside}/")
            if state.kind == "file" and is_inside and not set(place.split("/")).intersection(skip):
                sizes[place] = state.size
        yield from sorted(sizes.items())
