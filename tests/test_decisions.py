"""Tests for safety levels: their order, names and numbers."""

import itertools

import pytest

from agentkit import ConfigError, SafetyLevel


def test_levels_are_ordered():
    """SAFE is lower than NETWORK, and NETWORK is lower than SYSTEM."""
    assert SafetyLevel.SAFE < SafetyLevel.NETWORK < SafetyLevel.SYSTEM
    assert [level.name for level in SafetyLevel] == ["SAFE", "NETWORK", "SYSTEM"]


@pytest.mark.parametrize("level", SafetyLevel)
def test_level_can_be_read_from_name_or_number(level):
    """A level is created from a level, its name in any case, or its number."""
    written = [level, level.name, level.name.lower(), level.name.title(), int(level)]
    assert [SafetyLevel.of(each) for each in written] == [level] * len(written)


@pytest.mark.for_each("value", ["", "safest", "safe ", "0", "1", 3, -1, 0.5, None, True, False, [], {}, b"SAFE"])
def test_invalid_safety_level_is_rejected(value):
    """An invalid safety level raises a ConfigError that names the three levels."""
    with pytest.raises(ConfigError, match="use SAFE, NETWORK or SYSTEM"):
        SafetyLevel.of(value)


def test_levels_compare_in_every_pair():
    """Of two different levels exactly one is lower."""
    assert all((one < other) != (other < one) for one, other in itertools.combinations(SafetyLevel, 2))
