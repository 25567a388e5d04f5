"""Tests for the search loop, whose requests are answered by the tests."""

from hypothesis import given
from hypothesis import strategies as st

from agentkit.evals.optimization.candidates import Candidate, FailedCase
from agentkit.evals.optimization.search import (
    KEPT,
    KNOWN,
    NO_BETTER,
    CaseMeasurement,
    EvaluatedCandidate,
    Measure,
    Proposal,
    Propose,
    Search,
)

CASES = tuple("abcdef")
ORIGINAL = Candidate({"instruction": "begin", "tool:add": "adds"})


class World:
    """A case passes if the texts contain its letter as a word; a function of the request makes the proposals."""

    def __init__(self, propose, passes=None):
        self.propose, self.asked, self.told = propose, [], []
        self.passes = passes or (lambda texts, case: case in " ".join(texts.values()).split())

    def answer(self, step):
        """Return the measurement or proposal."""
        if isinstance(step, EvaluatedCandidate):
            self.told.append(step)
            return None
        self.asked.append(step)
        if isinstance(step, Propose):
            return self.propose(step)
        return {case: self.measured(step.candidate, case) for case in step.cases}

    def measured(self, candidate, case):
        """Return the score of a case, with a failure that mentions the tool if it does not pass."""
        score = float(self.passes(candidate.texts, case))
        return CaseMeasurement(score, None if score >= 1 else FailedCase(case, f"letter {case}", "", "", ("add it",)))


def searched(world, rounds=20, batch=3, seed=0, original=ORIGINAL):
    """Return a search that was run to its end."""
    search = Search(original, CASES, rounds, batch, seed)
    steps, value = search.steps(), None
    for _ in range(1_000):
        try:
            value = world.answer(steps.send(value))
        except StopIteration:
            return search
    raise AssertionError("the search does not end")


def missing(question):
    """Return a proposal that adds the letter of the first failure."""
    return Proposal(f"{question.text} {question.failures[0].case}", "a letter was missing")


def test_search_ends_when_every_case_passes():
    """A search ends when all training cases pass."""
    world = World(missing)
    search = searched(world)
    assert search.ended == "every training case passes"
    assert search.pool.mean(search.best) == 1
    assert world.told[0] == EvaluatedCandidate(ORIGINAL, KEPT, 0.0)
    assert world.told[-1].candidate is search.best
    assert world.told[1].candidate.reason == "a letter was missing"


def test_search_ends_with_its_rounds():
    """A proposer that never helps is called once per round, and the original stays the best."""
    world = World(lambda question: Proposal(f"{question.text} {question.round}."))
    search = searched(world, rounds=5)
    assert search.ended == "all 5 rounds were made"
    assert search.best is ORIGINAL
    assert [each.verdict for each in world.told] == [KEPT, *[NO_BETTER] * 5]


def test_original_that_passes_is_not_touched():
    """An agent that passes every case is measured once, and no proposal is requested."""
    world = World(missing, passes=lambda _texts, _case: True)
    search = searched(world)
    assert [type(each) for each in world.asked] == [Measure]
    assert search.best is ORIGINAL


def test_original_is_the_initial_best_candidate():
    """The original is the best candidate before anything is measured."""
    assert Search(ORIGINAL, CASES, 1, 1, 0).best is ORIGINAL


def test_mini_batch_is_tried_first():
    """A proposal is first measured on a mini-batch, and on the other cases only if it improves."""
    world = World(lambda question: Proposal(f"{question.text} no"))
    searched(world, rounds=1)
    assert [len(each.cases) for each in world.asked if isinstance(each, Measure)] == [6, 3]
    world = World(missing)
    searched(world, rounds=1)
    original, batch, rest = (each.cases for each in world.asked if isinstance(each, Measure))
    assert set(batch) | set(rest) == set(original)
    assert not set(batch) & set(rest)


def test_mini_batch_has_mostly_failures():
    """Two thirds of a mini-batch are cases that fail, the rest may be broken by a text; only failures are shown."""
    original = Candidate({"instruction": "begin a b c", "tool:add": "adds"})
    world = World(lambda question: Proposal(f"{question.text} no"))
    searched(world, rounds=1, original=original)
    question = next(each for each in world.asked if isinstance(each, Propose))
    assert {failure.case for failure in question.failures} < {"d", "e", "f"}
    assert len(question.failures) == 2
    few = World(lambda question: Proposal(f"{question.text} no"))
    searched(few, rounds=1, original=Candidate({"instruction": "begin a b c d e", "tool:add": "adds"}))
    assert [len(each.cases) for each in few.asked if isinstance(each, Measure)] == [6, 3]


def test_invalid_proposals_are_not_measured():
    """Empty, invisible and repeated proposals are rejected without a measurement."""
    texts = iter(["", "begin\x00", "begin no", "begin", "begin no"])
    world = World(lambda _: Proposal(next(texts), "nothing comes to mind"))
    searched(world, rounds=5, original=Candidate({"instruction": "begin"}))
    assert [each.verdict for each in world.told[1:]] == [
        "refused: nothing comes to mind",
        "refused: The text contains an invisible character (U+0000).",
        NO_BETTER,
        KNOWN,
        KNOWN,
    ]
    assert len([each for each in world.asked if isinstance(each, Measure)]) == 2


def test_parts_are_improved_in_turn():
    """The parts take turns, and only tools mentioned in the failures are improved."""
    world = World(lambda question: Proposal(f"{question.text} no{question.round}"))
    original = Candidate({"instruction": "begin", "tool:add": "adds", "tool:multiply": "multiplies"})
    searched(world, rounds=4, original=original)
    assert [each.part for each in world.asked if isinstance(each, Propose)] == ["instruction", "tool:add"] * 2


def test_parts_of_a_candidate_take_turns():
    """A candidate with a changed instruction changes a tool description next."""
    world = World(missing)
    searched(world, rounds=4)
    assert [each.part for each in world.asked if isinstance(each, Propose)] == ["instruction", "tool:add"] * 2


def test_tools_take_turns_without_a_hint():
    """If the failures mention no tool, every tool takes its turn."""
    world = World(lambda question: Proposal(f"{question.text} no{question.round}"))
    searched(world, rounds=2, original=Candidate({"tool:one": "1", "tool:two": "2"}))
    assert [each.part for each in world.asked if isinstance(each, Propose)] == ["tool:one", "tool:two"]


def specialists(question):
    """Return a helpful proposal for the original and an unhelpful one for other candidates."""
    if question.parent.parents:
        return Proposal(f"no {question.round}")
    return Proposal({"instruction": "a b", "tool:add": "d e"}[question.part])


def test_changes_of_different_parts_are_merged():
    """Two Pareto candidates that changed different parts are merged, and a better merge is accepted."""
    original = Candidate({"instruction": "c", "tool:add": "f"})
    world = World(specialists)
    search = searched(world, rounds=12, batch=6, original=original)
    (joined,) = [each for each in world.told if len(each.candidate.parents) == 2]
    assert joined.candidate.texts == {"instruction": "a b", "tool:add": "d e"}
    assert (joined.verdict, search.best) == (KEPT, joined.candidate)


def test_worse_merge_is_dropped():
    """A merged candidate that is worse is dropped."""

    def passes(texts, case):
        words = " ".join(texts.values()).split()
        return case in words and not {"a", "d"} <= set(words)

    world = World(specialists, passes)
    searched(world, rounds=12, batch=6, original=Candidate({"instruction": "c", "tool:add": "f"}))
    assert [each.verdict for each in world.told if len(each.candidate.parents) == 2] == [NO_BETTER]


def test_search_ends_when_graded_cases_pass():
    """A candidate whose cases all pass is not improved further, even with scores below 1."""

    class Graded(World):
        def measured(self, candidate, case):
            return (
                CaseMeasurement(0.9) if "good" in candidate.texts["instruction"] else super().measured(candidate, case)
            )

    search = searched(
        Graded(lambda question: Proposal(f"{question.text} good")), original=Candidate({"instruction": "x"})
    )
    assert search.ended == "every training case passes"
    assert search.pool.mean(search.best) == 0.9


def test_parent_has_failures():
    """Only a candidate with failures is chosen as a parent, even if another has a lower mean."""

    class Graded(World):
        def measured(self, candidate, case):
            texts = candidate.texts["instruction"]
            if "even" in texts:
                return CaseMeasurement(0.5)
            score = 0.0 if case == "a" else 0.7 if "good" in texts else 0.1
            return CaseMeasurement(score, FailedCase(case, "", "", ""))

    texts = iter(["good", "good even"])
    world = Graded(lambda _: Proposal(next(texts, "good no")))
    search = searched(world, rounds=4, batch=6, original=Candidate({"instruction": "x"}))
    parents = {each.parent.texts["instruction"] for each in world.asked if isinstance(each, Propose)}
    assert "good even" not in parents
    assert search.best.texts["instruction"] == "good"


@given(seed=st.integers(0, 1_000), rounds=st.integers(1, 8), batch=st.integers(1, 8))
def test_same_seed_and_answers_make_the_same_search(seed, rounds, batch):
    """A search depends only on its seed and the answers, whatever the size of its mini-batches."""
    first, second = World(missing), World(missing)
    searched(first, rounds, batch, seed)
    searched(second, rounds, batch, seed)
    assert first.asked == second.asked
    assert first.told == second.told
