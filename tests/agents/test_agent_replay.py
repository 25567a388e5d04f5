"""Tests for replays of recorded runs: decisions, approvals, limits and handoffs."""

import asyncio
import json
import time

import pytest

from agentkit import Agent, Approval, Limits, SafetyLevel, Tool
from agentkit.errors import ReplayError
from agentkit.testing import ScriptedLLM, call, record, replay, say


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


def agent(**options):
    """Return an agent that requests a call above its safety level, and then answers."""
    tool = Tool(look, level=SafetyLevel.SYSTEM)
    return Agent("careful", [tool], llm=ScriptedLLM(call("look", place="safe"), "Done."), **options)


@pytest.mark.parametrize("approve", [None, lambda _: True, lambda _: False, lambda _: "not now"])
def test_replay_restores_decisions(approve, tmp_path):
    """A replay restores denied and approved calls with their decisions and messages."""
    with record(tmp_path / "c"):
        recorded = agent(approve=approve).run("go")
    with replay(tmp_path / "c"):
        replayed = agent(approve=approve).run("go")
    assert replayed.decisions == recorded.decisions
    assert replayed.messages == recorded.messages


def test_call_approved_after_the_time_limit_is_not_started():
    """A call that is approved after the time limit is not started."""
    ran = []

    def pay(euros: int) -> str:
        """Pay."""
        ran.append(euros)
        return "paid"

    def approve(_request):
        time.sleep(0.3)
        return True

    tool = Tool(pay, level=SafetyLevel.SYSTEM)
    llm = ScriptedLLM(call("pay", euros=5), repeat=True)
    result = Agent("clerk", [tool], approve=approve, llm=llm, limits=Limits(seconds=0.2)).run("go")
    assert (result.status, result.limit, ran) == ("limit", "seconds", [])
    assert "reached its time limit" in result.tool_calls[0].result.error.lower()


def test_refused_final_answer_is_not_the_output():
    """A final answer that a guardrail refuses is not the output, and the error has the reason."""

    def secretive(output):
        if "SECRET" in output:
            raise ValueError("It tells the secret.")

    llm = ScriptedLLM(call("look", place="safe"), say("SECRET"))
    result = Agent("a", [look], guardrails=[secretive], max_iterations=1, llm=llm).run("go")
    assert (result.status, result.output) == ("limit", "")
    assert "It tells the secret." in str(result.error)


def as_live(path):
    """Mark every answer in the cassette as live."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "live": True} if "ask" in line else line) + "\n" for line in lines))


def replayed(maker, path, mode):
    """Return the replayed run of the agent that `maker` returns."""
    with replay(path):
        return maker().run("go") if mode == "blocking" else asyncio.run(maker().arun("go"))


@pytest.mark.parametrize("mode", ["blocking", "awaiting"])
@pytest.mark.parametrize("returned", [str, Agent, "NoSuchName"])
def test_edited_recording_cannot_run_a_call(tmp_path, mode, returned):
    """A replay never runs an approved call, even if the recording was edited."""
    ran = []

    def pay(euros: int):
        """Pay."""
        ran.append(euros)
        return "paid"

    pay.__annotations__["return"] = returned

    def clerk(**options):
        tool = Tool(pay, level=SafetyLevel.SYSTEM)
        return Agent("clerk", [tool], llm=ScriptedLLM(call("pay", euros=5), "Done."), **options)

    with record(tmp_path / "c"):
        clerk(approve=lambda _: True).run("go")
    as_live(tmp_path / "c")
    with pytest.raises(ReplayError, match="only handoffs run again"):
        replayed(clerk, tmp_path / "c", mode)
    assert ran == [5]


@pytest.mark.parametrize("mode", ["blocking", "awaiting"])
@pytest.mark.parametrize("how", ["handoffs", "tool"])
def test_handoffs_are_replayed(tmp_path, mode, how):
    """A replay runs handoffs and tools that return an agent again."""
    expert = Agent("expert", llm=ScriptedLLM("Three."))

    def find_expert() -> Agent:
        """Return the expert."""
        return expert

    def desk():
        if how == "tool":
            return Agent("desk", [find_expert], llm=ScriptedLLM(call("find_expert"), repeat=True))
        return Agent("desk", handoffs=[expert], llm=ScriptedLLM(call("hand_off_to_expert"), repeat=True))

    with record(tmp_path / "c"):
        desk().run("go")
    result = replayed(desk, tmp_path / "c", mode)
    assert (result.output, result.agent) == ("Three.", "expert")


def test_recorded_permanent_approval_ends_with_the_replay(tmp_path):
    """A permanent approval in a recording applies only to the replayed run."""
    with record(tmp_path / "c"):
        agent(approve=lambda _: Approval.ALWAYS).run("go")
    careful = agent()
    careful.llm = ScriptedLLM(call("look", place="safe"), "Done.")
    with replay(tmp_path / "c"):
        assert careful.run("go").tool_calls[0].result.ok
    assert not careful.run("go").tool_calls[0].result.ok
