"""Does `agentkit explain` say what would happen, and run nothing?"""

import json

import pytest


def test_decision_is_explained(command):
    """A denied call says verdict, reason, rule, evidence and what to do instead, and exits as refused."""
    out, err, code = command("explain", "run_shell", "rm -rf /etc")
    assert (code, err) == (4, "")
    assert out.startswith("deny: Command blocked for safety")
    assert "rule:" in out
    assert "evidence: " in out


def test_decision_comes_as_json(command):
    """With --json the decision is one document with the checked arguments."""
    out, _, code = command("explain", "run_shell", "ls -la", "--json")
    document = json.loads(out)
    assert (code, document["verdict"], document["arguments"]) == (0, "allow", {"command": "ls -la"})
    assert set(document) >= {"schema_version", "tool", "rule", "reason", "evidence", "remedy"}


@pytest.mark.parametrize(("level", "verdict"), [("network", "ask"), ("system", "allow")])
def test_level_of_the_agent_counts(command, tmp_path, level, verdict):
    """Writing is asked about by an agent of the level NETWORK and allowed to one of SYSTEM; nothing is written."""
    target = "explained-only.txt"
    out, _, code = command("explain", "write_file", target, "content=a=b", "--safety", level)
    assert (code, out.split(":")[0]) == (0, verdict)


def test_values_fill_the_parameters_in_order(command):
    """A text with an equals sign that names no parameter is a value."""
    out, _, _ = command("explain", "run_shell", "LANG=C ls", "--json")
    assert json.loads(out)["arguments"] == {"command": "LANG=C ls"}


def test_one_value_too_many_is_an_error(command):
    """More values than parameters are a usage error that names the parameters."""
    _, err, code = command("explain", "run_shell", "ls", "pwd")
    assert (code, "command" in err, "'pwd'" in err) == (2, True, True)


def test_unknown_tool_names_the_closest(command):
    """A tool that does not exist is an error that names the closest one."""
    _, err, code = command("explain", "run_shel", "ls")
    assert (code, "run_shell" in err) == (2, True)
