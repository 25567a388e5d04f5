"""Tests for the context of a run: how tools, instructions and guardrails receive it."""

import asyncio
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import pytest

from agentkit import LLM, Agent, Approval, ConfigError, RunContext, Session, tool
from agentkit.evals import Case, Suite, contains
from agentkit.messages import AssistantMessage, UserMessage
from agentkit.testing import FakeServer, ScriptedLLM, call, record, replay


@dataclass
class Customer:
    """The customer of a run."""

    name: str


@tool
def who(run: RunContext[Customer]) -> str:
    """Return the name of the customer."""
    return run.value.name


@tool
async def who_awaited(run: RunContext[Customer]) -> str:
    """Return the name of the customer."""
    return run.value.name


@tool(level="system")
def pay(run: RunContext[Customer], euros: int) -> str:
    """Pay."""
    return f"{run.value.name} pays {euros}"


def contents_of_results(result):
    """Return the contents of the tool results of a run."""
    return [used.result.value for used in result.tool_calls]


def clerk(*lines, tools=(who,), **options):
    """Return an agent with a scripted model."""
    return Agent("clerk", tools=tools, llm=ScriptedLLM(*lines), **options)


AN, BO = Customer("An"), Customer("Bo")
ASK = (call("who"), "Hello.")


@pytest.mark.parametrize("question", [who, who_awaited], ids=lambda each: each.name)
def test_each_way_to_run_passes_the_context(question):
    """A tool receives the context of its run from run, arun, stream and astream."""
    lines = (call(question.name), "Hello.")
    agent = clerk(*lines * 5, [call(question.name)] * 3, "Hello.", tools=[question], remember=False)
    assert contents_of_results(agent.run("Hi", context=AN)) == ["An"]
    assert contents_of_results(asyncio.run(agent.arun("Hi", context=BO))) == ["Bo"]
    assert contents_of_results([*agent.stream("Hi", context=AN)][-1].result) == ["An"]

    async def streamed():
        return [event async for event in agent.astream("Hi", context=BO)][-1].result

    assert contents_of_results(asyncio.run(streamed())) == ["Bo"]
    agent("Hi", context=AN)
    assert contents_of_results(agent.run("Hi", context=AN)) == ["An"] * 3


def test_run_context_describes_its_run():
    """A run context has the agent, run, session and call ids, and the messages read by the model."""
    seen = []

    @tool
    def look(run: RunContext) -> str:
        """Look."""
        seen.append(run)
        return "seen"

    result = clerk(call("look"), "Done.", tools=[look]).run("Look!", context=AN)
    (context,) = seen
    assert (context.value, context.agent, context.run, context.session) == (AN, "clerk", result.run_id, "")
    assert context.call == result.tool_calls[0].call.id
    assert [type(message) for message in context.messages] == [UserMessage, AssistantMessage]
    assert result.context is AN


def test_run_context_has_the_session_name(tmp_path):
    """The run context has the name of the session."""
    names = []

    @tool
    def look(run: RunContext) -> str:
        """Look."""
        names.append(run.session)
        return "seen"

    agent = clerk(call("look"), "Done.", tools=[look], session=Session.open(tmp_path / "trips.db", name="trip"))
    agent("Look!")
    assert names == ["trip"]


def test_agent_context_is_the_default_of_its_runs():
    """The agent's context is used by runs that are not given one."""
    agent = clerk(*ASK * 3, context=AN, remember=False)
    assert contents_of_results(agent.run("Hi")) == ["An"]
    assert contents_of_results(agent.run("Hi", context=BO)) == ["Bo"]
    agent.context = BO
    assert contents_of_results(agent.run("Hi")) == ["Bo"]


def test_map_and_evals_use_the_agent_context():
    """`map` and evaluations use the agent's context."""
    agent = clerk(*ASK * 2, context=AN)
    assert [contents_of_results(result) for result in agent.map(["Hi", "Ho"], concurrency=1)] == [["An"], ["An"]]
    suite = Suite("greeting", [Case("Hi", "Hello")], [contains()])
    (trial,) = suite.run(clerk(*ASK, context=AN)).trials
    assert contents_of_results(trial.result) == ["An"]


def test_context_is_pickled_with_the_agent():
    """A context is pickled with its agent, but not with a result."""
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    with FakeServer(*ASK) as server, pool as executor:
        agent = Agent("clerk", tools=[who], llm=LLM(base_url=server.base_url, model="any"), context=AN)
        (result,) = agent.map(["Hi"], executor=executor)
        assert [used.result.content for used in result.tool_calls] == ["An"]
        assert pickle.loads(pickle.dumps(agent)).context == AN
    assert pickle.loads(pickle.dumps(clerk(*ASK).run("Hi", context=AN))).context is None


def test_nested_agents_inherit_the_context():
    """Agents used as tools and handoff targets inherit the context of the run."""
    inner = clerk(*ASK * 2)
    outer = clerk(call("ask_clerk", request="Who?"), "An.", tools=[inner.as_tool("ask_clerk")])
    outer.run("Who am I?", context=AN)
    assert inner.llm.requests[-1].messages[-1].content == "An"
    other = Agent("second", tools=[who], llm=ScriptedLLM(*ASK))
    assert contents_of_results(clerk(call("hand_off_to_second"), handoffs=[other]).run("Who?", context=BO))[-1] == "Bo"


def test_instruction_function_receives_the_context():
    """An instruction function with one parameter receives the run context."""
    agent = clerk("Hello.", instruction=lambda run: f"Serve {run.value.name} as {run.agent}.", tools=())
    agent.run("Hi", context=AN)
    assert agent.llm.requests[0].instruction == "Serve An as clerk."


def test_resumed_run_keeps_its_context():
    """A result keeps its context in the same process; a run loaded from JSON must be given one."""
    agent = clerk(call("pay", euros=3), "Paid.", tools=[pay], approve=lambda _: Approval.LATER)
    paused = agent.run("Pay!", context=AN)
    saved = paused.to_json()
    assert contents_of_results(paused.resume(True)) == ["An pays 3"]
    again = clerk("Paid.", tools=[pay])
    with pytest.raises(ConfigError, match="needs a Customer"):
        again.resume(saved, True)
    assert contents_of_results(again.resume(saved, True, context=BO)) == ["Bo pays 3"]


def test_missing_context_is_rejected_before_the_run():
    """A run without the context that a tool needs is rejected, also for handoff targets."""
    agent = clerk("never")
    with pytest.raises(ConfigError, match="'who' needs a Customer as the context of its run, which has no context"):
        agent.run("Hi")
    with pytest.raises(ConfigError, match="a context of type str"):
        agent.stream("Hi", context="An")
    with pytest.raises(ConfigError, match="'who' needs a Customer"):
        Agent("first", handoffs=[agent], llm=agent.llm).run("Hi")
    assert agent.llm.requests == []


def test_concurrent_runs_have_separate_contexts():
    """Concurrent runs in one event loop have separate contexts."""
    names = [f"customer {number}" for number in range(20)]

    async def all_of_them():
        agents = [clerk(call("who_awaited"), "Hello.", tools=[who_awaited]) for _ in names]
        runs = (agent.arun("Hi", context=Customer(name)) for agent, name in zip(agents, names, strict=True))
        return [contents_of_results(result)[0] for result in await asyncio.gather(*runs)]

    assert asyncio.run(all_of_them()) == names


def test_recording_does_not_contain_the_context(tmp_path):
    """A recording contains the results of calls but not the context, and a replay runs no tool."""
    cassette = tmp_path / "run.jsonl"
    with record(cassette):
        clerk(call("pay", euros=3), "Paid.", tools=[pay], safety="system").run("Pay!", context=Customer("hidden-1"))
    assert "hidden-1 pays 3" in cassette.read_text()
    with replay(cassette):
        result = clerk(tools=[pay], safety="system").run("Pay!", context=Customer("hidden-2"))
    assert contents_of_results(result) == ["hidden-1 pays 3"]


def after_output(output, run: RunContext[Customer]):
    """A guardrail whose second parameter is the run context."""
    if run.value.name not in output:
        raise ValueError(f"{run.agent} serves {run.value.name}.")


def before_output(run: "RunContext[Customer]", output):
    """A guardrail whose first parameter is the run context."""
    after_output(output, run)


async def awaited(output, *, run: RunContext[Customer] | None = None):
    """Async guardrail with an optional run context."""
    after_output(output, run)


@pytest.mark.parametrize("check", [after_output, before_output, awaited], ids=lambda each: each.__name__)
def test_guardrail_receives_the_context(check):
    """A guardrail with a RunContext parameter receives the context of the run."""
    agent = clerk("Hello, An.", "Hello.", "Hello, Bo.", guardrails=[check], context=AN)
    assert agent.run("Who am I?").output == "Hello, An."
    result = asyncio.run(agent.arun("Who am I?", context=BO, session=Session()))
    assert result.output == "Hello, Bo."
    assert "clerk serves Bo." in result.messages[-2].content


def test_prompt_and_result_guardrails_receive_the_context():
    """Prompt and result guardrails receive the context, with the name of the active agent."""

    def greeted(prompt, run: RunContext[Customer]):
        return f"{run.value.name}: {prompt}"

    def for_whom(result, run: RunContext[Customer]):
        return f"{result.content}, says {run.agent}"

    desk = Agent("desk", tools=[who], guardrails=[for_whom])
    agent = clerk(call("hand_off_to_desk"), call("who"), "Hello.", guardrails=[greeted], handoffs=[desk])
    desk.llm = agent.llm
    result = agent.run("Who am I?", context=AN)
    assert (result.messages[0].content, result.tool_calls[-1].result.content) == ("An: Who am I?", "An, says desk")


def test_run_without_a_required_context_is_rejected():
    """A run without the context that a guardrail needs raises ConfigError, also for handoff targets."""
    desk = Agent("desk", guardrails=[after_output])
    for agent in (clerk(guardrails=[after_output], tools=()), clerk(handoffs=[desk], tools=())):
        with pytest.raises(
            ConfigError, match="The guardrail after_output needs a Customer as the context of its run, which has no"
        ):
            agent.run("Who am I?")


@pytest.mark.parametrize(
    "check",
    [
        lambda output, other: output == other,
        lambda run, output: run == output,
        partial(lambda output, run, other: (output, run, other), run=3),
    ],
)
def test_guardrail_with_an_extra_parameter_is_rejected(check):
    """A guardrail with another required parameter that is not a RunContext is rejected."""
    with pytest.raises(ConfigError, match="and optionally of a RunContext"):
        Agent("clerk", guardrails=[check])


def test_guardrail_keeps_its_bound_context():
    """A partial guardrail with a bound RunContext is called with that context."""

    def bound(output, run: RunContext[Customer], limit: int = 3):
        return f"{output} {run.value.name} {limit}"

    agent = clerk("Hello,", guardrails=[partial(bound, run=RunContext(BO))], context=AN)
    assert agent.run("Who am I?").output == "Hello, Bo 3"


def test_agent_with_a_context_guardrail_can_be_pickled():
    """An agent whose guardrail takes a RunContext can be pickled."""
    agent = pickle.loads(pickle.dumps(Agent("clerk", guardrails=[after_output], llm=LLM(model="m", api_key="k"))))
    agent.llm = ScriptedLLM("Hello, An.")
    assert agent.run("Who am I?", context=AN).output == "Hello, An."
