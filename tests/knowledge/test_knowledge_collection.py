"""Are documents and notes kept, found and let go of alike?"""

import pytest

from agentkit.errors import ConfigError
from agentkit.knowledge import Knowledge, Memory
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer
from agentkit.usage import NO_USAGE


def test_what_vectors_of_notes_have_taken_is_told():
    """What making vectors of notes has taken is told, as it is of documents."""
    with FakeServer() as server, Memory(":memory:", embed=LLM(base_url=server.base_url, model="m")) as memory:
        assert memory.usage == NO_USAGE
        memory.remember("Likes tea.")
        assert memory.usage.requests == 1


@pytest.mark.parametrize("limit", [0, True, "3", 1.5])
def test_what_is_no_number_of_passages_is_refused(limit):
    """So many are found as a whole number says."""
    with pytest.raises(ConfigError, match="limit= takes a whole number of at least 1"):
        Knowledge(":memory:").search("tea", limit)
    with pytest.raises(ConfigError, match="limit= takes a whole number of at least 1"):
        Memory(":memory:").recall("tea", limit)


def test_a_text_is_no_place(tmp_path):
    """A text that is too long for the name of a file is refused with the function that takes texts."""
    with Knowledge(tmp_path / "knowledge.db") as knowledge, pytest.raises(ConfigError, match="use add_text"):
        knowledge.add("A note about everything. " * 20)
