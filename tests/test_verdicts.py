"""Tests for verdicts and the combination of decisions."""

import itertools
import json

import pytest

from agentkit import Decision, Verdict
from agentkit.decisions import strictest

DECISIONS = {verdict: Decision(verdict, f"rule-{verdict}", f"It says {verdict}.") for verdict in Verdict}


@pytest.mark.parametrize(
    ("verdict", "allowed", "denied"),
    [(Verdict.ALLOW, True, False), (Verdict.ASK, False, False), (Verdict.DENY, False, True)],
)
def test_only_allow_allows_and_only_deny_denies(verdict, allowed, denied):
    """Allow permits a call, deny forbids it, and ask does neither."""
    decision = DECISIONS[verdict]
    assert (decision.allowed, decision.denied) == (allowed, denied)


@pytest.mark.parametrize("word", ["allow", "ask", "deny"])
def test_verdict_can_be_a_string(word):
    """A verdict can be given as a string."""
    decision = Decision(word, "rule", "A reason.")
    assert decision == Decision(Verdict(word), "rule", "A reason.")
    assert isinstance(decision.verdict, Verdict)
    assert (decision.allowed, decision.denied) == (word == "allow", word == "deny")


@pytest.mark.parametrize("verdict", ["", "yes", "Deny", "denied", None, True, 0])
def test_invalid_verdict_is_rejected(verdict):
    """An invalid verdict raises a ValueError."""
    with pytest.raises(ValueError, match="Verdict"):
        Decision(verdict, "rule", "A reason.")


@pytest.mark.for_each("verdicts", [pair for count in (1, 2, 3) for pair in itertools.product(Verdict, repeat=count)])
def test_strictest_decision_takes_precedence(verdicts):
    """Deny takes precedence over ask, and ask over allow, in any order."""
    order = [Verdict.DENY, Verdict.ASK, Verdict.ALLOW]
    assert strictest(DECISIONS[verdict] for verdict in verdicts).verdict is min(verdicts, key=order.index)


def test_earliest_of_equal_decisions_is_returned():
    """The earliest of equal decisions is returned."""
    first, second = Decision(Verdict.ASK, "first", "One."), Decision(Verdict.ASK, "second", "Two.")
    assert strictest([DECISIONS[Verdict.ALLOW], first, second]) is first


def test_empty_list_of_decisions_is_rejected():
    """An empty list of decisions raises a ValueError."""
    with pytest.raises(ValueError, match="empty"):
        strictest([])


def test_decision_as_json():
    """A decision is serialized as a JSON object with five fields."""
    decision = Decision(Verdict.DENY, "shell", "It deletes.", "rm -r /", "Name one file.")
    assert json.loads(json.dumps(decision.to_dict())) == {
        "verdict": "deny",
        "rule": "shell",
        "reason": "It deletes.",
        "evidence": "rm -r /",
        "remedy": "Name one file.",
    }


def test_decision_as_a_line():
    """A decision is shown as one line with verdict, reason, rule and any remedy."""
    assert str(Decision(Verdict.ASK, "level", "It is SYSTEM.")) == "ask: It is SYSTEM. (rule: level)"
    assert str(Decision(Verdict.ASK, "level", "It is SYSTEM.", remedy="Ask.")).endswith("(rule: level) Ask.")
