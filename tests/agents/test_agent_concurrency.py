"""Tests for concurrent runs of agents, and the cost of a long conversation."""

import asyncio
import json
import threading
import time

from agentkit import Agent
from agentkit.agents.result import RunFinished
from agentkit.messages import ToolCall, UserMessage
from agentkit.testing import ScriptedLLM, call


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def aadd(a: int, b: int) -> int:
    """Add two numbers, after yielding to other tasks."""
    await asyncio.sleep(0)
    return a + b


def test_concurrent_runs_do_not_mix(find_faults):
    """After 200 concurrent runs of one agent, the history is valid and consists of whole runs."""

    def answer(request):
        last = request.messages[-1]
        if isinstance(last, UserMessage):
            return [ToolCall("same", "aadd", json.dumps({"a": int(last.content), "b": 0}))] * 2
        return f"It is {last.content}."

    agent = Agent("helper", [aadd], llm=ScriptedLLM(answer, repeat=True))

    async def main():
        return await asyncio.gather(*(agent.arun(str(number)) for number in range(200)))

    results = asyncio.run(main())
    assert [result.output for result in results] == [f"It is {number}." for number in range(200)]
    assert find_faults(agent.history) == []
    messages = agent.messages
    runs = [messages[start : start + 5] for start in range(0, len(messages), 5)]
    assert sorted(int(run[0].content) for run in runs) == list(range(200))
    assert all(run[4].text == f"It is {run[0].content}." for run in runs)
    assert agent.usage.requests == 400


def test_runs_in_many_threads_do_not_mix(find_faults):
    """Runs of one agent in many threads leave whole runs, a valid history and an exact usage."""
    agent = Agent("helper", [add], llm=ScriptedLLM(answer_with_same_id, repeat=True))
    threads = [threading.Thread(target=agent.run, args=(str(number),)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert find_faults(agent.history) == []
    assert len(agent.messages) == 32 * 4
    assert agent.usage.requests == 64


def answer_with_same_id(request):
    """Add zero to the prompt, in a call that always has the same id."""
    last = request.messages[-1]
    if isinstance(last, UserMessage):
        return ToolCall("same", "add", json.dumps({"a": int(last.content), "b": 0}))
    return f"It is {last.content}."


def test_agents_in_two_threads_are_independent():
    """Concurrent agents keep their own history, usage, listeners and tools."""
    both = threading.Barrier(2, timeout=10)
    received = {"one": [], "two": []}

    def meet() -> str:
        both.wait()
        return "met"

    def live(name):
        agent = agents[name]
        agent.on(RunFinished, received[name].append)
        agent(f"I am {name}.")

    agents = {name: Agent(name, [meet], llm=ScriptedLLM(call("meet"), f"Bye, {name}.")) for name in received}
    threads = [threading.Thread(target=live, args=(name,)) for name in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for name, agent in agents.items():
        assert agent.history[0]["content"] == f"I am {name}."
        assert agent.history[-1]["content"] == f"Bye, {name}."
        assert (len(agent.history), agent.usage.requests, len(received[name])) == (4, 2, 1)


def test_long_conversation_costs_in_proportion():
    """A run after 2,000 messages costs at most a little more than one after 1,000: the cost is linear."""
    agent = Agent("helper", [add], llm=ScriptedLLM(answer_with_same_id, repeat=True))

    def grow_to(count):
        while len(agent.messages) < count:
            agent.run("1")

    def cost():
        started = time.process_time()
        for _ in range(25):
            agent.run("1")
        return time.process_time() - started

    grow_to(1000)
    first = cost()
    grow_to(2000)
    assert cost() < 4 * first + 0.2
