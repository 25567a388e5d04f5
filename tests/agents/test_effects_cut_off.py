"""Tests for runs that are cut off by closing, cancelling, errors or Ctrl-C: the history stays valid."""

import asyncio
import gc
import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import aclosing, suppress

import pytest

from agentkit import LLM, Agent, Tool
from agentkit.agents.effects import MAX_THREADS
from agentkit.agents.result import RunFinished
from agentkit.events import TextDelta, ToolCallFinished
from agentkit.testing import FakeServer, ScriptedLLM, call, say, slow

LINES = [
    say("Let me see.", call("add", a=1, b=2), call("aadd", a=3, b=4), call("nope"), reasoning="Hm."),
    call("erase", a=1, b=1),
    "Done it is.",
]
TEXTS = {"3", "7"}
EVENTS = 60
"""More events than the run has, so that every position is tested."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def aadd(a: int, b: int) -> int:
    """Add two numbers, after yielding to other tasks."""
    await asyncio.sleep(0)
    return a + b


def make_agent(*lines, **options):
    """Return an agent whose first response has three calls, and whose second has one that needs approval."""
    tools = [add, aadd, Tool(add, "erase", level="SYSTEM")]
    return Agent("helper", tools, llm=ScriptedLLM(*(lines or LINES), "Again."), approve=approve, **options)


async def approve(request) -> bool:
    """Approve the call, after yielding to other tasks."""
    await asyncio.sleep(0)
    return True


def check(agent, find_faults):
    """Check that the history is valid, and again after another run."""
    assert find_faults(agent.history) == []
    agent.llm = ScriptedLLM("Fine.")
    assert agent("and now?") == "Fine."
    assert find_faults(agent.history) == []
    assert agent.history[-2] == {"role": "user", "content": "and now?"}


@pytest.mark.for_each("stop", range(EVENTS))
def test_closing_a_stream_leaves_a_valid_history(stop, find_faults):
    """Closing a stream after any event leaves a valid history."""
    agent = make_agent()
    for index, _ in enumerate(agent.stream("go")):
        if index == stop:
            break
    check(agent, find_faults)


@pytest.mark.for_each("stop", range(EVENTS))
def test_closing_an_async_stream_leaves_a_valid_history(stop, find_faults):
    """Closing an async stream after any event leaves a valid history."""
    agent = make_agent()

    async def main():
        async with aclosing(agent.astream("go")) as events:
            index = 0
            async for _ in events:
                if index == stop:
                    break
                index += 1
        assert find_faults(agent.history) == []

    asyncio.run(main())
    check(agent, find_faults)


@pytest.mark.for_each("stop", range(EVENTS))
@pytest.mark.for_each("mode", ["run", "astream"])
def test_listener_that_raises_an_error(mode, stop, find_faults):
    """A listener that raises an error fails the run with that error and leaves a valid history."""
    agent, received = make_agent(), []

    def listen(event):
        received.append(event)
        if len(received) == stop + 1:
            raise LookupError("listener")

    async def consume():
        return [event async for event in agent.astream("go")][-1].result

    agent.listeners.append(listen)
    result = agent.run("go") if mode == "run" else asyncio.run(consume())
    if len(received) > stop:
        assert (result.status, str(result.error)) == (
            "failed",
            "The run was ended by an exception (LookupError: listener).",
        )
        assert isinstance(result.error.__cause__, LookupError)
    assert isinstance(received[-1], RunFinished)
    agent.listeners.clear()
    check(agent, find_faults)


@pytest.mark.for_each("ticks", range(0, 90, 2))
def test_cancellation_at_any_moment(ticks, find_faults):
    """Cancelling a task at any moment of its run raises CancelledError there and leaves a valid history."""
    agent = make_agent()

    async def main():
        task = asyncio.create_task(agent.arun("go"))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert find_faults(agent.history) == []

    asyncio.run(main())
    check(agent, find_faults)


def test_every_event_is_covered():
    """The tests above cover every event of the run."""
    assert 30 < len(list(make_agent().stream("go"))) < EVENTS


def test_abandoned_async_stream_ends(find_faults):
    """An async stream that is not closed ends once the event loop finalizes it."""
    agent = make_agent()

    async def main():
        async for event in agent.astream("go"):
            if isinstance(event, ToolCallFinished):
                break

    asyncio.run(main())
    assert [message["role"] for message in agent.history][:2] == ["user", "assistant"]
    check(agent, find_faults)


def test_cancellation_stores_finished_results(find_faults):
    """Cancelling a batch stores the finished results, and the other calls are interrupted."""
    cancelled = []

    def quick() -> str:
        return "quick result"

    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    agent = Agent("helper", [quick, endless], llm=ScriptedLLM([call("quick"), call("endless"), call("quick")]))

    async def main():
        both_ended = asyncio.Event()
        ended = []
        agent.on(ToolCallFinished, lambda event: ended.append(event) or len(ended) < 2 or both_ended.set())
        task = asyncio.create_task(agent.arun("go"))
        await both_ended.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    contents = [message["content"] for message in agent.history if message["role"] == "tool"]
    assert contents[::2] == ["quick result"] * 2
    assert "interrupted" in contents[1]
    assert cancelled == [True]
    check(agent, find_faults)


def test_cancellation_stops_async_tools(find_faults):
    """Cancelling a run cancels its async tools before the run ends."""
    states, started = [], asyncio.Event()

    async def endless() -> None:
        states.append("started")
        if len(states) == 2:
            started.set()
        try:
            await asyncio.sleep(60)
        finally:
            states.append("stopped")

    agent = Agent("helper", [endless], llm=ScriptedLLM([call("endless"), call("endless")]))

    async def main():
        task = asyncio.create_task(agent.arun("go"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert states == ["started", "started", "stopped", "stopped"]
    check(agent, find_faults)


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_cancellation_during_a_served_stream(protocol, find_faults):
    """Cancelling a run during a streamed response adds nothing to the history."""
    with FakeServer(slow("one two three four", between_seconds=0.2)) as server:
        agent = Agent("helper", llm=LLM(base_url=server.base_url, model="any", protocol=protocol))

        async def consume(seen):
            async for event in agent.astream("go"):
                if isinstance(event, TextDelta):
                    seen.set()

        async def main():
            seen = asyncio.Event()
            task = asyncio.create_task(consume(seen))
            await seen.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await agent.llm.aclose()

        asyncio.run(main())
    assert agent.history == []
    check(agent, find_faults)


class WatchedLLM(ScriptedLLM):
    """A model that records when its stream is closed."""

    closed = False

    def stream(self, messages, **options):
        """Record the closing of the stream."""
        try:
            yield from super().stream(messages, **options)
        finally:
            self.closed = True

    async def astream(self, messages, **options):
        """Record the closing of the stream."""
        try:
            async for event in super().astream(messages, **options):
                yield event
        finally:
            self.closed = True


def test_closing_a_stream_closes_the_stream_of_the_model():
    """Closing a stream during a response closes the model's stream."""
    llm = WatchedLLM("One two three.")
    events = Agent("helper", llm=llm).stream("go")
    next(event for event in events if isinstance(event, TextDelta))
    events.close()
    assert llm.closed


def test_closing_an_async_stream_closes_the_model_stream():
    """Closing an async stream during a response closes the model's stream before it returns."""
    llm = WatchedLLM("One two three.")

    async def main():
        events = Agent("helper", llm=llm).astream("go")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        assert not llm.closed
        await events.aclose()
        assert llm.closed

    asyncio.run(main())


def test_stream_that_is_not_iterated_does_nothing():
    """A stream that is not iterated sends no request and leaves no trace."""
    agent = make_agent()
    events = agent.stream("go")
    events.close()
    del events
    gc.collect()
    assert agent.history == []
    assert agent.llm.requests == []


@pytest.mark.for_each("ending", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.for_each("is_async", [False, True])
@pytest.mark.for_each("mode", ["run", "arun"])
@pytest.mark.for_each("count", [1, 3])
def test_tool_that_exits_ends_the_run(mode, is_async, count, ending, find_faults):
    """A tool that raises SystemExit or KeyboardInterrupt ends the run; finished results are stored."""
    others_done = threading.Barrier(count, timeout=20)

    def quick() -> str:
        others_done.wait()
        return "quick result"

    def leave() -> None:
        others_done.wait()
        time.sleep(0.3)
        raise ending

    async def aleave() -> None:
        await asyncio.to_thread(others_done.wait)
        await asyncio.sleep(0.3)
        raise ending

    leaving = call("aleave" if is_async else "leave")
    agent = Agent("helper", [quick, leave, aleave], llm=ScriptedLLM([call("quick"), leaving, call("quick")][-count:]))
    if count == 1:
        agent.llm = ScriptedLLM(leaving)
    with pytest.raises(type(ending)):
        agent.run("go") if mode == "run" else asyncio.run(agent.arun("go"))
    contents = [message["content"] for message in agent.history if message["role"] == "tool"]
    assert sum("interrupted" in content for content in contents) == 1
    assert contents.count("quick result") == count - 1
    check(agent, find_faults)


def test_waiting_calls_are_not_started_after_the_end():
    """Calls that wait for a thread are not started after the run has ended."""
    started, release = [], threading.Event()

    def block(index: int) -> None:
        started.append(index)
        release.wait(20)

    def leave() -> None:
        raise SystemExit

    blocking = [call("block", index=index) for index in range(2 * MAX_THREADS)]
    agent = Agent("helper", [block, leave], llm=ScriptedLLM([call("leave"), *blocking]))
    with pytest.raises(SystemExit):
        agent.run("go")
    time.sleep(0.2)
    so_far = len(started)
    release.set()
    time.sleep(0.2)
    assert len(started) == so_far <= MAX_THREADS


CHILD = """
import asyncio, json, sys, time
from agentkit import Agent, LLM
from agentkit.testing import FakeServer, ScriptedLLM, call, slow

def quick() -> str:
    print("ready\\n", end="", flush=True)
    return "quick result"

def block() -> None:
    print("ready\\n", end="", flush=True)
    time.sleep(60)

async def ablock() -> None:
    print("ready\\n", end="", flush=True)
    await asyncio.sleep(60)

def think(request):
    print("ready\\n", end="", flush=True)
    return slow("Hello.", before_seconds=60)

CASES = {
    "a tool": call("block"),
    "an async tool": call("ablock"),
    "several tools": [call("quick"), call("block"), call("ablock"), call("quick")],
}
case, way = sys.argv[1:]
server = FakeServer(think)
server.start()
served = LLM(base_url=server.base_url, model="any")
llm = ScriptedLLM(CASES[case]) if case in CASES else served
agent = Agent("helper", [quick, block, ablock], llm=llm)

async def arun():
    if way == "arun":
        await agent.arun("go")
    else:
        [event async for event in agent.astream("go")]

try:
    if way == "run":
        agent.run("go")
    elif way == "stream":
        for event in agent.stream("go"):
            pass
    else:
        asyncio.run(arun())
except KeyboardInterrupt:
    print(json.dumps(agent.history))
"""


OFTEN = {("the model", "stream"), ("a tool", "run"), ("an async tool", "astream"), ("several tools", "arun")}
"""The cases of Ctrl-C that are always tested; the other combinations are slow tests."""


@pytest.mark.parametrize(
    ("case", "mode"),
    [
        pytest.param(*pair, marks=() if pair in OFTEN else pytest.mark.slow)
        for pair in itertools.product(
            ["the model", "a tool", "an async tool", "several tools"], ["run", "stream", "arun", "astream"]
        )
    ],
)
def test_ctrl_c(case, mode, find_faults):
    """Ctrl-C raises KeyboardInterrupt, stores finished results and leaves a valid history."""
    command = [sys.executable, "-c", CHILD, case, mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            for _ in range(4 if case == "several tools" else 1):
                assert child.stdout.readline() == "ready\n"
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
            output, errors = child.communicate(timeout=20)
        finally:
            child.kill()
    assert (child.returncode, errors) == (0, "")
    history = json.loads(output)
    assert find_faults(history) == []
    contents = [message["content"] for message in history if message["role"] == "tool"]
    assert [content == "quick result" for content in contents] == {
        "the model": [],
        "several tools": [True, False, False, True],
    }.get(case, [False])
