"""Fixtures for agent tests: an environment without providers, and a function that lists faults in a history."""

import os
import textwrap

import pytest

from agentkit.testing import call


@pytest.fixture(autouse=True)
def no_provider(monkeypatch):
    """Every test begins in an environment that names no provider."""
    for name in os.environ:
        if name.startswith(("AGENTKIT_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_")) and name != "AGENTKIT_STATE":
            monkeypatch.delenv(name)


def find_faults(history):
    """List the faults of a history: calls without exactly one result directly after them, and duplicate ids."""
    faults, waiting, seen = [], [], set()
    for message in history:
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                faults.append(f"no call for {message['tool_call_id']}")
            continue
        faults += [f"no result for {call_id}" for call_id in waiting]
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        faults += [f"{call_id} used twice" for call_id in waiting if call_id in seen]
        seen.update(waiting)
    return faults + [f"no result for {call_id}" for call_id in waiting]


@pytest.fixture(name="find_faults", scope="session")
def find_faults_fixture():
    """The function that lists the faults of a history."""
    return find_faults


MODULE = '''
import os
import signal
from pathlib import Path

from agentkit import tool


@tool
def note(text: str) -> str:
    """Write a text down."""
    with (Path(__file__).parent / "notes.txt").open("a") as file:
        file.write(text + "\\\\n")
    return "noted"


@tool
def die_once() -> str:
    """Kill the process, but only the first time."""
    try:
        (Path(__file__).parent / "died").touch(exist_ok=False)
    except FileExistsError:
        return "alive"
    os.kill(os.getpid(), signal.SIGKILL)


@tool(level="NETWORK")
def shout(text: str) -> str:
    """Tell the world."""
    return text.upper()


@tool(idempotent=True)
def die_always() -> str:
    """Kill the process."""
    os.kill(os.getpid(), signal.SIGKILL)
'''


@pytest.fixture
def deadly(tmp_path, monkeypatch):
    """A module of tools that kill their process and record notes; worker processes can import it."""
    name = f"deadly_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE).replace("\\\\n", "\\n"), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return __import__(name)


@pytest.fixture
def noted(tmp_path):
    """Return a function that returns the recorded notes, sorted."""

    def read():
        file = tmp_path / "notes.txt"
        return sorted(file.read_text("utf-8").split()) if file.exists() else []

    return read


def answer(request):
    """Record the prompt, call the tool that the prompt names, if any, and then answer."""
    messages = request.json["messages"]
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    used = sum(message["role"] == "tool" for message in messages)
    if used == 0:
        return call("note", text=prompt)
    if used == 1 and prompt.startswith("die"):
        return call(prompt)
    return f"It is {prompt}."


@pytest.fixture(name="answer")
def answer_fixture():
    """Return a function that answers a request independently of the order of the runs."""
    return answer
