"""Which store does a place mean?"""

from __future__ import annotations

from os import PathLike

from agentkit.config import state_folder
from agentkit.errors import SessionError
from agentkit.memory.store import Store

Place = str | PathLike[str] | Store | None
"""A file, the URL of a PostgreSQL database, `:memory:`, a store, or None for `sessions.db` in the state folder."""

_SCHEMES = ("postgres", "postgresql")


def refuse_foreign(place: str) -> None:
    """Raise SessionError for the URL of what keeps no sessions, which would otherwise be taken for a file's name."""
    scheme, parted, _ = place.partition("://")
    if parted and scheme not in _SCHEMES:
        raise SessionError(f"{scheme}:// keeps no sessions. Give a file, or postgresql://USER@HOST/DATABASE.")


def store_at(place: Place) -> Store:
    """The store that a place means; its module is imported now. Raises SessionError for what is no place."""
    if place == ":memory:":
        from agentkit.memory.stores.volatile import MemoryStore

        return MemoryStore()
    if isinstance(place, str) and "://" in place:
        refuse_foreign(place)
        from agentkit.memory.stores.postgres import PostgresStore

        return PostgresStore(place)
    if place is None or isinstance(place, str | PathLike):
        from agentkit.memory.stores.sqlite import SQLiteStore

        return SQLiteStore(state_folder() / "sessions.db" if place is None else place)
    if not isinstance(place, Store):
        raise SessionError(f"A session's place is a file, a postgresql: URL, ':memory:' or a store. Got {place!r:.99}.")
    return place
