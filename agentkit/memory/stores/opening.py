"""Which store does a place mean?"""

from __future__ import annotations

import re
from os import PathLike

from agentkit.config import state_folder
from agentkit.errors import SessionError
from agentkit.memory.store import Store

Place = str | PathLike[str] | Store | None
"""A file, the URL of a PostgreSQL database, `:memory:`, a store, or None for `sessions.db` in the state folder."""


def store_at(place: Place) -> Store:
    """The store that a place means; its module is imported now. Raises SessionError for what is no place."""
    if place == ":memory:":
        from agentkit.memory.stores.volatile import MemoryStore

        return MemoryStore()
    if isinstance(place, str) and re.match("postgres(ql)?://", place):
        from agentkit.memory.stores.postgres import PostgresStore

        return PostgresStore(place)
    if place is None or isinstance(place, str | PathLike):
        from agentkit.memory.stores.sqlite import SQLiteStore

        return SQLiteStore(state_folder() / "sessions.db" if place is None else place)
    if not isinstance(place, Store):
        raise SessionError(f"A session's place is a file, a postgresql: URL, ':memory:' or a store. Got {place!r:.99}.")
    return place
