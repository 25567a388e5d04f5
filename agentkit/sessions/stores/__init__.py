"""Session stores: in memory, SQLite and PostgreSQL."""

from __future__ import annotations

from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from agentkit.errors import SessionError
from agentkit.sessions.store import SessionStore
from agentkit.settings import state_folder

if TYPE_CHECKING:
    from agentkit.sessions.stores.sqlite import SQLiteSessionStore


StoreLocation = str | PathLike[str] | SessionStore | None
"""A file, the URL of a PostgreSQL database, `:memory:`, a store, or None for `sessions.db` in the state folder."""

_SCHEMES = ("postgres", "postgresql")


_MAX_SHARED = 16
"""The number of recently used files that stay open for the next session."""


@lru_cache(maxsize=_MAX_SHARED)
def _shared_store(path: Path) -> SQLiteSessionStore:
    """Return the store of a file. Sessions in the same file share it, so that the file is not opened for each."""
    from agentkit.sessions.stores.sqlite import SQLiteSessionStore

    return SQLiteSessionStore(path)


def refuse_foreign(location: str) -> None:
    """Raise SessionError for a URL of an unsupported kind, which would otherwise be taken for a file name."""
    scheme, separator, _ = location.partition("://")
    if separator and scheme not in _SCHEMES:
        raise SessionError(f"{scheme}:// cannot store sessions. Use a file, or postgresql://USER@HOST/DATABASE.")


def store_at(location: StoreLocation) -> SessionStore:
    """Return the store for a place; its module is imported on demand. Raises SessionError if the place is invalid."""
    if location == ":memory:":
        from agentkit.sessions.stores.in_memory import InMemorySessionStore

        return InMemorySessionStore()
    if isinstance(location, str) and "://" in location:
        refuse_foreign(location)
        from agentkit.sessions.stores.postgres import PostgresSessionStore

        return PostgresSessionStore(location)
    if location is None or isinstance(location, str | PathLike):
        return _shared_store(Path(state_folder() / "sessions.db" if location is None else location).absolute())
    if not isinstance(location, SessionStore):
        raise SessionError(
            f"A session's place must be a file, a postgresql: URL, ':memory:' or a store. Got {location!r:.99}."
        )
    return location
