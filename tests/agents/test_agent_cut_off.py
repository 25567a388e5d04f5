"""Tests for resuming a run that was cut off within its process."""

import asyncio
import copy
import json
import subprocess
import sys
import threading

import pytest

from agentkit import Agent, Tool
from agentkit.errors import SessionError
from agentkit.events import ToolCallFinished, ToolCallStarted
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call

MODES = ["run", "arun", "stream", "astream"]


@pytest.fixture(params=["no store", "stored"])
def session(request, tmp_path):
    """A session in memory or in a file."""
    return Session() if request.param == "no store" else Session.open(tmp_path / "trips.db", "trip")


def noting():
    """Return a tool that records notes, and the list of its notes."""
    notes = []

    def note(text: str) -> str:
        """Note something down."""
        notes.append(text)
        return f"noted {text}"

    return note, notes


def cut_off_at(kind, agent, mode):
    """Stream until an event of the given type, then close the stream."""

    async def leave():
        stream = agent.astream("go")
        async for event in stream:
            if isinstance(event, kind):
                await stream.aclose()
                return

    if mode == "astream":
        asyncio.run(leave())
        return
    stream = agent.stream("go")
    next(event for event in stream if isinstance(event, kind))
    stream.close()


@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_closed_stream_can_be_resumed(mode, session, find_faults):
    """A run whose stream was closed can be resumed, and finished calls are not repeated."""
    note, notes = noting()
    lines = [call("note", text="a"), call("note", text="b"), "Both."]
    agent = Agent("helper", [note], llm=ScriptedLLM(*lines), session=session)
    cut_off_at(ToolCallFinished, agent, mode)
    assert len(session.unfinished) == 1
    assert [message["role"] for message in agent.history] == ["user", "assistant", "tool"]
    result = agent.resume()
    assert (result.status, result.output, notes) == ("done", "Both.", ["a", "b"])
    assert (session.unfinished, find_faults(agent.history)) == ((), [])
    assert [message["content"] for message in agent.history if message["role"] == "tool"] == ["noted a", "noted b"]


@pytest.mark.parametrize("mode", ["stream", "astream"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_call_that_had_begun_when_the_stream_was_closed(idempotent, mode, session):
    """A call that had started is reported as interrupted, or repeated if the tool is idempotent."""
    note, notes = noting()
    lines = [[call("note", text="a"), call("note", text="b")], "Done."]
    agent = Agent("helper", [Tool(note, idempotent=idempotent)], llm=ScriptedLLM(*lines), session=session)
    cut_off_at(ToolCallStarted, agent, mode)
    assert notes == []
    result = agent.resume()
    statuses = [used.result.status for used in result.tool_calls]
    assert (statuses, sorted(notes)) == ((["ok", "ok"], ["a", "b"]) if idempotent else (["interrupted", "ok"], ["b"]))


def test_new_prompt_ends_the_run_that_was_cut_off(session, find_faults):
    """A new prompt ends the run that was cut off, and its calls are reported as interrupted."""
    note, notes = noting()
    lines = [[call("note", text="a"), call("note", text="b")], "Hello."]
    agent = Agent("helper", [note], llm=ScriptedLLM(*lines), session=session)
    cut_off_at(ToolCallStarted, agent, "stream")
    before = agent.history
    assert agent("Hi") == "Hello."
    assert agent.history[: len(before)] == before
    assert (find_faults(agent.history), notes) == ([], [])
    contents = [message["content"] for message in before if message["role"] == "tool"]
    assert ["whether it took effect is unknown" in contents[0], "it has not taken effect" in contents[1]] == [
        True,
        True,
    ]
    with pytest.raises(SessionError, match="no run to resume"):
        agent.resume()


def test_copy_of_a_session_whose_run_was_cut_off(session):
    """A copy of the session can resume the run, even if a result cannot be copied."""

    def lend() -> object:
        """Lend something that cannot be copied."""
        return threading.Lock()

    agent = Agent("helper", [lend], llm=ScriptedLLM(call("lend"), "Done."), session=session)
    cut_off_at(ToolCallFinished, agent, "stream")
    other = Agent("helper", [lend], llm=ScriptedLLM("Done."), session=copy.deepcopy(session))
    result = other.resume()
    assert (result.output, result.tool_calls[0].result.value) == ("Done.", None)


def test_listener_that_raises_cuts_a_run_off(session):
    """A listener that raises an error ends the run, which can be resumed without the listener."""
    note, notes = noting()
    agent = Agent("helper", [note], llm=ScriptedLLM(call("note", text="a"), "Done."), session=session)

    def fail(event):
        raise ValueError("too loud")

    agent.on(ToolCallFinished, fail)
    result = agent.run("go")
    assert result.status == "failed"
    assert "too loud" in str(result.error)
    agent.listeners.clear()
    assert (agent.resume().output, notes) == ("Done.", ["a"])


INTERRUPTED = """
import asyncio, json, os, signal, sys, time
from contextlib import aclosing
from pathlib import Path
from agentkit import Agent
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call
way, place, effects = sys.argv[1:4]
def note(text: str) -> str:
    with open(effects, "a") as file:
        file.write(text)
    if text == "b":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
    return f"noted {text}"
lines = [call("note", text="a"), call("note", text="b"), "Never said."]
agent = Agent("helper", [note], llm=ScriptedLLM(*lines), session=Session.open(place, "trip"))
async def stream():
    async with aclosing(agent.astream("go")) as events:
        async for event in events:
            pass
try:
    match way:
        case "run":
            agent.run("go")
        case "arun":
            asyncio.run(agent.arun("go"))
        case "stream":
            list(agent.stream("go"))
        case _:
            asyncio.run(stream())
except KeyboardInterrupt:
    print(json.dumps(agent.session.unfinished))
"""


@pytest.mark.parametrize("mode", MODES)
def test_ctrl_c_in_one_process_and_resuming_in_another(mode, tmp_path, find_faults):
    """After Ctrl-C, another process resumes the run without repeating finished calls."""
    place, effects = tmp_path / "trips.db", tmp_path / "effects"
    command = [sys.executable, "-c", INTERRUPTED, mode, place, effects]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    session = Session.open(place, "trip")
    assert list(session.unfinished) == json.loads(done.stdout)
    note, notes = noting()
    agent = Agent("helper", [note], llm=ScriptedLLM("Done."), session=session)
    result = agent.resume()
    assert (result.output, notes, effects.read_text()) == ("Done.", [], "ab")
    assert [used.result.status for used in result.tool_calls] == ["ok", "interrupted"]
    assert find_faults(agent.history) == []
