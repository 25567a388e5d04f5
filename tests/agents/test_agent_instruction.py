"""Tests for instruction functions: when they are called, what they return, and how they fail."""

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
    """An instruction function that counts its calls."""

    def __init__(self):
        """Start at zero calls."""
        self.numbers = count(1)

    def order(self):
        """Return the instruction."""
        return f"It is {next(self.numbers)} o'clock."


@tool(level="system")
def wind(turns: int) -> str:
    """Wind the clock."""
    return "wound"


def later(_request):
    """Defer the approval."""
    return Approval.LATER


def asked(llm):
    """Return the instructions of all requests."""
    return [request.instruction for request in llm.requests]


def test_instruction_function_is_called_once_per_run():
    """The instruction function is called once per run, and its result is used until the run ends."""
    llm = ScriptedLLM(call("wind", turns=2), "Wound.", "Noon.", "One.")
    agent = Agent("clock", tools=[wind], instruction=Clock().order, safety="system", llm=llm)
    agent("Wind it.")
    agent("What is the time?")
    asyncio.run(agent.arun("And now?"))
    assert asked(llm) == ["It is 1 o'clock.", "It is 1 o'clock.", "It is 2 o'clock.", "It is 3 o'clock."]


def test_instruction_is_computed_again_on_resuming():
    """Resuming a paused run calls the instruction function again."""
    llm = ScriptedLLM(call("wind", turns=2), "Wound.")
    agent = Agent("clock", tools=[wind], instruction=Clock().order, approve=later, llm=llm)
    result = agent.run("Wind it.")
    result.resume(True)
    assert asked(llm) == ["It is 1 o'clock.", "It is 2 o'clock."]


def test_handoff_calls_the_instruction_function_of_the_target():
    """The instruction function of a handoff target is called when that agent takes over."""
    llm = ScriptedLLM(call("hand_off_to_clock"), "Noon.")
    clock = Agent("clock", instruction=Clock().order, llm=llm)
    Agent("clerk", handoffs=[clock], llm=llm)("What is the time?")
    assert asked(llm) == ["You are a helpful assistant.", "It is 1 o'clock."]


def test_instruction_function_can_be_set_pickled_and_copied():
    """A function can be set like a string, and is pickled and copied with its agent."""
    agent = Agent("clock")
    agent.instruction = partial("It is {}.".format, "noon")
    llm = ScriptedLLM("Yes.", "Yes.")
    for each in (pickle.loads(pickle.dumps(agent)), agent.within(agent.session.start_over())):
        each.llm = llm
        each("Is it noon?")
    assert asked(llm) == ["It is noon.", "It is noon."]


@pytest.mark.parametrize("given", [None, 5, b"Be brief."])
def test_instruction_function_must_return_a_string(given):
    """An instruction function that does not return a string fails the run before any request."""
    llm = ScriptedLLM("Yes.")
    agent = Agent("clock", instruction=lambda: given, llm=llm)
    result = agent.run("Is it noon?")
    assert (result.status, type(result.error)) == ("failed", ConfigError)
    assert "given as instruction= must return a string" in str(result.error)
    assert (llm.requests, agent.history) == ([], [])


def test_error_in_an_instruction_function_fails_the_run():
    """An error raised by the instruction function fails the run, also when streaming."""
    agent = Agent("clock", instruction=lambda: {}["time"], llm=ScriptedLLM("Yes."))
    result = list(agent.stream("Is it noon?"))[-1].result
    assert (result.status, type(result.error.__cause__)) == ("failed", KeyError)


def result_of(agent, mode, prompt="Is it noon?", **given):
    """Return the result of a run in one of the four ways to run an agent."""

    async def gathered():
        return [event async for event in agent.astream(prompt, **given)][-1].result

    modes = {
        "run": lambda: agent.run(prompt, **given),
        "arun": lambda: asyncio.run(agent.arun(prompt, **given)),
        "stream": lambda: list(agent.stream(prompt, **given))[-1].result,
        "astream": lambda: asyncio.run(gathered()),
    }
    return modes[mode]()


async def looked_up(run: RunContext[str]) -> str:
    """Return the instruction."""
    await asyncio.sleep(0)
    return f"It is {run.value} for {run.agent}."


MODES = ["run", "arun", "stream", "astream"]


@pytest.mark.for_each("order", [looked_up, lambda run, write=looked_up: write(run), partial(looked_up)])
@pytest.mark.for_each("mode", MODES)
def test_instruction_function_may_be_async(mode, order):
    """An async instruction function is awaited, also in a blocking run."""
    llm = ScriptedLLM("Yes.")
    result_of(Agent("clock", instruction=order, llm=llm), mode, context="noon")
    assert asked(llm) == ["It is noon for clock."]


@pytest.mark.parametrize("mode", MODES)
def test_async_instruction_after_a_handoff_and_on_resuming(mode):
    """After a handoff and on resuming, only the active agent's instruction function is called."""
    llm = ScriptedLLM(call("hand_off_to_clock"), call("wind", turns=2), "Wound.")
    clock = Agent("clock", tools=[wind], instruction=looked_up, approve=later, llm=llm)
    clerk = Agent("clerk", handoffs=[clock], instruction=Clock().order, llm=llm)
    paused = result_of(clerk, mode, "Wind it.", context="noon")
    result_of(clerk, mode, Resumption(paused, True), context="one")
    assert asked(llm) == ["It is 1 o'clock.", "It is noon for clock.", "It is one for clock."]


def test_async_instruction_function_is_called_in_a_replay(tmp_path):
    """A recording contains the requests, and a replay calls the async instruction function again."""
    agent = Agent("clock", instruction=looked_up, llm=ScriptedLLM("Yes."))
    with record(tmp_path / "run.jsonl"):
        first = agent.run("Is it noon?", context="noon")
    agent.reset()
    with replay(tmp_path / "run.jsonl"):
        assert agent.run("Is it noon?", context="noon").output == first.output


def test_time_limit_includes_the_instruction_function():
    """The time limit of a run includes its instruction function."""

    async def slow():
        await asyncio.sleep(60)

    llm = ScriptedLLM("never")
    assert Agent("clock", instruction=slow, llm=llm).run("Hi", limits=Limits(seconds=0.05)).status == "limit"
    assert llm.requests == []


@pytest.mark.parametrize("mode", MODES)
def test_error_leaves_the_history_unchanged(mode):
    """A failed instruction function adds nothing to the history, and listeners receive the result."""

    async def broken():
        raise KeyError("time")

    events = []
    agent = Agent("clock", instruction=broken, llm=ScriptedLLM("never"), listeners=[events.append])
    assert result_of(agent, mode).status == "failed"
    assert (agent.history, agent.session.unfinished) == ([], ())
    assert [type(event) for event in events] == [RunStarted, RunFinished]


def test_run_that_failed_to_resume_can_be_resumed_later():
    """If the function fails on resuming, the pending call stays pending and can be answered later."""

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


def test_instruction_function_cannot_be_optimized():
    """Optimizing the instruction raises ConfigError if it is a function."""
    agent = Agent("clock", instruction=Clock().order, llm=ScriptedLLM("Yes."))
    suite = Suite("times", [Case(f"Is it {hour}?", expected="Yes.") for hour in range(4)], [lambda *_: 0.0])
    with pytest.raises(ConfigError, match=r"is a function.*improve its tools"):
        optimize(agent, suite, improve="instruction", proposer="{} {} {}".format)
