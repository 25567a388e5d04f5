"""Tests for Agent: answers, history, reset, errors of the model, safety levels, and listeners."""

import asyncio

import pytest

from agentkit import Agent, ConfigError, Image, LimitExceeded, NoProvider, SafetyLevel, Usage
from agentkit.agents.result import RunFinished
from agentkit.errors import MissingExtra, RateLimited, Unreachable
from agentkit.events import RequestStarted, ResponseReceived, ToolCallFinished, ToolCallStarted
from agentkit.messages import AssistantMessage, ToolMessage, UserMessage
from agentkit.testing import FakeServer, ScriptedLLM, call, say


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def aadd(a: int, b: int) -> int:
    """Add two numbers, after yielding to other tasks."""
    await asyncio.sleep(0)
    return a + b


def make_agent(*lines, **options):
    """Return an agent with two tools and a scripted model."""
    return Agent("helper", [add, aadd], llm=ScriptedLLM(*lines), **options)


def roles(agent):
    """The roles of the messages in the history."""
    return [message["role"] for message in agent.history]


def test_call_returns_the_answer():
    """Calling an agent returns the text of its answer."""
    assert make_agent(call("add", a=1, b=2), "Three.")("1 + 2?") == "Three."


def test_positional_arguments():
    """Name, tools, instruction and max_iterations can be passed by position, in this order."""
    agent = Agent("helper", [add], "Be brief.", 3)
    assert (agent.name, agent.tools.names) == ("helper", ("add",))
    assert (agent.instruction, agent.max_iterations) == ("Be brief.", 3)


def test_defaults():
    """By default, an agent has no tools, a default instruction and ten iterations."""
    agent = Agent("helper")
    assert (len(agent.tools), agent.instruction, agent.max_iterations) == (0, "You are a helpful assistant.", 10)
    assert agent.policy.level is SafetyLevel.NETWORK


def test_conversation_is_remembered():
    """The model receives the earlier messages of the conversation, including tool messages."""
    llm = ScriptedLLM(call("add", a=1, b=2), "Three.", "You are welcome.")
    agent = Agent("helper", [add], llm=llm)
    agent("1 + 2?")
    agent("Thanks!")
    kinds = [UserMessage, AssistantMessage, ToolMessage, AssistantMessage, UserMessage]
    assert [type(message) for message in llm.requests[-1].messages] == kinds
    assert roles(agent) == ["user", "assistant", "tool", "assistant", "user", "assistant"]


def test_history_is_plain_and_a_copy(find_faults):
    """History is a list of plain dictionaries in the chat format; changing it changes nothing."""
    agent = make_agent(call("add", a=1, b=2), "Three.")
    agent("1 + 2?")
    history = agent.history
    assert history == [
        {"role": "user", "content": "1 + 2?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1_1", "content": "3"},
        {"role": "assistant", "content": "Three."},
    ]
    assert find_faults(history) == []
    history[1]["tool_calls"].clear()
    history.clear()
    assert len(agent.history[1]["tool_calls"]) == 1
    assert len(agent.messages) == 4


def test_reset_forgets_the_conversation():
    """After a reset, the model receives no earlier messages; the agent's usage is not reset."""
    llm = ScriptedLLM("Hello.", "Hello again.")
    agent = Agent("helper", llm=llm)
    agent("Hi!")
    agent.reset()
    assert agent.history == []
    agent("Hi!")
    assert len(llm.requests[-1].messages) == 1
    assert agent.usage.requests == 2


def test_reset_during_a_run_discards_the_run():
    """A run that is reset while it is active returns its result but is not added to the history."""
    agent = make_agent("Hello.", "Hello again.")
    agent.on(ResponseReceived, lambda _: agent.reset())
    assert agent("Hi!") == "Hello."
    assert agent.history == []


def test_usage_includes_unfinished_runs():
    """The usage of an agent is the sum over its runs, including those that were cut off."""
    agent = make_agent(say("", call("add", a=1, b=2)), "Three.", "Four.")
    for event in agent.stream("go"):
        if isinstance(event, ToolCallStarted):
            break
    assert agent.usage == Usage(input_tokens=10, output_tokens=5, requests=1)
    assert agent.run("go").usage.requests == 1
    assert agent.usage == Usage(input_tokens=20, output_tokens=10, requests=2)


def test_limit_exceeded_contains_the_result(find_faults):
    """A call that reaches a limit raises LimitExceeded, a RuntimeError with the result so far."""
    agent = make_agent(
        say("Adding.", call("add", a=1, b=2)), call("add", a=3, b=4), "So far.", "Seven.", max_iterations=2
    )
    with pytest.raises(RuntimeError, match=r"Max tool iterations reached \(2\)") as caught:
        agent("go")
    assert isinstance(caught.value, LimitExceeded)
    result = caught.value.result
    assert (result.status, result.output) == ("limit", "So far.")
    assert [used.result.value for used in result.tool_calls] == [3, 7]
    assert find_faults(agent.history) == []
    assert agent("go on") == "Seven."


def test_failed_request_can_be_retried():
    """A call whose request fails raises that error and leaves no dangling message; asking again works."""
    error = RateLimited("Slow down.", retry_after_seconds=1)
    agent = make_agent(error, error, "Hello.")
    with pytest.raises(RateLimited) as caught:
        agent("Hi!")
    assert caught.value is error
    assert agent.history == []
    result = agent.run("Hi!")
    assert (result.status, result.error, result.messages) == ("failed", error, ())
    assert agent("Hi!") == "Hello."
    assert roles(agent) == ["user", "assistant"]


def test_failure_after_tools_keeps_their_results(find_faults):
    """A request that fails after tools were used leaves their calls and results in the history."""
    agent = make_agent(call("add", a=1, b=2), Unreachable("Gone."), "Three.")
    assert agent.run("go").status == "failed"
    assert roles(agent) == ["user", "assistant", "tool"]
    assert agent("go on") == "Three."
    assert find_faults(agent.history) == []


@pytest.mark.parametrize("error", [MissingExtra("offline", "The offline model"), LookupError("a bug")])
def test_other_errors_of_a_model_end_the_run(error):
    """An error that is not a provider failure fails the run, and nothing is added to the history."""
    agent = make_agent(error, "Hello.")
    result = agent.run("Hi!")
    assert (result.status, str(error) in str(result.error)) == ("failed", True)
    assert agent.history == []
    assert agent("Hi!") == "Hello."


def test_missing_provider_raises_an_error_before_the_run():
    """A run without a provider raises NoProvider, which names the variable to set."""
    agent = Agent("helper")
    with pytest.raises(NoProvider, match="OPENAI_API_KEY"):
        agent("Hi!")
    with pytest.raises(NoProvider):
        agent.stream("Hi!")


def test_model_is_created_on_first_use(monkeypatch):
    """An agent reads the environment at its first run and keeps using the model it created then."""
    agent = Agent("helper", model="any")
    with FakeServer("Hello.", "Again.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert agent("Hi!") == "Hello."
        monkeypatch.delenv("OPENAI_BASE_URL")
        assert agent("Hi!") == "Again."
        assert [request.model for request in server.requests] == ["any", "any"]
        agent.llm.close()


def test_llm_can_be_replaced():
    """An agent's LLM can be replaced, and the new one continues the conversation."""
    agent = make_agent("Hello.")
    agent("Hi!")
    agent.llm = ScriptedLLM("Bye.")
    agent("Bye!")
    assert len(agent.llm.requests[0].messages) == 3


@pytest.mark.parametrize(
    "prompt",
    [Image("https://example.org/cat.png"), ["What is this?", Image("https://example.org/cat.png")], ("One.", "Two.")],
)
def test_prompts_may_contain_images(prompt):
    """A prompt is a string, an image, or a sequence of these."""
    agent = make_agent("A cat.")
    assert agent(prompt) == "A cat."
    expected = tuple(prompt) if isinstance(prompt, list | tuple) else (prompt,)
    assert agent.messages[0] == UserMessage(expected)


@pytest.mark.for_each("prompt", [None, 5, b"Hi!", [], (), {"role": "user"}, {"a", "b"}, ["Hi!", 5], object()])
@pytest.mark.for_each("method", ["__call__", "run", "stream", "astream"])
def test_invalid_prompts_raise_immediately(prompt, method):
    """An invalid prompt raises ConfigError immediately, and nothing is run."""
    agent = make_agent()
    with pytest.raises(ConfigError, match="A prompt is a text"):
        getattr(agent, method)(prompt)


@pytest.mark.parametrize("level", ["system", "SYSTEM", 2, SafetyLevel.SYSTEM])
def test_safety_level_accepts_names_and_numbers(level):
    """A safety level is given as an enum member, a case-insensitive name or a number."""
    assert Agent("helper", safety=level).policy.level is SafetyLevel.SYSTEM


def test_listeners_receive_every_event():
    """Listeners receive the events of every run in order, before the consumer of a stream."""
    events = []
    agent = make_agent("Hello there.", "Bye.", listeners=[events.append])
    for index, event in enumerate(agent.stream("Hi!"), start=1):
        assert (events[-1], len(events)) == (event, index)
    agent.run("Bye!")
    assert sum(isinstance(event, RunFinished) for event in events) == 2


def test_listener_for_one_event_type():
    """`on` registers a listener for one event type."""
    calls, agent = [], make_agent(call("add", a=1, b=2), "Three.")
    assert agent.on(ToolCallFinished, calls.append) == calls.append
    agent("1 + 2?")
    assert [event.result.value for event in calls] == [3]


@pytest.mark.parametrize("kind", ["TextDelta", str, None, RequestStarted(1)])
def test_listener_for_an_invalid_event_type_is_rejected(kind):
    """`on` rejects an argument that is not an event type."""
    with pytest.raises(ConfigError, match="takes a kind of event"):
        make_agent("Hello.").on(kind, print)


def test_listener_may_register_another():
    """A listener registered by another listener receives the later events."""
    late, agent = [], make_agent("Hello.")
    agent.on(RequestStarted, lambda _: agent.on(ResponseReceived, late.append))
    agent("Hi!")
    assert len(late) == 1


def test_listener_finds_the_finished_run_in_the_history():
    """A finished run is in the history when RunFinished is emitted, even if the stream is abandoned."""
    agent = make_agent("Hello.")
    events = agent.stream("Hi!")
    assert isinstance(next(event for event in events if isinstance(event, RunFinished)), RunFinished)
    assert roles(agent) == ["user", "assistant"]


def test_agent_is_a_tool_of_another():
    """An agent that fails inside another agent's tool fails only that call."""

    def ask(question: str) -> str:
        return inner(question)

    inner = Agent("inner", llm=ScriptedLLM(RateLimited("Slow down."), "42."))
    outer = Agent("outer", [ask], llm=ScriptedLLM(call("ask", question="Why?"), call("ask", question="Why?"), "42!"))
    result = outer.run("Why?")
    assert [used.result.status for used in result.tool_calls] == ["failed", "ok"]
    assert result.output == "42!"


def test_representation_names_agent_and_tools():
    """The representation of an agent names it and its tools."""
    assert repr(make_agent()) == "Agent('helper', tools=Toolset(add, aadd))"
