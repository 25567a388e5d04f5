"""Fixtures with stores for sessions of each kind."""

import pytest

from agentkit.sessions.stores import store_at

PLACES = {
    "memory": ":memory:",
    "sqlite": "{folder}/sessions.db",
    "postgres": "postgres_url",
}
"""A location for each kind of store, or the name of a fixture if it needs a server."""

SHARED = [kind for kind in PLACES if kind != "memory"]
"""The kinds of stores that several processes can share."""


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of a server without sessions."""
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS agentkit CASCADE")
    return postgres_server


@pytest.fixture(params=PLACES)
def place(request, tmp_path):
    """The argument of `Session.open` for each kind of store."""
    return place_of(request, tmp_path)


@pytest.fixture(params=SHARED)
def shared_place(request, tmp_path):
    """The argument of `Session.open` for each kind of store that processes can share."""
    return place_of(request, tmp_path)


def place_of(request, folder):
    """Return an empty place of the kind of the test's parameter."""
    place = PLACES[request.param]
    return request.getfixturevalue(place) if place.endswith("_url") else place.format(folder=folder)


@pytest.fixture
def store(place):
    """An empty store of each kind."""
    store = store_at(place)
    yield store
    store.close()
