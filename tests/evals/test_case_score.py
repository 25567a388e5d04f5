"""Scores and their validation."""

import pytest

from agentkit.errors import ConfigError
from agentkit.evals import Score


def test_a_score_passes_from_a_half_on():
    """A score that does not say whether it passes does so from a half on."""
    assert [Score("x", value).passed for value in (0, 0.49, 0.5, True)] == [False, False, True, True]
    assert Score("x", 0.9, passed=False).passed is False


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "1", None])
def test_what_is_no_score(value):
    """A value that is not a number from 0 to 1 is refused."""
    with pytest.raises(ConfigError, match="from 0 to 1"):
        Score("x", value)
