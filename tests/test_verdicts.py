"""What does a judge say, and which of several decisions binds?"""

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
    """Allow lets a call happen, deny forbids it, and ask does neither."""
    decision = DECISIONS[verdict]
    assert (decision.allowed, decision.denied) == (allowed, denied)


@pytest.mark.parametrize("word", ["allow", "ask", "deny"])
def test_verdict_may_be_written_as_a_word(word):
    """A verdict that is written as its word counts in full."""
    decision = Decision(word, "rule", "A reason.")
    assert decision == Decision(Verdict(word), "rule", "A reason.")
    assert isinstance(decision.verdict, Verdict)
    assert (decision.allowed, decision.denied) == (word == "allow", word == "deny")


@pytest.mark.parametrize("verdict", ["", "yes", "Deny", "denied", None, True, 0])
def test_what_is_no_verdict_is_refused(verdict):
    """A decision without one of the three verdicts cannot be made."""
    with pytest.raises(ValueError, match="Verdict"):
        Decision(verdict, "rule", "A reason.")


@pytest.mark.for_each("verdicts", [pair for count in (1, 2, 3) for pair in itertools.product(Verdict, repeat=count)])
def test_strictest_binds(verdicts):
    """Of several decisions deny binds before ask, and ask before allow, in whatever order they come."""
    order = [Verdict.DENY, Verdict.ASK, Verdict.ALLOW]
    assert strictest(DECISIONS[verdict] for verdict in verdicts).verdict is min(verdicts, key=order.index)


def test_earliest_of_equals_binds():
    """Of two decisions that say the same the earlier one gives the reason."""
    first, second = Decision(Verdict.ASK, "first", "One."), Decision(Verdict.ASK, "second", "Two.")
    assert strictest([DECISIONS[Verdict.ALLOW], first, second]) is first


def test_no_opinion_is_no_permission():
    """Without any decision there is nothing that could allow."""
    with pytest.raises(ValueError, match="empty"):
        strictest([])


def test_decision_as_json():
    """A decision can be stored as a JSON object with its five parts."""
    decision = Decision(Verdict.DENY, "shell", "It deletes.", "rm -r /", "Name one file.")
    assert json.loads(json.dumps(decision.to_dict())) == {
        "verdict": "deny",
        "rule": "shell",
        "reason": "It deletes.",
        "evidence": "rm -r /",
        "remedy": "Name one file.",
    }


def test_decision_as_a_line():
    """A decision reads as one line: verdict, reason, rule, and the remedy if there is one."""
    assert str(Decision(Verdict.ASK, "level", "It is SYSTEM.")) == "ask: It is SYSTEM. (rule: level)"
    assert str(Decision(Verdict.ASK, "level", "It is SYSTEM.", remedy="Ask.")).endswith("(rule: level) Ask.")
