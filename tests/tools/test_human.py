"""Tests for ask_user, tell_user and finish."""

import pytest

from agentkit import SafetyLevel
from agentkit.errors import Postponed
from agentkit.tools.human import ask_user_tool, dialogue_tools, finish_tool, tell_user_tool


def test_names_levels_and_descriptions():
    """The tools ask_user, tell_user and finish are safe and have descriptions."""
    tools = dialogue_tools()
    assert tools.names == ("ask_user", "tell_user", "finish")
    assert {tool.level for tool in tools} == {SafetyLevel.SAFE}
    assert [list(tool.parameters["properties"]) for tool in tools] == [["question"], ["message"], ["answer"]]
    assert all(tool.description for tool in tools)


def test_ask_user_has_no_time_limit():
    """ask_user has no time limit."""
    assert ask_user_tool().timeout_seconds is None


def test_ask_user():
    """A direct call of `ask_user` returns the function's answer, and is postponed without a function."""
    assert ask_user_tool(str.upper)(question="why?") == "WHY?"
    with pytest.raises(Postponed, match="why\\?"):
        ask_user_tool()(question="why?")
    assert ask_user_tool().invoke({"question": "why?"}).status == "waiting"


def test_tell_user():
    """`tell_user` passes the message to the given function, and succeeds without one."""
    received = []
    assert tell_user_tool(received.append).invoke({"message": "Halfway."}).ok
    assert tell_user_tool().invoke({"message": "Halfway."}).ok
    assert received == ["Halfway."]


def test_finish():
    """`finish` returns its argument and ends a run."""
    assert finish_tool(answer="It is 4.") == "It is 4."
    assert finish_tool.ends_run
