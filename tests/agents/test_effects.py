"""Tests for effects whose execution raises an error."""

import math

import pytest

from agentkit.agents.effects import AskModel, AskPerson
from agentkit.decisions import Decision, Verdict
from agentkit.errors import Cancelled, RateLimited, ReplayError, ToolTimeout
from agentkit.messages import Request
from agentkit.safety.approval import Approval, ApprovalRequest
from agentkit.testing import ScriptedLLM

APPROVAL = ApprovalRequest("helper", "erase", {}, Decision(Verdict.ASK, "safety-level", "It erases."))


def test_model_error_is_stored_as_the_answer():
    """A ModelError is stored as the answer of the question."""
    question, error = AskModel(Request([]), ScriptedLLM, 60.0), RateLimited("Slow down.")
    with question.store_errors():
        raise error
    assert question.answer is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), Cancelled("stopped"), ReplayError("other")])
def test_interruptions_are_raised(error):
    """Interruptions are raised and not stored as the model's answer."""
    question = AskModel(Request([]), ScriptedLLM, 60.0)
    with pytest.raises(type(error)), question.store_errors():
        raise error
    assert question.answer is None


@pytest.mark.parametrize("error", [ValueError("bug"), StopIteration(), TimeoutError()])
def test_failed_approver_does_not_approve(error):
    """An approver that fails does not approve the call."""
    question = AskPerson(APPROVAL)
    with question.store_errors():
        raise error
    assert question.answer == question.to_approved(error)
    assert question.answer.answer == Approval.NO


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_interruption_of_an_approver_is_raised(error):
    """Interruptions are raised and not stored as the approver's answer."""
    question = AskPerson(APPROVAL)
    with pytest.raises(type(error)), question.store_errors():
        raise error
    assert question.answer is None


@pytest.mark.parametrize(
    ("seconds_left", "text"),
    [(math.inf, "(ToolTimeout: too slow)"), (5.0, "The run reached its time limit")],
)
def test_timeout_of_an_approver_without_a_time_limit(seconds_left, text):
    """An approver's own TimeoutError is its failure if the run has no time limit."""
    question = AskPerson(APPROVAL, seconds_left=seconds_left)
    with question.store_errors():
        raise ToolTimeout("too slow")
    assert question.answer.answer == Approval.NO
    assert text in question.answer.text
