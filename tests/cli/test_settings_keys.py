"""Tests for the keys of settings: valid values, and errors for invalid ones."""

import pytest

from agentkit.cli.settings import KEYS, parse_limit, unknown_name
from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError


@pytest.mark.for_each(
    ("key", "given", "value"),
    [
        ("model", " gpt-5.4-mini ", "gpt-5.4-mini"),
        ("tools", "core, web", ("core", "web")),
        ("tools", ["core", "calculator,web"], ("core", "calculator", "web")),
        ("safety", "safe", SafetyLevel.SAFE),
        ("session", False, ""),
        ("session", "work", "work"),
        ("limits", "cost=0.1, seconds=60", {"cost": 0.1, "seconds": 60}),
        ("limits", {"cost": 1, "seconds": False}, {"cost": 1, "seconds": None}),
    ],
)
def test_settings_are_parsed(key, given, value):
    """Lists and tables are parsed from files and variables; false disables a setting."""
    assert KEYS[key](given) == value


@pytest.mark.for_each(
    ("key", "given", "expected"),
    [
        ("model", 5, "takes a string that is not blank. Got 5."),
        ("model", "  ", "takes a string that is not blank. Got '  '."),
        ("tools", 5, 'takes names, such as ["core", "web"]'),
        ("tools", ["core", 5], "takes names"),
        ("safety", "hihg", "'hihg' is not a safety level"),
        ("safety", True, "'True' is not a safety level"),
        ("session", True, "or false to store nothing"),
        ("limits", 5, "takes a table"),
        ("limits", {"costs": 5}, "No limit is named 'costs'. Did you mean 'cost'?"),
        ("limits", {"cost": -1}, "The limit cost takes a number above 0"),
    ],
)
def test_invalid_value_is_rejected(key, given, expected):
    """An invalid value is rejected with an error that describes the valid values."""
    with pytest.raises(ConfigError) as caught:
        KEYS[key](given)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("word", "limit"),
    [
        ("cost=0.10", ("cost", 0.1)),
        (" iterations = 3 ", ("iterations", 3)),
        ("seconds=none", ("seconds", None)),
        ("unknown_price=free", ("unknown_price", "free")),
    ],
)
def test_limit_syntax(word, limit):
    """A limit is written as NAME=NUMBER; `none` disables it."""
    assert parse_limit(word) == limit


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("costs=1", "No limit is named 'costs'. Did you mean 'cost'? Known: iterations, "),
        ("cost", "The limit cost has no value. Write it as cost=NUMBER"),
        ("cost=", "has no value"),
        ("cost=cheap", "takes a number, or none for no limit"),
    ],
)
def test_invalid_limit_explains_the_syntax(word, expected):
    """An invalid limit raises an error that lists the limits and their syntax."""
    with pytest.raises(ConfigError) as caught:
        parse_limit(word)
    assert expected in str(caught.value)


def test_unknown_name_without_a_close_match():
    """A name without a close match lists the known names and suggests none."""
    assert unknown_name("setting", "xyz", ("model", "tools")) == "No setting is named 'xyz'. Known: model, tools."
