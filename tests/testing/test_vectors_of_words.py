"""Tests for deterministic embeddings of texts without a model."""

import math

import pytest

from agentkit.testing.scripted_llm import count_words, deterministic_vector

TEXTS = ("tea", "A cup of tea.", "Một tách trà xanh", "茶", "…", "\ud800", "")


@pytest.mark.for_each("text", TEXTS)
@pytest.mark.for_each("length", [1, 8, 64, 1_536])
def test_any_text_has_a_vector_of_length_one(text, length):
    """Any text has a vector of the requested dimensions and of length 1."""
    vector = deterministic_vector(text, length)
    assert len(vector) == length
    assert math.hypot(*vector) == pytest.approx(1)


def test_vector_is_the_same_in_every_process():
    """A text has the same vector in every process."""
    assert [round(number, 3) for number in deterministic_vector("tea", 8)] == [
        -0.707,
        0.0,
        0.0,
        0.0,
        0.0,
        0.707,
        0.0,
        0.0,
    ]


def test_common_words_make_texts_similar():
    """Texts with more words in common have more similar vectors, ignoring case."""
    tea, green, rocket = (
        deterministic_vector(text) for text in ("A cup of tea", "a cup of GREEN tea", "Rockets reach orbit")
    )
    near, far = (sum(one * two for one, two in zip(tea, other, strict=True)) for other in (green, rocket))
    assert near > 0.7 > far


@pytest.mark.parametrize(("text", "words"), [("", 1), ("…", 1), ("a cup, of tea", 4)])
def test_words_in_a_text(text, words):
    """`count_words` returns the number of words in a text, and at least one."""
    assert count_words(text) == words
