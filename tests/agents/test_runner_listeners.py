"""Tests for listeners: origins of events, contexts around requests and calls, and RunLeft."""

import asyncio
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from multiprocessing import get_context

import pytest

from agentkit import Agent, Session, tool
from agentkit.agents.result import RunFinished
from agentkit.agents.runner import emit_afterwards
from agentkit.errors import Unreachable
from agentkit.events import (
    HandedOff,
    RequestFailed,
    RequestStarted,
    ResponseReceived,
    RunLeft,
    RunStarted,
    TextDelta,
    ToolCallFinished,
)
from agentkit.llm.client import LLM
from agentkit.messages import AssistantMessage, Response
from agentkit.testing import FakeServer, ScriptedLLM, call, record, replay
from agentkit.tracing.listeners import ModelRequest, Origin, ToolUse, origin

MODES = ["run", "stream", "arun", "astream"]
WORK = ContextVar("WORK", default=None)


class Listener:
    """A listener that records events with their origins, and wraps requests and tool calls."""

    def __init__(self):
        self.events, self.works, self.raised = [], [], []

    def __call__(self, event):
        """Record an event."""
        self.events.append((event, origin()))

    @contextmanager
    def around(self, work):
        """Record the work, and set the context variable within it."""
        token = WORK.set(work)
        try:
            yield
        except BaseException as error:
            self.raised.append(type(error).__name__)
            raise
        finally:
            self.works.append(work)
            WORK.reset(token)

    def origins(self, kind):
        """Return the origins of the events of one type."""
        return [source for event, source in self.events if isinstance(event, kind)]


@tool
def look() -> str:
    """Return the value of the context variable."""
    return WORK.get().call.id


@tool
async def alook() -> str:
    """Return the value of the context variable."""
    await asyncio.sleep(0)
    return WORK.get().call.id


def agent_of(*lines, name="helper", tools=(look, alook), **options):
    """Return an agent with a scripted model, and its listener."""
    listener = Listener()
    return Agent(name, tools, llm=ScriptedLLM(*lines), listeners=[listener], **options), listener


@pytest.mark.parametrize("mode", MODES)
def test_events_have_an_origin(mode, drive):
    """Each event has an origin with the run, agent and iteration, in every way to run."""
    agent, listener = agent_of(call("look"), "Done.")
    drive(agent, mode)
    (run,) = {source.run for _, source in listener.events}
    assert listener.origins(RunStarted) == [Origin(run, "helper")]
    assert [source.iteration for source in listener.origins(RequestStarted)] == [1, 2]
    (source,) = listener.origins(ToolCallFinished)
    assert replace(source, request_seconds=None) == Origin(run, "helper", iteration=1)
    assert source.request_seconds >= 0
    assert [type(event) for event, _ in listener.events][-1] is RunFinished


@pytest.mark.parametrize("mode", MODES)
def test_listeners_wrap_requests_and_tool_calls(mode, drive):
    """A listener wraps each request and tool call, and its context variables are visible in tools."""
    agent, listener = agent_of([call("look"), call("alook")], "Done.")
    result = drive(agent, mode)
    assert [used.result.value for used in result.tool_calls] == [used.call.id for used in result.tool_calls]
    first, *calls, last = listener.works
    assert {type(work) for work in calls} == {ToolUse}
    assert {(work.call.name, work.decision.verdict, work.result.status) for work in calls} == {
        ("look", "allow", "ok"),
        ("alook", "allow", "ok"),
    }
    for work in (first, last):
        assert isinstance(work, ModelRequest)
        assert (work.provider, work.model, work.is_streamed) == ("scripted", "scripted", "stream" in mode)
    assert (last.response.text, last.origin.iteration) == ("Done.", 2)
    assert WORK.get() is None


@pytest.mark.parametrize("mode", MODES)
def test_events_are_emitted_outside_the_wrapped_work(mode, drive):
    """Events are emitted outside the context of the wrapped work."""
    agent, _ = agent_of(call("look"), "Done.")
    outside = []
    agent.listeners.append(lambda _: outside.append(WORK.get()))
    drive(agent, mode)
    assert set(outside) == {None}


@pytest.mark.parametrize("mode", MODES)
def test_model_error_is_raised_through_the_listener(mode, drive):
    """An error of the model is raised through the listener and reported as an event."""
    agent, listener = agent_of(Unreachable("Nobody is there."))
    assert drive(agent, mode).status == "failed"
    assert (listener.raised, listener.works[0].response) == (["Unreachable"], None)
    assert len(listener.origins(RequestFailed)) == 1


def test_listener_receives_the_client_settings():
    """A listener receives the request with the settings and URL of the client."""
    with FakeServer("Hi.") as server:
        llm = LLM(base_url=server.base_url, model="any", protocol="chat", temperature=0.5)
        listener = Listener()
        Agent("helper", llm=llm, listeners=[listener]).run("go")
        (work,) = listener.works
        assert (work.request.settings["temperature"], work.url) == (0.5, server.base_url)


@pytest.mark.parametrize("mode", MODES)
def test_listener_around_a_call_may_raise(mode, drive):
    """A listener that raises an error around a tool call fails the run."""

    class Refusing(Listener):
        @contextmanager
        def around(self, work):
            if not isinstance(work, ModelRequest):
                raise TypeError("not this one")
            yield

    agent, _ = agent_of([call("look"), call("look")], "Done.")
    agent.listeners[:] = [Refusing()]
    result = drive(agent, mode)
    assert (result.status, str(result.error)) == (
        "failed",
        "The run was ended by an exception (TypeError: not this one).",
    )
    (event, _) = agent.listeners[0].events[-1]
    assert event == RunFinished(result)


def test_agent_as_tool_has_a_parent():
    """The run of an agent used as a tool has its caller's run as the parent."""
    inner, listener = agent_of("Two.", name="inner")
    outer = Agent("outer", [inner.as_tool()], llm=ScriptedLLM(call("inner", request="1+1?"), "It is two."))
    other = Listener()
    outer.listeners.append(other)
    outer.run("go")
    (parent,) = {source.run for _, source in other.events}
    assert {(source.agent, source.parent) for _, source in listener.events} == {("inner", parent)}


def test_origins_distinguish_the_runs_of_a_map():
    """A listener distinguishes concurrent runs of a map by the origin."""
    agent, listener = agent_of()
    agent.llm = ScriptedLLM(lambda request: request.messages[-1].content, repeat=True)
    agent.map(["a", "b", "c", "d"])
    fields = {event.prompt: source.run for event, source in listener.events if isinstance(event, RunStarted)}
    ended = {event.result.output: source.run for event, source in listener.events if isinstance(event, RunFinished)}
    assert fields == ended
    assert len(set(fields.values())) == 4


def test_origin_after_a_handoff():
    """After a handoff, the origin has the name of the active agent and the same run."""
    second = Agent("second", llm=ScriptedLLM("I am here."))
    agent, listener = agent_of(call("hand_off_to_second"), name="first", tools=(), handoffs=[second])
    agent.run("go")
    assert [source.agent for source in listener.origins(RequestStarted)] == ["first", "second"]
    assert len({source.run for _, source in listener.events}) == 1


def test_origin_has_the_session_name(tmp_path):
    """The origin has the session name, and a resumed run keeps its id."""
    session = Session.open(tmp_path / "talk.db", "trip")
    agent, listener = agent_of(call("look"), "Done.", session=session)
    for event in agent.stream("go"):
        if isinstance(event, ToolCallFinished):
            break
    agent.resume()
    assert {source.session for _, source in listener.events} == {"trip"}
    assert len({source.run for _, source in listener.events}) == 1
    assert [source.iteration for source in listener.origins(RequestStarted)] == [1, 2]


def test_abandoned_stream_emits_run_left():
    """Abandoning a stream emits RunLeft as the last event."""
    agent, listener = agent_of("A long answer.")
    for event in agent.stream("go"):
        if isinstance(event, TextDelta):
            break
    assert listener.events[-1][0] == RunLeft()
    assert (listener.raised, listener.works[0].response) == (["GeneratorExit"], None)


def test_stream_closed_after_its_end_does_not_emit_run_left():
    """Closing a stream after RunFinished does not emit RunLeft."""
    agent, listener = agent_of("Done.")
    for event in agent.stream("go"):
        if isinstance(event, RunFinished):
            break
    assert isinstance(listener.events[-1][0], RunFinished)


def test_interrupt_emits_run_left():
    """A KeyboardInterrupt in a tool emits RunLeft with its name."""

    @tool
    def stop() -> str:
        """Raise KeyboardInterrupt."""
        raise KeyboardInterrupt

    agent, listener = agent_of(call("stop"), tools=[stop])
    with pytest.raises(KeyboardInterrupt):
        agent.run("go")
    assert listener.events[-1][0] == RunLeft("KeyboardInterrupt")


@pytest.mark.parametrize("mode", ["arun", "astream"])
def test_cancelled_task_emits_run_left(mode):
    """Cancelling a task during a tool call emits RunLeft and cancels the call."""

    async def main():
        reached = asyncio.Event()

        @tool
        async def wait() -> str:
            """Wait forever."""
            reached.set()
            await asyncio.Event().wait()

        agent, listener = agent_of(call("wait"), tools=[wait])

        async def consume():
            if mode == "arun":
                await agent.arun("go")
            else:
                [event async for event in agent.astream("go")]

        task = asyncio.create_task(consume())
        await reached.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return listener

    listener = asyncio.run(main())
    assert listener.events[-1][0] == RunLeft("CancelledError")
    assert listener.raised == ["CancelledError"]


def test_listeners_wrap_replayed_work(tmp_path):
    """Listeners also wrap the replayed requests and tool calls."""
    with record(tmp_path / "a.cassette"):
        agent_of(call("look"), "Done.")[0].run("go")
    with replay(tmp_path / "a.cassette"):
        agent, listener = agent_of()
        agent.run("go")
    assert [type(work) for work in listener.works] == [ModelRequest, ToolUse, ModelRequest]
    assert listener.works[1].result.status == "ok"


def test_events_from_another_process_are_emitted_later():
    """Events of a run in another process are emitted later, without the known ones."""
    listener = Listener()
    response = ResponseReceived(Response(AssistantMessage("a")))
    known, new = [RunStarted("helper", "go"), response, HandedOff("second")], [response, RunFinished(None)]
    emit_afterwards([listener], known, new, Origin("r1", "helper"))
    assert [event for event, _ in listener.events] == new
    assert {source for _, source in listener.events} == {Origin("r1", "second", iteration=2, is_elsewhere=True)}


def test_origins_distinguish_runs_in_other_processes():
    """Runs of a map in other processes are reported with separate origins."""
    with FakeServer(lambda request: f"Re: {request.json['messages'][-1]['content']}", repeat=True) as server:
        llm = LLM(base_url=server.base_url, model="any", protocol="chat", max_retries=0)
        listener = Listener()
        agent = Agent("helper", llm=llm, listeners=[listener])
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            agent.map(["a", "b"], executor=pool)
    fields = {event.prompt: source for event, source in listener.events if isinstance(event, RunStarted)}
    ended = {event.result.output: source for event, source in listener.events if isinstance(event, RunFinished)}
    assert {f"Re: {prompt}": source.run for prompt, source in fields.items()} == {
        output: source.run for output, source in ended.items()
    }
    assert all(source.is_elsewhere and source.iteration == 1 for source in ended.values())
