"""Answers to effects whose execution raised an error."""

import math

import pytest

from agentkit.agents.effects import AskModel, AskPerson
from agentkit.decisions import Decision, Verdict
from agentkit.errors import Cancelled, RateLimited, ReplayError, ToolTimeout
from agentkit.messages import Request
from agentkit.safety.approval import Approval, ApprovalRequest
from agentkit.testing import ScriptedLLM

APPROVAL = ApprovalRequest("helper", "erase", {}, Decision(Verdict.ASK, "safety-level", "It erases."))


def test_model_error_is_an_answer():
    """What a provider refuses is the answer of the model."""
    question, error = AskModel(Request([]), ScriptedLLM, 60.0), RateLimited("Slow down.")
    with question.asking():
        raise error
    assert question.answer is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), Cancelled("stopped"), ReplayError("other")])
def test_interruptions_are_raised(error):
    """Ctrl-C, an exit, a stopped run and a failed replay are no answers of a model."""
    question = AskModel(Request([]), ScriptedLLM, 60.0)
    with pytest.raises(type(error)), question.asking():
        raise error
    assert question.answer is None


@pytest.mark.parametrize("error", [ValueError("bug"), StopIteration(), TimeoutError()])
def test_failure_of_an_approver_is_an_answer(error):
    """An approver that fails has answered, and its answer is not True."""
    question = AskPerson(APPROVAL)
    with question.asking():
        raise error
    assert question.answer == question.approved(error)
    assert question.answer.answer == Approval.NO


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_what_ends_the_program_is_no_answer_of_an_approver(error):
    """Ctrl-C at the question ends the run; it is not taken for a no."""
    question = AskPerson(APPROVAL)
    with pytest.raises(type(error)), question.asking():
        raise error
    assert question.answer is None


@pytest.mark.parametrize(
    ("seconds_left", "text"),
    [(math.inf, "(ToolTimeout: too slow)"), (5.0, "The run reached its time limit")],
)
def test_a_timeout_is_the_runs_only_if_its_time_is_limited(seconds_left, text):
    """A timeout that an approver raises itself is reported as its failure if the run has no time limit."""
    question = AskPerson(APPROVAL, seconds_left=seconds_left)
    with question.asking():
        raise ToolTimeout("too slow")
    assert question.answer.answer == Approval.NO
    assert text in question.answer.text
