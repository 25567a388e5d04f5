"""Tests for the metrics of trials."""

import pytest

from agentkit import Agent, Limits
from agentkit.evals import Case, Suite, contains
from agentkit.evals.metrics import Metrics, wilson
from agentkit.messages import AssistantMessage, Response
from agentkit.testing import ScriptedLLM
from agentkit.usage import Tariff, Usage


def test_figures_of_an_agent(mixed):
    """The rate counts errors, refusals and limits as not passed, and every outcome is counted."""
    figures = mixed.figures[0]
    assert (figures.agent, figures.model, figures.trials, figures.rate.trials, figures.rate.cases) == (
        *("one", "scripted"),
        *(12, 12, 6),
    )
    assert figures.outcomes == {"passed": 4, "failed": 2, "refused": 2, "limit": 2, "error": 2, "undone": 0}
    assert figures.rate.value == pytest.approx(1 / 3)
    assert (figures.rate.low, figures.rate.high) == pytest.approx(wilson(2, 6), abs=0.06)
    assert figures.share("error") == pytest.approx(1 / 6)
    assert figures.tool_accuracy == 1.0
    assert (figures.verdicts["allow"], figures.latency(0.5) > 0, len(figures.seconds)) == (8, True, 6)


def test_no_figures():
    """Without trials the interval of the rate is from 0 to 1 and the other metrics are 0 or empty."""
    figures = Metrics.of("nobody", [])
    assert (figures.rate.low, figures.rate.high, figures.score, figures.latency(0.5)) == (0.0, 1.0, 0.0, 0.0)
    assert (figures.share("error"), figures.tool_accuracy, figures.model) == (0.0, None, "")


def test_unknown_cost_is_not_zero(always):
    """Without a price the cost is unknown, not 0."""
    report = Suite("x", [Case("?", "yes")], contains()).run(always("yes"))
    assert report.figures[0].cost is None
    assert report.figures[0].to_data()["cost"] == {"dollars": None, "text": "unknown", "unpriced_requests": None}


def test_known_costs_are_added_up():
    """Known costs are added up."""
    usage = Usage(1_000_000, 0, requests=1, tariff=Tariff("openai", "gpt-5.4-mini"))
    llm = ScriptedLLM(Response(AssistantMessage("yes"), usage=usage), repeat=True)
    report = Suite("x", [Case("?", "yes")], contains()).run(Agent("x", llm=llm), repeats=2)
    data = report.figures[0].to_data()
    assert data["cost"]["dollars"] == pytest.approx(report.trials[0].result.cost.dollars * 2)
    assert data["cost"]["dollars"] > 0


def test_undone_trials_are_not_counted(always):
    """Trials that were not run because of the limits count neither as passed nor as failed."""
    report = Suite("x", [Case("?", "yes")], contains()).run(always("yes"), limits=Limits(input_tokens=1))
    assert (report.figures[0].rate.trials, report.figures[0].outcomes["undone"], report.success_rate) == (0, 1, 0.0)


def test_repeats_that_pass():
    """The metrics contain the probability that any or all of the repeats pass."""
    lines = iter(["yes", "no", "yes", "yes", "yes", "no"])
    agent = Agent("helper", llm=ScriptedLLM(lambda _: next(lines), repeat=True))
    report = Suite("x", [Case("a", "yes"), Case("b", "yes")], contains()).run(agent, repeats=3, concurrency=1)
    (figures,) = report.figures
    assert (figures.repeats, figures.most_repeats) == (((True, True, True), (False, True, False)), 3)
    assert (figures.any_of(3), figures.all_of(3), figures.any_of(1)) == (1.0, 0.5, pytest.approx(4 / 6))
    assert "of the cases 50 % pass each of 3 times, 100 % at least once" in str(report)
    assert figures.to_data()["any_of_repeats"] == 1.0
