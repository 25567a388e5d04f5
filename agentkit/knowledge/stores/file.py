"""How is one SQLite file shared by threads and processes, and what is said when it cannot be?"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentkit.errors import SessionError
from agentkit.knowledge.stores.store import SCHEMA_VERSION

WAIT_SECONDS = 30.0
_APPLICATION = 0x41_4B_4B_4E
"""Marks a database as one of knowledge: AKKN."""

_SCHEMA = (
    "CREATE TABLE documents (id INTEGER PRIMARY KEY, space TEXT NOT NULL, source TEXT NOT NULL, title TEXT NOT NULL,"
    " kind TEXT NOT NULL, fingerprint TEXT NOT NULL, added REAL NOT NULL, metadata TEXT NOT NULL,"
    " UNIQUE (space, source))",
    # A number is never given twice, so that one that was found cannot mean another passage a moment later.
    "CREATE TABLE passages (id INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL REFERENCES documents,"
    " text TEXT NOT NULL, section TEXT NOT NULL, first_line INTEGER, last_line INTEGER, page INTEGER, vector BLOB)",
    "CREATE INDEX passages_of_document ON passages (document)",
    "CREATE TABLE places (space TEXT NOT NULL, place TEXT NOT NULL, metadata TEXT NOT NULL,"
    " PRIMARY KEY (space, place))",
    "CREATE VIRTUAL TABLE words USING fts5 (heading, text, variants,"
    " tokenize = 'porter unicode61 remove_diacritics 0')",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
_REMEDIES = (
    ("SQLITE_FULL", "the disk is full; nothing was changed. Make room and try again"),
    ("SQLITE_NOTADB", "the file is not a database; name another one"),
    ("SQLITE_CORRUPT", "the file is damaged; put back a copy, or remove it and add the documents again"),
    ("SQLITE_BUSY", "another process has kept it locked for long; try again"),
    ("SQLITE_READONLY", "it may only be read; check the permissions of the file and its folder"),
    ("SQLITE_CANTOPEN", "it cannot be opened; check that its folder is there and may be written to"),
    ("SQLITE_IOERR", "the disk failed to read or write it"),
)


class DatabaseFile:
    """A database in one file, opened when it is first used. One connection serves all threads of a process."""

    def __init__(self, place: str, wait_seconds: float = WAIT_SECONDS) -> None:
        self.place = place if place == ":memory:" else str(Path(place).expanduser().absolute())
        self._wait_seconds = wait_seconds
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int, int] = (0, 0, 0)
        self._inherited: list[sqlite3.Connection] = []

    @property
    def is_kept(self) -> bool:
        """Whether there is a file at all."""
        return self.place != ":memory:"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it consists of."""
        return tuple(f"{self.place}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")) if self.is_kept else ()

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone. Raises SessionError for what goes wrong with the file."""
        with self._lock:
            try:
                yield self._connected()
            except sqlite3.Error as error:
                raise SessionError(f"The knowledge in {self.place} cannot be read or written: {told(error)}.") from None
            except OSError as error:
                raise SessionError(f"The knowledge in {self.place} cannot be kept: {error.strerror}.") from None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it or nothing."""
        with self.using() as connection, _transaction(connection):
            yield connection

    def empty_log(self) -> None:
        """Let what was deleted vanish from the log, too, unless somebody is reading just now."""
        with self.using() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the file; the next use opens it again, except that what was in memory is lost."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and self._opened[0] == os.getpid():
                connection.close()

    def _connected(self) -> sqlite3.Connection:
        """The connection of this process to the file that is there now."""
        found = self._found()
        if self._connection is not None and self._opened != found:
            if self._opened[0] == os.getpid():  # the file was removed, or another put in its place
                self.close()
            else:
                self._inherited.append(self._connection)  # closing it here would harm the parent
                self._connection = None
        if self._connection is None:
            if self.is_kept:
                _make_file(Path(self.place))
            connection = _connect(self.place, self._wait_seconds)
            self._connection, self._opened = connection, self._found()
            weakref.finalize(self, _close, connection, os.getpid())
        return self._connection

    def _found(self) -> tuple[int, int, int]:
        """Which process, and which file."""
        try:
            found = os.lstat(self.place) if self.is_kept else None
        except FileNotFoundError:
            found = None
        return (os.getpid(), found.st_dev, found.st_ino) if found else (os.getpid(), 0, 0)


def _connect(place: str, wait_seconds: float) -> sqlite3.Connection:
    """A connection to a database of ours; an empty one is made one."""
    connection = sqlite3.connect(place, timeout=wait_seconds, isolation_level=None, check_same_thread=False)
    try:
        if not _is_ours(connection, place):
            _use_write_ahead_log(connection, wait_seconds)
            with _transaction(connection):
                made_by_another = _is_ours(connection, place)
                for statement in () if made_by_another else _SCHEMA:
                    connection.execute(statement)
        for setting in ("synchronous = NORMAL", "secure_delete = ON"):
            connection.execute(f"PRAGMA {setting}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_ours(connection: sqlite3.Connection, place: str) -> bool:
    """Whether it is a database of ours, False when it is empty. Raises SessionError when it is neither."""
    application, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT COUNT(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if application == _APPLICATION:
        if version > SCHEMA_VERSION:
            raise SessionError(
                f"{place} was written by a newer version of agentkit: its knowledge has schema version {version}, and"
                f" this version reads up to {SCHEMA_VERSION}. Update agentkit, or name another file."
            )
        return True
    if application or version or tables:
        raise SessionError(f"{place} is a database of another program, or of sessions; name another file.")
    return False


def _use_write_ahead_log(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """Switch to the log; for this, unlike for all else, SQLite does not wait until others are done."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # after some errors SQLite has ended it itself
            connection.execute("ROLLBACK")
        raise


def _make_file(path: Path) -> None:
    """Make the file, and its folder, for the owner only. Raises SessionError for a link."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    try:
        found = path.lstat()
    except FileNotFoundError:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        return
    if stat.S_ISLNK(found.st_mode):
        raise SessionError(f"{path} is a symbolic link, which knowledge is not kept behind; name the file itself.")


def _close(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        connection.close()


def told(error: sqlite3.Error) -> str:
    """What happened and what to do about it."""
    name = getattr(error, "sqlite_errorname", "")
    return next((remedy for start, remedy in _REMEDIES if name.startswith(start)), f"SQLite says: {error}")
