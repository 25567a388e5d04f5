"""Does a run end when another thread says so, with all that was done kept?"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentkit import Agent, RunContext, tool
from agentkit.agents.default import QuickAgent
from agentkit.agents.result import RunFinished
from agentkit.errors import Cancelled
from agentkit.events import ToolCallFinished
from agentkit.testing import FakeServer, ScriptedLLM, call, say

WAIT_SECONDS = 30


class Gate:
    """A tool that waits until it may go on, and tells when it was entered."""

    def __init__(self):
        """Closed."""
        self.entered, self.may_go = threading.Event(), threading.Event()

    def wait(self) -> str:
        """Wait."""
        self.entered.set()
        assert self.may_go.wait(WAIT_SECONDS)
        return "waited"


@tool
def look() -> str:
    """Look."""
    return "seen"


def in_thread(function, *arguments):
    """What the function gives or raises, in a thread of its own."""
    return ThreadPoolExecutor(1).submit(function, *arguments)


def run_blocking(agent):
    """Run the agent, blocking."""
    return agent.run("Go!")


def run_awaiting(agent):
    """Run the agent on an event loop of its own."""
    return asyncio.run(agent.arun("Go!"))


@pytest.mark.parametrize("run", [run_blocking, run_awaiting])
def test_a_run_ends_at_its_next_event(run):
    """The tool that is at work comes to its end, its result is kept, and the model is not asked again."""
    gate, llm = Gate(), ScriptedLLM(call("wait"), "never asked")
    runner = Agent("runner", tools=[gate.wait], llm=llm)
    running = in_thread(run, runner)
    assert gate.entered.wait(WAIT_SECONDS)
    runner.stop()
    gate.may_go.set()
    result = running.result(WAIT_SECONDS)
    assert (result.status, type(result.error)) == ("failed", Cancelled)
    assert [used.call.name for used in result.tool_calls] == ["wait"]
    with pytest.raises(Cancelled, match="was stopped"):
        result.raise_for_status()
    assert len(llm.requests) == 1
    (left,) = runner.session.unfinished
    resumed = runner.resume(left)
    assert (resumed.output, resumed.tool_calls[0].result.content) == ("never asked", "waited")


def test_a_stream_ends_between_two_deltas():
    """Who reads a stream in one thread is stopped from another, or from the loop itself."""
    runner = Agent("runner", llm=ScriptedLLM("One two three four five."))
    pieces = runner.stream_text("Go!")
    assert next(pieces) == "One "
    runner.stop()
    with pytest.raises(Cancelled):
        next(pieces)


def test_a_later_run_goes_on():
    """To stop an agent that is idle, or to run one that was stopped, does nothing to the next run."""
    runner = Agent("runner", llm=ScriptedLLM("Hello.", "Hello again."))
    runner.stop()
    assert runner("Hi") == "Hello."
    runner.stop()
    assert runner("Hi") == "Hello again."


def test_a_run_that_is_over_is_not_stopped():
    """A listener of the last event comes too late."""
    runner = Agent("runner", llm=ScriptedLLM("Hello."))
    *_, last = runner.stream("Hi")
    runner.stop()
    assert last.result.status == "done"


def test_only_this_agent_is_stopped():
    """The same agent in another conversation goes on."""
    gate = Gate()
    runner = Agent("runner", tools=[gate.wait], llm=ScriptedLLM(call("wait"), "Done."))
    other = runner.within(Agent("x").session)
    running = in_thread(other.run, "Go!")
    assert gate.entered.wait(WAIT_SECONDS)
    runner.stop()
    gate.may_go.set()
    assert running.result(WAIT_SECONDS).output == "Done."


def test_agents_within_are_stopped_too():
    """An agent that is at work as a tool asks its model no more, and the tools of both may know."""
    told = []

    @tool
    def long_work(run: RunContext) -> str:
        """Work until nobody waits for it."""
        told.append(run.is_stopped)
        outer.stop()
        told.append(run.is_stopped)
        return "half of it"

    inner = Agent("inner", tools=[long_work], llm=ScriptedLLM(call("long_work"), "never asked"))
    outer = Agent(
        "outer", tools=[inner.as_tool("ask_inner")], llm=ScriptedLLM(call("ask_inner", request="Go!"), "never")
    )
    assert isinstance(outer.run("Go!").error, Cancelled)
    assert told == [False, True]
    assert (len(inner.llm.requests), len(outer.llm.requests)) == (1, 1)


def test_listeners_hear_it():
    """Listeners receive what was done, and the result with the reason."""
    heard = []
    runner = Agent(
        "runner", tools=[look], llm=ScriptedLLM(say("Look.", call("look")), "never"), listeners=[heard.append]
    )
    runner.on(ToolCallFinished, lambda _: runner.stop())
    result = runner.run("Go!")
    assert heard[-1] == RunFinished(result)
    assert "was stopped" in str(result.error)


def test_the_quick_chat_can_be_stopped():
    """What `agent.stream_text` tells can be cut off by `agent.stop`."""
    agent = QuickAgent()
    with FakeServer("One two three four five.", "Hello.") as server:
        pieces = agent.stream_text("Hi", base_url=server.base_url, model="any")
        next(pieces)
        agent.stop()
        with pytest.raises(Cancelled):
            list(pieces)
        assert agent("Hi") == "Hello."
