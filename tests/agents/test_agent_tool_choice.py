"""Tests for a tool choice that forces a tool, which applies only to the first request of a run."""

import pytest

from agentkit import LLM, Agent, core_tools
from agentkit.testing import FakeServer, call

FORCED = ["required", {"type": "function", "function": {"name": "calculator"}}]


def choices(server):
    """Return the tool choice of each request received by the server."""
    return [request.json.get("tool_choice") for request in server.requests]


@pytest.mark.parametrize("protocol", ["chat", "responses"])
@pytest.mark.parametrize("choice", FORCED, ids=["any", "one"])
def test_first_request_forces_a_tool(choice, protocol):
    """Only the first request of a run forces a tool."""
    lines = [call("calculator", expression="6*7"), "It is 42.", call("nothing_like_it"), "There is no such tool."]
    with FakeServer(*lines) as server:
        llm = LLM(base_url=server.base_url, model="any", protocol=protocol, settings={"tool_choice": choice})
        agent = Agent("counter", tools=core_tools, llm=llm)
        assert (agent("What is 6*7?"), agent("And now?")) == ("It is 42.", "There is no such tool.")
        sent = choices(server)
    assert sent[0] == sent[2] not in (None, "auto")
    assert sent[1] == sent[3] == "auto"


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_tool_choice_that_forces_nothing_is_always_sent(choice):
    """A tool choice that does not force a tool is sent with every request."""
    settings = {} if choice is None else {"tool_choice": choice}
    with FakeServer(call("calculator", expression="6*7"), "It is 42.") as server:
        llm = LLM(base_url=server.base_url, model="any", protocol="chat", settings=settings)
        Agent("counter", tools=core_tools, llm=llm)("What is 6*7?")
        assert choices(server) == [choice, choice]
