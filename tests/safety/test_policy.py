"""Tests for the decisions of a policy."""

import pytest

from agentkit.decisions import Decision, SafetyLevel, Verdict
from agentkit.errors import ConfigError
from agentkit.safety.paths import CallFacts
from agentkit.safety.policy import Policy
from agentkit.safety.rules import Rule

OWN = {verdict: Decision(verdict, "own", f"The tool's judge says {verdict}.") for verdict in Verdict}


@pytest.mark.for_each("highest", SafetyLevel)
@pytest.mark.for_each("level", SafetyLevel)
def test_calls_above_the_level_need_approval(level, highest):
    """A tool up to the agent's level is allowed; above it the call needs approval."""
    decision = Policy(highest).judge("erase", level, OWN[Verdict.ALLOW])
    assert decision.verdict == ("allow" if level <= highest else "ask")


@pytest.mark.for_each("level", SafetyLevel)
@pytest.mark.for_each("own", Verdict)
def test_strictest_verdict_applies(own, level):
    """The stricter verdict of the safety level and of the tool's own judge applies."""
    decision = Policy(SafetyLevel.NETWORK).judge("erase", level, OWN[own])
    order = [Verdict.ALLOW, Verdict.ASK, Verdict.DENY]
    by_level = Verdict.ALLOW if level <= SafetyLevel.NETWORK else Verdict.ASK
    assert decision.verdict is max(own, by_level, key=order.index)


def test_judge_of_the_tool_explains_an_objection():
    """If level and judge both need approval, the judge of the tool gives the reason."""
    assert Policy().judge("erase", SafetyLevel.SYSTEM, OWN[Verdict.ASK]).rule == "own"


def test_judge_of_the_tool_explains_an_allowance():
    """If level and judge both allow a call, the judge gives the reason, if it has one."""
    assert Policy().judge("fetch", SafetyLevel.NETWORK, OWN[Verdict.ALLOW]).rule == "own"


def test_level_explains_the_allowance_of_a_tool_without_a_judge():
    """Without a judge, the reason is that the agent may use tools of this level."""
    decision = Policy().judge("fetch", SafetyLevel.NETWORK, Decision(Verdict.ALLOW, "no-rule", "It has no judge."))
    assert (decision.rule, decision.reason) == ("safety-level", "fetch is NETWORK, which is allowed for this agent.")


@pytest.mark.parametrize(
    ("level", "verdict"), [(SafetyLevel.NETWORK, "allow"), (SafetyLevel.SYSTEM, "ask"), (None, "ask")]
)
def test_judge_may_lower_the_level_of_a_call(level, verdict):
    """A judge may assign a call a lower level than its tool's."""
    own = Decision(Verdict.ALLOW, "workspace.read", "It only reads.", level=level)
    assert Policy().judge("read_file", SafetyLevel.SYSTEM, own).verdict == verdict


RULES = [
    Rule("deny", "send", {"to": "boss"}, name="not-to-the-boss"),
    Rule("ask", "send", {"to": "team"}),
    Rule("allow", "send"),
]


@pytest.mark.parametrize(
    ("to", "own", "verdict", "rule"),
    [
        ("boss", Verdict.ALLOW, "deny", "not-to-the-boss"),
        ("team", Verdict.ALLOW, "ask", 'ask send {"to": "team"}'),
        ("bob", Verdict.ALLOW, "allow", "allow send"),
        ("bob", Verdict.ASK, "allow", "allow send"),
        ("bob", Verdict.DENY, "deny", "own"),
        ("boss", Verdict.DENY, "deny", "own"),
    ],
)
def test_rules_override_the_level(to, own, verdict, rule):
    """The strictest matching rule applies: it can tighten any verdict and loosen an ask, but not a tool's denial."""
    decision = Policy(rules=RULES).judge("send", SafetyLevel.SYSTEM, OWN[own], {"to": to})
    assert (decision.verdict, decision.rule) == (verdict, rule)


def test_rules_apply_to_their_own_tool():
    """A call without a matching rule is judged by its level and tool."""
    assert Policy(rules=RULES).judge("sender", SafetyLevel.SYSTEM, OWN[Verdict.ALLOW], {"to": "bob"}).verdict == "ask"


def test_egress_of_the_judge_is_preserved():
    """The judge's statement about egress is preserved, whatever rule decides."""
    own = Decision(Verdict.ALLOW, "own", "It is fine.", egress=True)
    assert Policy(rules=RULES).judge("send", SafetyLevel.NETWORK, own, {"to": "bob"}).egress


def test_level_may_be_named():
    """A policy accepts the name of a level and rejects other values."""
    assert Policy("system").level is SafetyLevel.SYSTEM
    with pytest.raises(ConfigError, match="not a safety level"):
        Policy("root")
    with pytest.raises(ConfigError, match=r"Write: Policy\(rules=\["):
        Policy(RULES)


@pytest.mark.parametrize(
    ("tool", "level", "rule", "reason"),
    [
        ("fetch", SafetyLevel.NETWORK, "no-rule", "fetch contacts other machines, so it needs approval."),
        ("write_file", SafetyLevel.SYSTEM, "workspace.write", "write_file changes files, so it needs approval."),
        (
            "run_shell",
            SafetyLevel.SYSTEM,
            "shell.runs",
            "run_shell runs the workspace's own code, so it needs approval.",
        ),
        ("mail", SafetyLevel.SYSTEM, "own", "mail can change this machine or data elsewhere, so it needs approval."),
    ],
)
def test_reason_names_the_effect_of_the_call(tool, level, rule, reason):
    """A call above the agent's level needs approval because of its effect; the remedy names the level."""
    decision = Policy(SafetyLevel.SAFE).judge(tool, level, Decision(Verdict.ALLOW, rule, "It may."))
    assert (decision.rule, decision.reason) == ("safety-level", reason)
    assert decision.remedy == f"Approve it, or allow it with safety='{level.name.lower()}'."


def test_default_level_is_network():
    """The default level allows reading from the network, and no changes on this machine."""
    assert Policy().level is SafetyLevel.NETWORK


@pytest.mark.parametrize(("verdict", "decided"), [("deny", "deny"), ("ask", "ask"), ("allow", "allow")])
def test_rules_apply_to_every_spelling(verdict, decided):
    """A rule applies to a file in every spelling of its path."""
    policy = Policy("SYSTEM", [Rule(verdict, "read_file", {"path": "notes.txt"}, name="notes")])
    raw, canonical = {"path": "./sub/../notes.txt"}, {"path": "notes.txt"}
    decision = policy.judge("read_file", SafetyLevel.SYSTEM, OWN[Verdict.ALLOW], raw, canonical)
    assert (decision.verdict, decision.rule == "notes") == (decided, True)


def test_only_deny_rules_match_raw_arguments():
    """Deny rules also match arguments as written; allow rules match only the canonical arguments."""
    raw, canonical = {"path": "notes.txt"}, {"path": "other.txt"}
    for verdict, decided in (("allow", "ask"), ("deny", "deny")):
        policy = Policy("SAFE", [Rule(verdict, "read_file", {"path": "notes.txt"})])
        assert policy.judge("read_file", SafetyLevel.SYSTEM, OWN[Verdict.ALLOW], raw, canonical).verdict == decided


LEAVES = Decision(Verdict.ALLOW, "no-rule", "It has no judge.", egress=True)
TO_BOB = Rule("allow", "send", {"to": {"from_user": True}, "body": {}})


@pytest.mark.parametrize(
    ("rules", "text", "verdict", "egress"),
    [
        ([TO_BOB], {"to"}, "allow", False),
        ([TO_BOB], set(), "ask", True),
        ([Rule("allow", "send")], {"to"}, "allow", True),
        ([Rule("allow", "send"), TO_BOB], {"to"}, "allow", False),
        ([TO_BOB, Rule("ask", "send")], {"to"}, "ask", True),
        ([Rule("ask", "send", {"to": {"from_user": True}})], {"to"}, "ask", True),
        ([TO_BOB, Rule("ask", "send", {"to": {"from_user": False}})], set(), "ask", True),
    ],
)
def test_said_rule_clears_egress(rules, text, verdict, egress):
    """A call allowed by a `from_user` rule is not egress; other calls are unchanged."""
    arguments = {"to": "bob", "body": "hi"}
    decision = Policy(rules=rules).judge(
        "send", SafetyLevel.SYSTEM, LEAVES, arguments, facts=CallFacts(user_written=text)
    )
    assert (decision.verdict, decision.egress) == (verdict, egress)


def test_user_text_is_needed_only_for_said_rules():
    """A policy uses the user's text only if one of its rules has `from_user`."""
    assert [rule.checks_user_text for rule in Policy(rules=[Rule("ask", "send"), TO_BOB]).rules] == [False, True]
