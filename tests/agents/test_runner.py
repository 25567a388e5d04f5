"""Tests for the configuration of an agent before it runs, and for runs in other sessions."""

import asyncio
import copy
import pickle

import pytest

from agentkit import LLM, Agent, ConfigError, Session
from agentkit.agents.agent import AgentTool
from agentkit.agents.result import RunFinished
from agentkit.events import TextDelta
from agentkit.testing import ScriptedLLM


def polite(output: str) -> None:
    """Refuse an answer without "please"."""
    if "please" not in output:
        raise ValueError("Say please.")


def test_configured_llm_before_the_client_is_created(monkeypatch):
    """`configured_llm` is the LLM, the model name before the LLM is created, or None."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    llm, named, unsaid = ScriptedLLM("Hi"), Agent("named", model="gpt-5.4"), Agent("unsaid")
    assert Agent("given", llm=llm).configured_llm is llm
    assert (named.configured_llm, unsaid.configured_llm) == ("gpt-5.4", None)
    made = named.llm
    assert isinstance(made, LLM)
    assert named.configured_llm is made


def test_configured_session_before_it_is_opened(tmp_path, monkeypatch):
    """`configured_session` is the session, its name before it is opened, or None."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert Agent("bare").configured_session is None
    assert Agent("named", session="trips").configured_session == "trips"
    assert list(tmp_path.rglob("*.db")) == []
    bare = Agent("bare")
    assert bare.session is bare.configured_session


@pytest.mark.parametrize("copied", [copy.copy, lambda agent: agent.within(Session())])
def test_copy_shares_the_workspace(copied):
    """A copy of an agent shares its workspace."""
    agent = Agent("worker")
    other = copied(agent)
    assert other.workspace is agent.workspace
    assert copied(other).workspace is agent.workspace
    agent.workspace = None
    assert agent.workspace is not other.workspace


def test_session_of_an_agent_can_be_replaced():
    """An agent's session can be replaced, and the old session is unchanged."""
    agent, other = Agent("helper", llm=ScriptedLLM("One.", "Two.")), Session("other")
    first = agent.session
    agent("Count")
    agent.session = other
    assert agent.history == []
    agent("Count")
    assert (len(first.messages), len(other.messages), agent.session) == (2, 2, other)
    with pytest.raises(ConfigError, match="session= takes"):
        agent.session = 3


def test_events_of_a_run_in_another_session():
    """The events of a run are available in any session, with or without text deltas."""
    agent, apart = Agent("helper", llm=ScriptedLLM("One two.", repeat=True)), Session()
    full_text = list(agent.events("Count", session=apart))
    pieces = list(agent.events("Count", streaming=True))

    async def awaited():
        return [event async for event in agent.aevents("Count", session=apart)]

    assert isinstance(full_text[-1], RunFinished)
    assert not any(isinstance(event, TextDelta) for event in full_text)
    assert [event.text for event in pieces if isinstance(event, TextDelta)] == ["One ", "two."]
    assert [type(event) for event in asyncio.run(awaited())] == [type(event) for event in full_text]
    assert (len(apart.messages), len(agent.messages), agent.usage.requests) == (4, 2, 3)
    with pytest.raises(ConfigError, match="A prompt is"):
        agent.events(7)


def test_answer_validator_of_an_agent():
    """`answer_validator` has the output type and the guardrails of the agent."""
    rules = Agent("helper", output_type=int, guardrails=[polite]).answer_validator
    assert [(check.name, check.stage) for check in rules.guardrails] == [("polite", "output")]
    assert rules.schema is not None
    assert Agent("plain").answer_validator.schema is None


def test_tool_of_an_agent_can_be_pickled():
    """An agent's tool refers to the agent and can be pickled."""
    agent = Agent("expert", llm=LLM(model="m", api_key="sk-test-0123456789"))
    tool = agent.as_tool()
    assert tool.function == AgentTool(agent)
    twin = pickle.loads(pickle.dumps(tool))
    assert (twin.name, twin.parameters, twin.function.agent.name) == ("expert", tool.parameters, "expert")
    assert "all the information it needs" in tool.parameters["properties"]["request"]["description"]
