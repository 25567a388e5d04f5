"""Tests for words of the offline model: stems, synonyms, numbers and places."""

import pytest

from agentkit.llm.providers.offline.lexicon import (
    concept,
    concepts,
    numbers_in,
    places_in,
    plain,
    signed_numbers_in,
    stem,
    word_numbers_in,
    words,
    zones_in,
)


@pytest.mark.parametrize("word", ["parse", "parses", "parsed", "parsing"])
def test_forms_of_a_word_have_one_stem(word):
    """Words with different endings have the same stem."""
    assert stem(word) == stem("parse")


def test_short_words_keep_their_endings():
    """A word whose stem would be too short is its own stem."""
    assert stem("is") == "is"


@pytest.mark.parametrize(("word", "other"), [("directory", "folders"), ("letters", "characters"), ("today", "date")])
def test_synonyms_are_one_idea(word, other):
    """Synonyms count as the same idea."""
    assert concept(word) == concept(other)


def test_word_without_synonyms_is_its_own_idea():
    """A word without synonyms is identified by its stem."""
    assert concept("photosynthesis") == stem("photosynthesis")


def test_function_words_and_numbers_have_no_concepts():
    """Only content words have concepts."""
    assert concepts(words("What is the weather in Paris in 10 days")) == {stem("weather"), stem("paris"), "time"}


def test_words_keep_apostrophes_and_lose_case():
    """A text is split at all characters except letters, digits and inner apostrophes."""
    assert words("Don't STOP, naïve_user!") == ["don't", "stop", "naïve", "user"]


def test_possessives_and_curly_apostrophes_are_normalised():
    """`today's` becomes `today`, with a straight or a curly apostrophe."""
    assert plain(["today\u2019s", "don\u2019t"]) == ["today", "don't"]


@pytest.mark.parametrize(("text", "numbers"), [("3 of 1,250.5", (3.0, 1250.5)), ("none", ()), ("1, 2", (1.0, 2.0))])
def test_numbers_in_digits(text, numbers):
    """Numbers are parsed with thousands separators and decimals."""
    assert numbers_in(text) == numbers


def test_numbers_in_words():
    """Number words up to ninety are parsed."""
    assert word_numbers_in("Five timers for half an hour and ninety seconds") == (5.0, 0.5, 1.0, 90.0)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("-5 degrees", (-5.0,)),
        ("a loss of -$1,250.5", (-1250.5,)),
        ("from 10-20, on 2027-03-05", (10.0, 20.0, 2027.0, 3.0, 5.0)),
        ("(-3), A-7, 8 - 2", (-3.0, 7.0, 8.0, 2.0)),
    ],
)
def test_negative_numbers(text, numbers):
    """A minus sign makes a number negative, and a hyphen between two words does not."""
    assert signed_numbers_in(text) == numbers


@pytest.mark.for_each(
    ("text", "zones"),
    [
        ("what time is it in Tokyo?", ["Asia/Tokyo"]),
        ("in new york right now", ["America/New_York"]),
        ("London time", ["Europe/London"]),
        ("Asia/Ho_Chi_Minh", ["Asia/Ho_Chi_Minh"]),
        ("in Hanoi", ["Asia/Ho_Chi_Minh"]),
        ("ở Hà Nội", ["Asia/Ho_Chi_Minh"]),
        ("the time in UTC", ["UTC"]),
        ("in San Francisco and in Paris", ["America/Los_Angeles", "Europe/Paris"]),
        ("Tokyo drift", []),
        ("in general, at the center, in time", []),
    ],
)
def test_places_are_read_as_time_zones(text, zones):
    """A place is found after `in` or before `time`, and the name of a time zone anywhere."""
    assert list(zones_in(text)) == zones


def test_places_in_a_time_zone():
    """The names of places in a time zone are returned."""
    assert {"asia/tokyo", "tokyo", "osaka", "japan"} - {*places_in("Asia/Tokyo")} == {"japan"}
    assert list(places_in("a text / another")) == []
