"""Tests for the quick chat, `from agentkit import agent`: settings, keys, and errors."""

import asyncio

import pytest

import agentkit
from agentkit import ConfigError, NoProvider, RunFinished
from agentkit.agents.default import QuickAgent
from agentkit.errors import Unauthorized
from agentkit.events import TextDelta
from agentkit.testing import FakeServer, fail


@pytest.fixture
def agent():
    """A new quick chat agent."""
    return QuickAgent()


def key_of(request):
    """Return the API key of a request, or None."""
    return request.headers.get("authorization", "").removeprefix("Bearer ") or None


def test_one_line_chat(agent, monkeypatch):
    """A call works with only environment variables, and the conversation is remembered."""
    with FakeServer("Hanoi.", "Eight million.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert agent("What is the capital of Vietnam?") == "Hanoi."
        assert agent("How many live there?") == "Eight million."
    assert [message["role"] for message in agent.history] == ["user", "assistant"] * 2
    assert agent.usage.requests == 2
    assert agent.history[1] == {"role": "assistant", "content": "Hanoi."}
    agent.history = agent.history[:2]
    assert len(agent.history) == 2


def test_public_agent_is_a_singleton(monkeypatch):
    """`from agentkit import agent` always returns the same agent and needs no settings."""
    from agentkit import agent

    assert isinstance(agent, QuickAgent)
    assert agentkit.agent is agent
    with FakeServer("Hello.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert agent("Hi!") == "Hello."
    agent.reset()
    assert agent.history == []


def test_reset(agent):
    """After a reset, the model receives no earlier messages."""
    with FakeServer("Hello.", "Hello again.") as server:
        agent("Hi!", base_url=server.base_url)
        agent.reset()
        assert agent.history == []
        agent("Hi!")
        assert [message["role"] for message in server.requests[1].json["messages"]] == ["system", "user"]


def test_stream(agent):
    """`stream` yields text deltas, accepts the same options, and ends with RunFinished."""
    with FakeServer("Hello there.") as server:
        events = list(agent.stream("Hi!", base_url=server.base_url, system_prompt="Be brief."))
        assert server.requests[0].json["messages"][0] == {"role": "system", "content": "Be brief."}
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello there."
    assert isinstance(events[-1], RunFinished)
    assert agent.history[-1]["content"] == "Hello there."


def test_works_inside_a_running_loop(agent):
    """A call works inside a running event loop."""

    async def cell():
        return agent("Hi!")

    with FakeServer("Hello.") as server:
        agent.stream("Hi!", base_url=server.base_url).close()
        assert asyncio.run(cell()) == "Hello."


def test_missing_key_can_be_added(agent, monkeypatch):
    """A call without a provider raises an error, and works once the variable is set."""
    with pytest.raises(NoProvider, match="OPENAI_API_KEY"):
        agent("Hi!")
    with FakeServer("Hello.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert agent("Hi!") == "Hello."
    assert len(agent.history) == 2


def test_rejected_key_can_be_replaced(agent, monkeypatch):
    """A rejected key can be replaced, and the failed prompt is not in the history."""
    with FakeServer(fail(401, "Wrong key."), "Hello.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
        with pytest.raises(Unauthorized):
            agent("Hi!")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
        assert agent("Hi!") == "Hello."
        assert [key_of(request) for request in server.requests] == ["sk-wrong", "sk-right"]
    assert len(agent.history) == 2


def test_options_apply_to_later_calls(agent):
    """Options passed to a call also apply to later calls."""
    with FakeServer("One.", "Two.", "Three.") as server:
        agent("1", base_url=server.base_url, model="small")
        agent("2", model="large", system_prompt="Be brief.", temperature=0.5)
        agent("3")
        questions = [request.json for request in server.requests]
    assert [body["model"] for body in questions] == ["small", "large", "large"]
    assert [body.get("temperature") for body in questions] == [None, 0.5, 0.5]
    prompts = [body["messages"][0]["content"] for body in questions]
    assert prompts == ["You are a helpful assistant.", "Be brief.", "Be brief."]


def test_same_settings_keep_the_connection(agent):
    """Calls with unchanged settings reuse the client."""
    with FakeServer("One.", "Two.", "Three.") as server:
        agent("1", base_url=server.base_url)
        llm = agent._agent.llm
        agent("2", base_url=server.base_url)
        assert agent._agent.llm is llm
        agent("3", temperature=0.5)
        assert agent._agent.llm is not llm


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"api_key": "sk-secret"}, {}),
        ({"api_key": "sk-secret", "provider": "openai"}, {}),
        ({"api_key": "sk-secret", "model": "groq:llama"}, {}),
        ({"api_key": "sk-secret", "provider": "azure", "azure_endpoint": "https://example.openai.azure.com"}, {}),
        ({"api_key": "sk-secret", "base_url": "http://127.0.0.1:1/v1"}, {"provider": "openai"}),
        ({"api_key": "sk-secret", "azure_endpoint": "https://example.openai.azure.com"}, {"model": "openai:any"}),
    ],
)
def test_key_is_not_sent_to_another_server(agent, first, second):
    """A key passed for one server is not sent to another."""
    with FakeServer("Hello.") as server:
        agent.stream("Hi!", **first).close()
        assert agent("Hi!", base_url=server.base_url, **second) == "Hello."
        assert "sk-secret" not in str(server.requests[0].headers)


@pytest.mark.parametrize(
    ("first", "second", "model"),
    [
        ({"provider": "groq", "api_key": "sk-groq", "model": "qwen"}, {"model": "llama"}, "llama"),
        ({"model": "groq:llama", "api_key": "sk-groq"}, {"model": "qwen3:8b"}, "qwen3:8b"),
        ({"model": "groq:llama", "api_key": "sk-groq"}, {"provider": "groq"}, "llama"),
        ({"model": "groq:llama"}, {"api_key": "sk-groq"}, "llama"),
        ({"provider": "openai", "api_key": "sk-openai"}, {"model": "groq:llama", "api_key": "sk-groq"}, "llama"),
        ({"provider": "openai", "api_key": "sk-openai"}, {"model": "Groq:llama", "api_key": "sk-groq"}, "llama"),
    ],
)
def test_settings_of_one_provider_are_combined(agent, monkeypatch, first, second, model):
    """Settings of several calls are combined if they have the same provider."""
    monkeypatch.setenv("GROQ_API_KEY", "sk-environment")
    agent.stream("Hi!", **first).close()
    agent.stream("Hi!", **second).close()
    described = agent._agent.llm.describe()
    assert (described.provider, described.model) == ("groq", model)
    assert agent._agent.llm._endpoint.api_key.reveal() == "sk-groq"


def test_wrong_settings_are_not_remembered(agent):
    """Invalid settings of a call do not affect the next call."""
    with FakeServer("Hello.") as server:
        agent.stream("Hi!", base_url=server.base_url).close()
        with pytest.raises(NoProvider, match="bogus"):
            agent("Hi!", provider="bogus")
        with pytest.raises(TypeError, match="temprature"):
            agent("Hi!", temprature=1)
        assert agent("Hi!") == "Hello."


def test_representation(agent):
    """The representation explains how to use the agent."""
    assert "call it with a message" in repr(agent)


def test_key_is_discarded_for_another_server(agent, monkeypatch):
    """A key passed to a call is discarded when the environment names another server."""
    with FakeServer("a", "b") as first, FakeServer("c") as second:
        monkeypatch.setenv("OPENAI_BASE_URL", first.base_url)
        agent("q", api_key="sk-first")
        agent("q")
        assert key_of(first.requests[1]) == "sk-first"
        monkeypatch.setenv("OPENAI_BASE_URL", second.base_url)
        agent("q")
        assert key_of(second.requests[0]) != "sk-first"


def test_invalid_prompt_is_reported_before_a_missing_provider(agent, monkeypatch):
    """An invalid prompt raises ConfigError even if no provider is set."""
    for variable in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "AGENTKIT_PROVIDER",
        "AGENTKIT_BASE_URL",
    ):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match=r"A prompt is a text, an Image, a File, .* Got 3"):
        agent(3)
