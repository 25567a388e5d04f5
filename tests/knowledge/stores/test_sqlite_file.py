"""Tests for knowledge in one SQLite file: sharing, locks, damage, and permissions."""

import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from agentkit.errors import KnowledgeError
from agentkit.knowledge import Knowledge
from agentkit.knowledge.stores.sqlite import KnowledgeFile

ROOT = Path(__file__).parents[3]


@pytest.fixture
def knowledge(database):
    """Return empty knowledge in a file."""
    with Knowledge(database) as knowledge:
        yield knowledge


def test_only_the_owner_can_read(knowledge, database):
    """The file and its folder are only accessible to the owner."""
    knowledge.add_text("words", "text")
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700


def test_file_that_is_not_a_database_is_rejected(tmp_path):
    """A file that is not a database raises a KnowledgeError and is left unchanged."""
    (tmp_path / "notes.txt").write_text("Dear diary, " * 100)
    with pytest.raises(KnowledgeError, match="not an SQLite database; use another file"):
        Knowledge(tmp_path / "notes.txt").search("words")
    assert (tmp_path / "notes.txt").read_text().startswith("Dear diary")


def test_database_of_another_program_is_rejected(tmp_path):
    """A database of another program raises a KnowledgeError."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(KnowledgeError, match="another program"):
        Knowledge(path).search("words")


def test_newer_schema_is_rejected(knowledge, database):
    """A file with a newer schema raises an error that asks to update agentkit."""
    knowledge.add_text("words", "text")
    knowledge.close()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(KnowledgeError, match="Update agentkit"):
        knowledge.search("words")


def test_damaged_file_is_an_error(knowledge, database):
    """A damaged file raises an error that suggests what to do."""
    for number in range(40):
        knowledge.add_text(f"words {number} " * 50, f"text{number}")
    knowledge.close()
    body = bytearray(database.read_bytes())
    body[8_192:-4_096] = b"\xa5" * (len(body) - 12_288)
    database.write_bytes(body)
    with pytest.raises(KnowledgeError, match="damaged; restore a backup"):
        knowledge.search("words")


FILLING = """
import resource, sys
from agentkit.errors import KnowledgeError
from agentkit.knowledge import Knowledge
knowledge = Knowledge(sys.argv[1])
knowledge.add_text("first words", "first")
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
kept = 1
try:
    while True:
        knowledge.add_text(f"words {kept} " * 2_000, f"text{kept}")
        kept += 1
except KnowledgeError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert len(knowledge.documents) == kept > 1
assert knowledge.search("first")
assert knowledge.add_text("more room", "more").added
"""


def test_full_disk_stores_no_partial_document(database):
    """A full disk raises an error without storing part of a document."""
    command = [sys.executable, "-c", FILLING, str(database)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot be read or written: the disk" in done.stdout


def test_invalid_path_is_an_error(tmp_path):
    """A path through a file, a folder or a link raises an error with the path."""
    (tmp_path / "file").touch()
    with pytest.raises(
        KnowledgeError, match=r"cannot be stored: (File exists|Not a directory). Use a file in a writable folder"
    ):
        Knowledge(tmp_path / "file" / "notes.db").search("words")
    with pytest.raises(KnowledgeError, match="cannot be opened"):
        Knowledge(tmp_path).search("words")
    (tmp_path / "link.db").symlink_to(tmp_path / "file")
    with pytest.raises(KnowledgeError, match="symbolic link"):
        Knowledge(tmp_path / "link.db").search("words")


def test_removed_file_is_created_again(knowledge, database):
    """A file that was removed is created again."""
    knowledge.add_text("words", "text")
    for path in database.parent.iterdir():
        path.unlink()
    assert knowledge.search("words") == []
    assert knowledge.add_text("words", "text").added == ("text",)


def test_threads_share_a_file(knowledge):
    """Several threads can add and search concurrently."""
    faults = []

    def work(name):
        try:
            for number in range(10):
                knowledge.add_text(f"words {number}", f"{name}-{number}")
                assert knowledge.search("words")
        except (KnowledgeError, AssertionError) as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=[name]) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(knowledge.documents) == 30


def test_file_that_stays_locked_is_an_error(database):
    """A file that stays locked raises a KnowledgeError after the timeout."""
    file = KnowledgeFile(str(database), wait_seconds=0.05)
    with file.connection() as connection:
        connection.execute("SELECT 1")
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(KnowledgeError, match="another process keeps it locked"), file.transaction():
            pass
    file.close()


@pytest.mark.parametrize("ending", ["ROLLBACK", "SELECT 1"])
def test_failed_transaction_is_rolled_back(database, ending):
    """An error rolls back the transaction, even if the statement itself ended it."""
    file = KnowledgeFile(str(database))

    def end_and_fail(connection):
        connection.execute("DELETE FROM places")
        connection.execute(ending)
        connection.execute("SELECT nothing")

    with pytest.raises(KnowledgeError, match="SQLite says"), file.transaction() as connection:
        end_and_fail(connection)
    file.close()


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_file_locked_while_it_is_created_is_an_error(database, lock):
    """A file that stays locked while it is created raises a KnowledgeError."""
    database.parent.mkdir()
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute(lock)
        file = KnowledgeFile(str(database), wait_seconds=0.05)
        with pytest.raises(KnowledgeError, match="another process keeps it locked"), file.connection():
            pass


def test_data_in_memory_is_not_stored():
    """`:memory:` stores nothing after `close` and has no files."""
    knowledge = Knowledge(":memory:")
    knowledge.add_text("words", "text")
    assert len(knowledge.search("words")) == 1
    knowledge.close()
    assert knowledge.documents == []
    assert knowledge.store.files == ()
