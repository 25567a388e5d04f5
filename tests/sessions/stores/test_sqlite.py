"""Tests for sessions in SQLite: failures of the file, the disk and the process."""

import gc
import os
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentkit.errors import SessionError
from agentkit.events import AnswerRefused, RunEnded, RunStarted
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.stores.locks import RangeLocks
from agentkit.sessions.stores.sqlite import SQLiteSessionStore
from agentkit.sessions.stores.sqlite_database import _MAX_OPEN, DatabaseFile, DatabaseFormat

ENTRY = SessionEntry("run-1", 1.0, RunEnded("done"))


@pytest.fixture
def path(tmp_path):
    """The path of a file in a folder that does not exist yet."""
    return tmp_path / "state" / "sessions.db"


@pytest.fixture
def store(path):
    """A store with one entry."""
    store = SQLiteSessionStore(path)
    store.append("trip", [ENTRY])
    yield store
    store.close()


def mode_of(path):
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read(store, path):
    """Only the owner can access the database, its log, its locks and the created folder."""
    release = store.lock("trip", "run-1")
    assert {found.name: mode_of(found) for found in path.parent.iterdir()} == dict.fromkeys(
        ["sessions.db", "sessions.db-wal", "sessions.db-shm", "sessions.db-locks"], 0o600
    )
    assert mode_of(path.parent) == 0o700
    release()


def test_database_has_an_id_a_version_and_a_log(store, path):
    """The database contains its application id and schema version, and uses a write-ahead log."""
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("PRAGMA application_id").fetchone() == (0x414B4954,)
    connection.close()
    assert [found.name for found in path.parent.iterdir()] == ["sessions.db"]


def test_newer_schema_raises(store, path):
    """A database with a newer schema raises an error that names both versions."""
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(SessionError, match=r"schema version 7, and this version reads up to 1. Update agentkit"):
        store.read("trip")


@pytest.mark.parametrize(
    "changed",
    [
        "ALTER TABLE entries RENAME TO e; CREATE VIEW entries AS WITH RECURSIVE c(x) AS"
        " (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS position, 1 AS session FROM c",
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN UPDATE entries SET event = '{}'; END",
        "CREATE VIEW other AS SELECT 1",
        "ALTER TABLE entries ADD COLUMN more GENERATED ALWAYS AS (zeroblob(1000000000))",
        "DROP INDEX entries_of_session; CREATE INDEX entries_of_session ON entries (hex(zeroblob(100000000)))",
        "DROP TABLE entries",
    ],
)
def test_unexpected_schema_is_rejected(store, path, changed):
    """A database with an unexpected schema, such as a recursive view, raises an error."""
    store.create("journey", [])
    store.close()
    with sqlite3.connect(path) as connection:
        connection.executescript(changed)
    connection.close()
    with pytest.raises(SessionError, match="has an unexpected schema"):
        SQLiteSessionStore(path).read("trip")


def test_database_of_another_program_is_rejected(tmp_path):
    """A database of another program raises an error and is not modified."""
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")
    connection.close()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(SessionError, match=r"database of another program, or has no sessions\. Name another file"):
        SQLiteSessionStore(tmp_path / "other.db").append("trip", [ENTRY])
    assert (tmp_path / "other.db").read_bytes() == before


def test_file_that_is_not_a_database_is_rejected(tmp_path):
    """A file that is not a database raises an error and is not modified."""
    (tmp_path / "notes.txt").write_text("Dear diary, " * 100)
    with pytest.raises(SessionError, match="not an SQLite database; use another file"):
        SQLiteSessionStore(tmp_path / "notes.txt").read("trip")
    assert (tmp_path / "notes.txt").read_text().startswith("Dear diary")


def test_empty_file_becomes_a_database(tmp_path):
    """An empty file, such as a temporary file, can be used as a database."""
    (tmp_path / "empty.db").touch()
    store = SQLiteSessionStore(tmp_path / "empty.db")
    store.append("trip", [ENTRY])
    assert store.read("trip")[0] == [ENTRY]
    store.close()


def test_damaged_file_raises(store, path):
    """A damaged file raises an error that suggests a solution."""
    for number in range(50):
        store.append("trip", [SessionEntry("run-1", 1.0, AnswerRefused(f"{number}" * 2_000))])
    store.close()
    data = bytearray(path.read_bytes())
    data[8_192:-4_096] = b"\xa5" * (len(data) - 12_288)
    path.write_bytes(data)
    with pytest.raises(SessionError, match="it is damaged; restore a backup"):
        store.read("trip")
    store.close()


def test_damaged_entry_raises(store, path):
    """Reading a damaged entry raises a SessionError."""
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET event = '{'")
    connection.close()
    with pytest.raises(SessionError, match="damaged"):
        store.read("trip")


FILLING = """
import resource, sys
from agentkit.errors import SessionError
from agentkit.events import AnswerRefused
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.stores.sqlite import SQLiteSessionStore
from agentkit.sessions.stores.sqlite_database import _MAX_OPEN, DatabaseFile, DatabaseFormat
store = SQLiteSessionStore(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
kept = 0
try:
    while True:
        store.append("trip", [SessionEntry("run-1", kept, AnswerRefused(part * 5_000)) for part in "ab"])
        kept += 1
except SessionError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert len(store.read("trip")[0]) == 2 * kept > 0
store.append("trip", [SessionEntry("run-1", kept, AnswerRefused("more room"))])
assert len(store.read("trip")[0]) == 2 * kept + 1
"""


def test_append_on_full_disk_writes_nothing(path):
    """An append on a full disk writes nothing, keeps earlier entries and works again once there is space."""
    done = subprocess.run(
        [sys.executable, "-c", FILLING, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "nothing was written" in done.stdout


READING = """
import fcntl, os, sys
from agentkit.errors import SessionError
from agentkit.events import RunEnded
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.stores.sqlite import SQLiteSessionStore
from agentkit.sessions.stores.sqlite_database import _MAX_OPEN, DatabaseFile, DatabaseFormat
if os.geteuid() == 0:
    os.setuid(65534)
for path in sys.argv[1:]:
    try:
        SQLiteSessionStore(path).append("trip", [SessionEntry("run-1", 1, RunEnded("done"))])
    except SessionError as error:
        print(error)
"""


def test_read_only_folder_raises():
    """A read-only file or folder raises an error that names it."""
    with TemporaryDirectory() as folder:
        store = SQLiteSessionStore(Path(folder) / "sessions.db")
        store.append("trip", [ENTRY])
        store.close()
        if os.geteuid() == 0:  # the other process drops root privileges
            os.chown(store.path, 65_534, -1)
        store.path.chmod(0o444)
        Path(folder).chmod(0o555)
        command = [sys.executable, "-c", READING, store.path, f"{folder}/new.db"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        Path(folder).chmod(0o755)
    assert done.returncode == 0, done.stderr
    old, new = done.stdout.splitlines()
    assert "it is read-only; check the permissions" in old or "it cannot be opened; check the permissions" in old
    assert new.endswith("cannot be stored: Permission denied. Use a file in a writable folder.")


def test_invalid_location_raises(tmp_path):
    """A location that is a folder or is below a file raises a SessionError."""
    (tmp_path / "file").touch()
    with pytest.raises(SessionError, match=r"cannot be stored: (File exists|Not a directory)"):
        SQLiteSessionStore(tmp_path / "file" / "sessions.db").read("trip")
    with pytest.raises(SessionError, match="cannot be opened; check the permissions"):
        SQLiteSessionStore(tmp_path).read("trip")


def test_removed_file_is_created_again(store, path):
    """If the file is removed while no run is active, the next append creates a new one."""
    for found in list(path.parent.iterdir()):
        found.unlink()
    store.append("trip", [SessionEntry("run-2", 2.0, RunEnded("done"))])
    assert [entry.run for entry in store.read("trip")[0]] == ["run-2"]
    assert path.exists()


@pytest.mark.parametrize("entries", [[ENTRY], [ENTRY, ENTRY]])
@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_file_removed_during_a_run_is_detected(how, entries, store, path):
    """Appending raises an error if the file was removed, moved or replaced during the run."""
    release = store.lock("trip", "run-1")
    moved = path.rename(path.with_name("moved.db"))
    if how == "removed":
        moved.unlink()
    elif how == "replaced":
        SQLiteSessionStore(path).create("other", [SessionEntry("run-3", 3.0, RunEnded("done"))])
    for _ in range(2):
        with pytest.raises(SessionError, match="was removed or replaced during this run"):
            store.append("trip", entries)
    assert path.exists() is (how == "replaced")
    assert store.read("trip")[0] == []
    store.append("trip", [SessionEntry("run-2", 2.0, RunEnded("done"))])
    release()
    assert [entry.run for entry in store.read("trip")[0]] == ["run-2"]
    if how == "moved":
        old = SQLiteSessionStore(moved)
        assert old.read("trip")[0] == [ENTRY]
        old.close()


def test_file_becomes_private_when_it_is_opened(path):
    """Opening a file removes the permissions of others, also from its locks; those of the owner are unchanged."""
    path.parent.mkdir()
    for name, mode in ((path.name, 0o677), (f"{path.name}-locks", 0o666)):
        (path.parent / name).touch()
        (path.parent / name).chmod(mode)
    store = SQLiteSessionStore(path)
    store.append("trip", [ENTRY])
    store.lock("trip", "run-1")()
    assert {mode_of(found) for found in path.parent.iterdir()} == {0o600}
    store.close()
    path.chmod(0o444)
    with suppress(SessionError):
        SQLiteSessionStore(path).append("trip", [ENTRY])
    assert mode_of(path) == 0o400


def test_symlink_is_rejected(store, path, tmp_path):
    """A symbolic link in place of the database or its lock file is rejected, and its target is not modified."""
    release = store.lock("trip", "run-1")
    release()
    store.close()
    target = tmp_path / "target"
    target.write_text("Dear diary")
    link = tmp_path / "link.db"
    link.symlink_to(target)
    with pytest.raises(SessionError, match=r"link\.db is a symbolic link.*Name the file itself"):
        SQLiteSessionStore(link).read("trip")
    locks = path.with_name("sessions.db-locks")
    locks.unlink()
    locks.symlink_to(target)
    with pytest.raises(SessionError, match=r"sessions\.db-locks is a symbolic link"):
        store.lock("trip", "run-1")
    assert target.read_text() == "Dear diary"


def test_file_of_another_user_is_rejected(path, tmp_path):
    """A file that belongs to another user is rejected and not modified."""
    reference = Path("/etc/passwd")
    if os.geteuid() == 0:
        reference = tmp_path / "theirs.db"
        reference.touch()
        os.chown(reference, 65_534, -1)
    before = reference.stat()
    with pytest.raises(SessionError, match="belongs to another user"):
        SQLiteSessionStore(reference).append("trip", [ENTRY])
    assert reference.stat() == before
    locks = RangeLocks(reference)
    with pytest.raises(SessionError, match=r"belongs to another user|cannot be opened \(Permission denied\)"):
        locks.take("trip")
    assert reference.stat() == before


def test_stores_create_the_file_concurrently(path):
    """Several stores can create the same file at the same time and write to it."""
    stores = [SQLiteSessionStore(path) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda store: store.append("trip", [ENTRY]), stores))
    assert len(stores[0].read("trip")[0]) == 8
    for store in stores:
        store.close()


def test_collected_store_closes_its_file(path):
    """A store that is garbage-collected closes its file."""
    store = SQLiteSessionStore(path)
    store.append("trip", [ENTRY])
    assert repr(store) == f"SQLiteStore({str(path)!r})"
    del store
    gc.collect()
    assert [found.name for found in path.parent.iterdir()] == ["sessions.db"]


def test_write_waits_for_a_locked_file(store, path):
    """A write waits while another connection holds the write lock."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.append, "trip", [ENTRY])
        assert not waiting.done()
        connection.execute("COMMIT")
        waiting.result(timeout=30)
    connection.close()
    assert len(store.read("trip")[0]) == 2


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_creation_waits_for_a_locked_file(path, lock):
    """Creating a store waits while another process locks the empty file."""
    path.parent.mkdir()
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute(lock)
    with pytest.raises(SessionError, match="another process keeps it locked; try again"):
        SQLiteSessionStore(path, wait_seconds=0.05).append("trip", [ENTRY])
    store = SQLiteSessionStore(path)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.append, "trip", [ENTRY])
        assert not waiting.done()
        connection.execute("COMMIT")
        waiting.result(timeout=30)
    connection.close()
    assert store.read("trip")[0] == [ENTRY]
    store.close()


def statements_of(store):
    """Return the statements that the store executes from now on."""
    executed = []
    with store._file.connection() as connection:
        connection.set_trace_callback(executed.append)
    return executed


@pytest.mark.parametrize("turns", [1, 1_000])
def test_statement_count_is_independent_of_length(path, turns):
    """Opening a session takes one statement and a run three more, whatever the length of the session."""
    store = SQLiteSessionStore(path)
    store.append("trip", [SessionEntry(f"run-{number}", 1.0, RunEnded("done")) for number in range(turns)])
    executed = statements_of(store)
    session = Session("trip", store)
    assert session.messages == ()
    assert len(executed) == 1
    run = session.begin()
    run.keep(RunStarted("helper", "Hi"))
    run.keep(RunEnded("done"))
    run.close()
    assert len(executed) == 4
    assert [statement.startswith("INSERT") for statement in executed] == [False, False, True, True]
    store.close()


def test_sessions_in_one_file_share_an_open_file(path):
    """All sessions in a file share one connection; a directly created store has its own."""
    first, second = Session.open(path, "one"), Session.open(str(path), "two")
    assert first.store is second.store
    assert SQLiteSessionStore(path) is not first.store
    first.store.close()


def test_files_used_longest_ago_are_closed(tmp_path):
    """The number of open files is limited; the least recently used one is closed, and reopened when it is used."""
    stores = [SQLiteSessionStore(tmp_path / f"{number}.db") for number in range(_MAX_OPEN + 10)]
    before = len([*Path("/proc/self/fd").iterdir()])
    for store in stores:
        store.append("trip", [ENTRY])
    assert len([*Path("/proc/self/fd").iterdir()]) - before <= 3 * _MAX_OPEN
    assert all(len(store.read("trip")[0]) == 1 for store in stores)
    for store in stores:
        store.close()


def test_file_in_use_is_not_closed(tmp_path):
    """A file that another thread is using is not closed."""
    busy = DatabaseFile(str(tmp_path / "busy.db"), DatabaseFormat("notes", 7, 1, ("CREATE TABLE notes (text)",)), 1.0)
    with busy.connection() as connection, ThreadPoolExecutor(1) as threads:
        threads.submit(busy.close_if_idle).result()
        assert connection.execute("SELECT COUNT(*) FROM notes").fetchone() == (0,)
    busy.close_if_idle()
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")
