"""Read-only access to SQLite databases in WAL mode.

The workspace of such a command is mounted read-only, so SQLite cannot create `app.db-shm`. The folder of the database
is therefore replaced by an empty one in memory that shows all its entries, each read-only: files can be created in it,
and are gone after the command.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from agentkit.sandbox.mounts import Mount

_WORD = re.compile(r"[^\s'\"|&;<>()=$`,]+")
_HEADER, _MODE, _WAL = b"SQLite format 3\0", slice(18, 20), b"\2\2"
_MAX_WORDS, _MAX_ENTRIES, _MAX_FOLDERS = 500, 300, 5


def folders_to_open(command: str, folder: str) -> list[str]:
    """The folders of the databases that a command names and that cannot be opened without creating files.

    Those with more than 300 entries are left out; opening such a database fails as before.
    """
    words = list(dict.fromkeys(_WORD.findall(command)))[:_MAX_WORDS]
    found: dict[str, None] = {}
    for path in _files_named(words, folder):
        parent = os.path.dirname(path)
        has_both = os.path.exists(f"{path}-wal") and os.path.exists(f"{path}-shm")
        if parent not in found and not has_both and _is_in_wal_mode(path) and len(os.listdir(parent)) <= _MAX_ENTRIES:
            found[parent] = None
    return [*found][:_MAX_FOLDERS]


def _files_named(words: list[str], folder: str) -> Iterator[str]:
    """The real paths of files in the workspace that these words name, also below other folders that are named."""
    bases = [folder, *(path for word in words if os.path.isdir(path := os.path.join(folder, word)))]
    for base in bases[:_MAX_FOLDERS]:
        for word in words:
            path = os.path.realpath(os.path.join(base, word.removeprefix("file:").partition("?")[0]))
            if path.startswith(f"{folder}/") and os.path.isfile(path):
                yield path


def _is_in_wal_mode(path: str) -> bool:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        start = file.read(_MODE.stop)
        return start.startswith(_HEADER) and start[_MODE] == _WAL
    return False


def opened(folder: str, size: int) -> list[Mount]:
    """The mounts that replace a folder by one in memory, in which every entry of it is shown read-only."""
    mounts: list[Mount] = [("tmpfs", folder, str(size))]
    with os.scandir(folder) as scan:
        for entry in sorted(scan, key=lambda each: each.name):
            if entry.is_symlink():
                mounts.append(("link", entry.path, os.readlink(entry.path)))
            elif entry.is_file() or entry.is_dir():
                mounts.append(("ro", entry.path, entry.path))
    return mounts
