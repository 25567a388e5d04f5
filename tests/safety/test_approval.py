"""What does an answer make of a decision that says ask?"""

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.safety.approval import answered

ASK = Decision(Verdict.ASK, "safety-level", "It erases.", "rm", "Raise the level.")


def test_true_allows():
    """True allows the call, and the reason says that it was approved."""
    decision = answered(ASK, True)
    assert decision == Decision(Verdict.ALLOW, "safety-level", "Approved. It erases.", "rm")


@pytest.mark.parametrize("answer", [False, 1, "yes", "", [], [True], object(), ValueError("bug"), StopIteration()])
def test_anything_else_denies(answer):
    """Whatever is not True denies the call; the model is not told to raise its own level."""
    decision = answered(ASK, answer)
    assert (decision.denied, decision.rule, decision.evidence) == (True, "safety-level", "rm")
    assert "It erases." in decision.reason
    assert "level" not in decision.remedy


def test_refusal_is_told_apart_from_silence():
    """The reason tells whether somebody refused, nobody was there, or the approver failed."""
    assert "refused" in answered(ASK, False).reason
    assert "nobody" in answered(ASK, None).reason
    assert "ValueError: bug" in answered(ASK, ValueError("bug")).reason


def test_without_an_approver_the_remedy_stands():
    """Where there was nobody to ask, the decision still says how the call would be allowed."""
    decision = answered(ASK, None)
    assert (decision.denied, decision.remedy) == (True, "Raise the level.")
