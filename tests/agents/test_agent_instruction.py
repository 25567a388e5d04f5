"""Is an instruction that is a function written anew whenever the agent takes a run on?"""

import asyncio
import pickle
from functools import partial
from itertools import count

import pytest

from agentkit import Agent, Approval, ConfigError, Limits, RunContext, RunFinished, tool
from agentkit.agents.result import Resumption
from agentkit.evals import Case, Suite, optimize
from agentkit.events import RunStarted
from agentkit.testing import ScriptedLLM, call, record, replay


class Clock:
    """Counts how often it was asked."""

    def __init__(self):
        """Begin at one."""
        self.numbers = count(1)

    def order(self):
        """Keeps the time."""
        return f"It is {next(self.numbers)} o'clock."


@tool(level="system")
def wind(turns: int) -> str:
    """Wind the clock."""
    return "wound"


def later(_request):
    """Nobody is there to ask."""
    return Approval.LATER


def asked(llm):
    """The instructions of all requests."""
    return [request.instruction for request in llm.requests]


def test_a_function_is_asked_once_a_run():
    """Each run, blocking or awaiting, begins with what the function says then, and keeps it to its end."""
    llm = ScriptedLLM(call("wind", turns=2), "Wound.", "Noon.", "One.")
    agent = Agent("clock", tools=[wind], instruction=Clock().order, safety="system", llm=llm)
    agent("Wind it.")
    agent("What is the time?")
    asyncio.run(agent.arun("And now?"))
    assert asked(llm) == ["It is 1 o'clock.", "It is 1 o'clock.", "It is 2 o'clock.", "It is 3 o'clock."]


def test_a_run_that_goes_on_is_told_anew():
    """What a paused run goes on with is what the function says by then."""
    llm = ScriptedLLM(call("wind", turns=2), "Wound.")
    agent = Agent("clock", tools=[wind], instruction=Clock().order, approve=later, llm=llm)
    result = agent.run("Wind it.")
    result.resume(True)
    assert asked(llm) == ["It is 1 o'clock.", "It is 2 o'clock."]


def test_a_handoff_asks_the_function_of_the_agent_that_takes_over():
    """The instruction function of a handoff target is called when that agent takes over."""
    llm = ScriptedLLM(call("hand_off_to_clock"), "Noon.")
    clock = Agent("clock", instruction=Clock().order, llm=llm)
    Agent("clerk", handoffs=[clock], llm=llm)("What is the time?")
    assert asked(llm) == ["You are a helpful assistant.", "It is 1 o'clock."]


def test_it_can_be_set_and_travels():
    """A function is set like a text, and is pickled and copied with its agent."""
    agent = Agent("clock")
    agent.instruction = partial("It is {}.".format, "noon")
    llm = ScriptedLLM("Yes.", "Yes.")
    for each in (pickle.loads(pickle.dumps(agent)), agent.within(agent.session.anew())):
        each.llm = llm
        each("Is it noon?")
    assert asked(llm) == ["It is noon.", "It is noon."]


@pytest.mark.parametrize("given", [None, 5, b"Be brief."])
def test_a_function_that_gives_no_text_is_told(given):
    """A value that is no text ends the run before a model is asked, and nothing is entered in the history."""
    llm = ScriptedLLM("Yes.")
    agent = Agent("clock", instruction=lambda: given, llm=llm)
    result = agent.run("Is it noon?")
    assert (result.status, type(result.error)) == ("failed", ConfigError)
    assert "given as instruction= must return a string" in str(result.error)
    assert (llm.requests, agent.history) == ([], [])


def test_what_it_raises_ends_the_run():
    """An exception of the function ends the run as failed, also where a stream has begun."""
    agent = Agent("clock", instruction=lambda: {}["time"], llm=ScriptedLLM("Yes."))
    result = list(agent.stream("Is it noon?"))[-1].result
    assert (result.status, type(result.error.__cause__)) == ("failed", KeyError)


def seen(agent, way, prompt="Is it noon?", **given):
    """The result of a run, one of the four ways."""

    async def gathered():
        return [event async for event in agent.astream(prompt, **given)][-1].result

    ways = {
        "run": lambda: agent.run(prompt, **given),
        "arun": lambda: asyncio.run(agent.arun(prompt, **given)),
        "stream": lambda: list(agent.stream(prompt, **given))[-1].result,
        "astream": lambda: asyncio.run(gathered()),
    }
    return ways[way]()


async def looked_up(run: RunContext[str]) -> str:
    """Keeps the time."""
    await asyncio.sleep(0)
    return f"It is {run.value} for {run.agent}."


WAYS = ["run", "arun", "stream", "astream"]


@pytest.mark.for_each("order", [looked_up, lambda run, write=looked_up: write(run), partial(looked_up)])
@pytest.mark.for_each("way", WAYS)
def test_a_function_may_be_async(way, order):
    """What must be awaited is awaited, also where the run blocks."""
    llm = ScriptedLLM("Yes.")
    seen(Agent("clock", instruction=order, llm=llm), way, context="noon")
    assert asked(llm) == ["It is noon for clock."]


@pytest.mark.parametrize("way", WAYS)
def test_an_async_function_is_awaited_at_a_handoff_and_on_resuming(way):
    """The agent that takes over, or that leads a run which goes on, has its own written, and no other."""
    llm = ScriptedLLM(call("hand_off_to_clock"), call("wind", turns=2), "Wound.")
    clock = Agent("clock", tools=[wind], instruction=looked_up, approve=later, llm=llm)
    clerk = Agent("clerk", handoffs=[clock], instruction=Clock().order, llm=llm)
    paused = seen(clerk, way, "Wind it.", context="noon")
    seen(clerk, way, Resumption(paused, True), context="one")
    assert asked(llm) == ["It is 1 o'clock.", "It is noon for clock.", "It is one for clock."]


def test_an_async_function_is_asked_in_a_replay(tmp_path):
    """A recording holds the requests, and a replay has the instruction written again."""
    agent = Agent("clock", instruction=looked_up, llm=ScriptedLLM("Yes."))
    with record(tmp_path / "run.jsonl"):
        first = agent.run("Is it noon?", context="noon")
    agent.reset()
    with replay(tmp_path / "run.jsonl"):
        assert agent.run("Is it noon?", context="noon").output == first.output


def test_what_takes_too_long_meets_the_limit():
    """The time of the run holds for its instruction, too."""

    async def slow():
        await asyncio.sleep(60)

    llm = ScriptedLLM("never")
    assert Agent("clock", instruction=slow, llm=llm).run("Hi", limits=Limits(seconds=0.05)).status == "limit"
    assert llm.requests == []


@pytest.mark.parametrize("way", WAYS)
def test_an_error_leaves_the_conversation_as_it_was(way):
    """A run whose instruction function fails adds nothing to the conversation, and its listeners hear how it ended."""

    async def broken():
        raise KeyError("time")

    heard = []
    agent = Agent("clock", instruction=broken, llm=ScriptedLLM("never"), listeners=[heard.append])
    assert seen(agent, way).status == "failed"
    assert (agent.history, agent.session.unfinished) == ([], ())
    assert [type(event) for event in heard] == [RunStarted, RunFinished]


def test_a_run_that_could_not_go_on_can_go_on_later():
    """If the function fails when a run is resumed, nothing is answered: the call waits as it did."""

    def order(run):
        if run.value == "broken":
            raise KeyError("time")
        return "Be brief."

    llm = ScriptedLLM(call("wind", turns=2), "Wound.")
    agent = Agent("clock", tools=[wind], instruction=order, approve=later, llm=llm)
    saved = agent.run("Wind it.", context="noon").to_json()
    failed = agent.resume(saved, True, context="broken")
    assert (failed.status, [pending.tool for pending in failed.pending]) == ("failed", ["wind"])
    assert agent.resume(failed, True, context="noon").output == "Wound."


def test_there_is_no_text_to_improve():
    """Optimising such an instruction is refused, with what to do instead."""
    agent = Agent("clock", instruction=Clock().order, llm=ScriptedLLM("Yes."))
    suite = Suite("times", [Case(f"Is it {hour}?", expected="Yes.") for hour in range(4)], [lambda *_: 0.0])
    with pytest.raises(ConfigError, match=r"is a function.*improve its tools"):
        optimize(agent, suite, improve="instruction", proposer="{} {} {}".format)
