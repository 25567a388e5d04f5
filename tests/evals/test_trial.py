"""Tests for the outcomes of trials."""

import pytest

from agentkit import Agent, Limits
from agentkit.errors import Rejected
from agentkit.evals import Case, Score, Suite, Trial, contains
from agentkit.testing import ScriptedLLM, call

CASE = Case("?", "yes")


def tried(*lines, **options):
    """Return the trial of an agent with a scripted model."""
    agent = Agent("helper", llm=ScriptedLLM(*lines, repeat=True), **options)
    return Suite("x", [CASE], contains()).run(agent).trials[0]


@pytest.mark.parametrize(
    ("scores", "passed", "score"),
    [
        ((), False, 0.0),
        ((Score("a", 1.0), Score("b", 0.5)), True, 0.75),
        ((Score("a", 1.0), Score("b", 0.0)), False, 0.5),
    ],
)
def test_trial_passes_when_every_score_does(scores, passed, score):
    """A trial passes if all its scores pass, and its score is their mean."""
    trial = Trial(CASE, "helper", scores=scores)
    assert (trial.passed, trial.score) == (passed, score)
    assert not Trial(CASE, "helper", scores=scores, error="The scorer failed.").passed


def test_outcomes_of_trials():
    """A trial passes, fails, is refused by the model, ends at a limit or error, or is unfinished."""
    endings = {
        "passed": tried("yes"),
        "failed": tried("no"),
        "refused": tried(Rejected("I will not.", code="refusal")),
        "limit": tried(call("nothing"), max_iterations=1),
        "error": tried(Rejected("The parameter is bad.")),
    }
    agent = Agent("helper", llm=ScriptedLLM("yes", repeat=True))
    endings["undone"] = Suite("x", [CASE], contains()).run(agent, limits=Limits(input_tokens=1)).trials[0]
    assert {word: trial.outcome for word, trial in endings.items()} == {word: word for word in endings}


def test_trial_without_a_run():
    """A trial that could not start has no answer or usage and is an error."""
    trial = Trial(CASE, "helper", error="There is no cassette.", is_finished=False)
    assert (trial.outcome, trial.answer, trial.usage.requests, dict(trial.decisions)) == ("error", "", 0, {})


def test_trial_has_the_data_of_its_run(calculating):
    """A trial has the answer, the usage and the decisions of its run."""
    suite, agent = calculating
    (trial,) = suite.run(agent).trials
    assert (trial.key, trial.answer, trial.usage.requests) == (("two", "helper", 1), "It is 4.", 2)
    assert dict(trial.decisions) == {("allow", "safety-level"): 1}
    assert (trial.model, trial.seed, trial.judging.requests) == ("scripted", None, 0)
