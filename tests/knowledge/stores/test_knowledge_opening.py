"""Tests for the `place` argument, which selects a store."""

from pathlib import Path

import pytest

from agentkit.errors import ConfigError
from agentkit.knowledge.stores import store_at
from agentkit.knowledge.stores.postgres import PostgresChunkStore
from agentkit.knowledge.stores.sqlite import SQLiteChunkStore


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("notes.db", SQLiteChunkStore),
        (Path("notes.db"), SQLiteChunkStore),
        (":memory:", SQLiteChunkStore),
        ("postgresql://host/name", PostgresChunkStore),
        ("postgres://host/name", PostgresChunkStore),
    ],
)
def test_place_selects_the_store(place, kind):
    """A path opens a file store and a URL a database store, without connecting."""
    assert type(store_at(place)) is kind
    assert not Path("notes.db").exists()


def test_custom_store_is_returned_unchanged():
    """A custom store is returned unchanged."""
    store = SQLiteChunkStore(":memory:")
    assert store_at(store) is store


@pytest.mark.parametrize("place", ["", None, 5])
def test_invalid_place_is_rejected(place):
    """An invalid place raises a ConfigError."""
    with pytest.raises(ConfigError, match="stored in a file"):
        store_at(place)
