"""Tests for candidates, their scores and the Pareto set."""

import pytest

from agentkit.evals.optimization.candidates import Candidate, Pool, merge

ORIGINAL = Candidate({"instruction": "Be brief.", "tool:add": "Adds."})


def changed(number, **texts):
    """Return the original with other texts."""
    named = {"instruction": texts.get("instruction", "Be brief."), "tool:add": texts.get("add", "Adds.")}
    return Candidate(named, (ORIGINAL.id,), number)


def pool_of(*scored):
    """Return a pool of candidates with their scores on the cases a, b, c."""
    pool = Pool()
    for candidate, scores in scored:
        pool.add(candidate, dict(zip("abc", scores, strict=True)))
    return pool


def test_id_of_a_candidate_depends_on_its_texts():
    """The id of a candidate depends only on its texts."""
    again = Candidate(dict(reversed(ORIGINAL.texts.items())), ("someone",), 7, "why not")
    assert again.id == ORIGINAL.id
    assert changed(1, instruction="Be long.").id != ORIGINAL.id
    assert changed(1, instruction="Be long.").changed(ORIGINAL) == {"instruction"}


def test_candidate_is_diffable():
    """The difference of two candidates is a unified diff of each part."""
    longer = changed(1, instruction="Be brief.\nSay please.")
    assert ORIGINAL.diff(longer).splitlines() == [
        f"--- instruction ({ORIGINAL.id})",
        f"+++ instruction ({longer.id})",
        "@@ -1 +1,2 @@",
        " Be brief.",
        "+Say please.",
    ]
    assert ORIGINAL.diff(ORIGINAL) == ""


@pytest.mark.parametrize(
    ("scores", "front"),
    [
        ([(0, 0, 0)], [3]),
        ([(0, 0, 0), (1, 0, 0)], [0, 3]),
        ([(1, 0, 0), (0, 1, 0)], [2, 2]),
        ([(1, 0, 0), (1, 0, 0)], [3, 0]),
        ([(1, 0, 0), (0, 1, 0), (0.5, 0.5, 0)], [2, 2, 1]),
        ([(1, 0, 0.5), (0, 1, 0.5), (0.6, 0.6, 0.4)], [2, 2, 0]),
    ],
)
def test_pareto_set_has_the_best_of_each_case(scores, front):
    """A candidate counts once per case on which it is among the best, unless another one dominates it."""
    candidates = [changed(number, instruction=str(number)) for number in range(len(scores))]
    pool = pool_of(*zip(candidates, scores, strict=True))
    assert [pool.front.get(each.id, 0) for each in candidates] == front


def test_best_has_the_highest_mean():
    """The best candidate has the highest mean score, and the earliest one wins a tie."""
    better, equal = changed(1, instruction="1"), changed(2, instruction="2")
    pool = pool_of((ORIGINAL, (0, 0, 1)), (better, (1, 0, 1)), (equal, (0, 1, 1)))
    assert pool.best is better
    assert pool.original is ORIGINAL
    assert pool_of((ORIGINAL, (1, 0, 0)), (equal, (0, 1, 0))).best is ORIGINAL


def test_only_different_parts_can_be_merged():
    """Only candidates that changed different parts can be merged."""
    text, added = changed(1, instruction="Say please."), changed(2, add="Adds two numbers.")
    other = changed(3, instruction="Say thanks.")
    pool = pool_of((ORIGINAL, (0, 0, 0)), (text, (1, 0, 0)), (added, (0, 1, 0)), (other, (0, 0, 1)))
    assert [{one.id, two.id} for one, two in pool.pairs()] == [{text.id, added.id}, {added.id, other.id}]
    both = merge(text, added, ORIGINAL, 4)
    assert both.texts == {"instruction": "Say please.", "tool:add": "Adds two numbers."}
    assert both.parents == (text.id, added.id)
