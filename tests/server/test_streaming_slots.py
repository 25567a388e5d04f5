"""Tests for the limit on concurrent requests."""

import pytest

from agentkit.errors import ConfigError
from agentkit.server.http_types import ConcurrencyLimit, HTTPError


def test_request_over_the_limit_is_rejected():
    """A request over the limit is rejected with `retry-after`, and accepted after a slot is freed."""
    room = ConcurrencyLimit(1)
    with room.header(), pytest.raises(HTTPError) as refused:
        room.acquire()
    assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "1"})
    room.acquire()
    room.release()
    room.acquire()


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "8"])
def test_limit_must_be_positive(most):
    """A limit that is not a positive integer raises a ConfigError."""
    with pytest.raises(ConfigError, match="max_runs="):
        ConcurrencyLimit(most)
