"""Tests for the encoding of trials."""

import json

import pytest

from agentkit.errors import SessionError
from agentkit.evals import Case, Suite, Trial, semantic
from agentkit.evals.trial import read_trial, trial_data
from agentkit.testing import ScriptedLLM

CASES = {"a": Case("?", "yes", id="a")}


@pytest.fixture
def trial(always):
    """A trial with a judged score."""
    judge = ScriptedLLM(json.dumps({"reason": "so", "grade": 5}), repeat=True)
    return Suite("x", CASES.values(), semantic("fine?", llm=judge)).run(always("yes")).trials[0]


def test_trial_can_be_stored_and_read(trial):
    """A trial is read with its run, messages, usage, scores and judging cost."""
    read = read_trial(json.loads(json.dumps(trial_data(trial))), CASES)
    assert (read.key, read.scores, read.seconds, read.model) == (trial.key, trial.scores, trial.seconds, trial.model)
    assert (read.answer, read.usage, read.judging) == (trial.answer, trial.usage, trial.judging)
    assert read.result.messages == trial.result.messages
    assert read.judging.requests == 2


def test_trial_without_a_run():
    """A trial that could not start can be stored and read."""
    trial = Trial(CASES["a"], "helper", error="There is no cassette.", is_finished=False)
    assert read_trial(trial_data(trial), CASES) == trial


@pytest.mark.parametrize(
    "change",
    [
        {"case": "b"},
        {"repeat": "1"},
        {"seconds": -1},
        {"seed": 1.5},
        {"is_finished": 1},
        {"model": None},
        {"scores": [{"name": "x", "value": 2, "passed": True, "reason": ""}]},
        {"scores": [{"name": 3, "value": 1, "passed": True, "reason": ""}]},
        {"scores": 3},
        {"result": {}},
    ],
)
def test_invalid_trial_data_is_rejected(trial, change):
    """Invalid data raises a SessionError."""
    with pytest.raises(SessionError):
        read_trial({**trial_data(trial), **change}, CASES)
