"""Tests for functions as scorers."""

import asyncio

import pytest

from agentkit.errors import ConfigError
from agentkit.evals import Case, Score, Scorer, exact, matches, numeric


def short(case, result):
    """Return whether an answer is short."""
    return len(result.output) < 5


async def later(case, result):
    """Return a score asynchronously."""
    await asyncio.sleep(0)
    return 0.25


class Contented:
    """A callable object."""

    def __call__(self, *_told):
        """Return a passing score."""
        return Score("", 1.0, "because")


@pytest.mark.parametrize(
    ("given", "score"),
    [
        (short, Score("short", 1.0)),
        (later, Score("later", 0.25)),
        (Contented(), Score("Contented", 1.0, "because")),
        (lambda *_: Score("own", 0.0), Score("own", 0.0)),
    ],
)
def test_function_as_scorer(answering, given, score):
    """A function is a scorer under its own name and can return a bool, a number or a Score."""
    assert Scorer.of(given)(Case("x"), answering("yes")) == score


@pytest.mark.parametrize("given", [3, "exact", Score])
def test_invalid_scorers_are_rejected(given):
    """Values that are not callable, and classes, raise a ConfigError."""
    with pytest.raises(ConfigError, match="A scorer is"):
        Scorer.of(given)


@pytest.mark.parametrize("given", [exact, numeric, matches, lambda _: True])
def test_functions_with_a_wrong_signature_are_rejected(given):
    """A function that does not accept a case and a result raises a ConfigError."""
    with pytest.raises(ConfigError, match=r"takes both, or call a built-in factory: exact\(\)"):
        Scorer.of(given)
    assert Scorer.of(max).name == "max"


def test_invalid_scorer_result_is_rejected(answering):
    """A scorer that returns an invalid score raises a ConfigError."""
    with pytest.raises(ConfigError, match="from 0 to 1"):
        Scorer.of(lambda *_: "good")(Case("x"), answering("yes"))


def test_scorer_needs_its_expectation():
    """A scorer does not apply to cases without the expectation it needs."""
    assert numeric().applies_to(Case("x", expected=0))
    assert not numeric().applies_to(Case("x"))
    assert Scorer.of(short).applies_to(Case("x"))
    assert repr(numeric()) == "numeric(0.0, relative=1e-09, decimal='.')"
