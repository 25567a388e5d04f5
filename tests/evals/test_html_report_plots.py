"""Tests for the plots of the HTML report."""

import re

from agentkit.evals import Case, Score, Trial
from agentkit.evals.html_report import latencies, rates
from agentkit.evals.metrics import Metrics


def figures(*seconds, passed=True):
    """Return the metrics of trials with these durations in seconds."""
    trials = [
        Trial(Case(f"{index}"), "x" * 50, scores=(Score("a", float(passed)),), seconds=each)
        for index, each in enumerate(seconds)
    ]
    return Metrics.of("x" * 50, trials)


def test_rates_are_bars():
    """The length of a bar is proportional to the rate, and long names are shortened."""
    drawn = rates([figures(1, 2), figures(1, 2, passed=False)])
    widths = re.findall(r'width="([\d.]+)" height="12" rx="2" class="rate"', drawn)
    assert [float(width) for width in widths] == [624.0, 0.0]
    assert "x" * 31 + "…" in drawn
    assert "not done" in rates([Metrics.of("nobody", [])])


def test_latencies_are_dots():
    """Each answer is a dot, and the axis has round marks beyond the longest time."""
    drawn = latencies([figures(0.5, 1.0, 3.7)])
    assert drawn.count("<circle") == 3
    assert re.findall(r">([\d.]+) s</text>", drawn) == ["0", "1", "2", "3", "4"]
    assert "median 1.00 s" in drawn


def test_no_latencies():
    """No plot is drawn without answers or times."""
    assert latencies([Metrics.of("nobody", [])]) is None
    assert latencies([figures(0.0)]) is None
    assert latencies([figures(1.0), Metrics.of("nobody", [])]).count("<circle") == 1
