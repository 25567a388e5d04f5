"""What does an agent's judge say?"""

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.levels import SafetyLevel
from agentkit.safety.policy import Policy

OWN = {verdict: Decision(verdict, "own", f"The tool's judge says {verdict}.") for verdict in Verdict}


@pytest.mark.parametrize("highest", SafetyLevel)
@pytest.mark.parametrize("level", SafetyLevel)
def test_calls_above_the_level_must_be_asked_for(level, highest):
    """A tool up to the agent's level runs unasked; above it somebody must be asked."""
    decision = Policy(highest).judge("erase", level, OWN[Verdict.ALLOW])
    assert decision.verdict == ("allow" if level <= highest else "ask")


@pytest.mark.parametrize("level", SafetyLevel)
@pytest.mark.parametrize("own", Verdict)
def test_strictest_opinion_binds(own, level):
    """Neither the level nor the tool's own judge can soften what the other says."""
    decision = Policy(SafetyLevel.NETWORK).judge("erase", level, OWN[own])
    order = [Verdict.ALLOW, Verdict.ASK, Verdict.DENY]
    by_level = Verdict.ALLOW if level <= SafetyLevel.NETWORK else Verdict.ASK
    assert decision.verdict is max(own, by_level, key=order.index)


def test_judge_of_the_tool_explains_an_objection():
    """Where both say ask, the tool's own judge, which has seen the arguments, gives the reason."""
    assert Policy().judge("erase", SafetyLevel.SYSTEM, OWN[Verdict.ASK]).rule == "own"


def test_level_explains_an_allowance():
    """Where both say allow, the reason is that the agent may use tools of this level."""
    decision = Policy().judge("fetch", SafetyLevel.NETWORK, OWN[Verdict.ALLOW])
    assert (decision.rule, decision.reason) == ("safety-level", "fetch is NETWORK, which this agent may use.")


def test_asking_is_explained():
    """A call that must be asked for says which levels meet, and how to allow it."""
    decision = Policy(SafetyLevel.SAFE).judge("fetch", SafetyLevel.NETWORK, OWN[Verdict.ALLOW])
    assert (decision.rule, "fetch is NETWORK" in decision.reason, "SAFE" in decision.reason) == (
        "safety-level",
        True,
        True,
    )
    assert "SafetyLevel.NETWORK" in decision.remedy


def test_default_level_is_network():
    """An agent that nobody told otherwise may look at other machines and touch nothing of this one."""
    assert Policy().level is SafetyLevel.NETWORK
