"""Tests for the scoring of a trial by all its scorers."""

from agentkit.evals import Case, Scorer, contains
from agentkit.evals.scorers import run_scorers


def broken(case, result):
    """Raise an error."""
    raise KeyError("price")


def test_exception_in_a_scorer_is_reported(answering):
    """An exception in a scorer is reported with its name, and earlier scores remain."""
    scores, fault = run_scorers([contains(), Scorer.of(broken), contains()], Case("x", "yes"), answering("yes"))
    assert [score.name for score in scores] == ["contains"]
    assert fault == "The scorer 'broken' failed (KeyError): 'price'"
    assert run_scorers([contains()], Case("x", "yes"), answering("yes"))[1] == ""


def test_function_skips_a_case(answering):
    """A function that returns None skips the case, which gets no score from it."""
    scorers = [Scorer.of(lambda _case, _result: None), Scorer.of(lambda _case, _result: 1.0)]
    scores, error = run_scorers(scorers, Case("2 + 2?"), answering("4"))
    assert ([score.value for score in scores], error) == ([1.0], "")
