"""Which store does a place mean?"""

from pathlib import Path

import pytest

from agentkit.errors import SessionError
from agentkit.sessions.stores import store_at
from agentkit.sessions.stores.in_memory import InMemorySessionStore
from agentkit.sessions.stores.postgres import PostgresSessionStore
from agentkit.sessions.stores.sqlite import SQLiteSessionStore
from agentkit.settings import state_folder


def test_no_place_is_the_state_folder():
    """Without a place, sessions are kept in one file in the state folder."""
    assert store_at(None).path == state_folder() / "sessions.db"


@pytest.mark.parametrize("place", ["trip.db", Path("trip.db"), "postgres.db"])
def test_a_path_is_a_file(place):
    """A path is an SQLite file, wherever the process goes later."""
    store = store_at(place)
    assert isinstance(store, SQLiteSessionStore)
    assert store.path == Path(place).absolute()


@pytest.mark.parametrize("place", ["postgres://host/name", "postgresql://user:secret@host/name?password=secret"])
def test_a_url_is_a_database(place):
    """A PostgreSQL URL is a database, and what is shown of it holds no password."""
    store = store_at(place)
    assert isinstance(store, PostgresSessionStore)
    assert "secret" not in repr(store)
    assert repr(store).endswith("://host/name')")


def test_memory_is_a_store_that_is_not_kept():
    """`:memory:` is a new store that lives as long as its object."""
    assert isinstance(store_at(":memory:"), InMemorySessionStore)
    assert store_at(":memory:") is not store_at(":memory:")


def test_a_store_is_itself():
    """A store can be given as the place."""
    store = InMemorySessionStore()
    assert store_at(store) is store


@pytest.mark.parametrize("place", [5, b"sessions.db", ["a"], object()])
def test_what_is_no_place_is_refused(place):
    """What can be no place is refused at once, and the error says what can."""
    with pytest.raises(SessionError, match="a file, a postgresql: URL, ':memory:' or a store"):
        store_at(place)


@pytest.mark.parametrize("place", ["mysql://host/name", "sqlite:///sessions.db", "https://example.com/sessions"])
def test_another_url_is_refused(place):
    """The URL of what keeps no sessions is refused, and no file is made of its name."""
    with pytest.raises(SessionError, match=r":// cannot store sessions\. Use a file, or postgresql://"):
        store_at(place)
