"""What does a word mean to the offline model?"""

import pytest

from agentkit.llm.providers.offline.lexicon import (
    idea,
    ideas,
    numbers_in,
    places_in,
    plain,
    signed_numbers_in,
    spoken_numbers_in,
    stem,
    words,
    zones_in,
)


@pytest.mark.parametrize("word", ["parse", "parses", "parsed", "parsing"])
def test_forms_of_a_word_have_one_stem(word):
    """The endings of a word do not matter when it is compared."""
    assert stem(word) == stem("parse")


def test_short_words_keep_their_endings():
    """A word of which too little would be left is its own stem."""
    assert stem("is") == "is"


@pytest.mark.parametrize(("word", "other"), [("directory", "folders"), ("letters", "characters"), ("today", "date")])
def test_words_of_one_family_are_one_idea(word, other):
    """Synonyms count as the same idea."""
    assert idea(word) == idea(other)


def test_a_word_without_a_family_is_its_own_idea():
    """A word that no family lists is known by its stem."""
    assert idea("photosynthesis") == stem("photosynthesis")


def test_ideas_leave_out_function_words_and_numbers():
    """Only content words carry ideas."""
    assert ideas(words("What is the weather in Paris in 10 days")) == {stem("weather"), stem("paris"), "time"}


def test_words_keep_apostrophes_and_lose_case():
    """A text is split at everything that is neither letter, digit nor inner apostrophe."""
    assert words("Don't STOP, naïve_user!") == ["don't", "stop", "naïve", "user"]


def test_possessives_and_curly_apostrophes_are_made_plain():
    """`today's` is `today`, however its apostrophe is written."""
    assert plain(["today\u2019s", "don\u2019t"]) == ["today", "don't"]


@pytest.mark.parametrize(("text", "numbers"), [("3 of 1,250.5", (3.0, 1250.5)), ("none", ()), ("1, 2", (1.0, 2.0))])
def test_numbers_in_digits(text, numbers):
    """Numbers are read with thousands separators and decimals."""
    assert numbers_in(text) == numbers


def test_numbers_in_words():
    """Number words up to ninety are numbers too."""
    assert spoken_numbers_in("Five timers for half an hour and ninety seconds") == (5.0, 0.5, 1.0, 90.0)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("-5 degrees", (-5.0,)),
        ("a loss of -$1,250.5", (-1250.5,)),
        ("from 10-20, on 2027-03-05", (10.0, 20.0, 2027.0, 3.0, 5.0)),
        ("(-3), A-7, 8 - 2", (-3.0, 7.0, 8.0, 2.0)),
    ],
)
def test_numbers_may_be_below_zero(text, numbers):
    """A minus before a number counts, a hyphen between two things does not."""
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
    """A place is found after `in` or before `time`, and a time zone's own name anywhere."""
    assert list(zones_in(text)) == zones


def test_places_in_a_time_zone():
    """The names that a question may use for a time zone are returned, without other places."""
    assert {"asia/tokyo", "tokyo", "osaka", "japan"} - {*places_in("Asia/Tokyo")} == {"japan"}
    assert list(places_in("a text / another")) == []
