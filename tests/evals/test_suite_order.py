"""Tests for the validation of the arguments of a suite run."""

import pytest

from agentkit.errors import ConfigError


@pytest.mark.parametrize(
    "options",
    [
        {"repeats": 0},
        {"repeats": True},
        {"concurrency": 0},
        {"seed": "7"},
        {"record": "a", "replay": "b"},
    ],
)
def test_invalid_run_options_are_rejected(sums, always, options):
    """Counts below 1, an invalid seed, and both `record` and `replay` raise a ConfigError."""
    with pytest.raises(ConfigError):
        sums.run(always("4"), **options)


def test_trials_are_ordered_by_case(sums, always):
    """Each repeat runs every case with every agent, and the seed increases with the repeats."""
    agents = {"a": always("2"), "b": always("4")}
    report = sums.run(agents, cases=list(sums)[:2], repeats=2, seed=7)
    first, second = (case.id for case in list(sums)[:2])
    assert [(trial.case.id, trial.agent, trial.repeat, trial.seed) for trial in report.trials] == [
        (case, agent, repeat, 6 + repeat) for repeat in (1, 2) for case in (first, second) for agent in ("a", "b")
    ]
