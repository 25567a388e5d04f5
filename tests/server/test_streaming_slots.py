"""Is there room for so many runs, and for no more?"""

import pytest

from agentkit.errors import ConfigError
from agentkit.server.http_types import ConcurrencyLimit, HTTPError


def test_one_more_is_told_to_come_back():
    """When all places are taken, the next is refused with when to try again, and let in once one is free."""
    room = ConcurrencyLimit(1)
    with room.one(), pytest.raises(HTTPError) as refused:
        room.take()
    assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "1"})
    room.take()
    room.give_back()
    room.take()


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "8"])
def test_there_is_room_for_at_least_one(most):
    """Room for nobody, or for what is no number, is refused before anything is served."""
    with pytest.raises(ConfigError, match="most_runs="):
        ConcurrencyLimit(most)
