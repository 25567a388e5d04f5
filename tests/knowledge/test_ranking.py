"""In which order are passages given?"""

import pytest

from agentkit.errors import BadResponse
from agentkit.knowledge import Passage, rerank_with
from agentkit.knowledge.ranking import fused, reranked, wordings
from agentkit.testing import ScriptedLLM


def test_rankings_are_joined_by_their_ranks():
    """What stands high in both rankings comes first; equals stand in the order of their numbers."""
    assert [number for number, _ in fused([[1, 2, 3], [3, 2, 4]])] == [3, 2, 1, 4]
    assert fused([[7], [5]]) == [(5, 1 / 61), (7, 1 / 61)]
    assert fused([]) == []


def test_other_wordings_stand_beside_the_question():
    """The question itself always is one of the wordings, each is there once, and there are few."""
    assert wordings("a", None) == ["a"]
    assert wordings("a", lambda _: ["b", "a", "b"]) == ["a", "b"]
    assert len(wordings("a", lambda _: map(str, range(100)))) == 6


def test_one_passage_is_not_judged():
    """A judge is asked only when there is something to put in order."""
    passage = Passage("text", "source")
    assert reranked("question", [passage], lambda *_: pytest.fail("asked")) == [passage]


def test_a_model_that_does_not_judge_is_an_error():
    """A model that gives no numbers is told to its caller."""
    passages = [Passage("a", "s", number=1), Passage("b", "s", number=2)]
    with ScriptedLLM("I cannot.", repeat=True) as llm, pytest.raises(BadResponse):
        reranked("question", passages, rerank_with(llm))
