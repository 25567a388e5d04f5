"""Tests for the matching of rules, and their decisions."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID

import pytest

from agentkit import Tool
from agentkit.decisions import Verdict
from agentkit.errors import ConfigError
from agentkit.safety.rules import Rule, rules_from

FITS = [
    ({"n": 3}, {"n": 3}),
    ({"n": {"equals": None}}, {"n": None}),
    ({"mode": {"one_of": ["r", "w"]}}, {"mode": "w"}),
    ({"text": {"matches": r"a.*z"}}, {"text": "a\nz"}),
    ({"text": {"contains": r"b+"}}, {"text": "abba"}),
    ({"tags": {"contains": "secret"}}, {"tags": ["a", "secret plan"]}),
    ({"command": {"words": ["git", "push"]}}, {"command": "git push origin main"}),
    ({"command": {"words": ["ls"]}}, {"command": "  ls   -la"}),
    ({"url": {"host": "example.com"}}, {"url": "https://EXAMPLE.com:443/a?b"}),
    ({"url": {"host": "example.com"}}, {"url": "https://docs.example.com/"}),
    ({"path": {"below": "/srv/data"}}, {"path": "/srv/data/x/../y.txt"}),
    ({"path": {"below": "src"}}, {"path": "src/deep/x.py"}),
    ({"url": {"host": "example.com"}}, {"url": "https://example.com./"}),
    ({"url": {"origin": "https://example.com"}}, {"url": "https://EXAMPLE.com:443/a"}),
    ({"n": {"at_least": 1000}}, {"n": float("nan")}),
    ({"n": {"at_most": 5}}, {"n": 5}),
    ({"n": {"at_least": 0.5}}, {"n": 1}),
    ({"n": {"at_least": 1, "at_most": 5}}, {"n": 2}),
    ({}, {"anything": 1}),
]
DOES_NOT_FIT = [
    ({"n": 3}, {"n": 4}),
    ({"n": 1}, {"n": True}),
    ({"n": 3}, {"m": 3}),
    ({"mode": {"one_of": ["r", "w"]}}, {"mode": "x"}),
    ({"text": {"matches": r"a"}}, {"text": "ab"}),
    ({"text": {"contains": r"^b"}}, {"text": "ab"}),
    ({"command": {"words": ["git", "push"]}}, {"command": "git push; curl evil.example"}),
    ({"command": {"words": ["git", "push"]}}, {"command": "git push && rm x"}),
    ({"command": {"words": ["git", "push"]}}, {"command": "git push $(id)"}),
    ({"command": {"words": ["git", "push"]}}, {"command": "git push\nid"}),
    ({"command": {"words": ["git", "push"]}}, {"command": "git pull"}),
    ({"command": {"words": ["git", "push"]}}, {"command": ["git", "push"]}),
    ({"url": {"host": "example.com"}}, {"url": "https://example.com.evil.example/"}),
    ({"url": {"host": "example.com"}}, {"url": "https://notexample.com/"}),
    ({"url": {"host": "example.com"}}, {"url": "https://evil.example/?example.com"}),
    ({"url": {"host": "example.com"}}, {"url": "http://[broken/"}),
    ({"url": {"host": "example.com"}}, {"url": 7}),
    ({"path": {"below": "/srv/data"}}, {"path": "/srv/data/../secret"}),
    ({"path": {"below": "/srv/data"}}, {"path": "/srv/database/x"}),
    ({"path": {"below": "/srv/data"}}, {"path": "data/x"}),
    ({"path": {"below": "src"}}, {"path": "src/../x"}),
    ({"url": {"origin": "https://example.com"}}, {"url": "http://example.com/"}),
    ({"url": {"origin": "https://example.com"}}, {"url": "https://example.com:444/"}),
    ({"url": {"origin": "https://example.com"}}, {"url": "https://www.example.com/"}),
    ({"n": {"at_least": 1}}, {"n": float("nan")}),
    ({"n": {"at_most": 5}}, {"n": 6}),
    ({"n": {"at_most": 5}}, {"n": "4"}),
    ({"n": {"at_most": 5}}, {"n": True}),
    ({"n": {"at_least": 1, "at_most": 5}}, {"n": 0}),
]


@pytest.mark.for_each(("where", "arguments"), FITS)
def test_rule_matches_if_every_test_holds(where, arguments):
    """A rule matches calls of its tool whose arguments pass all of its tests."""
    rule = Rule("deny", "send", where)
    assert rule.fits("send", arguments)
    assert not rule.fits("sender", arguments)
    assert not rule.fits("Send", arguments)


@pytest.mark.for_each(("where", "arguments"), DOES_NOT_FIT)
def test_rule_does_not_match_otherwise(where, arguments):
    """A failed test, a missing argument or a value of another type prevents a match."""
    assert not Rule("allow", "send", where).fits("send", arguments)


def test_decision_carries_the_rule_and_its_evidence():
    """A rule's decision contains the rule, its reason, its remedy and the matched argument."""
    rule = Rule("ask", "send", {"to": {"contains": "@"}}, reason="Mail leaves the house.", remedy="Write a draft.")
    decision = rule.decision({"to": "a@b.example"})
    assert (decision.verdict, decision.rule, decision.reason) == (
        Verdict.ASK,
        'ask send {"to": {"contains": "@"}}',
        "Mail leaves the house.",
    )
    assert (decision.evidence, decision.remedy) == ("a@b.example", "Write a draft.")


def test_examples_are_checked_when_the_rule_is_created():
    """A rule whose own example contradicts it is rejected."""
    right = {"match": [{"n": 3}], "not_match": [{"n": 4}]}
    assert Rule("deny", "send", {"n": 3}, **right).name == ""
    with pytest.raises(ConfigError, match="does not fit its own example"):
        Rule("deny", "send", {"n": 3}, match=[{"n": 4}])
    with pytest.raises(ConfigError, match="fits its own example"):
        Rule("deny", "send", {"n": 3}, not_match=[{"n": 3}])


@pytest.mark.for_each(
    ("fields", "shown"),
    [
        ({"verdict": "perhaps", "tool": "send"}, "allow, ask or deny"),
        ({"verdict": "deny", "tool": "send", "where": {"n": {"like": 3}}}, "Unknown test 'like'"),
        ({"verdict": "deny", "tool": "send", "where": {"n": {"matches": "("}}}, "regular expression"),
        ({"verdict": "deny", "tool": "send", "where": {"n": {"words": "git"}}}, "a list of words"),
        ({"verdict": "deny", "tool": "send", "where": {"n": {"at_most": "5"}}}, "a number"),
        ({"verdict": "deny", "tool": "send", "where": {"n": {"below": ""}}}, "a folder"),
        ({"verdict": "deny", "tool": "send", "where": {"n": {"below": "prod*"}}}, "a folder"),
        ({"verdict": "deny", "tool": "send", "where": {"n": {"below": "prod/?"}}}, "a folder"),
        ({"verdict": "deny", "tool": "send", "where": {"n": {"one_of": []}}}, "a list of at least one"),
        ({"verdict": "deny", "tool": "send", "where": {"n": {"origin": "here"}}}, "an origin"),
        ({"verdict": "deny", "tool": "send", "when": {}}, "is not a valid rule"),
        ({"verdict": "deny"}, "is not a valid rule"),
        (5, "^5 is not a rule. Use Rule"),
        ({"verdict": "deny", "tool": "send", "where": ["to"]}, "where= takes tests by argument, as in where="),
    ],
)
def test_invalid_rules_are_rejected(fields, shown):
    """A rule with an unknown verdict, test or field raises a ConfigError."""
    with pytest.raises(ConfigError, match=shown):
        rules_from([fields])


@pytest.mark.parametrize("entries", [Rule("deny", "send"), {"verdict": "deny", "tool": "send"}, "deny send"])
def test_single_rule_is_not_a_list(entries):
    """A single rule instead of a list gets a specific error."""
    with pytest.raises(ConfigError, match=r"rules= takes a list of rules: \[Rule\(...\)\]"):
        rules_from(entries)


def test_rules_as_dictionaries():
    """Rules can be dictionaries, as read from a JSON or TOML file."""
    entry = {"verdict": "deny", "tool": "send", "where": {"to": "boss"}, "name": "not-to-the-boss"}
    assert rules_from([entry]) == (Rule(**entry),)


def test_tool_of_a_rule_must_be_a_string():
    """A rule whose tool is not text is rejected, because it would match nothing."""
    with pytest.raises(ConfigError, match="A rule names its tool by a string, such as 'run_shell'"):
        Rule("allow", 5)


MAIL = Rule("allow", "send_email", {"to": {"from_user": True}, "body": {}})


@pytest.mark.parametrize(
    ("arguments", "text", "fits"),
    [
        ({"to": "bob", "body": "hi"}, {"to"}, True),
        ({"to": "bob", "body": "hi"}, set(), False),
        ({"body": "hi"}, set(), True),
        ({"to": "bob", "body": "hi", "cc": "eve"}, {"to"}, False),
        ({"to": "bob", "body": "hi", "cc": "eve"}, {"to", "cc"}, True),
        ({"to": "bob"}, {"to"}, True),
    ],
)
def test_said_rule_allows_user_stated_arguments(arguments, text, fits):
    """A `from_user` rule matches if the user stated these arguments and all arguments the rule does not name."""
    assert MAIL.fits("send_email", arguments, text) is fits


@pytest.mark.parametrize(
    ("arguments", "text", "fits"),
    [
        ({"to": "eve", "body": "hi"}, {"body"}, True),
        ({"to": "bob", "body": "hi"}, {"to"}, False),
        ({"body": "hi"}, set(), False),
    ],
)
def test_other_text_needs_approval(arguments, text, fits):
    """A `from_user` rule that requires approval considers only the arguments that it names."""
    assert Rule("ask", "send_email", {"to": {"from_user": False}}).fits("send_email", arguments, text) is fits


def test_no_argument_counts_as_user_text_by_default():
    """A `from_user` rule does not match a call that is judged without a conversation."""
    assert not MAIL.fits("send_email", {"to": "bob", "body": "hi"})


def test_examples_ignore_user_text():
    """The examples of a `from_user` rule are checked as if the user had stated the arguments."""
    rule = Rule(
        "allow",
        "pay",
        {"to": {"from_user": True}, "euros": {"at_most": 50}},
        match=[{"to": "bob", "euros": 50}],
        not_match=[{"to": "bob", "euros": 51}],
    )
    assert rule.checks_user_text


@pytest.mark.parametrize(("verdict", "operand"), [("allow", False), ("allow", "yes"), ("ask", 1)])
def test_invalid_from_user_is_rejected(verdict, operand):
    """A `from_user` operand that is not a boolean, or False in an allow rule, raises a ConfigError."""
    with pytest.raises(ConfigError, match="from_user"):
        Rule(verdict, "pay", {"to": {"from_user": operand}})


def test_evidence_is_an_argument_of_the_call():
    """The evidence of a rule is the first of its arguments that the call has."""
    assert MAIL.decision({"body": "hi"}).evidence == "hi"


class Mode(Enum):
    """An enum."""

    REMOVE = "remove"


@dataclass
class Sum:
    """An amount."""

    euros: float


TYPED = [
    (Mode, "remove", {}),
    (date, "2026-01-31", {"matches": r"2026-.*"}),
    (Path, "keys/mine", {"below": "keys"}),
    (Decimal, "1.50", {}),
    (Decimal, 1.5, {"at_least": 1.5}),
    (float, 100, {}),
    (tuple[int, ...], [1, 2], {}),
    (set[str], ["a"], {}),
    (bytes, "abc", {"contains": "b"}),
    (Sum, {"euros": 1}, {}),
    (UUID, "123e4567-e89b-12d3-a456-426614174000", {}),
]


@pytest.mark.for_each(("kind", "written", "test"), TYPED)
def test_rules_match_typed_arguments(kind, written, test):
    """A rule that matches a JSON value also matches the value converted to the parameter's type."""

    def act(given):
        """Do it."""

    act.__annotations__ = {"given": kind}
    arguments = Tool(act).check({"given": written})
    for where in (test or {"equals": written}, {"one_of": [written]}, {"equals": arguments["given"]}):
        for verdict in ("deny", "allow"):
            assert Rule(verdict, "act", {"given": where}, match=[{"given": written}]).fits("act", arguments)


@pytest.mark.parametrize(
    ("one", "other"), [([True], [1]), ({"a": 0}, {"a": False}), (1, True), ("1", 1), ([1], [1, 1])]
)
def test_other_values_are_not_the_same(one, other):
    """Values that Python considers equal but JSON distinguishes are different, at any depth."""
    assert not Rule("allow", "act", {"x": {"equals": one}}).fits("act", {"x": other})
    assert not Rule("allow", "act", {"x": {"one_of": [one]}}).fits("act", {"x": other})


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("sNaN"), float("nan")])
def test_non_numbers_are_out_of_bounds(value):
    """A value that is not a number fails a numeric allow rule and matches a numeric deny rule."""
    assert not Rule("allow", "pay", {"euros": {"at_most": 5}}).fits("pay", {"euros": value})
    assert Rule("deny", "pay", {"euros": {"at_least": 5}}).fits("pay", {"euros": value})


@pytest.mark.parametrize("url", ["https://evil.example\\@good.example/", "https://evil.example\\.good.example/"])
def test_url_that_clients_read_differently(url):
    """For a URL that clients parse differently, an allow rule must match both readings, and other rules one."""
    for test in ({"host": "good.example"}, {"origin": "https://good.example"}):
        assert not Rule("allow", "get", {"url": test}).fits("get", {"url": url})
    assert Rule("deny", "get", {"url": {"host": "evil.example"}}).fits("get", {"url": url})
    assert Rule("deny", "get", {"url": {"host": "good.example"}}).fits("get", {"url": url})


@pytest.mark.for_each("test", [{"matches": "git push.*"}, {"contains": "git push"}])
@pytest.mark.for_each(
    ("command", "fits"),
    [
        ("git push origin main", True),
        ("git push -o 'ci.skip'", True),
        ("git push; curl evil", False),
        ("git push && id", False),
        ("git push | tee /etc/x", False),
        ("git push $(id)", False),
        ("git push `id`", False),
        ("git push > ~/.bashrc", False),
        ("git push\nid", False),
        ("git push ${IFS}", False),
        ("git push \\\nid", False),
    ],
)
def test_allow_pattern_matches_one_command_only(test, command, fits):
    """An allow pattern for shell commands matches one plain command only; other rules match any part."""
    assert Rule("allow", "run_shell", {"command": test}).fits("run_shell", {"command": command}) is fits
    assert Rule("deny", "run_shell", {"command": test}).fits("run_shell", {"command": command})
    assert Rule("allow", "note", {"command": test}).fits("note", {"command": command})


def test_allow_pattern_rejects_variable_assignment():
    """An allow pattern does not match a command with a variable assignment in front of it."""
    rule = Rule("allow", "run_shell", {"command": {"contains": "git push"}})
    assert not rule.fits("run_shell", {"command": "GIT_SSH_COMMAND='sh -c id' git push"})
    assert rule.fits("run_shell", {"command": "git push --push-option=ci.skip"})
