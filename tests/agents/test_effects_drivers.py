"""Tests for the sync and async drivers: both emit the same events for each protocol."""

import asyncio
import contextvars
import functools
import json
import threading
import time
from dataclasses import replace

import pytest

from agentkit import LLM, Agent
from agentkit.agents.effects import MAX_THREADS
from agentkit.agents.result import RunFinished
from agentkit.decisions import Decision, Verdict
from agentkit.events import (
    ReasoningDelta,
    ResponseReceived,
    RunStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from agentkit.testing import FakeServer, ScriptedLLM, call, fail, record, replay, say
from agentkit.tooling.tool import Tool

DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta)
PLACE = contextvars.ContextVar("place", default="nowhere")
MODES = ["run", "arun", "stream", "astream"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def multiply(a: int, b: int) -> int:
    """Multiply two numbers, after a delay."""
    await asyncio.sleep(0.05)
    return a * b


def explode() -> None:
    """Fail."""
    raise ValueError("boom")


def forbid(arguments):
    """Deny every call."""
    return Decision(Verdict.DENY, "never", "Nobody may do that.")


def wait(index: int, seconds: float = 0.1) -> int:
    """Block for a while."""
    time.sleep(seconds)
    return index


async def await_(index: int, seconds: float = 0.1) -> int:
    """Wait for a while."""
    await asyncio.sleep(seconds)
    return index


TOOLS = [add, multiply, explode, Tool(add, "erase", level="SYSTEM"), Tool(add, "forbidden", judge=forbid)]
STORIES = {
    "an answer": ["Hello there."],
    "tools": [say("Let me see.", call("add", a=1, b=2), call("multiply", a=3, b=4)), "Three and twelve."],
    "mistakes": [
        [call("ad"), call("add", "{"), call("add", a="x"), call("explode"), call("erase", a=1, b=1), call("forbidden")],
        "I give up.",
    ],
    "token limit": [*(call("add", a=number, b=2) for number in range(3)), "Two, three and four so far."],
    "an empty answer": [call("add", a=1, b=2), ""],
    "truncated answer": [say("Half an", finish_reason="length")],
}


def events_of_run(agent, mode, prompt="go"):
    """Return the events of one run in one of the four ways; only the result without streaming."""

    async def collect():
        try:
            if mode == "arun":
                return [RunFinished(await agent.arun(prompt))]
            return [event async for event in agent.astream(prompt)]
        finally:
            await agent.llm.aclose()

    if mode in {"arun", "astream"}:
        return asyncio.run(collect())
    try:
        return [RunFinished(agent.run(prompt))] if mode == "run" else list(agent.stream(prompt))
    finally:
        agent.llm.close()


def plain_call(tool_call):
    """Return the id, name and arguments of a tool call."""
    return tool_call.id, tool_call.name, tool_call.arguments


def plain_finish(finished):
    """Return a tool call with its result, without its duration."""
    return plain_call(finished.call), replace(finished.result, seconds=0)


def plain(event):
    """Return the event without its duration and provider-specific data."""
    match event:
        case RunStarted(agent, prompt, history):
            return "begun", agent, prompt, history
        case ResponseReceived(response):
            calls = [plain_call(each) for each in response.tool_calls]
            return "response", response.text, calls, response.finish_reason, response.usage
        case ToolCallStarted(tool_call, decision):
            return "started", plain_call(tool_call), decision
        case ToolCallFinished():
            return "finished", plain_finish(event)
        case RunFinished(result):
            calls = [plain_finish(each) for each in result.tool_calls]
            error = (type(result.error), str(result.error))
            return "over", result.output, result.status, calls, result.iterations, result.usage, error
    return event


def story(agent, mode):
    """Return the events other than deltas, and the history."""
    received = []
    agent.listeners.append(received.append)
    seen = [event for event in events_of_run(agent, mode) if not isinstance(event, DELTAS)]
    received = [event for event in received if not isinstance(event, DELTAS)]
    assert received[-len(seen) :] == seen
    return [plain(event) for event in received], agent.history


@functools.cache
def reference(name):
    """Return the expected events and history: those of a blocking run with a scripted model."""
    return story(Agent("helper", TOOLS, max_iterations=3, llm=ScriptedLLM(*STORIES[name])), "run")


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("name", STORIES)
def test_scripted_runs_are_equal_in_every_way_to_run(name, mode, find_faults):
    """Every way to run emits the same events and has the same history and result."""
    output = story(Agent("helper", TOOLS, max_iterations=3, llm=ScriptedLLM(*STORIES[name])), mode)
    assert output == reference(name)
    assert find_faults(output[1]) == []


@pytest.mark.for_each("protocol", ["chat", "responses"])
@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("name", STORIES)
def test_served_runs_are_equal_in_every_way_to_run(name, mode, protocol):
    """Both protocols emit the same events and have the same history and result."""
    with FakeServer(*STORIES[name]) as server:
        llm = LLM(base_url=server.base_url, model="any", protocol=protocol)
        assert story(Agent("helper", TOOLS, max_iterations=3, llm=llm), mode) == reference(name)


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("protocol", ["chat", "responses"])
def test_failed_request_in_every_way_to_run(protocol, mode):
    """In every way to run, a rejected request adds nothing to the history and can be retried."""
    with FakeServer(fail(400, "Bad question."), "Hello.") as server:
        agent = Agent("helper", llm=LLM(base_url=server.base_url, model="any", protocol=protocol))
        result = events_of_run(agent, mode)[-1].result
        assert (result.status, agent.history) == ("failed", [])
        assert "Bad question." in str(result.error)
        assert events_of_run(agent, mode)[-1].result.output == "Hello."
        assert [message["role"] for message in agent.history] == ["user", "assistant"]


@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_deltas_form_the_response(mode):
    """The streamed deltas of text, reasoning and arguments form the response."""
    lines = [say("One two three.", call("add", a=1, b=2), reasoning="Think first."), "Done it is."]
    events = events_of_run(Agent("helper", [add], llm=ScriptedLLM(*lines)), mode)
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    thoughts = [event.text for event in events if isinstance(event, ReasoningDelta)]
    arguments = "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))
    assert len(texts) > 2
    assert ("".join(texts), "".join(thoughts)) == ("One two three.Done it is.", "Think first.")
    assert json.loads(arguments) == {"a": 1, "b": 2}


@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_order_of_a_stream(mode):
    """A stream starts with RunStarted, ends with RunFinished, and has each response after its deltas."""
    events = events_of_run(Agent("helper", llm=ScriptedLLM("Hello there.")), mode)
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    assert [type(event) for event in events[2:-1]] == [TextDelta, TextDelta, ResponseReceived]


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("is_async", [False, True])
def test_parallel_calls_run_concurrently(is_async, mode):
    """Eight calls that wait for each other finish, whether sync or async."""
    blocking, awaiting = threading.Barrier(8), asyncio.Barrier(8)

    def meet(index: int) -> int:
        """Wait until all calls have begun."""
        blocking.wait(60)
        return index

    async def meet_async(index: int) -> int:
        """Wait until all calls have begun."""
        async with asyncio.timeout(60):
            await awaiting.wait()
        return index

    tool = meet_async if is_async else meet
    calls = [call(tool.__name__, index=index) for index in range(8)]
    result = events_of_run(Agent("helper", [tool], llm=ScriptedLLM(calls, "Done.")), mode)[-1].result
    assert [used.result.value for used in result.tool_calls] == list(range(8))


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("function", [wait, await_])
def test_results_are_in_the_requested_order(function, mode):
    """Calls are reported when they finish, and results are sent in the requested order."""
    seconds = [0.3, 0.15, 0.0]
    calls = [call(function.__name__, index=index, seconds=each) for index, each in enumerate(seconds)]
    llm = ScriptedLLM(calls, "Done.")
    agent, ended = Agent("helper", [function], llm=llm), []
    agent.on(ToolCallFinished, lambda event: ended.append(event.result.value))
    result = events_of_run(agent, mode)[-1].result
    assert ended == [2, 1, 0]
    assert [used.result.value for used in result.tool_calls] == [0, 1, 2]
    assert [message.content for message in llm.requests[1].messages[-3:]] == ["0", "1", "2"]


@pytest.mark.parametrize("mode", MODES)
def test_more_calls_than_threads(mode):
    """All calls of a response run, even if there are more calls than threads."""
    count = 2 * MAX_THREADS + 1
    agent = Agent("helper", [add], llm=ScriptedLLM([call("add", a=n, b=0) for n in range(count)], "Done."))
    result = events_of_run(agent, mode)[-1].result
    assert [used.result.value for used in result.tool_calls] == list(range(count))


@pytest.mark.parametrize("mode", MODES)
def test_concurrent_calls_are_limited(mode):
    """The number of concurrent calls is limited, and that limit is used fully."""
    lock, at_work, most = threading.Lock(), [], []
    together = threading.Barrier(MAX_THREADS)

    def work() -> None:
        with lock:
            at_work.append(1)
            most.append(len(at_work))
        together.wait(30)
        with lock:
            at_work.pop()

    events_of_run(Agent("helper", [work], llm=ScriptedLLM([call("work")] * (3 * MAX_THREADS), "Done.")), mode)
    assert (len(most), max(most)) == (3 * MAX_THREADS, MAX_THREADS)


def see(note: str) -> str:
    """Return the value of the context variable and change it."""
    place = PLACE.get()
    PLACE.set(note)
    return place


async def asee(note: str) -> str:
    """Async variant of `see`."""
    return see(note)


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("function", [see, asee])
@pytest.mark.for_each("count", [1, 3])
def test_tools_run_in_a_copy_of_the_context(function, mode, count):
    """A tool sees the caller's context variables, and its changes are not visible outside."""
    calls = [call(function.__name__, note=f"tool {n}") for n in range(count)]
    agent = Agent("helper", [function], llm=ScriptedLLM(calls, "Done."))

    def within():
        PLACE.set("here")
        result = events_of_run(agent, mode)[-1].result
        return [used.result.value for used in result.tool_calls], PLACE.get()

    assert contextvars.copy_context().run(within) == (["here"] * count, "here")


def test_blocking_run_inside_a_running_loop():
    """Blocking methods work inside a running event loop, also with async tools."""
    lines = [[call("multiply", a=1, b=2), call("multiply", a=2, b=2)], call("multiply", a=3, b=3), "Done."]

    async def cell():
        agent = Agent("helper", [multiply], llm=ScriptedLLM(*lines))
        result = agent.run("go")
        streamed = list(Agent("helper", [multiply], llm=ScriptedLLM(*lines)).stream("go"))[-1].result
        return [[used.result.value for used in each.tool_calls] for each in (result, streamed)]

    assert asyncio.run(cell()) == [[2, 4, 9], [2, 4, 9]]


def test_blocking_tool_does_not_block_the_event_loop():
    """A blocking tool does not block the event loop of an async run."""
    ticks = []

    async def tick():
        while True:
            await asyncio.sleep(0.01)
            ticks.append(1)

    async def main():
        ticking = asyncio.create_task(tick())
        await Agent("helper", [wait], llm=ScriptedLLM(call("wait", index=1, seconds=0.2), "Done.")).arun("go")
        ticking.cancel()

    asyncio.run(main())
    assert len(ticks) > 3


def test_run_without_tools_starts_no_threads():
    """A run without tools starts no threads."""
    before = threading.active_count()
    Agent("helper", llm=ScriptedLLM("Hello.")).run("go")
    assert threading.active_count() == before


class PlainIterator:
    """An asynchronous iterator that is not a generator, as a third-party provider may return."""

    def __init__(self, events):
        self.events = iter(events)

    def __aiter__(self):
        return self

    async def __anext__(self):
        for event in self.events:
            return event
        raise StopAsyncIteration


class PlainLLM(ScriptedLLM):
    """A model whose stream cannot be closed."""

    def astream(self, messages, **_):
        """Return an iterator that is not a generator."""
        return PlainIterator(self.stream(messages))


@pytest.mark.parametrize("mode", MODES)
def test_missing_approver_is_recorded(mode, tmp_path):
    """A recording stores that there was no approver, and its replay denies the call as well."""
    for opened in (record, replay):
        with opened(tmp_path / "trip.cassette"):
            llm = ScriptedLLM(call("erase", a=1, b=1), "Well.")
            agent = Agent("helper", [Tool(add, "erase", level="SYSTEM")], llm=llm)
            (used,) = events_of_run(agent, mode)[-1].result.tool_calls
        assert used.result.status == "denied"
        assert "There is no approver." in used.result.content


def test_provider_may_stream_from_any_async_iterator():
    """A provider may stream from any async iterator."""
    assert events_of_run(Agent("helper", llm=PlainLLM("Hello.")), "astream")[-1].result.output == "Hello."


class SilentLLM(ScriptedLLM):
    """A model whose stream ends before its answer."""

    def stream(self, messages, **_):
        """Yield only the beginning."""
        yield from list(super().stream(messages))[:-1]

    async def astream(self, messages, **_):
        """Async variant of `stream`."""
        for event in self.stream(messages):
            yield event


@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_stream_without_an_answer_fails(mode):
    """A stream without a final response fails the run and adds nothing to the history."""
    agent = Agent("helper", llm=SilentLLM("Hello there."))
    assert events_of_run(agent, mode)[-1].result.status == "failed"
    assert agent.history == []
