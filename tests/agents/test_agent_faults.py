"""Tests for faulty tool calls, which are reported to the model while the run continues."""

import asyncio
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit import LLM, Agent, Tool
from agentkit.agents.result import RunFinished
from agentkit.events import ToolCallFinished, ToolCallStarted
from agentkit.messages import AssistantMessage, ToolCall, ToolMessage
from agentkit.testing import FakeServer, ScriptedLLM, call, raw
from agentkit.usage import Limits


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def explode() -> None:
    """Fail."""
    raise ValueError("boom")


async def aexplode() -> None:
    """Fail, awaiting."""
    raise ValueError("boom")


def sleep() -> None:
    """Take too long."""
    time.sleep(5)


async def asleep() -> None:
    """Take too long, awaiting."""
    await asyncio.sleep(5)


FAULTS = [
    ("nope", "{}", "No tool is named 'nope'"),
    ("ad", "{}", "'add'"),
    ("add", "{", "not valid JSON"),
    ("add", "", "a"),
    ("add", '{"a": "x", "b": 2}', "a"),
    ("add", '{"a": 1}', "b"),
    ("explode", "{}", "ValueError: boom"),
    ("aexplode", "{}", "ValueError: boom"),
    ("sleep", "{}", "0.1 seconds"),
    ("asleep", "{}", "0.1 seconds"),
    ("erase", '{"a": 1, "b": 2}', "needs approval"),
]


@pytest.mark.for_each("mode", ["run", "arun"])
@pytest.mark.for_each(("name", "arguments", "expected"), FAULTS)
def test_faults_are_reported_to_the_model(name, arguments, expected, mode, find_faults):
    """A faulty tool call is reported to the model with a decision, and the run continues."""
    slow = [Tool(function, timeout_seconds=0.1) for function in (sleep, asleep)]
    tools = [add, explode, aexplode, *slow, Tool(add, "erase", level="SYSTEM")]
    llm = ScriptedLLM(call(name, arguments), "I see.")
    agent, finished = Agent("helper", tools, llm=llm), []
    agent.on(ToolCallFinished, finished.append)
    result = agent.run("go") if mode == "run" else asyncio.run(agent.arun("go"))
    assert (result.status, result.output) == ("done", "I see.")
    (used,) = result.tool_calls
    assert finished == [used]
    assert (used.result.ok, expected in used.result.content) == (False, True)
    assert used.result.decision is not None
    assert llm.requests[1].messages[-1].content == used.result.content
    assert find_faults(agent.history) == []


@pytest.mark.parametrize("ids", [["x", "x"], ["x", "x_2", "x", "x_3"], ["call_1", "call_1", "call_1_2"]])
def test_duplicate_ids_are_made_unique(ids, find_faults):
    """Duplicate tool call ids are made unique within a response and across runs."""
    calls = tuple(ToolCall(each, "add", json.dumps({"a": n, "b": 0})) for n, each in enumerate(ids))
    line = AssistantMessage(tool_calls=calls)
    agent = Agent("helper", [add], llm=ScriptedLLM(line, line, "Done.", line, "Done."))
    agent("go")
    agent("go")
    assert find_faults(agent.history) == []
    results = [message for message in agent.messages if isinstance(message, ToolMessage)]
    assert [int(message.content) for message in results] == [*range(len(ids))] * 3


@pytest.mark.parametrize("identity", [{}, {"id": None}, {"id": ""}, {"id": "call_0"}])
def test_missing_or_duplicate_ids_of_a_server(identity, find_faults):
    """Missing or duplicate tool call ids of a server are replaced by unique ones in the history."""
    request = {**identity, "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "tool_calls": [request, request]},
        "finish_reason": "tool_calls",
    }
    answer = raw(json.dumps({"choices": [choice]}), content_type="application/json")
    with FakeServer(answer, answer, "Three.") as server:
        agent = Agent(
            "helper",
            [add],
            limits=Limits(repeated_calls=None),
            llm=LLM(base_url=server.base_url, model="any", protocol="chat"),
        )
        assert agent("1 + 2?") == "Three."
        sent = server.requests[-1].json["messages"][1:]
        agent.llm.close()
    assert find_faults(sent) == find_faults(agent.history) == []
    assert [message["content"] for message in sent if message["role"] == "tool"] == ["3"] * 4


TOOLS = [
    add,
    explode,
    aexplode,
    Tool(add, "erase", level="SYSTEM"),
]
REQUESTED_CALLS = st.builds(
    ToolCall,
    st.sampled_from(["", "x", "y", "call_1"]),
    st.sampled_from(["add", "explode", "aexplode", "erase", "nope", "", "ad\ud800"]),
    st.one_of(st.sampled_from(['{"a": 1, "b": 2}', "{}", "{", "null", ""]), st.text(max_size=20)),
)


@settings(max_examples=60)
@given(
    batches=st.lists(st.lists(REQUESTED_CALLS, min_size=1, max_size=4), max_size=4),
    way=st.sampled_from(["run", "arun"]),
)
def test_arbitrary_tool_calls_get_a_result(find_faults, batches, way):
    """Each call has one result and one decision, whatever the model writes."""
    agent, events = Agent("helper", TOOLS, llm=ScriptedLLM(*batches, "Done.")), []
    agent.listeners.append(events.append)
    result = agent.run("go") if way == "run" else asyncio.run(agent.arun("go"))
    assert (result.status, result.output) == ("done", "Done.")
    assert find_faults(agent.history) == []
    requested_calls = [request.name for batch in batches for request in batch]
    assert [used.call.name for used in result.tool_calls] == requested_calls
    assert len(result.decisions) == len(requested_calls)
    started = [event.call.id for event in events if isinstance(event, ToolCallStarted)]
    finished = [event.call.id for event in events if isinstance(event, ToolCallFinished)]
    assert started == [used.call.id for used in result.tool_calls]
    assert sorted(finished) == sorted(started)
    assert isinstance(events[-1], RunFinished)
