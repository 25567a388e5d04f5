"""Tests for the comparison of rules by meaning."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import Policy, Rule, SafetyLevel
from agentkit.decisions import Decision, Verdict
from agentkit.manifest.compare import covers, rule_changes
from agentkit.manifest.schema import ChangeDirection

VALUES = st.sampled_from(
    [
        1,
        5,
        10,
        True,
        "a",
        "git",
        "git push",
        "git push -f",
        "src",
        "src/a",
        "https://a.example.com/x",
        "http://example.com",
    ]
)
TESTS = st.one_of(
    st.tuples(st.just("equals"), VALUES),
    st.tuples(st.just("one_of"), st.lists(VALUES, min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["matches", "contains"]), st.sampled_from(["git.*", "a", "push"])),
    st.tuples(st.just("words"), st.sampled_from([["git"], ["git", "push"]])),
    st.tuples(st.just("host"), st.sampled_from(["example.com", "a.example.com", "Example.com"])),
    st.tuples(st.just("origin"), st.sampled_from(["http://example.com", "http://example.com:80"])),
    st.tuples(st.just("below"), st.sampled_from(["src", "/src/", "src/a", "src/../lib"])),
    st.tuples(st.sampled_from(["at_most", "at_least"]), st.sampled_from([1, 5, 10])),
)
WHERES = st.dictionaries(st.sampled_from(["x", "y"]), st.lists(TESTS, min_size=1, max_size=2).map(dict), max_size=2)
RULES = st.builds(
    lambda verdict, where: {"verdict": verdict, "tool": "t", "where": where},
    st.sampled_from(["allow", "ask", "deny"]),
    WHERES,
)
CALLS = st.dictionaries(st.sampled_from(["x", "y"]), VALUES, max_size=2)


def rule(verdict, tool="t", **where):
    """Return a rule in the format of a manifest."""
    return {"verdict": verdict, "tool": tool, "where": where}


@given(RULES, RULES, st.lists(CALLS, min_size=20, max_size=20))
def test_rule_that_covers_another_fits_all_its_calls(wide, narrow, calls):
    """A rule that covers another matches every call that the other matches."""
    if covers(wide, narrow):
        for call in calls:
            assert not Rule(**narrow).fits("t", call) or Rule(**wide).fits("t", call)


@given(st.lists(RULES, max_size=3), st.lists(RULES, max_size=3), st.lists(CALLS, min_size=20, max_size=20))
def test_rules_without_a_widening_allow_no_call_more(before, after, calls):
    """If no change is wider, no call is allowed that needed approval or was denied before."""
    if any(mode is ChangeDirection.WIDER for mode, _, _ in rule_changes(before, after)):
        return
    strictness = ["allow", "ask", "deny"]
    for call in calls:
        old, new = (judged(rules, call) for rules in (before, after))
        assert strictness.index(new) >= strictness.index(old)


def judged(rules, call):
    """Return the verdict of a policy on a call whose level needs approval."""
    own = Decision("allow", "no-rule", "")
    return Policy(SafetyLevel.SAFE, [Rule(**each) for each in rules]).judge("t", SafetyLevel.SYSTEM, own, call).verdict


@given(st.lists(RULES, max_size=3), CALLS)
def test_order_of_rules_has_no_effect(rules, call):
    """The strictest matching rule applies, whatever its position."""
    assert len({judged(order, call) for order in itertools.permutations(rules)}) == 1
    assert all(list(rule_changes(rules, order)) == [] for order in itertools.permutations(rules))


@given(st.lists(RULES, max_size=3), RULES)
def test_rule_added_and_removed(rules, more):
    """Removing a rule reverses the direction of adding it."""
    there, back = (list(rule_changes(*pair)) for pair in ((rules, [*rules, more]), ([*rules, more], rules)))
    assert [mode for mode, _, _ in there] == [
        ChangeDirection.WIDER if mode is ChangeDirection.NARROWER else ChangeDirection.NARROWER for mode, _, _ in back
    ]
    wanted = ChangeDirection.WIDER if more["verdict"] == Verdict.ALLOW else ChangeDirection.NARROWER
    assert {mode for mode, _, _ in there} <= {wanted}


@pytest.mark.for_each(
    ("wide", "narrow", "is_covered"),
    [
        (rule("allow"), rule("allow", x={"equals": 1}), True),
        (rule("allow", x={"equals": 1}), rule("allow"), False),
        (rule("allow"), rule("allow", "u"), False),
        (rule("deny"), rule("ask"), True),
        (rule("ask"), rule("deny"), False),
        (rule("allow"), rule("deny"), False),
        (rule("deny"), rule("allow"), False),
        (rule("deny", x={"one_of": [1, 2]}), rule("deny", x={"equals": 2}), True),
        (rule("deny", x={"one_of": [1, 2]}), rule("deny", x={"one_of": [2]}), True),
        (rule("deny", x={"words": ["git"]}), rule("deny", x={"words": ["git", "push"]}), True),
        (rule("deny", x={"host": "example.com"}), rule("deny", x={"host": "a.example.com"}), True),
        (rule("deny", x={"host": "example.com"}), rule("deny", x={"host": "badexample.com"}), False),
        (rule("deny", x={"below": "src"}), rule("deny", x={"below": "src/a"}), True),
        (rule("deny", x={"below": "src"}), rule("deny", x={"below": "src/../lib"}), False),
        (rule("deny", x={"origin": "http://a.com"}), rule("deny", x={"origin": "http://a.com:80"}), True),
        (rule("allow", x={"at_most": 10}), rule("allow", x={"at_most": 5}), True),
        (rule("allow", x={"at_least": 5}), rule("allow", x={"at_least": 10}), True),
        (rule("deny", x={"matches": "a.*"}), rule("deny", x={"matches": "a"}), False),
        (rule("deny", x={"equals": 1}), rule("deny", x={"equals": True}), False),
        (rule("deny") | {"code": "bot.Night"}, rule("deny"), False),
        (rule("allow", to={"from_user": True}, cc={}), rule("allow", to={"from_user": True}), True),
        (rule("allow", to={"from_user": True}), rule("allow", to={"from_user": True}, cc={}), False),
        (rule("allow", to={"from_user": True}), rule("allow", to={}), False),
        (rule("allow"), rule("allow", to={"from_user": True}), False),
        (rule("ask", to={"from_user": False}), rule("ask", to={"from_user": False}, cc={"equals": 1}), True),
    ],
)
def test_rules_that_cover_another(wide, narrow, is_covered):
    """A rule covers another that matches fewer of the same calls and is not stricter; unsure cases are not covered."""
    assert covers(wide, narrow) is is_covered
