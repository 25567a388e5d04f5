"""In which order are passages given?"""

import pytest

from agentkit.errors import BadResponse
from agentkit.knowledge import Chunk, rerank_with
from agentkit.knowledge.ranking import fused, reranked, wordings
from agentkit.testing import ScriptedLLM


def test_rankings_are_joined_by_their_scaled_scores():
    """The best of each ranking counts 1, whatever its scores; equals stand in the order of their numbers."""
    assert fused([[(1, 8.0), (2, 4.0)], [(2, 0.2), (3, 0.1)]]) == [(2, 0.75), (1, 0.5), (3, 0.25)]
    assert fused([[(7, 5.0)], [(5, 1.0)], []]) == [(5, 1 / 3), (7, 1 / 3)]
    assert fused([]) == []


def test_words_count_for_more_than_vectors():
    """Of the score words give seven tenths, and vectors three, from their best down to the last that was found."""
    found = dict(fused([[(1, 9.0), (2, 4.5)]], [[(3, 0.9), (2, 0.8), (1, 0.7)]]))
    assert found == pytest.approx({1: 0.7, 2: 0.35 + 0.15, 3: 0.3})
    assert fused([[]], [[(4, 0.5), (2, 0.5)]]) == [(2, pytest.approx(0.3)), (4, pytest.approx(0.3))]


def test_other_wordings_stand_beside_the_question():
    """The question itself always is one of the wordings, each is there once, and there are few."""
    assert wordings("a", None) == ["a"]
    assert wordings("a", lambda _: ["b", "a", "b"]) == ["a", "b"]
    assert len(wordings("a", lambda _: map(str, range(100)))) == 6


def test_one_passage_is_not_judged():
    """A judge is asked only when there is something to put in order."""
    passage = Chunk("text", "source")
    assert reranked("question", [passage], lambda *_: pytest.fail("asked")) == [passage]


def test_a_model_that_does_not_judge_is_an_error():
    """A model that gives no numbers is told to its caller."""
    passages = [Chunk("a", "s", number=1), Chunk("b", "s", number=2)]
    with ScriptedLLM("I cannot.", repeat=True) as llm, pytest.raises(BadResponse):
        reranked("question", passages, rerank_with(llm))
