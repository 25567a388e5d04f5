"""Tests for `agentkit explain`, which shows the decision on a call without running it."""

import json

import pytest


def test_decision_is_explained(command):
    """A denied call shows verdict, reason, rule, evidence and remedy, and the exit code is that of a denial."""
    out, err, code = command("explain", "run_shell", "rm -rf /etc")
    assert (code, err) == (4, "")
    assert out.startswith("deny: Command blocked for safety")
    assert "rule:" in out
    assert "evidence: " in out


def test_decision_as_json(command):
    """With --json, the decision is one document with the validated arguments."""
    out, _, code = command("explain", "run_shell", "ls -la", "--json")
    document = json.loads(out)
    assert (code, document["verdict"], document["arguments"]) == (0, "allow", {"command": "ls -la"})
    assert set(document) >= {"schema_version", "tool", "rule", "reason", "evidence", "remedy"}


@pytest.mark.parametrize(("level", "verdict"), [("network", "ask"), ("system", "allow")])
def test_level_of_the_agent_applies(command, tmp_path, level, verdict):
    """Writing needs approval at the level NETWORK and is allowed at SYSTEM; nothing is written."""
    target = "explained-only.txt"
    out, _, code = command("explain", "write_file", target, "content=a=b", "--safety", level)
    assert (code, out.split(":")[0]) == (0, verdict)


def test_value_with_an_equals_sign(command):
    """A string with an equals sign that names no parameter is a value."""
    out, _, _ = command("explain", "run_shell", "LANG=C ls", "--json")
    assert json.loads(out)["arguments"] == {"command": "LANG=C ls"}


def test_too_many_values_are_an_error(command):
    """Passing more values than parameters is a usage error that names the parameters."""
    _, err, code = command("explain", "run_shell", "ls", "pwd")
    assert (code, "command" in err, "'pwd'" in err) == (2, True, True)


def test_unknown_tool_suggests_the_closest(command):
    """An unknown tool is an error that names the closest one."""
    _, err, code = command("explain", "run_shel", "ls")
    assert (code, "run_shell" in err) == (2, True)
