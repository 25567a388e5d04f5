"""The stores that sessions are kept in, each of them real."""

import pytest

from agentkit.memory.stores.opening import store_at


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of a server that holds no sessions."""
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS agentkit CASCADE")
    return postgres_server


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request, tmp_path):
    """What `Session.open` takes, for each kind of store."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return ":memory:" if request.param == "memory" else str(tmp_path / "sessions.db")


@pytest.fixture(params=["sqlite", "postgres"])
def shared_place(request, tmp_path):
    """What `Session.open` takes, for each kind of store that several processes share."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else str(tmp_path / "sessions.db")


@pytest.fixture
def store(place):
    """Each kind of store, empty."""
    store = store_at(place)
    yield store
    store.close()
