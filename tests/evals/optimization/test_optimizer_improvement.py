"""Tests for Improvement, the result of a search."""

import pytest

from agentkit import Agent
from agentkit.evals.optimization.candidates import Candidate
from agentkit.evals.optimization.optimizer import Gain, Improvement
from agentkit.testing import ScriptedLLM
from agentkit.usage import Cost, Usage

ORIGINAL = Candidate({"instruction": "Be brief."})
BETTER = Candidate({"instruction": "Be kind."}, (ORIGINAL.id,), 1)
USAGE = Usage(12_000, 3_400, requests=56)


def improvement(best, gain):
    """The improvement found by a search."""
    agent = Agent("helper", llm=ScriptedLLM(""))
    return Improvement(agent, ORIGINAL, best, gain, (), 0.25, 0.75, "all 5 rounds were made", USAGE, Cost(0.5, "given"))


def test_gain_has_an_interval_and_a_p_value():
    """A gain has the mean difference of pairs, a bootstrap interval and a p-value."""
    gain = Gain.of([(0, 1)] * 8 + [(1, 1)] * 6 + [(1, 0)] * 2)
    assert (gain.before, gain.after, gain.difference, gain.cases) == (0.5, 0.875, 0.375, 16)
    assert gain.low < gain.difference < gain.high
    assert gain.p_value == pytest.approx(112 / 1_024)  # the binomial test of 8 of 10, from any table
    assert str(gain).startswith("0.50 -> 0.88 on 16 cases: +0.38 (95 %: +")
    assert str(gain).endswith(", p = 0.11)")
    assert " on 1 case: " in str(Gain.of([(0, 1)]))


@pytest.mark.parametrize(
    ("best", "difference", "p_value", "verdict", "is_better"),
    [
        (ORIGINAL, 0.0, 1.0, "No gain: no candidate was better than the original", False),
        (BETTER, 0.5, 0.001, "Held-out cases: 0.20 -> 0.70 on 20 cases: +0.50", True),
        (BETTER, 0.1, 0.4, "Held-out cases: 0.20 -> 0.30 on 20 cases: +0.10", True),
        (BETTER, 0.0, 1.0, "No gain on the held-out cases, so the original stays in use", False),
        (BETTER, -0.1, 0.4, "No gain on the held-out cases, so the original stays in use", False),
        (BETTER, None, None, "Better on the training cases, but not measured on the held-out cases", True),
    ],
)
def test_report_states_the_measured_gain(best, difference, p_value, verdict, is_better):
    """The first line of the report states whether a gain was measured."""
    gain = None if difference is None else Gain(0.2, 0.2 + difference, difference, -0.1, 0.6, p_value, 20)
    found = improvement(best, gain)
    lines = str(found).splitlines()
    assert lines[0].startswith(verdict)
    assert ("The difference may be due to chance; more cases would show whether it is real." in lines) == (
        difference == 0.1
    )
    assert lines[-2] == (
        "Training cases: 0.25 -> 0.75; 0 of 0 candidates were accepted. The search ended: all 5 rounds were made"
    )
    assert lines[-1] == "Spent: 56 requests, 12,000 tokens in, 3,400 out, cost ≈ $0.5000 (given)"
    assert found.is_better == is_better
    assert bool(found.diff()) == is_better
