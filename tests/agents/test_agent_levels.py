"""Tests for calls that need approval: tools without a safety level, and deferred approvals."""

import pytest

from agentkit import Agent, ConfigError, Policy, Rule, tool
from agentkit.testing import ScriptedLLM, call


def delete_account(name: str) -> str:
    """Delete an account."""
    return f"{name} is deleted"


@tool(level="safe")
def count_accounts() -> int:
    """Count the accounts."""
    return 3


@pytest.mark.parametrize(
    ("options", "status", "reason"),
    [
        ({}, "ok", ""),
        ({"unlabelled": "ask"}, "denied", "delete_account has no safety level, so it needs approval."),
        ({"unlabelled": "ask", "rules": [Rule("allow", "delete_account")]}, "ok", ""),
        ({"unlabelled": "ask", "approve": lambda _: True}, "ok", ""),
        ({"unlabelled": "ask", "safety": "system"}, "ok", ""),
        ({"rules": [Rule("deny", "delete_account", reason="Accounts stay.")]}, "denied", "Accounts stay."),
        ({"rules": [{"verdict": "deny", "tool": "delete_account"}]}, "denied", ""),
    ],
)
def test_calls_of_functions_without_a_level(options, status, reason):
    """A function without a level runs unless the agent asks about such functions; rules decide before."""
    llm = ScriptedLLM(call("delete_account", name="Ann"), call("count_accounts"), "Done.")
    result = Agent("clerk", [delete_account, count_accounts], llm=llm, **options).run("Delete Ann.")
    deleted, counted = (used.result for used in result.tool_calls)
    assert (deleted.status, counted.value) == (status, 3)
    assert (deleted.error or "").startswith(reason)


def test_approve_later():
    """With `approve="later"` a call that needs approval pauses the run."""
    llm = ScriptedLLM(call("delete_account", name="Ann"), "Done.")
    paused = Agent("clerk", [delete_account], llm=llm, approve="later", unlabelled="ask").run("Delete Ann.")
    assert (paused.status, paused.pending[0].tool) == ("paused", "delete_account")
    assert paused.resume(True).values("delete_account") == ["Ann is deleted"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"rules": [Rule("deny", "x")], "policy": Policy()}, "Give the rules once: policy=Policy"),
        ({"rules": Rule("deny", "x")}, "rules= takes a list of rules"),
        ({"unlabelled": "deny"}, "unlabelled= takes 'allow' or 'ask'. Got 'deny'."),
        ({"approve": "never"}, "approve= takes a function"),
        ({"remember": 1}, "remember= takes True or False. Got 1."),
        ({"description": 5}, "description= takes a string that describes the purpose of the agent. Got 5."),
    ],
)
def test_invalid_arguments(options, wanted):
    """Invalid arguments are rejected when the agent is created."""
    with pytest.raises(ConfigError, match=wanted):
        Agent("clerk", **options)


def test_approval_question_describes_the_call():
    """The question of an approval request describes the effect of the call."""
    llm = ScriptedLLM(call("write_file", path="a.txt", content="x"), "Done.")
    from agentkit import write_file_tool

    result = Agent("clerk", [write_file_tool], llm=llm, dry_run=False, approve="later").run("Write.")
    assert "write_file changes files, so it needs your approval." in result.pending[0].question
