"""Marking of a trial by all its scorers."""

from agentkit.evals import Case, Scorer, contains
from agentkit.evals.scorers import marked


def broken(case, result):
    """A scorer that raises."""
    raise KeyError("price")


def test_a_scorer_that_fails_is_told(answering):
    """An exception of a scorer is reported with its name; earlier scores remain."""
    scores, fault = marked([contains(), Scorer.of(broken), contains()], Case("x", "yes"), answering("yes"))
    assert [score.name for score in scores] == ["contains"]
    assert fault == "The scorer 'broken' failed (KeyError): 'price'"
    assert marked([contains()], Case("x", "yes"), answering("yes"))[1] == ""
