"""SQLite files: creation, version checks, and sharing between threads and processes."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentkit._dataclass import dataclass
from agentkit.atomic_write import validate_path
from agentkit.errors import SessionError
from agentkit.portable_files import CLOEXEC, NOFOLLOW
from agentkit.sessions.stores.locks import refuse_others

_REMEDY_OF_DAMAGE = "it is damaged; restore a backup, or try `sqlite3 FILE .recover`"
_REMEDIES = (
    ("SQLITE_FULL", "the disk is full; nothing was written. Free some space and try again"),
    ("SQLITE_IOERR", "the disk reports an error (it may be full, or over a quota); nothing was written"),
    ("SQLITE_NOTADB", "it is not an SQLite database; use another file"),
    ("SQLITE_CORRUPT", _REMEDY_OF_DAMAGE),
    ("SQLITE_BUSY", "another process keeps it locked; try again"),
    ("SQLITE_READONLY", "it is read-only; check the permissions of the file and its folder"),
    ("SQLITE_CANTOPEN", "it cannot be opened; check the permissions of the file and its folder"),
)
"""By prefix of SQLite's error name: the cause and the remedy."""

_EXECUTABLE_TYPES = ("trigger", "view")
IN_MEMORY = ":memory:"
WAIT_SECONDS = 30.0
"""Default time to wait for other processes that are writing."""


_NO_FILE = (0, 0, 0)

_MAX_OPEN = 64
"""The number of files that are open at the same time: beyond it, the one that was used longest ago is closed."""

_OPEN: weakref.WeakSet[DatabaseFile] = weakref.WeakSet()
"""The open files of this process."""


def _no_check() -> None:
    return


@dataclass(frozen=True, slots=True)
class DatabaseFormat:
    """A database format: a word for its contents, the application id, the version and the tables.

    `settings` are pragmas applied to each connection.
    """

    contents: str
    application: int
    version: int
    tables: tuple[str, ...]
    settings: tuple[str, ...] = ()


class DatabaseFile:
    """A database in one file, opened on first use. One connection serves all threads of a process.

    `on_removed` is called when the file was removed or replaced; later operations use the file that is there then.
    `:memory:` is a database without a file.
    """

    def __init__(
        self, path: str, kind: DatabaseFormat, wait_seconds: float, on_removed: Callable[[], object] = _no_check
    ) -> None:
        self.place, self._kind, self._wait_seconds, self._on_removed = path, kind, wait_seconds, on_removed
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened = _NO_FILE
        self._inherited: list[sqlite3.Connection] = []
        self.used = 0.0

    @contextmanager
    def connection(self, check: Callable[[], object] = _no_check) -> Iterator[sqlite3.Connection]:
        """The connection, locked for this thread. Raises SessionError for errors of the database or the file.

        `check` can raise; it runs after a removed file was detected and before a new file is created.
        """
        with self.lock:
            self.used = time.monotonic()
            try:
                self._detect_removed()
                check()
                yield self._connect()
            except sqlite3.Error as error:
                problem = f"The {self._kind.contents} in {self.place} cannot be read or written"
                raise SessionError(f"{problem}: {_describe_error(error)}.") from None
            except UnicodeDecodeError:
                raise SessionError(
                    f"The {self._kind.contents} in {self.place} cannot be read: {_REMEDY_OF_DAMAGE}."
                ) from None
            except OSError as error:
                raise SessionError(
                    f"The {self._kind.contents} in {self.place} cannot be stored: {error.strerror}. "
                    "Use a file in a writable folder."
                ) from None

    @contextmanager
    def transaction(self, check: Callable[[], object] = _no_check) -> Iterator[sqlite3.Connection]:
        """A transaction."""
        with self.connection(check) as connection, transaction(connection):
            yield connection

    def close(self) -> None:
        """Close the file; the next use reopens it. The contents of an in-memory database are lost."""
        with self.lock:
            connection, self._connection = self._connection, None
            _OPEN.discard(self)
            if connection is not None and self._opened[0] != os.getpid():
                self._inherited.append(connection)  # closing it here would damage the parent's
            elif connection is not None:
                connection.close()

    def close_if_idle(self) -> None:
        """Close the file unless another thread uses it."""
        if self.lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self.lock.release()

    def _detect_removed(self) -> None:
        """Drop a connection to a removed file, or one inherited from the parent process."""
        connection, found = self._connection, self._identity()
        if connection is None or self._opened == found:
            return
        if self._opened[0] != os.getpid():
            self.close()
            return
        self._on_removed()
        if found == _NO_FILE:  # a moved file takes along the contents of its log, which SQLite leaves behind
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.close()

    def _connect(self) -> sqlite3.Connection:
        """The connection of this process to the current file, opened if necessary."""
        if self._connection is None:
            if self.place != IN_MEMORY:
                _make_file(Path(self.place))
                surplus = len(_OPEN) - _MAX_OPEN + 1
                for file in sorted(_OPEN, key=lambda each: each.used)[: max(surplus, 0)]:
                    file.close_if_idle()
                _OPEN.add(self)
            connection = connect(self.place, self._kind, self._wait_seconds)
            self._connection, self._opened = connection, self._identity()
            weakref.finalize(self, _close, connection, os.getpid())
        return self._connection

    def _identity(self) -> tuple[int, int, int]:
        """The identity of the process and the file."""
        if self.place == IN_MEMORY:
            return os.getpid(), 0, 0
        try:
            found = os.lstat(self.place)  # called before each use: takes a third of the time of Path.lstat()
        except FileNotFoundError:
            return _NO_FILE
        except ValueError:
            validate_path(self.place)
            raise
        return os.getpid(), found.st_dev, found.st_ino


def connect(path: str, kind: DatabaseFormat, wait_seconds: float) -> sqlite3.Connection:
    """Connect to a database of this format; an empty one is initialised. Raises SessionError for any other."""
    connection = sqlite3.connect(path, timeout=wait_seconds, isolation_level=None, check_same_thread=False)
    try:
        if not _is_ours(connection, path, kind):
            _adopt(connection, path, kind, wait_seconds)
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        # With a write-ahead log, NORMAL loses nothing when a process dies. Some network drives do not support the log.
        for setting in (f"synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}", *kind.settings):
            connection.execute(f"PRAGMA {setting}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_ours(connection: sqlite3.Connection, path: str, kind: DatabaseFormat) -> bool:
    """Whether the database has this format; False if it is empty. Raises SessionError for any other.

    Views and triggers are rejected: they run code where we read and write, which might never terminate.
    """
    found = connection.execute(  # in one statement, since another process can initialise it at the same time
        "SELECT application_id, user_version, type, sql FROM pragma_application_id, pragma_user_version"
        " LEFT JOIN sqlite_master ON TRUE"
    ).fetchall()
    application, version = found[0][:2]
    objects = [each[2:] for each in found if each[2] is not None]
    if application == kind.application:
        if version > kind.version:
            raise SessionError(
                f"{path} was written by a newer version of agentkit: its {kind.contents} have schema version"
                f" {version}, and this version reads up to {kind.version}. Update agentkit, or name another file."
            )
        if any(kind_name in _EXECUTABLE_TYPES for kind_name, _ in objects) or not set(kind.tables) <= {
            text for _, text in objects
        }:
            raise SessionError(f"{path} has an unexpected schema: another program has changed it. Use another file.")
        return True
    if application or version or objects:
        raise SessionError(f"{path} is a database of another program, or has no {kind.contents}. Name another file.")
    return False


def _adopt(connection: sqlite3.Connection, path: str, kind: DatabaseFormat, wait_seconds: float) -> None:
    """Initialise an empty database, unless another process has just done so."""
    _use_write_ahead_log(connection, wait_seconds)
    pragmas = (f"PRAGMA application_id = {kind.application}", f"PRAGMA user_version = {kind.version}")
    with transaction(connection):
        if not _is_ours(connection, path, kind):
            for statement in (*kind.tables, *pragmas):
                connection.execute(statement)


def _use_write_ahead_log(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """Switch to write-ahead logging. SQLite does not wait for other processes here, so this retries."""
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
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction: commit on success, roll back on error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # after some errors SQLite has rolled back already
            connection.execute("ROLLBACK")
        raise


def _make_file(path: Path) -> None:
    """Create the file and its folder for the owner only. Raises SessionError for a link or a file of another user."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    try:
        found = path.lstat()
    except FileNotFoundError:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | CLOEXEC | NOFOLLOW, 0o600))
        return
    refuse_others(path, found)  # do not open it to check: closing it would release its locks
    if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
        path.chmod(stat.S_IMODE(found.st_mode) & 0o700)


def _close(connection: sqlite3.Connection, process: int) -> None:
    """Close a connection in the process that opened it; elsewhere that would damage the connection of that process."""
    if process == os.getpid():
        connection.close()


def _describe_error(error: sqlite3.Error) -> str:
    """Describe the error and its remedy."""
    name = getattr(error, "sqlite_errorname", "")
    return next((remedy for start, remedy in _REMEDIES if name.startswith(start)), f"SQLite says: {error}")
