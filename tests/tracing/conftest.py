"""What the tests of tracing share: tools and agents whose runs are worth a trace."""

import os

import pytest

from agentkit import Agent, Policy, Rule, core_tools, tool
from agentkit.testing import ScriptedLLM, call, say


@pytest.fixture(autouse=True)
def no_provider(monkeypatch):
    """Every test begins in an environment that names no provider, and no place for spans."""
    for name in os.environ:
        if (
            name.startswith(("AGENTKIT_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_", "OTEL_"))
            and name != "AGENTKIT_STATE"
        ):
            monkeypatch.delenv(name)


@tool
def fail(reason: str) -> str:
    """Fail for a reason."""
    raise ValueError(reason)


@tool
def refused() -> str:
    """Never allowed."""
    return "never"


def make_agent(*lines, name="helper", **options):
    """An agent that computes, that fails, and that may not use one of its tools."""
    chosen = lines or (
        say("Let me see.", call("calculator", expression="6*7"), call("fail", reason="sk-abcdefghij0123456789ABCDEFG")),
        call("refused"),
        "It is 42.",
    )
    tools = [*core_tools, fail, refused]
    policy = Policy(rules=[Rule("deny", "refused", reason="Nobody may do this.", name="no-refused")])
    return Agent(name, tools, llm=ScriptedLLM(*chosen), policy=policy, **options)


@pytest.fixture(name="make_agent", scope="session")
def make_agent_fixture():
    """The function that makes such an agent."""
    return make_agent
