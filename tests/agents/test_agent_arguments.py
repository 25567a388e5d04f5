"""Is a wrong argument told at once, with what was meant?"""

import pytest

from agentkit import LLM, Agent, ConfigError
from agentkit.events import ResponseReceived
from agentkit.testing import ScriptedLLM


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def asynchronous(*arguments):
    """A listener that must be awaited."""


@pytest.mark.for_each(
    ("arguments", "told"),
    [
        ({"name": [add]}, "name= takes a text"),
        ({"name": None}, "name= takes a text"),
        ({"instruction": 5}, "instruction= takes a text"),
        ({"instruction": ["Be brief.", "Be kind."]}, r"instruction= takes a text, or a function .* to join lines"),
        ({"instruction": "{} {}".replace}, "a function that returns one, sync or async, without"),
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
def test_wrong_arguments_are_told(arguments, told):
    """A wrong argument raises ConfigError, which says what was meant."""
    with pytest.raises(ConfigError, match=told):
        Agent(**{"name": "helper", **arguments})


def test_nothing_need_be_said():
    """An agent can be made without any argument; None in the place of tools and instruction says nothing either."""
    plain, silent = Agent(), Agent("agent", None, None)
    assert (plain.name, plain.tools.names, plain.instruction) == ("agent", (), "You are a helpful assistant.")
    assert (silent.name, silent.tools, silent.instruction) == (plain.name, plain.tools, plain.instruction)


@pytest.mark.parametrize("name", ["openai:gpt-5", "ollama:qwen3"])
def test_agent_may_be_called_like_a_model(name):
    """An agent whose model is said may have a model's name for its own."""
    assert Agent(name, llm=ScriptedLLM()).name == name
    assert Agent(name, model="gpt-5").name == name


def test_complaints_are_short():
    """What was given instead is quoted, but not at length."""
    with pytest.raises(ConfigError) as caught:
        Agent(["x" * 1000] * 1000)
    assert len(str(caught.value)) < 400


def test_wrong_llm_is_told_when_it_is_set():
    """Setting something else than an LLM raises ConfigError."""
    with pytest.raises(ConfigError, match="llm= takes an LLM"):
        Agent("helper").llm = "gpt-5"


def test_listener_must_be_callable_now():
    """An asynchronous listener, which nobody would await, is refused at once."""
    with pytest.raises(ConfigError, match="not async"):
        Agent("helper").on(ResponseReceived, asynchronous)
