"""Tests for sessions in PostgreSQL: failures of the server, the connection and the package."""

import gc
import subprocess
import sys
import time

import pytest

from agentkit.errors import MissingExtra, SessionError
from agentkit.events import RunEnded
from agentkit.installation import install_command
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.stores.postgres import PostgresSessionStore

ENTRY = SessionEntry("run-1", 1.0, RunEnded("done"))
END_ALL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'agentkit'"
)


@pytest.fixture
def store(postgres_url):
    """A store with one entry."""
    store = PostgresSessionStore(postgres_url)
    store.append("trip", [ENTRY])
    yield store
    store.close()


@pytest.fixture
def server(postgres_url):
    """A separate connection to the server."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def test_newer_schema_raises(store, server):
    """A database with a newer schema raises an error that names both versions."""
    store.close()
    server.execute("UPDATE agentkit.schema_version SET version = 7")
    with pytest.raises(SessionError, match=r"schema version 7, and this version reads up to 1. Update agentkit"):
        store.read("trip")


def test_unreachable_server_raises(tmp_path):
    """A failed connection raises an error with the reason and without the password."""
    store = PostgresSessionStore(f"postgresql://me:secret@/trips?host={tmp_path}")
    with pytest.raises(SessionError, match="cannot be read or written: connection") as caught:
        store.read("trip")
    assert "secret" not in str(caught.value)


def test_lost_connection_is_reopened(store, server):
    """A lost connection raises an error once, and the next use reconnects."""
    server.execute(END_ALL)
    with pytest.raises(SessionError, match="cannot be read or written"):
        store.read("trip")
    assert store.read("trip")[0] == [ENTRY]


def test_run_with_a_lost_connection_is_abandoned(store, server):
    """After a lost connection, a run is abandoned, because other processes may have continued it."""
    release = store.lock("trip", "run-2")
    server.execute(END_ALL)
    with pytest.raises(SessionError, match="cannot be read or written"):
        store.read("trip")
    assert not store.is_locked("trip", "run-2")
    with pytest.raises(SessionError, match="may have been resumed elsewhere"):
        store.append("trip", [SessionEntry("run-2", 2.0, RunEnded("done"))])
    store.append("trip", [SessionEntry("run-3", 3.0, RunEnded("done"))])
    release()
    store.append("trip", [SessionEntry("run-2", 2.0, RunEnded("done"))])


def test_release_after_lost_connection(store, server):
    """Releasing a run after the connection was lost raises no error."""
    release = store.lock("trip", "run-2")
    server.execute(END_ALL)
    release()
    assert not store.is_locked("trip", "run-2")


def test_error_of_the_server_is_raised(store, server):
    """A statement that the server rejects raises an error, and the connection stays usable."""
    server.execute("ALTER TABLE agentkit.entries ADD CHECK (at < 5)")
    with pytest.raises(SessionError, match="violates check constraint"):
        store.append("trip", [ENTRY, SessionEntry("run-1", 9.0, RunEnded("done"))])
    assert store.read("trip")[0] == [ENTRY]


def test_session_in_use_is_not_deleted(store, postgres_url):
    """A session is not deleted while a run of it is held through another connection or this one."""
    other = PostgresSessionStore(postgres_url)
    for holder in (store, other):
        release = holder.lock("trip", "run-1")
        with pytest.raises(SessionError, match="is in progress"):
            store.delete("trip")
        release()
    store.delete("trip")
    other.close()


def test_collected_store_closes_its_connection(postgres_url, server):
    """A store that is garbage-collected closes its connection."""
    store = PostgresSessionStore(postgres_url)
    store.append("trip", [ENTRY])
    del store
    gc.collect()
    count = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'agentkit'"
    deadline = time.monotonic() + 10
    while (left := server.execute(count).fetchone()) != (0,) and time.monotonic() < deadline:
        time.sleep(0.01)  # the server needs a moment to notice
    assert left == (0,)


ALONE = """
import sys
sys.modules["psycopg"] = None
from agentkit.errors import MissingExtra
from agentkit.sessions.stores.postgres import PostgresSessionStore
try:
    PostgresSessionStore("postgresql://host/name").read("trip")
except MissingExtra as error:
    print(error)
"""


def test_missing_package_error_has_the_install_command():
    """Without psycopg, the error names the command that installs it."""
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60, check=True)
    assert install_command("postgres") in done.stdout
    assert issubclass(MissingExtra, ImportError)
