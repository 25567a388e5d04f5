"""Tests for replays of runs that reached a limit, for each way to run an agent."""

import asyncio
import time

import pytest

from agentkit import LLM, Agent, Limits, SafetyLevel, Tool
from agentkit.agents.result import RunFinished
from agentkit.testing import FakeServer, ScriptedLLM, call, record, replay, say, slow
from agentkit.usage import Price, Usage

pytestmark = pytest.mark.slow

MODES = ["run", "stream", "arun", "astream"]


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


def result_of(agent, mode, prompt="go"):
    """Return the result of a run in the given way."""

    async def astreamed():
        return [event async for event in agent.astream(prompt)][-1].result

    if mode == "run":
        return agent.run(prompt)
    if mode == "stream":
        events = list(agent.stream(prompt))
        assert isinstance(events[-1], RunFinished)
        return events[-1].result
    return asyncio.run(agent.arun(prompt) if mode == "arun" else astreamed())


def compared(result):
    """Return the values of a result that are compared."""
    ended = result.status, result.limit, result.output, result.iterations, str(result.error or "")
    return *ended, result.messages, result.usage, [used.result.status for used in result.tool_calls]


def again(maker, path, mode, replayed_way=None):
    """Return the results of the recorded run and of its replay with a model that would answer differently."""
    with record(path):
        recorded = result_of(maker(), mode)
    with replay(path):
        replayed = result_of(maker(), replayed_way or mode)
    assert compared(replayed) == compared(recorded)
    return recorded


def team(limits, usage=None, depth=1):
    """Return a supervisor that calls its worker repeatedly; each answer of the worker calls a tool and has a cost."""
    own = Usage(100, 50, requests=1) if usage is None else usage
    lines = [say("", call("look", place="the shed"), usage=own), say("Empty.", usage=own)] * 20
    worker = Agent("worker", [look], llm=ScriptedLLM(*lines))
    for number in range(1, depth):
        inner = [call(worker.as_tool().name, request="Look."), "It is empty."] * 20
        worker = Agent(f"worker {number}", [worker.as_tool()], llm=ScriptedLLM(*inner))
    requested_calls = [call(worker.as_tool().name, request=f"Look {number}.") for number in range(20)]
    return Agent("supervisor", [worker.as_tool()], llm=ScriptedLLM(*requested_calls), limits=limits, max_iterations=20)


SHARED = {
    "tokens": Limits(total_tokens=3_000),
    "tool calls": Limits(tool_calls=5),
    "money": Limits(cost=0.002, unknown_price=Price(1.0, 2.0)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("what", SHARED)
def test_replay_counts_the_usage_of_nested_agents(tmp_path, what, depth, mode):
    """In a replay, the usage of nested agents counts toward the limits as recorded."""
    result = again(lambda: team(SHARED[what], depth=depth), tmp_path / "c", mode)
    assert result.status == "limit"
    assert len(result.tool_calls) > 1


def test_replay_counts_unreported_usage(tmp_path):
    """In a replay, unreported usage counts as the maximum, as recorded."""
    silent = Usage(requests=1, unreported=1)
    result = again(lambda: team(Limits(total_tokens=80_000), silent), tmp_path / "c", "run")
    assert (result.status, result.limit) == ("limit", "total_tokens")
    assert len(result.tool_calls) > 1


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_replay_counts_the_usage_of_a_map_in_a_tool(tmp_path, mode):
    """In a replay, runs mapped within a tool count toward the limits as recorded."""

    def answer(request):
        has_looked = any("is empty" in str(message) for message in request.messages)
        return say("Empty.", usage=Usage(100, 5)) if has_looked else call("look", place="the shed")

    def maker():
        worker = Agent("worker", [look], llm=ScriptedLLM(answer, repeat=True))

        def survey(count: int) -> str:
            """Look at many places."""
            return ", ".join(result.output or "?" for result in worker.map(["Look."] * count, concurrency=2))

        requested_calls = [call("survey", count=3) for _ in range(10)]
        limits = Limits(total_tokens=2_000, tool_calls=None)
        return Agent("chief", [survey], llm=ScriptedLLM(*requested_calls), limits=limits)

    assert again(maker, tmp_path / "c", mode).status == "limit"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("line", [slow("Too late.", before_seconds=20), slow("One two three.", between_seconds=20)])
def test_replay_of_a_request_cut_off_by_the_time_limit(tmp_path, mode, line):
    """A replay ends with a recorded request that was cut off by the time limit."""
    with FakeServer("Warm.", call("look", place="the shed"), line) as server:
        LLM("openai", model="m", api_key="a-key", base_url=server.base_url).chat("What is imported late is there now.")

        def maker():
            llm = LLM("openai", model="m", api_key="a-key", base_url=server.base_url)
            return Agent("a", [look], llm=llm, limits=Limits(seconds=1.0, total_tokens=100_000))

        result = again(maker, tmp_path / "c", mode)
    assert (result.status, result.limit) == ("limit", "seconds")
    assert result.usage.unreported == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("other", MODES)
def test_run_that_timed_out_is_replayed_in_any_way(tmp_path, mode, other):
    """A run that timed out can be replayed by every other way to run."""

    def think(_request):
        time.sleep(0.4)
        return "Too late."

    def maker():
        return Agent("a", llm=ScriptedLLM(think), limits=Limits(seconds=0.1))

    with record(tmp_path / "c"):
        recorded = result_of(maker(), mode)
    time.sleep(0.5 if mode in ("run", "stream") else 0)  # by now the abandoned thread has its answer
    with replay(tmp_path / "c"):
        replayed = result_of(maker(), other)
    assert compared(replayed) == compared(recorded)


@pytest.mark.parametrize("mode", MODES)
def test_replay_restores_the_time_limit(tmp_path, mode):
    """A replay ends where the recorded time limit was reached, even if it is faster."""
    waits = [0.3, 0.0]

    def maker():
        agent = Agent(
            "a", [look], llm=ScriptedLLM(call("look", place="the shed"), "Never."), limits=Limits(seconds=0.2)
        )
        wait = waits.pop(0)
        agent.listeners.append(lambda event: time.sleep(wait) if type(event).__name__ == "ResponseReceived" else None)
        return agent

    result = again(maker, tmp_path / "c", mode)
    assert (result.status, result.limit) == ("limit", "seconds")
    assert [used.result.status for used in result.tool_calls] == ["denied"]


def test_slow_replay_does_not_reach_the_time_limit(tmp_path):
    """A slow replay does not reach a time limit that the recorded run did not reach."""
    waits = [0.0, 0.3]

    def maker():
        agent = Agent(
            "a", [look], llm=ScriptedLLM(call("look", place="the shed"), "Done."), limits=Limits(seconds=0.25)
        )
        wait = waits.pop(0)
        agent.listeners.append(lambda _: time.sleep(wait))
        return agent

    assert again(maker, tmp_path / "c", "run").output == "Done."


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_replay_restores_a_timeout_inside_a_handoff(tmp_path, mode):
    """A replay restores a timeout of a run inside a tool that returns an agent."""

    def maker():
        expert = Agent("expert", llm=ScriptedLLM("Three."))
        scout = Agent("scout", llm=ScriptedLLM(lambda _: time.sleep(0.2) or "Gone."), limits=Limits(seconds=0.05))

        def find_expert() -> Agent:
            """Find somebody who knows."""
            assert scout.run("Who knows?").limit == "seconds"
            return expert

        llm = ScriptedLLM(call("find_expert"))
        return Agent("desk", [Tool(find_expert, level=SafetyLevel.SAFE)], llm=llm)

    assert again(maker, tmp_path / "c", mode).output == "Three."


@pytest.mark.parametrize("mode", ["map", "amap"])
def test_concurrent_timeouts_are_replayed(tmp_path, mode):
    """Concurrent runs that reached their time limit reach it again in a replay, in any order."""

    def think(request):
        time.sleep(1.0 if "slow" in str(request.messages) else 0.0)
        return "Done."

    def results():
        agent = Agent("a", llm=ScriptedLLM(think, repeat=True), limits=Limits(seconds=0.5))
        prompts = [f"{number} {'slow' if number % 2 else 'quick'}" for number in range(6)]
        limits = Limits(seconds=60)
        if mode == "map":
            return agent.map(prompts, 6, limits=limits)
        return asyncio.run(agent.amap(prompts, 1, limits=limits))

    with record(tmp_path / "c"):
        recorded = results()
    with replay(tmp_path / "c"):
        replayed = results()
    assert [compared(result) for result in replayed] == [compared(result) for result in recorded]
    assert [result.status for result in recorded][:2] == ["done", "limit" if mode == "map" else "done"]


@pytest.mark.parametrize("mode", ["map", "amap"])
def test_map_with_limits_replays_in_another_order(tmp_path, mode):
    """The runs of a map with limits can be replayed in a different order."""

    def results(llm, prompts):
        agent = Agent("clerk", [Tool(look)], llm=llm, limits=Limits(total_tokens=5_000))
        if mode == "map":
            return agent.map(prompts, 1)
        return asyncio.run(agent.amap(prompts, 1))

    def line(request):
        if len(request.messages) == 1:
            return say("", call("look", place=request.messages[0].content), usage=Usage(200, 5, requests=1))
        return say(request.messages[-1].content, usage=Usage(300, 5, requests=1))

    path = tmp_path / "map.cassette"
    llm = ScriptedLLM(line, repeat=True)
    with record(path):
        recorded = results(llm, ["attic", "cellar", "garden"])
    with replay(path):
        replayed = results(ScriptedLLM(), ["garden", "cellar", "attic"])
    assert len({request.settings["max_tokens"] for request in llm.requests if len(request.messages) == 1}) > 1
    assert [result.output for result in recorded] == ["attic is empty", "cellar is empty", "garden is empty"]
    assert [compared(result) for result in replayed] == [compared(result) for result in reversed(recorded)]
