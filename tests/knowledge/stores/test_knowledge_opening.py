"""Which place did the user mean?"""

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
def test_a_place_is_a_store(place, kind):
    """A path is a file, a URL a database; nothing is opened yet."""
    assert type(store_at(place)) is kind
    assert not Path("notes.db").exists()


def test_a_store_is_itself():
    """A store of one's own may be given."""
    store = SQLiteChunkStore(":memory:")
    assert store_at(store) is store


@pytest.mark.parametrize("place", ["", None, 5])
def test_what_is_no_place_is_told(place):
    """Anything else is a mistake of the caller."""
    with pytest.raises(ConfigError, match="stored in a file"):
        store_at(place)
