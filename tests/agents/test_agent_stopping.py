"""Tests for `stop`, which ends a run from another thread and stores the finished work."""

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
    """A tool that blocks until it is released, and reports when it was entered."""

    def __init__(self):
        """Start closed."""
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
    """Return the function's result as a future that is completed in a thread."""
    return ThreadPoolExecutor(1).submit(function, *arguments)


def run_sync(agent):
    """Run the agent in this thread."""
    return agent.run("Go!")


def run_async(agent):
    """Run the agent in a new event loop."""
    return asyncio.run(agent.arun("Go!"))


@pytest.mark.parametrize("run", [run_sync, run_async])
def test_stop_ends_the_run_after_the_current_tool(run):
    """`stop` lets the current tool finish, stores its result, and sends no further request."""
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


def test_stop_ends_a_stream_between_two_deltas():
    """`stop` ends a stream between two text deltas."""
    runner = Agent("runner", llm=ScriptedLLM("One two three four five."))
    pieces = runner.stream_text("Go!")
    assert next(pieces) == "One "
    runner.stop()
    with pytest.raises(Cancelled):
        next(pieces)


def test_stop_does_not_affect_later_runs():
    """`stop` has no effect on later runs."""
    runner = Agent("runner", llm=ScriptedLLM("Hello.", "Hello again."))
    runner.stop()
    assert runner("Hi") == "Hello."
    runner.stop()
    assert runner("Hi") == "Hello again."


def test_finished_run_is_not_stopped():
    """Calling `stop` from a listener of the last event has no effect."""
    runner = Agent("runner", llm=ScriptedLLM("Hello."))
    *_, last = runner.stream("Hi")
    runner.stop()
    assert last.result.status == "done"


def test_stop_does_not_affect_other_sessions():
    """`stop` has no effect on the same agent in another session."""
    gate = Gate()
    runner = Agent("runner", tools=[gate.wait], llm=ScriptedLLM(call("wait"), "Done."))
    other = runner.within(Agent("x").session)
    running = in_thread(other.run, "Go!")
    assert gate.entered.wait(WAIT_SECONDS)
    runner.stop()
    gate.may_go.set()
    assert running.result(WAIT_SECONDS).output == "Done."


def test_stop_ends_nested_runs():
    """`stop` also ends the runs of nested agents, and tools of both can read the stop signal."""
    received = []

    @tool
    def long_work(run: RunContext) -> str:
        """Stop the outer agent during the call."""
        received.append(run.is_stopped)
        outer.stop()
        received.append(run.is_stopped)
        return "half of it"

    inner = Agent("inner", tools=[long_work], llm=ScriptedLLM(call("long_work"), "never asked"))
    outer = Agent(
        "outer", tools=[inner.as_tool("ask_inner")], llm=ScriptedLLM(call("ask_inner", request="Go!"), "never")
    )
    assert isinstance(outer.run("Go!").error, Cancelled)
    assert received == [False, True]
    assert (len(inner.llm.requests), len(outer.llm.requests)) == (1, 1)


def test_listeners_receive_the_result_of_a_stopped_run():
    """Listeners receive the result of a stopped run with its error."""
    events = []
    runner = Agent(
        "runner", tools=[look], llm=ScriptedLLM(say("Look.", call("look")), "never"), listeners=[events.append]
    )
    runner.on(ToolCallFinished, lambda _: runner.stop())
    result = runner.run("Go!")
    assert events[-1] == RunFinished(result)
    assert "was stopped" in str(result.error)


def test_quick_chat_can_be_stopped():
    """`agent.stop` ends `agent.stream_text` in the quick chat."""
    agent = QuickAgent()
    with FakeServer("One two three four five.", "Hello.") as server:
        pieces = agent.stream_text("Hi", base_url=server.base_url, model="any")
        next(pieces)
        agent.stop()
        with pytest.raises(Cancelled):
            list(pieces)
        assert agent("Hi") == "Hello."
