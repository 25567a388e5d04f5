"""Tests for scores and their validation."""

import pytest

from agentkit.errors import ConfigError
from agentkit.evals import Score


def test_score_of_one_half_passes():
    """A score of at least 0.5 passes by default."""
    assert [Score("x", value).passed for value in (0, 0.49, 0.5, True)] == [False, False, True, True]
    assert Score("x", 0.9, passed=False).passed is False


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "1", None])
def test_invalid_score_values_are_rejected(value):
    """A value that is not a number from 0 to 1 raises a ConfigError."""
    with pytest.raises(ConfigError, match="from 0 to 1"):
        Score("x", value)
