"""Do tools and instructions get what their run was given, and nobody else's?"""

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
    """Whose run it is."""

    name: str


@tool
def who(run: RunContext[Customer]) -> str:
    """Tell who is asking."""
    return run.value.name


@tool
async def who_awaited(run: RunContext[Customer]) -> str:
    """Tell who is asking."""
    return run.value.name


@tool(level="system")
def pay(run: RunContext[Customer], euros: int) -> str:
    """Pay."""
    return f"{run.value.name} pays {euros}"


def told(result):
    """What the tools of a run have said."""
    return [used.result.value for used in result.tool_calls]


def clerk(*lines, tools=(who,), **options):
    """An agent whose model follows a script."""
    return Agent("clerk", tools=tools, llm=ScriptedLLM(*lines), **options)


AN, BO = Customer("An"), Customer("Bo")
ASK = (call("who"), "Hello.")


@pytest.mark.parametrize("asked", [who, who_awaited], ids=lambda each: each.name)
def test_each_way_to_run_gives_it(asked):
    """Blocking, awaiting and streamed runs give what they were given, one at a time or several at once."""
    lines = (call(asked.name), "Hello.")
    agent = clerk(*lines * 5, [call(asked.name)] * 3, "Hello.", tools=[asked], remember=False)
    assert told(agent.run("Hi", context=AN)) == ["An"]
    assert told(asyncio.run(agent.arun("Hi", context=BO))) == ["Bo"]
    assert told([*agent.stream("Hi", context=AN)][-1].result) == ["An"]

    async def streamed():
        return [event async for event in agent.astream("Hi", context=BO)][-1].result

    assert told(asyncio.run(streamed())) == ["Bo"]
    agent("Hi", context=AN)
    assert told(agent.run("Hi", context=AN)) == ["An"] * 3


def test_what_a_tool_knows_of_its_run():
    """It knows agent, run, conversation and call, and what the model has read, its own call among it."""
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


def test_a_kept_conversation_is_named(tmp_path):
    """A tool knows the session that its run belongs to."""
    names = []

    @tool
    def look(run: RunContext) -> str:
        """Look."""
        names.append(run.session)
        return "seen"

    agent = clerk(call("look"), "Done.", tools=[look], session=Session.open(tmp_path / "trips.db", name="trip"))
    agent("Look!")
    assert names == ["trip"]


def test_the_agents_own_holds_where_a_run_has_none():
    """What the agent was made with, or is set, holds for all runs that are given nothing."""
    agent = clerk(*ASK * 3, context=AN, remember=False)
    assert told(agent.run("Hi")) == ["An"]
    assert told(agent.run("Hi", context=BO)) == ["Bo"]
    agent.context = BO
    assert told(agent.run("Hi")) == ["Bo"]


def test_many_prompts_and_evals_know_the_agents_own():
    """Where no run can be given any, that of the agent holds: many prompts, and the cases of a suite."""
    agent = clerk(*ASK * 2, context=AN)
    assert [told(result) for result in agent.map(["Hi", "Ho"], concurrency=1)] == [["An"], ["An"]]
    suite = Suite("greeting", [Case("Hi", "Hello")], [contains()])
    (trial,) = suite.run(clerk(*ASK, context=AN)).trials
    assert told(trial.result) == ["An"]


def test_it_travels_with_its_agent():
    """Another process, and a copy, have what the agent has; a result leaves it behind."""
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    with FakeServer(*ASK) as server, pool as executor:
        agent = Agent("clerk", tools=[who], llm=LLM(base_url=server.base_url, model="any"), context=AN)
        (result,) = agent.map(["Hi"], executor=executor)
        assert [used.result.content for used in result.tool_calls] == ["An"]
        assert pickle.loads(pickle.dumps(agent)).context == AN
    assert pickle.loads(pickle.dumps(clerk(*ASK).run("Hi", context=AN))).context is None


def test_agents_within_agents_inherit_it():
    """An agent that is a tool, and one that takes over, know what the first one was given, under their own names."""
    inner = clerk(*ASK * 2)
    outer = clerk(call("ask_clerk", request="Who?"), "An.", tools=[inner.as_tool("ask_clerk")])
    outer.run("Who am I?", context=AN)
    assert inner.llm.requests[-1].messages[-1].content == "An"
    other = Agent("second", tools=[who], llm=ScriptedLLM(*ASK))
    assert told(clerk(call("hand_off_to_second"), handoffs=[other]).run("Who?", context=BO))[-1] == "Bo"


def test_an_instruction_may_know_it():
    """A function of one parameter writes the instruction for whom the run is, also when it goes on."""
    agent = clerk("Hello.", instruction=lambda run: f"Serve {run.value.name} as {run.agent}.", tools=())
    agent.run("Hi", context=AN)
    assert agent.llm.requests[0].instruction == "Serve An as clerk."


def test_a_run_that_goes_on_keeps_it():
    """A result in the same process has it still; what was saved as text must be given it again."""
    agent = clerk(call("pay", euros=3), "Paid.", tools=[pay], approve=lambda _: Approval.LATER)
    paused = agent.run("Pay!", context=AN)
    saved = paused.to_json()
    assert told(paused.resume(True)) == ["An pays 3"]
    again = clerk("Paid.", tools=[pay])
    with pytest.raises(ConfigError, match="needs a Customer"):
        again.resume(saved, True)
    assert told(again.resume(saved, True, context=BO)) == ["Bo pays 3"]


def test_it_is_needed_before_anything_runs():
    """A run without what its tools need, or those of agents that may take over, does not begin."""
    agent = clerk("never")
    with pytest.raises(ConfigError, match="'who' needs a Customer as the context of its run, which has no context"):
        agent.run("Hi")
    with pytest.raises(ConfigError, match="a context of type str"):
        agent.stream("Hi", context="An")
    with pytest.raises(ConfigError, match="'who' needs a Customer"):
        Agent("first", handoffs=[agent], llm=agent.llm).run("Hi")
    assert agent.llm.requests == []


def test_runs_at_the_same_time_do_not_meet():
    """Each of many runs in one event loop has its own."""
    names = [f"customer {number}" for number in range(20)]

    async def all_of_them():
        agents = [clerk(call("who_awaited"), "Hello.", tools=[who_awaited]) for _ in names]
        runs = (agent.arun("Hi", context=Customer(name)) for agent, name in zip(agents, names, strict=True))
        return [told(result)[0] for result in await asyncio.gather(*runs)]

    assert asyncio.run(all_of_them()) == names


def test_a_recording_does_not_hold_it(tmp_path):
    """A cassette has the result of the call, and not whose it was; a replay runs no tool."""
    cassette = tmp_path / "run.jsonl"
    with record(cassette):
        clerk(call("pay", euros=3), "Paid.", tools=[pay], safety="system").run("Pay!", context=Customer("hidden-1"))
    assert "hidden-1 pays 3" in cassette.read_text()
    with replay(cassette):
        result = clerk(tools=[pay], safety="system").run("Pay!", context=Customer("hidden-2"))
    assert told(result) == ["hidden-1 pays 3"]


def after_output(output, run: RunContext[Customer]):
    """Takes answers to whose run it is."""
    if run.value.name not in output:
        raise ValueError(f"{run.agent} serves {run.value.name}.")


def before_output(run: "RunContext[Customer]", output):
    """The same, with the parameters the other way round."""
    after_output(output, run)


async def awaited(output, *, run: RunContext[Customer] | None = None):
    """The same, awaited, with a value of its own."""
    after_output(output, run)


@pytest.mark.parametrize("check", [after_output, before_output, awaited], ids=lambda each: each.__name__)
def test_a_check_gets_it(check):
    """A check with a parameter of the run knows whose run it is, wherever that parameter stands."""
    agent = clerk("Hello, An.", "Hello.", "Hello, Bo.", guardrails=[check], context=AN)
    assert agent.run("Who am I?").output == "Hello, An."
    result = asyncio.run(agent.arun("Who am I?", context=BO, session=Session()))
    assert result.output == "Hello, Bo."
    assert "clerk serves Bo." in result.messages[-2].content


def test_checks_of_prompts_and_results_get_it():
    """Each kind of check may want to know of the run, and that of the agent that leads it by then."""

    def greeted(prompt, run: RunContext[Customer]):
        return f"{run.value.name}: {prompt}"

    def for_whom(result, run: RunContext[Customer]):
        return f"{result.content}, says {run.agent}"

    desk = Agent("desk", tools=[who], guardrails=[for_whom])
    agent = clerk(call("hand_off_to_desk"), call("who"), "Hello.", guardrails=[greeted], handoffs=[desk])
    desk.llm = agent.llm
    result = agent.run("Who am I?", context=AN)
    assert (result.messages[0].content, result.tool_calls[-1].result.content) == ("An: Who am I?", "An, says desk")


def test_a_run_that_lacks_what_a_check_needs_does_not_begin():
    """What a check needs is asked for before a model is, also of an agent that may take over."""
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
def test_what_a_run_does_not_give_must_have_a_value(check):
    """A further parameter that is no RunContext, and has no value, makes a function no check."""
    with pytest.raises(ConfigError, match="and optionally of a RunContext"):
        Agent("clerk", guardrails=[check])


def test_a_check_keeps_the_context_that_it_was_bound_to():
    """A partial that has its RunContext already is called with that one."""

    def bound(output, run: RunContext[Customer], limit: int = 3):
        return f"{output} {run.value.name} {limit}"

    agent = clerk("Hello,", guardrails=[partial(bound, run=RunContext(BO))], context=AN)
    assert agent.run("Who am I?").output == "Hello, Bo 3"


def test_an_agent_with_such_a_check_travels():
    """A check that wants to know of the run is pickled with its agent."""
    agent = pickle.loads(pickle.dumps(Agent("clerk", guardrails=[after_output], llm=LLM(model="m", api_key="k"))))
    agent.llm = ScriptedLLM("Hello, An.")
    assert agent.run("Who am I?", context=AN).output == "Hello, An."
