"""Does a run that is replayed go as it went?"""

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
    """An agent that wishes for a call above its level, and then answers."""
    tool = Tool(look, level=SafetyLevel.SYSTEM)
    return Agent("careful", [tool], llm=ScriptedLLM(call("look", place="safe"), "Done."), **options)


@pytest.mark.parametrize("approve", [None, lambda _: True, lambda _: False, lambda _: "not now"])
def test_what_was_said_to_a_call_is_said_again(approve, tmp_path):
    """A call that nobody approved, that a person approved, or refused with words, is replayed as it was."""
    with record(tmp_path / "c"):
        recorded = agent(approve=approve).run("go")
    with replay(tmp_path / "c"):
        replayed = agent(approve=approve).run("go")
    assert replayed.decisions == recorded.decisions
    assert replayed.messages == recorded.messages


def test_no_call_begins_when_the_time_is_up():
    """A person who takes longer than the run may: the call that they approve then is not begun."""
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
    assert "time of the run is up" in result.tool_calls[0].result.error.lower()


def test_refused_last_answer_is_not_given():
    """At a limit, an answer that a check refuses is not the run's output, and the error says why."""

    def secretive(output):
        if "SECRET" in output:
            raise ValueError("It tells the secret.")

    llm = ScriptedLLM(call("look", place="safe"), say("SECRET"))
    result = Agent("a", [look], guardrails=[secretive], max_iterations=1, llm=llm).run("go")
    assert (result.status, result.output) == ("limit", "")
    assert "It tells the secret." in str(result.error)


def as_live(path):
    """Mark every answer of the cassette as one to be asked for again."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "live": True} if "ask" in line else line) + "\n" for line in lines))


def replayed(maker, path, way):
    """Replay the run of the agent that `maker` makes."""
    with replay(path):
        return maker().run("go") if way == "blocking" else asyncio.run(maker().arun("go"))


@pytest.mark.parametrize("way", ["blocking", "awaiting"])
@pytest.mark.parametrize("returned", [str, Agent, "NoSuchName"])
def test_no_call_runs_because_a_cassette_says_so(tmp_path, way, returned):
    """A call that a person of the recording approved never runs in a replay, whatever the cassette says of it."""
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
        replayed(clerk, tmp_path / "c", way)
    assert ran == [5]


@pytest.mark.parametrize("way", ["blocking", "awaiting"])
@pytest.mark.parametrize("how", ["handoffs", "tool"])
def test_handoffs_are_replayed(tmp_path, way, how):
    """What gives an agent runs again in a replay: a handoff, and a tool that says so by what it returns."""
    expert = Agent("expert", llm=ScriptedLLM("Three."))

    def find_expert() -> Agent:
        """Find somebody who knows."""
        return expert

    def desk():
        if how == "tool":
            return Agent("desk", [find_expert], llm=ScriptedLLM(call("find_expert"), repeat=True))
        return Agent("desk", handoffs=[expert], llm=ScriptedLLM(call("hand_off_to_expert"), repeat=True))

    with record(tmp_path / "c"):
        desk().run("go")
    result = replayed(desk, tmp_path / "c", way)
    assert (result.output, result.agent) == ("Three.", "expert")


def test_an_approval_for_ever_ends_with_its_replay(tmp_path):
    """What a person of a recording approved for ever is approved in the replayed run, and not after it."""
    with record(tmp_path / "c"):
        agent(approve=lambda _: Approval.ALWAYS).run("go")
    careful = agent()
    careful.llm = ScriptedLLM(call("look", place="safe"), "Done.")
    with replay(tmp_path / "c"):
        assert careful.run("go").tool_calls[0].result.ok
    assert not careful.run("go").tool_calls[0].result.ok
