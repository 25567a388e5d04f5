"""Tests for abbreviations and quoted names in a text."""

import pytest

from agentkit.llm.providers.offline.argument_matching import is_abbreviated, is_named, lacks_part


@pytest.mark.for_each(
    ("name", "text", "expected"),
    [
        ("CAD", "to Canadian dollars", True),
        ("EUR", "150 Euros", True),
        ("USD", "in US dollars", True),
        ("USD", "in dollars", False),
        ("UK", "in the United Kingdom", True),
        ("CA", "in Canada", False),
        ("IT", "put it there", False),
        ("JPY", "Japanese yen", False),
        ("eur", "150 Euros", False),
    ],
)
def test_abbreviations_match_words(name, text, expected):
    """An abbreviation matches the initials of consecutive words, or three or more letters of one word."""
    assert is_abbreviated(name, text) is expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("detailed", "detail information about Apple", True),
        ("summary", "detail information about Apple", False),
        ("brief", "a brief note", False),
    ],
)
def test_quoted_name_matches_a_word_with_the_same_stem(name, text, expected):
    """A quoted name in the description matches a word with the same stem."""
    assert is_named(name, text, {"description": "Can be 'summary' or 'detailed'."}) is expected


@pytest.mark.parametrize(
    ("text", "description", "expected"),
    [
        ("Paris", "In the form 'City, Country', such as 'Rome, Italy'.", True),
        ("Paris, France", "In the form 'City, Country'.", False),
        ("Paris", "The city, e.g. Rome, Italy.", False),
        ("Paris", "One of 'Rome', 'Paris'.", False),
    ],
)
def test_text_that_lacks_a_part_of_the_example(text, description, expected):
    """A text lacks a part if a quoted example in the description has more parts."""
    assert lacks_part(text, {"description": description}) is expected
