"""Tests for the ranking of passages."""

import pytest

from agentkit.errors import BadResponse
from agentkit.knowledge import Chunk, rerank_with
from agentkit.knowledge.ranking import apply_reranking, fuse_rankings, search_queries
from agentkit.testing import ScriptedLLM


def test_rankings_are_merged_by_scaled_scores():
    """Rankings are merged by scaled scores, and ties are ordered by number."""
    assert fuse_rankings([[(1, 8.0), (2, 4.0)], [(2, 0.2), (3, 0.1)]]) == [(2, 0.75), (1, 0.5), (3, 0.25)]
    assert fuse_rankings([[(7, 5.0)], [(5, 1.0)], []]) == [(5, 1 / 3), (7, 1 / 3)]
    assert fuse_rankings([]) == []


def test_words_have_more_weight_than_vectors():
    """The score is seven tenths from words and three tenths from vectors."""
    found = dict(fuse_rankings([[(1, 9.0), (2, 4.5)]], [[(3, 0.9), (2, 0.8), (1, 0.7)]]))
    assert found == pytest.approx({1: 0.7, 2: 0.35 + 0.15, 3: 0.3})
    assert fuse_rankings([[]], [[(4, 0.5), (2, 0.5)]]) == [(2, pytest.approx(0.3)), (4, pytest.approx(0.3))]


def test_wordings_contain_the_question():
    """The wordings contain the question itself, no duplicates and at most six entries."""
    assert search_queries("a", None) == ["a"]
    assert search_queries("a", lambda _: ["b", "a", "b"]) == ["a", "b"]
    assert len(search_queries("a", lambda _: map(str, range(100)))) == 6


def test_single_passage_is_not_reranked():
    """A single passage is not reranked."""
    passage = Chunk("text", "source")
    assert apply_reranking("question", [passage], lambda *_: pytest.fail("asked")) == [passage]


def test_invalid_reranking_response_is_an_error():
    """A reranking model that returns no numbers raises BadResponse."""
    passages = [Chunk("a", "s", number=1), Chunk("b", "s", number=2)]
    with ScriptedLLM("I cannot.", repeat=True) as llm, pytest.raises(BadResponse):
        apply_reranking("question", passages, rerank_with(llm))
