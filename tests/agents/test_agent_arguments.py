"""Tests for invalid arguments of Agent, and the errors that explain them."""

import pytest

from agentkit import LLM, Agent, ConfigError
from agentkit.events import ResponseReceived
from agentkit.testing import ScriptedLLM


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def asynchronous(*arguments):
    """An asynchronous listener."""


@pytest.mark.for_each(
    ("arguments", "message"),
    [
        ({"name": [add]}, "name= takes a string"),
        ({"name": None}, "name= takes a string"),
        ({"instruction": 5}, "instruction= takes a string"),
        ({"instruction": ["Be brief.", "Be kind."]}, r"instruction= takes a string, or a function .* to join lines"),
        ({"instruction": "{} {}".replace}, r"a function \(sync or async\) without"),
        ({"instruction": str}, "or with a RunContext"),
        ({"name": "openai:gpt-5"}, r"the agent's name. Write Agent\(model='openai:gpt-5'\)"),
        ({"tools": "web"}, "tools= takes tools.*'web'"),
        ({"tools": ["web"]}, "tools= takes tools.*'web'"),
        ({"tools": 5}, "tools= takes tools"),
        ({"tools": [add, None]}, "tools= takes tools"),
        ({"tools": {"add": add}}, "tools= takes tools"),
        ({"tools": [add, add]}, "'add' is given twice"),
        ({"max_iterations": 0}, "at least 1"),
        ({"max_iterations": -1}, "at least 1"),
        ({"max_iterations": "10"}, "max_iterations= takes a whole number.*'10'"),
        ({"max_iterations": 2.5}, "max_iterations= takes a whole number"),
        ({"max_iterations": True}, "max_iterations= takes a whole number"),
        ({"max_iterations": None}, "max_iterations= takes a whole number"),
        ({"llm": "gpt-5"}, "llm= takes an LLM.*model=.*'gpt-5'"),
        ({"llm": LLM}, "llm= takes an LLM"),
        ({"model": 5}, "model= takes a model's name.*llm="),
        ({"model": ScriptedLLM()}, "model= takes a model's name.*llm="),
        ({"llm": ScriptedLLM(), "model": "gpt-5"}, "not both"),
        ({"safety": "bogus"}, "is not a safety level; use SAFE, NETWORK or SYSTEM"),
        ({"safety": None}, "is not a safety level"),
        ({"safety": True}, "is not a safety level"),
        ({"safety": 3}, "is not a safety level"),
        ({"approve": "yes"}, "approve= takes a function"),
        ({"approve": True}, "approve= takes a function"),
        ({"approve": lambda: True}, "approve= takes a function"),
        ({"approve": lambda _request, _more: True}, "approve= takes a function"),
        ({"session": ""}, "session= takes the name of a session"),
        ({"listeners": print}, "listeners= takes a list"),
        ({"handoffs": None}, "handoffs= takes a list of agents"),
        ({"handoffs": ["expert"]}, "handoffs= takes a list of agents"),
        ({"guardrails": None}, "guardrails= takes a list of functions"),
        ({"listeners": ["print"]}, "A listener is a plain function"),
        ({"listeners": [asynchronous]}, "not async"),
    ],
)
def test_invalid_arguments_raise_a_config_error(arguments, message):
    """An invalid argument raises ConfigError with a message that explains what is expected."""
    with pytest.raises(ConfigError, match=message):
        Agent(**{"name": "helper", **arguments})


def test_all_arguments_are_optional():
    """An agent can be created without arguments; None for tools and instruction means the default."""
    plain, silent = Agent(), Agent("agent", None, None)
    assert (plain.name, plain.tools.names, plain.instruction) == ("agent", (), "You are a helpful assistant.")
    assert (silent.name, silent.tools, silent.instruction) == (plain.name, plain.tools, plain.instruction)


@pytest.mark.parametrize("name", ["openai:gpt-5", "ollama:qwen3"])
def test_agent_may_be_named_like_a_model(name):
    """An agent with an explicit model may have a model's name as its own name."""
    assert Agent(name, llm=ScriptedLLM()).name == name
    assert Agent(name, model="gpt-5").name == name


def test_error_messages_are_short():
    """An error message quotes only the beginning of a long invalid value."""
    with pytest.raises(ConfigError) as caught:
        Agent(["x" * 1000] * 1000)
    assert len(str(caught.value)) < 400


def test_invalid_llm_is_rejected_when_set():
    """Setting `llm` to something other than an LLM raises ConfigError."""
    with pytest.raises(ConfigError, match="llm= takes an LLM"):
        Agent("helper").llm = "gpt-5"


def test_async_listener_is_rejected():
    """An asynchronous listener is rejected when it is registered."""
    with pytest.raises(ConfigError, match="not async"):
        Agent("helper").on(ResponseReceived, asynchronous)
