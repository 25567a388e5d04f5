"""Does a text say what a short or a given name stands for?"""

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
def test_capitals_stand_for_the_words_they_begin(name, text, expected):
    """Capitals stand for words that stand together, or for three letters or more of one."""
    assert is_abbreviated(name, text) is expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("detailed", "detail information about Apple", True),
        ("summary", "detail information about Apple", False),
        ("brief", "a brief note", False),
    ],
)
def test_a_name_that_the_description_gives_may_be_said_in_another_form(name, text, expected):
    """What stands in quotes in a description is chosen by a word of the same stem."""
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
def test_a_text_may_lack_a_part_that_is_shown(text, description, expected):
    """A quoted example of two parts asks for two."""
    assert lacks_part(text, {"description": description}) is expected
