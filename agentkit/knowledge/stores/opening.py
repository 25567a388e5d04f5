"""Which place did the user mean?"""

from __future__ import annotations

import os
from os import PathLike

from agentkit.errors import ConfigError
from agentkit.knowledge.stores.postgres import PostgresStore
from agentkit.knowledge.stores.sqlite import SqliteStore
from agentkit.knowledge.stores.store import Store

Place = str | PathLike[str] | Store


def store_at(place: Place) -> Store:
    """The store at a place: a file, `:memory:`, the URL of a PostgreSQL database, or a store itself."""
    if isinstance(place, str | PathLike):
        text = os.fspath(place)
        if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
            return PostgresStore(place)
        if text:
            return SqliteStore(text)
    elif hasattr(place, "find_words"):
        return place
    raise ConfigError(f"Knowledge is kept in a file, a PostgreSQL database or a store; not in {place!r}.")
