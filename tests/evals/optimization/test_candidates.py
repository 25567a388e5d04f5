"""Candidates, their scores and the Pareto set."""

import pytest

from agentkit.evals.optimization.candidates import Candidate, Pool, merged

ORIGINAL = Candidate({"instruction": "Be brief.", "tool:add": "Adds."})


def changed(number, **texts):
    """The original with other texts."""
    named = {"instruction": texts.get("instruction", "Be brief."), "tool:add": texts.get("add", "Adds.")}
    return Candidate(named, (ORIGINAL.id,), number)


def pool_of(*scored):
    """A pool of candidates with their scores on the cases a, b, c."""
    pool = Pool()
    for candidate, scores in scored:
        pool.add(candidate, dict(zip("abc", scores, strict=True)))
    return pool


def test_a_candidate_is_known_by_its_texts():
    """Two candidates with the same texts have the same id, wherever they come from; others have another."""
    again = Candidate(dict(reversed(ORIGINAL.texts.items())), ("someone",), 7, "why not")
    assert again.id == ORIGINAL.id
    assert changed(1, instruction="Be long.").id != ORIGINAL.id
    assert changed(1, instruction="Be long.").changed(ORIGINAL) == {"instruction"}


def test_a_candidate_is_diffable():
    """The difference of two candidates is a unified diff, part by part, each line with its end."""
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
def test_the_pareto_set_has_who_is_best_somewhere(scores, front):
    """A candidate counts as often as it is among the best on a case, unless another one covers it everywhere."""
    candidates = [changed(number, instruction=str(number)) for number in range(len(scores))]
    pool = pool_of(*zip(candidates, scores, strict=True))
    assert [pool.front.get(each.id, 0) for each in candidates] == front


def test_the_best_has_the_highest_mean():
    """The best is who does best on the average of all training cases; among equals it is the earliest."""
    better, equal = changed(1, instruction="1"), changed(2, instruction="2")
    pool = pool_of((ORIGINAL, (0, 0, 1)), (better, (1, 0, 1)), (equal, (0, 1, 1)))
    assert pool.best is better
    assert pool.original is ORIGINAL
    assert pool_of((ORIGINAL, (1, 0, 0)), (equal, (0, 1, 0))).best is ORIGINAL


def test_changes_of_different_parts_can_be_joined():
    """Two candidates of the Pareto set that changed different parts make one with both changes; others make none."""
    spoken, added = changed(1, instruction="Say please."), changed(2, add="Adds two numbers.")
    other = changed(3, instruction="Say thanks.")
    pool = pool_of((ORIGINAL, (0, 0, 0)), (spoken, (1, 0, 0)), (added, (0, 1, 0)), (other, (0, 0, 1)))
    assert [{one.id, two.id} for one, two in pool.pairs()] == [{spoken.id, added.id}, {added.id, other.id}]
    both = merged(spoken, added, ORIGINAL, 4)
    assert both.texts == {"instruction": "Say please.", "tool:add": "Adds two numbers."}
    assert both.parents == (spoken.id, added.id)
