"""Plots of the HTML report."""

import re

from agentkit.evals import Case, Score, Trial
from agentkit.evals.html_report import latencies, rates
from agentkit.evals.metrics import Metrics


def figures(*seconds, passed=True):
    """The figures of trials that took so many seconds each."""
    trials = [
        Trial(Case(f"{index}"), "x" * 50, scores=(Score("a", float(passed)),), seconds=each)
        for index, each in enumerate(seconds)
    ]
    return Metrics.of("x" * 50, trials)


def test_rates_are_bars():
    """A rate of all is as long as the axis, a rate of none has no length, and a long name is cut."""
    drawn = rates([figures(1, 2), figures(1, 2, passed=False)])
    widths = re.findall(r'width="([\d.]+)" height="12" rx="2" class="rate"', drawn)
    assert [float(width) for width in widths] == [624.0, 0.0]
    assert "x" * 31 + "…" in drawn
    assert "not done" in rates([Metrics.of("nobody", [])])


def test_latencies_are_dots():
    """Each answer is a dot, and the marks of the axis are round numbers that reach beyond the longest."""
    drawn = latencies([figures(0.5, 1.0, 3.7)])
    assert drawn.count("<circle") == 3
    assert re.findall(r">([\d.]+) s</text>", drawn) == ["0", "1", "2", "3", "4"]
    assert "median 1.00 s" in drawn


def test_no_latencies():
    """Without answers or times no plot is drawn."""
    assert latencies([Metrics.of("nobody", [])]) is None
    assert latencies([figures(0.0)]) is None
    assert latencies([figures(1.0), Metrics.of("nobody", [])]).count("<circle") == 1
