"""Which place did the user mean?"""

from pathlib import Path

import pytest

from agentkit.errors import ConfigError
from agentkit.knowledge.stores.opening import store_at
from agentkit.knowledge.stores.postgres import PostgresStore
from agentkit.knowledge.stores.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("notes.db", SqliteStore),
        (Path("notes.db"), SqliteStore),
        (":memory:", SqliteStore),
        ("postgresql://host/name", PostgresStore),
        ("postgres://host/name", PostgresStore),
    ],
)
def test_a_place_is_a_store(place, kind):
    """A path is a file, a URL a database; nothing is opened yet."""
    assert type(store_at(place)) is kind
    assert not Path("notes.db").exists()


def test_a_store_is_itself():
    """A store of one's own may be given."""
    store = SqliteStore(":memory:")
    assert store_at(store) is store


@pytest.mark.parametrize("place", ["", None, 5])
def test_what_is_no_place_is_told(place):
    """Anything else is a mistake of the caller."""
    with pytest.raises(ConfigError, match="kept in a file"):
        store_at(place)
