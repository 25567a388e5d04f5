"""Is a pickled memory store a copy?"""

import pickle

from agentkit.events import RunEnded
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.stores.in_memory import InMemorySessionStore


def test_a_copy_goes_its_own_way():
    """What is written to a pickled copy does not reach the first store, and what was held there is free here."""
    store = InMemorySessionStore()
    store.append("trip", [SessionEntry("run-1", 1, RunEnded("done"))])
    store.hold("trip", "run-1")
    copy = pickle.loads(pickle.dumps(store))
    copy.append("trip", [SessionEntry("run-2", 2, RunEnded("done"))])
    assert len(store.read("trip")[0]) == 1
    assert not copy.is_held("trip", "run-1")
