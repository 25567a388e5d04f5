"""What the tests of agents share: an environment without providers, and what makes a history valid."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_provider(monkeypatch):
    """Every test begins in an environment that names no provider."""
    for name in os.environ:
        if name.startswith(("AGENTKIT_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_")) and name != "AGENTKIT_STATE":
            monkeypatch.delenv(name)


def find_faults(history):
    """What is wrong with a history: calls without exactly one result right after them, ids used twice."""
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
    """The function that finds what is wrong with a history."""
    return find_faults
