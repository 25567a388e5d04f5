"""Tests for the parsing of manifests."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import Agent, Policy, Rule
from agentkit.errors import ConfigError
from agentkit.manifest import Manifest, differences, manifest_of

PLAIN = str(manifest_of(Agent("bot")))


def error_of(text):
    """Return the error message for an invalid manifest."""
    with pytest.raises(ConfigError) as caught:
        Manifest.parse(text, "m.json")
    return str(caught.value)


def test_one_fact_per_line():
    """The manifest is sorted JSON with the format first and each fact on its own line."""
    lines = PLAIN.splitlines()
    assert list(json.loads(PLAIN)) == ["format", "agent", *sorted(list(json.loads(PLAIN))[2:])]
    assert len(lines) == len(json.loads(PLAIN)) + 2
    assert lines[1:3] == ['  "format": 1,', '  "agent": "bot",']


@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1))
def test_any_name_survives_a_round_trip(name, text):
    """Names with slashes, quotes, line breaks and non-ASCII letters survive a round trip."""
    written = manifest_of(Agent(name, policy=Policy(rules=[Rule("deny", "note", {"text": text})])))
    assert str(written).isascii()
    read = Manifest.parse(str(written))
    assert (read.facts, read.agents) == (written.facts, (name,))
    assert differences(read, written) == ()


def test_other_layouts():
    """Blanks, other line endings and a missing final newline are accepted if each fact has a separate line."""
    otherwise = PLAIN.replace("\n  ", "\r\n\t").replace(": ", ":").rstrip()
    assert Manifest.parse(otherwise).facts == Manifest.parse(PLAIN).facts


@pytest.mark.for_each(
    ("old", "new", "words"),
    [
        ("{\n", "", "m.json, line 1: the first line of a manifest must be {."),
        ("}\n", "", "the file is cut off: its last line must be }."),
        ('"format": 1,', '"format": 2,', "is written in format 2, and this agentkit knows format 1. Upgrade agentkit"),
        ('"format": 1,', '"format": "1",', 'm.json is not a manifest: its format is "1", not 1.'),
        ('"format": 1,', '"format": 0,', "m.json is not a manifest: its format is 0, not 1."),
        ('"format": 1,', '"format": true,', "m.json is not a manifest: its format is true, not 1."),
        ('  "format": 1,\n', "", "m.json is not a manifest: it does not state its format."),
        ('"bot",\n', '"bot"\n', "m.json, line 3: a comma is missing."),
        ("\n}", ",\n}", "there is a comma after the last fact."),
        ('"agents/bot/flow": true', "<<<<<<< HEAD", "this is not a fact: <<<<<<< HEAD."),
        ('"agents/bot/flow": true', '"agents/bot/flow": true, "a": 1', "this is not a fact"),
        ('"agents/bot/flow": true', '"agents/bot/flow": true, "agents/bot/flow": false', "this is not a fact"),
        ('"agents/bot/flow": true', '"agents/bot/flow": NaN', "this is not a fact"),
        ('"agents/bot/flow": true', '"agents/bot/flow": ' + "[" * 5000, "this is not a fact"),
        ('"agents/bot/flow": true', '"agents/bot/flow": "' + "(" * 5000 + '"', "this is not a fact"),
        ('"agents/bot/flow": true', '"agents/bot/flow": ' + "9" * 5000, "this is not a fact"),
        ('"agents/bot/flow": true', '"agents/bot/flow": "yes"', 'agents/bot/flow is true or false, not "yes".'),
        ('"agents/bot/flow": true', '"agents/bot/flow": 1', "agents/bot/flow is true or false, not 1."),
        ('"agents/bot/flow": true', '"agents/bot/flaw": true', "no manifest states agents/bot/flaw."),
        ('"agents/bot/flow": true', '"agents": true', "no manifest states agents."),
        ('"agents/bot/flow": true', '"agents//flow": true', "no manifest states agents//flow."),
        ('"agents/bot/flow": true', '"agents/bot/tools/x/y": true', "no manifest states agents/bot/tools/x/y."),
        ('"agents/bot/flow": true', '"agents/bot/dry_run": true', "the key agents/bot/dry_run occurs twice."),
        ('  "agents/bot/flow": true,\n', "", "m.json does not state agents/bot/flow; lines are missing."),
        ('  "agent": "bot",\n', "", "m.json does not state agent; lines are missing."),
        ('"agent": "bot"', '"agent": "clerk"', "m.json does not state agents/clerk/approver"),
        ('/secrets": []', '/secrets": [{}, []]', "is a sorted list of texts, not [{}, []]."),
        ('/secrets": []', '/secrets": ["b", "a"]', "is a sorted list of texts"),
        ('/limits/cost": null', '/limits/cost": -1', "is a number, or null for no limit, not -1."),
        ('/limits/cost": null', '/limits/cost": true', "is a number, or null for no limit, not true."),
        ('/output": null', '/output": "sha256:1"', "is a hash, or null"),
        (
            '"agents/bot/flow": true',
            '"agents/bot/flow": true,\n"agents/bot/rules/001": {}',
            "is a rule: verdict, tool, where",
        ),
    ],
)
def test_invalid_manifest_raises_an_error(old, new, words):
    """An invalid manifest raises an error that names the fault and the command that writes a new one."""
    assert old in PLAIN
    found = error_of(PLAIN.replace(old, new, 1))
    assert words in found
    assert "agentkit manifest FILE --write MANIFEST" in found


@pytest.mark.for_each(
    "rule",
    [
        {"verdict": "maybe", "tool": "t", "where": {}},
        {"verdict": "deny", "tool": 1, "where": {}},
        {"verdict": "deny", "tool": "t", "where": []},
        {"verdict": "deny", "tool": "t", "where": {"n": 1}},
        {"verdict": "deny", "tool": "t", "where": {"n": {"at_most": "many"}}},
        {"verdict": "deny", "tool": "t", "where": {"n": {"matches": "("}}},
        {"verdict": "deny", "tool": "t", "where": {"n": {"matches": "a{99999999999999999999}"}}},
        {"verdict": [], "tool": "t", "where": {}},
        {"verdict": "deny", "tool": "t", "where": {"n": {"below": []}}},
        {"verdict": "deny", "tool": "t", "where": {}, "code": 1},
        {"verdict": "deny", "tool": "t", "where": {}, "note": 1},
    ],
)
def test_invalid_rule_is_rejected(rule):
    """An invalid rule in a manifest raises an error."""
    line = f'  "agents/bot/rules/001": {json.dumps(rule)},\n  "agents/bot/secrets"'
    assert "is a rule: verdict, tool, where" in error_of(PLAIN.replace('  "agents/bot/secrets"', line))


def test_oversized_file_is_rejected():
    """A file longer than any manifest is not read."""
    assert "is too long for a manifest" in error_of(" " * (Manifest.MAX_BYTES + 1))


@given(st.integers(0, len(PLAIN)), st.integers(0, 40), st.text(max_size=5))
def test_edited_manifest_is_parsed_or_rejected(start, count, text):
    """A manifest with any edit is parsed or raises an error with a message."""
    with contextlib.suppress(ConfigError):
        read = Manifest.parse(PLAIN[:start] + text + PLAIN[start + count :])
        assert Manifest.parse(str(read)).facts == read.facts
        assert differences(read, read) == ()
