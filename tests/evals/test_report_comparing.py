"""Tests for the comparison of two reports."""

import pytest

from agentkit import Limits
from agentkit.errors import ConfigError
from agentkit.evals import Case, Comparison, Suite, contains
from agentkit.evals.metrics import mcnemar


@pytest.fixture
def answered(always):
    """Return a function that creates a report from one answer per case."""

    def make(*answers, **options):
        cases = [Case(f"Case {index}.", "yes", id=f"{index}") for index in range(len(answers))]

        def line(request):
            return answers[int(request.messages[0].content.split()[1].rstrip("."))]

        return Suite("x", cases, contains()).run(always(line), **options)

    return make


def test_case_by_case(answered):
    """A comparison lists fixed and broken cases, the change of the rate and its confidence."""
    before, after = answered("yes", "no", "no", "yes", "no"), answered("yes", "yes", "yes", "no", "no")
    comparison = before.compare(after)
    assert [row.case for row in comparison.fixed] == ["1", "2"]
    assert [row.case for row in comparison.broken] == ["3"]
    assert [row.change for row in comparison.rows].count("same") == 2
    assert comparison.difference == pytest.approx(0.2)
    assert comparison.interval[0] < 0 < comparison.interval[1]
    assert comparison.p_value == comparison.mcnemar == mcnemar(2, 1)
    assert not comparison.is_worse
    assert "2 fixed, 1 broken, of 5 cases" in str(comparison)
    assert "difference +20 points" in str(comparison)


def test_significant_loss_is_reported(answered):
    """A significant loss is reported as worse, and a gain is not."""
    good, bad = answered(*["yes"] * 8), answered(*["no"] * 8)
    assert good.compare(bad).is_worse
    assert not bad.compare(good).is_worse
    assert good.compare(bad).p_value == pytest.approx(2 / 256)


def test_cases_of_only_one_report(answered):
    """Cases that are only in one report are counted and not compared."""
    comparison = answered("yes", "no", "yes").compare(answered("yes", "yes"))
    assert comparison.missing == ("2",)
    assert "1 case is in only one of the two reports, and is left out" in str(comparison)
    assert Comparison.of((), ()).difference == 0.0


def test_undone_trials_are_not_compared(answered):
    """Unfinished trials are not compared."""
    comparison = answered("yes", "yes").compare(answered("yes", "yes", limits=Limits(input_tokens=1)))
    assert (comparison.rows, comparison.missing) == ((), ("0", "1"))


def test_repeats_count_by_the_majority(always):
    """With repeats, a case passes when more than half of them do, and its share is compared."""
    answers = iter(["yes", "no", "yes", "no", "no", "yes"])
    suite = Suite("x", [Case("?", "yes")], contains())
    reports = [suite.run(always(lambda _: next(answers)), repeats=3, concurrency=1) for _ in range(2)]
    (row,) = reports[0].compare(reports[1]).rows
    assert (row.before, row.after, row.change) == (pytest.approx(2 / 3), pytest.approx(1 / 3), "broken")


def test_which_agents_are_compared(always):
    """Reports are compared by their common agent, or the agent must be named."""
    suite = Suite("x", [Case("?", "yes")], contains())
    both = suite.run({"a": always("yes"), "b": always("no")})
    assert both.compare(suite.run({"b": always("yes"), "c": always("no")})).after == "b"
    assert both.only(agent="a").compare(both.only(agent="b")).difference == -1.0
    with pytest.raises(ConfigError, match="Both reports must have the same agent"):
        both.compare(both)
