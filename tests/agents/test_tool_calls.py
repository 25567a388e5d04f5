"""How are the calls of one response used, when some have been used already?"""

import asyncio
import functools
import threading
import time

import pytest

from agentkit import Agent, Approval, Limits, Tool
from agentkit.agents.tool_calls import rounds
from agentkit.agents.tool_policy import JudgedCall
from agentkit.decisions import Decision, Verdict
from agentkit.errors import ConfigError
from agentkit.events import (
    Approved,
    ResponseReceived,
    RunStarted,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolResult
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionEntry
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.human import finish_tool

ALLOWED = Decision(Verdict.ALLOW, "safety-level", "It may.")
ASKED = Decision(Verdict.ASK, "safety-level", "It must be asked for.")


def killed(path, *calls, since=()):
    """A session in which a run was killed right after the model had wished for calls and `since` had happened."""
    session = Session.open(path / "a.db", "trip")
    message = AssistantMessage("", tuple(calls))
    milestones = [RunStarted("helper", "go"), ResponseReceived(Response(message, "tool_calls")), *since]
    session.store.append("trip", [SessionEntry("run", 1.0, milestone) for milestone in milestones])
    return session


def erasing(**options):
    """A tool that must be asked for, and the list of what it did."""
    ran = []

    def erase(name: str = "it") -> str:
        """Erase something."""
        ran.append(name)
        return f"{name} is gone"

    return Tool(erase, level="SYSTEM", **options), ran


def resumed(session, tool, *lines, **options):
    """The result of the run in the session, after it has gone on, and what the model was told of the calls."""
    llm = ScriptedLLM(*(lines or ["Done."]))
    result = Agent("helper", [tool], llm=llm, session=session, **options).resume()
    told = [message.content for message in llm.requests[0].messages if type(message).__name__ == "ToolMessage"]
    return result, told


ERASE = ToolCall("a", "erase", '{"name": "it"}')


def test_call_that_was_not_begun(tmp_path):
    """A call that was only wished for is judged and used as if nothing had happened."""
    tool, ran = erasing()
    _, told = resumed(killed(tmp_path, ERASE), tool, approve=lambda _: True)
    assert (ran, told) == (["it"], ["it is gone"])


def test_call_that_was_approved(tmp_path):
    """A call that a person had approved before the process died is not asked about again."""
    tool, ran = erasing()
    session = killed(tmp_path, ERASE, since=[Approved("a", Approval.ONCE)])
    _, told = resumed(session, tool, approve=lambda _: False)
    assert (ran, told) == (["it"], ["it is gone"])


def test_call_that_was_approved_with_other_arguments(tmp_path):
    """What a person had put in the place of the arguments is what runs."""
    tool, ran = erasing()
    session = killed(tmp_path, ERASE, since=[Approved("a", Approval.ONCE, arguments='{"name": "that"}')])
    result, told = resumed(session, tool)
    assert ran == ["that"]
    assert "a person changed the arguments" in told[0]
    assert result.tool_calls[0].call.arguments == '{"name": "that"}'


def test_call_that_was_refused(tmp_path):
    """A no that was given stays a no."""
    tool, ran = erasing()
    session = killed(tmp_path, ERASE, since=[Approved("a", Approval.NO, "Not that.")])
    _, told = resumed(session, tool, approve=lambda _: True)
    assert ran == []
    assert "Not that." in told[0]


def test_call_that_was_at_work(tmp_path):
    """A call that was at work is not made again: the model is told that nobody knows what came of it."""
    tool, ran = erasing()
    result, told = resumed(killed(tmp_path, ERASE, since=[ToolCallStarted(ERASE, ALLOWED)]), tool)
    assert (ran, result.tool_calls[0].result.status) == ([], "interrupted")
    assert "whether it took effect is unknown" in told[0]


def test_idempotent_call_that_was_at_work(tmp_path):
    """A call that may be repeated is made again, but not without being asked for again."""
    for approve, ran_by_now in ((lambda _: True, ["it"]), (lambda _: False, [])):
        tool, ran = erasing(idempotent=True)
        folder = tmp_path / str(len(ran_by_now))
        folder.mkdir()
        session = killed(folder, ERASE, since=[ToolCallStarted(ERASE, ALLOWED)])
        resumed(session, tool, approve=approve)
        assert ran == ran_by_now


def test_call_of_a_tool_that_is_gone(tmp_path):
    """A call that was at work is told as interrupted also when the agent has the tool no more."""
    tool, _ = erasing()
    other = Tool(lambda: "x", "other", "Nothing.")
    for number, since in enumerate(([ToolCallStarted(ERASE, ALLOWED)], [])):
        folder = tmp_path / str(number)
        folder.mkdir()
        result, told = resumed(killed(folder, ERASE, since=since), other)
        assert result.output == "Done."
        assert ("interrupted" if since else "no tool") in (told[0].lower() + result.tool_calls[0].result.status)
    assert tool.name == "erase"


def test_finished_calls_are_not_made_again(tmp_path):
    """Of several calls only those without a result are used."""
    tool, ran = erasing()
    second = ToolCall("b", "erase", '{"name": "that"}')
    finished = ToolCallFinished(ERASE, ToolResult("erase", "ok", "it is gone"))
    session = killed(tmp_path, ERASE, second, since=[ToolCallStarted(ERASE, ALLOWED), finished])
    _, told = resumed(session, tool, approve=lambda _: True)
    assert (ran, told) == (["that"], ["it is gone", "that is gone"])


def test_call_that_waited(tmp_path):
    """A run that was killed while a call waited for a person waits on, and is told of it once."""
    tool, ran = erasing()
    session = killed(tmp_path, ERASE, since=[ToolCallPostponed(ERASE, "May it?", ASKED)])
    result = Agent("helper", [tool], llm=ScriptedLLM("Done."), session=session).resume()
    assert (result.status, ran, result.pending[0].question) == ("paused", [], "May it?")
    assert sum(isinstance(each, ToolCallPostponed) for each in result.milestones) == 1
    assert result.resume(True).output == "Done."


def test_what_finished_calls_lead_to(tmp_path):
    """What follows from a call that had finished still follows: the answer of `finish` ends the run."""
    call = ToolCall("a", "finish", '{"answer": "It is 4."}')
    finished = ToolCallFinished(call, ToolResult("finish", "ok", "It is 4."))
    session = killed(tmp_path, call, since=[ToolCallStarted(call, ALLOWED), finished])
    agent = Agent("helper", [finish_tool], llm=ScriptedLLM(), session=session)
    assert agent.resume().output == "It is 4."
    assert agent.history[-1] == {"role": "assistant", "content": "It is 4."}


def test_nothing_follows_from_a_tool_that_is_gone(tmp_path):
    """A finished call of a tool that the agent has no more has its result, and the model goes on."""
    tool, _ = erasing()
    other = ToolCall("a", "other", "{}")
    finished = ToolCallFinished(other, ToolResult("other", "ok", "fine"))
    session = killed(tmp_path, other, since=[ToolCallStarted(other, ALLOWED), finished])
    assert resumed(session, tool)[1] == ["fine"]


def test_handoff_to_nobody(tmp_path):
    """A run that was handed to an agent that is not at hand cannot go on here, and says so."""
    call = ToolCall("a", "find", "{}")
    passed = ToolCallFinished(call, ToolResult("find", "ok", "The conversation is passed.", lead="expert"))
    session = killed(tmp_path, call, since=[ToolCallStarted(call, ALLOWED), passed])
    agent = Agent("helper", llm=ScriptedLLM(), session=session)
    with pytest.raises(ConfigError, match=r"'expert', which is not among the handoffs of 'helper'. .* agents=\[...\]"):
        agent.resume()
    assert agent.resume(agents=[Agent("expert", llm=ScriptedLLM("I know."))]).output == "I know."


class Folder:
    """A place that calls change, each of them slower than the next one."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.left = 3

    def enter(self, name: str) -> str:
        """Go into a folder."""
        before = list(self.path)
        self.left -= 1
        time.sleep(0.02 * self.left)
        self.path = [*before, name]
        return "/".join(self.path)

    def where(self) -> str:
        """Tell the folder."""
        return "/".join(self.path)

    async def awhere(self) -> str:
        """Tell the folder."""
        return self.where()


@pytest.mark.parametrize("way", ["run", "arun"])
def test_calls_on_one_object_run_in_the_order_asked(way):
    """Methods of one object run one after the other, and those of another object meanwhile."""
    one, other = Folder(), Folder()
    tools = [Tool(one.enter), Tool(one.where), Tool(other.enter, "enter_other")]
    wishes = [call("enter", name="a"), call("enter_other", name="x"), call("enter", name="b"), call("where")]
    agent = Agent("helper", tools, llm=ScriptedLLM(wishes, "Done."))
    result = agent.run("go") if way == "run" else asyncio.run(agent.arun("go"))
    assert [used.result.value for used in result.tool_calls] == ["a", "x", "a/b", "a/b"]


def test_rounds_of_calls():
    """Only plain methods wait for those of the same object; functions and what is awaited run in the first round."""
    one, other = Folder(), Folder()
    tools = [one.enter, one.where, other.enter, one.awhere, len, None, one.where]
    made = [tool and Tool(tool, f"tool_{place}") for place, tool in enumerate(tools)]
    calls = [JudgedCall(ToolCall(str(place), "a", "{}"), ALLOWED, tool) for place, tool in enumerate(made)]
    assert ["".join(judged.call.id for judged in together) for together in rounds(calls)] == ["02345", "1", "6"]
    assert rounds([]) == []


@pytest.mark.parametrize("way", ["method", "partial", "wrapped"])
def test_calls_on_what_functions_were_given_run_in_the_order_asked(way):
    """Functions that are called on one object run one after the other, however long the first one takes."""
    accounts = {"An": 10}

    def pay_from(kept, amount: int) -> int:
        before = kept["An"]
        time.sleep(0.05 if amount == 1 else 0)
        kept["An"] = before - amount
        return kept["An"]

    class Payer:
        def pay(self, amount: int) -> int:
            return pay_from(accounts, amount)

    payer = Payer()
    given = functools.partial(pay_from, accounts)

    method = payer.pay

    @functools.wraps(method)
    def wrapped(**arguments):
        return method(**arguments)

    made = {"method": method, "partial": given, "wrapped": wrapped}
    agent = Agent("payer", [Tool(made[way], "pay")], llm=ScriptedLLM([*paying(1, 2, 3)], "Done."))
    assert [used.result.value for used in agent.run("go").tool_calls] == [9, 7, 4]


def paying(*amounts):
    """Payments of these amounts in one response."""
    return [call("pay", amount=amount) for amount in amounts]


def test_functions_that_note_their_calls_run_at_the_same_time():
    """What a closure holds is no order: each of three calls waits until all of them have begun."""
    noted, all_begun = [], threading.Barrier(3, timeout=10)
    begun = {"all": all_begun.wait}

    def note(name: str) -> str:
        noted.append(name)
        begun["all"]()
        return name

    llm = ScriptedLLM([call("note", name=name) for name in "abc"], "Done.")
    assert [used.result.value for used in Agent("clerk", [note], llm=llm).run("go").tool_calls] == ["a", "b", "c"]
    assert sorted(noted) == ["a", "b", "c"]


@pytest.mark.parametrize("word", ["waiting", "interrupted", "denied", "failed", "offline"])
def test_the_status_of_what_a_tool_tells_of_is_not_that_of_its_call(word):
    """An order that waits does not pause the run, and one that failed is no call that failed."""
    agent = Agent(
        "clerk", [Tool(lambda: {"order": 7, "status": word}, "order")], llm=ScriptedLLM(call("order"), "It is.")
    )
    result = agent.run("How is it?")
    assert (result.status, result.output) == ("done", "It is.")
    assert [used.result.status for used in result.tool_calls] == ["ok"]


def test_calls_in_turn_keep_to_the_time_of_the_run():
    """When the run's time is up after one call on an object, the next one on it does not begin."""
    begun = threading.Semaphore(0)
    calls = [call("acquire"), call("release")]
    tools = [Tool(begun.acquire, timeout_seconds=None), Tool(begun.release, timeout_seconds=None)]
    llm = ScriptedLLM(calls, "Late.")
    result = Agent("helper", tools, llm=llm, limits=Limits(seconds=0.3)).run("go")
    assert [used.result.status for used in result.tool_calls] == ["timed_out", "denied"]
    assert not begun.acquire(blocking=False)
    begun.release()


def many_calls(count, tool="add"):
    """A response that wishes for so many calls."""
    return AssistantMessage("", tuple(ToolCall(f"c{place}", tool, f'{{"a": {place}}}') for place in range(count)))


def counting(seconds=0.0):
    """A tool whose judge takes so long, and the lists of what was judged and what was run."""
    judged, ran = [], []

    def add(a: int) -> int:
        """Add one."""
        ran.append(a)
        return a + 1

    def judge(arguments):
        judged.append(arguments["a"])
        time.sleep(seconds)
        return ALLOWED

    return Tool(add, judge=judge), judged, ran


WAYS = {
    "run": lambda agent: agent.run("go"),
    "arun": lambda agent: asyncio.run(agent.arun("go")),
    "stream": lambda agent: list(agent.stream("go"))[-1].result,
}


@pytest.mark.parametrize("way", WAYS)
def test_calls_beyond_the_cap_of_a_response_are_not_judged(way):
    """Only the first ones are judged and run; each of the others gets a result that says so, and the run goes on."""
    tool, judged, ran = counting()
    llm = ScriptedLLM(many_calls(20), "Done.")
    result = WAYS[way](Agent("helper", [tool], llm=llm, limits=Limits(calls_per_response=3)))
    assert (result.status, sorted(judged), sorted(ran)) == ("done", [0, 1, 2], [0, 1, 2])
    assert [used.call.id for used in result.tool_calls] == [f"c{place}" for place in range(20)]
    assert all("Only the first 3 tool calls" in used.result.error for used in result.tool_calls[3:])
    assert len([message for message in llm.requests[1].messages if type(message).__name__ == "ToolMessage"]) == 20


@pytest.mark.parametrize("way", WAYS)
def test_no_call_is_judged_after_the_time_is_up(way):
    """The clock is looked at before each call is judged; every call still gets one result."""
    tool, judged, ran = counting(seconds=0.02)
    llm = ScriptedLLM(many_calls(1_000), "Done.")
    result = WAYS[way](Agent("helper", [tool], llm=llm, limits=Limits(seconds=0.2, calls_per_response=None)))
    assert (result.status, result.limit, ran) == ("limit", "seconds", [])
    assert 1 <= len(judged) <= 11
    assert len(result.tool_calls) == 1_000
    assert all("reached its time limit" in used.result.error for used in result.tool_calls)


def test_a_response_holds_no_more_than_a_default_number_of_calls():
    """The default is one that no model reaches in earnest."""
    tool, judged, _ = counting()
    agent = Agent("helper", [tool], llm=ScriptedLLM(many_calls(1_000), "Done."))
    assert len(agent.run("go").tool_calls) == 1_000
    assert len(judged) == Limits().calls_per_response == 128
