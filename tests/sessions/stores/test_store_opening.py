"""Tests for the locations of sessions, which select a store."""

from pathlib import Path

import pytest

from agentkit.errors import SessionError
from agentkit.sessions.stores import store_at
from agentkit.sessions.stores.in_memory import InMemorySessionStore
from agentkit.sessions.stores.postgres import PostgresSessionStore
from agentkit.sessions.stores.sqlite import SQLiteSessionStore
from agentkit.settings import state_folder


def test_default_location_is_the_state_folder():
    """Without a location, sessions are stored in one file in the state folder."""
    assert store_at(None).path == state_folder() / "sessions.db"


@pytest.mark.parametrize("place", ["trip.db", Path("trip.db"), "postgres.db"])
def test_path_is_a_file(place):
    """A path opens an SQLite file, even if the working directory changes later."""
    store = store_at(place)
    assert isinstance(store, SQLiteSessionStore)
    assert store.path == Path(place).absolute()


@pytest.mark.parametrize("place", ["postgres://host/name", "postgresql://user:secret@host/name?password=secret"])
def test_postgres_url_opens_a_database(place):
    """A PostgreSQL URL opens a database store, whose repr contains no password."""
    store = store_at(place)
    assert isinstance(store, PostgresSessionStore)
    assert "secret" not in repr(store)
    assert repr(store).endswith("://host/name')")


def test_memory_opens_a_new_store():
    """`:memory:` opens a new in-memory store each time."""
    assert isinstance(store_at(":memory:"), InMemorySessionStore)
    assert store_at(":memory:") is not store_at(":memory:")


def test_store_is_used_unchanged():
    """A store is accepted as the location and used unchanged."""
    store = InMemorySessionStore()
    assert store_at(store) is store


@pytest.mark.parametrize("place", [5, b"sessions.db", ["a"], object()])
def test_invalid_location_is_rejected(place):
    """An invalid location raises an error that lists the valid ones."""
    with pytest.raises(SessionError, match="a file, a postgresql: URL, ':memory:' or a store"):
        store_at(place)


@pytest.mark.parametrize("place", ["mysql://host/name", "sqlite:///sessions.db", "https://example.com/sessions"])
def test_unsupported_url_is_rejected(place):
    """An unsupported URL raises an error, and no file of that name is created."""
    with pytest.raises(SessionError, match=r":// cannot store sessions\. Use a file, or postgresql://"):
        store_at(place)
