"""Tests for locks of living and killed processes."""

import fcntl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentkit.errors import SessionError
from agentkit.sessions.stores.locks import FileLocks, RangeLocks, RunLocks, _Files, _is_at, _try_lock, lock_path_of

TAKING = """
import sys
from pathlib import Path
from agentkit.sessions.stores import locks
kept = getattr(locks, sys.argv[1])(Path(sys.argv[2])).take(sys.argv[3])
print(bool(kept), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=[RangeLocks, FileLocks])
def locks(request, tmp_path):
    """Locks of each kind."""
    return request.param(tmp_path / "locks")


def another(locks):
    """Return the same locks for another part of the program."""
    return type(locks)(locks._path if isinstance(locks, RangeLocks) else locks._folder)


def test_lock_is_exclusive(locks):
    """A taken lock is not acquired until it is released; other locks are unaffected."""
    release = locks.take("a")
    assert locks.take("a") is None
    assert another(locks).take("a") is None
    assert locks.is_taken("a")
    assert not locks.is_taken("b")
    other = locks.take("b")
    release()
    release()
    assert not locks.is_taken("a")
    assert locks.is_taken("b")
    other()


def test_lock_may_be_shared(locks):
    """A shared lock has several holders; an exclusive lock needs all of them to release it."""
    first, second = locks.take("a", shared=True), another(locks).take("a", shared=True)
    first()
    assert locks.take("a") is None
    second()
    alone = locks.take("a")
    assert locks.take("a", shared=True) is None
    alone()
    locks.take("a", shared=True)()


def test_killed_process_has_no_locks(locks, tmp_path):
    """A lock of another process is respected while it lives, and released when it is killed."""
    command = [sys.executable, "-c", TAKING, type(locks).__name__, str(tmp_path / "locks"), "a"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "True\n"
        assert locks.take("a") is None
        assert locks.is_taken("a")
        process.kill()
    assert not locks.is_taken("a")
    locks.take("a")()


def test_one_thread_holds_a_lock_at_a_time(locks):
    """Only one of several threads holds a lock at a time."""
    inside, worst = [], []

    def try_it(_):
        release = locks.take("a")
        if release is not None:
            inside.append(1)
            worst.append(len(inside))
            inside.pop()
            release()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(try_it, range(40)))
    assert set(worst) == {1}


def test_lock_files_are_private(locks, tmp_path):
    """Lock files can be read by their owner only."""
    release = locks.take("a")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600]
    release()


def test_removed_lock_file_is_not_accepted(tmp_path):
    """A lock file that its holder removed is not accepted as the lock."""
    locks = FileLocks(tmp_path)
    release = locks.take("a")
    path = next(tmp_path.iterdir())
    with locks._files.open(path) as waiting:
        assert _is_at(waiting, path)
        release()
        assert not _is_at(waiting, path)
        locks.take("a")()
        assert not _is_at(waiting, path)


def test_lock_released_during_take_is_acquired(tmp_path):
    """A lock that is released while it is being taken is acquired."""
    locks = FileLocks(tmp_path)
    releases = [locks.take("a")]

    class Slow(_Files):
        """Opens a file and then releases the lock of its holder."""

        def open(self, path):
            file = super().open(path)
            if releases:
                releases.pop()()
            return file

    locks._files = Slow()
    release = locks.take("a")
    assert locks.is_taken("a")
    release()


def test_lock_that_cannot_be_created_raises(tmp_path):
    """A lock that cannot be created raises a SessionError."""
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "locks", tmp_path / "folder"):
        with pytest.raises(SessionError, match="cannot be opened"):
            RangeLocks(path).take("a")


def test_system_error_while_locking_raises(tmp_path):
    """An unexpected system error while locking raises a SessionError and closes the file."""
    file = (tmp_path / "lock").open("wb")
    with pytest.raises(SessionError, match="cannot be opened"):
        _try_lock(file, fcntl.flock, file, 0)
    assert file.closed


def test_kind_of_locks_depends_on_the_platform(tmp_path):
    """Linux uses byte-range locks, and other systems use lock files."""
    assert isinstance(lock_path_of(tmp_path / "a.db", "linux"), RangeLocks)
    assert isinstance(lock_path_of(tmp_path / "a.db", "darwin"), FileLocks)
    assert isinstance(lock_path_of(tmp_path / "a.db", "win32"), FileLocks)


def test_locked_session_raises_after_timeout(locks):
    """Holding a run in a session that stays locked raises an error after the timeout."""
    holds = RunLocks(locks, wait_seconds=0.05)
    with holds.exclusive("trip"), pytest.raises(SessionError, match="is in progress"):
        holds.lock("trip", "run-1")
    assert holds.lock("trip", "run-1")() is None
