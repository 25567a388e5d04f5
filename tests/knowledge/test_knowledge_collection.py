"""Tests for the common parts of documents and notes: usage, limits, and invalid texts."""

import pytest

from agentkit.errors import ConfigError
from agentkit.knowledge import Knowledge, Memory
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer
from agentkit.usage import NO_USAGE


def test_usage_of_embedding_notes_is_counted():
    """The usage of embedding notes is counted."""
    with FakeServer() as server, Memory(":memory:", embed=LLM(base_url=server.base_url, model="m")) as memory:
        assert memory.usage == NO_USAGE
        memory.remember("Likes tea.")
        assert memory.usage.requests == 1


@pytest.mark.parametrize("limit", [0, True, "3", 1.5])
def test_invalid_limit_is_rejected(limit):
    """A `limit` that is not a positive integer raises a ConfigError."""
    with pytest.raises(ConfigError, match="limit= takes a whole number of at least 1"):
        Knowledge(":memory:").search("tea", limit)
    with pytest.raises(ConfigError, match="limit= takes a whole number of at least 1"):
        Memory(":memory:").recall("tea", limit)


def test_text_is_not_accepted_as_a_path(tmp_path):
    """A text that is too long for a file name raises a ConfigError that suggests `add_text`."""
    with Knowledge(tmp_path / "knowledge.db") as knowledge, pytest.raises(ConfigError, match="use add_text"):
        knowledge.add("A note about everything. " * 20)
