"""Tests for the store in memory: copies by pickling, and sessions in use."""

import pickle

import pytest

from agentkit.errors import SessionError
from agentkit.events import RunEnded
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.stores.in_memory import InMemorySessionStore


def test_pickled_copy_is_independent():
    """Writes to a pickled copy do not affect the original store, and the copy has no held runs."""
    store = InMemorySessionStore()
    store.append("trip", [SessionEntry("run-1", 1, RunEnded("done"))])
    store.lock("trip", "run-1")
    copy = pickle.loads(pickle.dumps(store))
    copy.append("trip", [SessionEntry("run-2", 2, RunEnded("done"))])
    assert len(store.read("trip")[0]) == 1
    assert not copy.is_locked("trip", "run-1")


def test_only_the_session_of_a_held_run_is_in_use():
    """A session with a held run cannot be deleted until the run is released; other sessions can."""
    store = InMemorySessionStore()
    for name in ("trip", "other"):
        store.append(name, [SessionEntry("run-1", 1, RunEnded("done"))])
    release = store.lock("trip", "run-1")
    assert store.is_locked("trip", "run-1") is True
    with pytest.raises(SessionError, match="is in progress"):
        store.delete("trip")
    store.delete("other")
    release()
    store.delete("trip")
    assert store.summaries() == []
    assert store.is_locked("trip", "run-1") is False
    with pytest.raises(SessionError, match="No session is named 'trip'"):
        store.delete("trip")
