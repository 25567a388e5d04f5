"""Stores for chunks: SQLite and PostgreSQL."""

from __future__ import annotations

import os
from os import PathLike

from agentkit.errors import ConfigError
from agentkit.knowledge.stores.postgres import PostgresChunkStore
from agentkit.knowledge.stores.sqlite import SQLiteChunkStore
from agentkit.knowledge.stores.store import ChunkStore

Place = str | PathLike[str] | ChunkStore


def store_at(place: Place) -> ChunkStore:
    """Return the store for a file, `:memory:`, the URL of a PostgreSQL database, or a store."""
    if isinstance(place, str | PathLike):
        text = os.fspath(place)
        if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
            return PostgresChunkStore(place)
        if text:
            return SQLiteChunkStore(text)
    elif hasattr(place, "find_words"):
        return place
    raise ConfigError(f"Knowledge is stored in a file, a PostgreSQL database or a store object. Got {place!r}.")
