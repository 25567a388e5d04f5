"""Tests for the tool calls of one response: resuming, order, concurrency, and limits."""

import asyncio
import functools
import threading
import time

import pytest

from agentkit import Agent, Approval, Limits, Tool
from agentkit.agents.tool_calls import concurrent_groups
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
    """Return a session whose run was killed after the model had requested calls and `since` was stored."""
    session = Session.open(path / "a.db", "trip")
    message = AssistantMessage("", tuple(calls))
    events = [RunStarted("helper", "go"), ResponseReceived(Response(message, "tool_calls")), *since]
    session.store.append("trip", [SessionEntry("run", 1.0, event) for event in events])
    return session


def erasing(**options):
    """Return a tool that requires approval, and the list of its calls."""
    ran = []

    def erase(name: str = "it") -> str:
        """Erase something."""
        ran.append(name)
        return f"{name} is gone"

    return Tool(erase, level="SYSTEM", **options), ran


def resumed(session, tool, *lines, **options):
    """Return the result of the resumed run, and the tool results sent to the model."""
    llm = ScriptedLLM(*(lines or ["Done."]))
    result = Agent("helper", [tool], llm=llm, session=session, **options).resume()
    contents = [message.content for message in llm.requests[0].messages if type(message).__name__ == "ToolMessage"]
    return result, contents


ERASE = ToolCall("a", "erase", '{"name": "it"}')


def test_call_that_had_not_started_is_run(tmp_path):
    """A call that had not been judged is judged and run on resuming."""
    tool, ran = erasing()
    _, output = resumed(killed(tmp_path, ERASE), tool, approve=lambda _: True)
    assert (ran, output) == (["it"], ["it is gone"])


def test_approved_call_is_not_approved_again(tmp_path):
    """An approval stored before the process died is not requested again."""
    tool, ran = erasing()
    session = killed(tmp_path, ERASE, since=[Approved("a", Approval.ONCE)])
    _, output = resumed(session, tool, approve=lambda _: False)
    assert (ran, output) == (["it"], ["it is gone"])


def test_call_approved_with_other_arguments(tmp_path):
    """A call that was approved with other arguments runs with those."""
    tool, ran = erasing()
    session = killed(tmp_path, ERASE, since=[Approved("a", Approval.ONCE, arguments='{"name": "that"}')])
    result, output = resumed(session, tool)
    assert ran == ["that"]
    assert "a person changed the arguments" in output[0]
    assert result.tool_calls[0].call.arguments == '{"name": "that"}'


def test_denied_call_stays_denied(tmp_path):
    """A stored denial still applies on resuming."""
    tool, ran = erasing()
    session = killed(tmp_path, ERASE, since=[Approved("a", Approval.NO, "Not that.")])
    _, output = resumed(session, tool, approve=lambda _: True)
    assert ran == []
    assert "Not that." in output[0]


def test_call_that_had_started_is_interrupted(tmp_path):
    """A call that had started is not repeated, and is reported as interrupted."""
    tool, ran = erasing()
    result, output = resumed(killed(tmp_path, ERASE, since=[ToolCallStarted(ERASE, ALLOWED)]), tool)
    assert (ran, result.tool_calls[0].result.status) == ([], "interrupted")
    assert "whether it took effect is unknown" in output[0]


def test_idempotent_call_that_had_started_is_repeated(tmp_path):
    """An idempotent call that had started is repeated, after another approval."""
    for approve, ran_by_now in ((lambda _: True, ["it"]), (lambda _: False, [])):
        tool, ran = erasing(idempotent=True)
        folder = tmp_path / str(len(ran_by_now))
        folder.mkdir()
        session = killed(folder, ERASE, since=[ToolCallStarted(ERASE, ALLOWED)])
        resumed(session, tool, approve=approve)
        assert ran == ran_by_now


def test_call_of_a_removed_tool(tmp_path):
    """A call that had started is reported as interrupted even if its tool was removed."""
    tool, _ = erasing()
    other = Tool(lambda: "x", "other", "Nothing.")
    for number, since in enumerate(([ToolCallStarted(ERASE, ALLOWED)], [])):
        folder = tmp_path / str(number)
        folder.mkdir()
        result, output = resumed(killed(folder, ERASE, since=since), other)
        assert result.output == "Done."
        assert ("interrupted" if since else "no tool") in (output[0].lower() + result.tool_calls[0].result.status)
    assert tool.name == "erase"


def test_finished_calls_are_not_repeated(tmp_path):
    """Only calls without a result are run on resuming."""
    tool, ran = erasing()
    second = ToolCall("b", "erase", '{"name": "that"}')
    finished = ToolCallFinished(ERASE, ToolResult("erase", "ok", "it is gone"))
    session = killed(tmp_path, ERASE, second, since=[ToolCallStarted(ERASE, ALLOWED), finished])
    _, output = resumed(session, tool, approve=lambda _: True)
    assert (ran, output) == (["that"], ["it is gone", "that is gone"])


def test_call_that_was_pending_stays_pending(tmp_path):
    """A call that was pending at the kill stays pending and is reported once."""
    tool, ran = erasing()
    session = killed(tmp_path, ERASE, since=[ToolCallPostponed(ERASE, "May it?", ASKED)])
    result = Agent("helper", [tool], llm=ScriptedLLM("Done."), session=session).resume()
    assert (result.status, ran, result.pending[0].question) == ("paused", [], "May it?")
    assert sum(isinstance(each, ToolCallPostponed) for each in result.events) == 1
    assert result.resume(True).output == "Done."


def test_effect_of_finished_calls_on_resuming(tmp_path):
    """A finished `finish` call ends the run on resuming."""
    call = ToolCall("a", "finish", '{"answer": "It is 4."}')
    finished = ToolCallFinished(call, ToolResult("finish", "ok", "It is 4."))
    session = killed(tmp_path, call, since=[ToolCallStarted(call, ALLOWED), finished])
    agent = Agent("helper", [finish_tool], llm=ScriptedLLM(), session=session)
    assert agent.resume().output == "It is 4."
    assert agent.history[-1] == {"role": "assistant", "content": "It is 4."}


def test_finished_call_of_a_removed_tool(tmp_path):
    """A finished call of a removed tool keeps its result, and the run continues."""
    tool, _ = erasing()
    other = ToolCall("a", "other", "{}")
    finished = ToolCallFinished(other, ToolResult("other", "ok", "fine"))
    session = killed(tmp_path, other, since=[ToolCallStarted(other, ALLOWED), finished])
    assert resumed(session, tool)[1] == ["fine"]


def test_handoff_to_an_unknown_agent(tmp_path):
    """A run that was handed off to an unknown agent cannot be resumed without it."""
    call = ToolCall("a", "find", "{}")
    passed = ToolCallFinished(call, ToolResult("find", "ok", "The conversation is passed.", handoff_to="expert"))
    session = killed(tmp_path, call, since=[ToolCallStarted(call, ALLOWED), passed])
    agent = Agent("helper", llm=ScriptedLLM(), session=session)
    with pytest.raises(ConfigError, match=r"'expert', which is not among the handoffs of 'helper'. .* agents=\[...\]"):
        agent.resume()
    assert agent.resume(agents=[Agent("expert", llm=ScriptedLLM("I know."))]).output == "I know."


class Folder:
    """A folder that calls change; each call takes less time than the one before."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.left = 3

    def enter(self, name: str) -> str:
        """Enter a folder."""
        before = list(self.path)
        self.left -= 1
        time.sleep(0.02 * self.left)
        self.path = [*before, name]
        return "/".join(self.path)

    def where(self) -> str:
        """Return the folder."""
        return "/".join(self.path)

    async def awhere(self) -> str:
        """Return the folder."""
        return self.where()


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_calls_on_one_object_run_in_order(mode):
    """Methods of one object run one after another, concurrently with those of other objects."""
    one, other = Folder(), Folder()
    tools = [Tool(one.enter), Tool(one.where), Tool(other.enter, "enter_other")]
    requested_calls = [call("enter", name="a"), call("enter_other", name="x"), call("enter", name="b"), call("where")]
    agent = Agent("helper", tools, llm=ScriptedLLM(requested_calls, "Done."))
    result = agent.run("go") if mode == "run" else asyncio.run(agent.arun("go"))
    assert [used.result.value for used in result.tool_calls] == ["a", "x", "a/b", "a/b"]


def test_rounds_of_calls():
    """Only sync methods of the same object run one after another; other calls run concurrently."""
    one, other = Folder(), Folder()
    tools = [one.enter, one.where, other.enter, one.awhere, len, None, one.where]
    made = [tool and Tool(tool, f"tool_{index}") for index, tool in enumerate(tools)]
    calls = [JudgedCall(ToolCall(str(index), "a", "{}"), ALLOWED, tool) for index, tool in enumerate(made)]
    assert ["".join(judged.call.id for judged in together) for together in concurrent_groups(calls)] == [
        "02345",
        "1",
        "6",
    ]
    assert concurrent_groups([]) == []


@pytest.mark.parametrize("mode", ["method", "partial", "wrapped"])
def test_calls_of_functions_with_a_shared_object_run_in_order(mode):
    """Functions that share an object run one after another."""
    accounts = {"An": 10}

    def pay_from(text, amount: int) -> int:
        before = text["An"]
        time.sleep(0.05 if amount == 1 else 0)
        text["An"] = before - amount
        return text["An"]

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
    agent = Agent("payer", [Tool(made[mode], "pay")], llm=ScriptedLLM([*paying(1, 2, 3)], "Done."))
    assert [used.result.value for used in agent.run("go").tool_calls] == [9, 7, 4]


def paying(*amounts):
    """Return a response with payments of these amounts."""
    return [call("pay", amount=amount) for amount in amounts]


def test_functions_that_share_a_closure_run_concurrently():
    """Functions that share a closure run concurrently."""
    noted, all_begun = [], threading.Barrier(3, timeout=10)
    started = {"all": all_begun.wait}

    def note(name: str) -> str:
        noted.append(name)
        started["all"]()
        return name

    llm = ScriptedLLM([call("note", name=name) for name in "abc"], "Done.")
    assert [used.result.value for used in Agent("clerk", [note], llm=llm).run("go").tool_calls] == ["a", "b", "c"]
    assert sorted(noted) == ["a", "b", "c"]


@pytest.mark.parametrize("word", ["waiting", "interrupted", "denied", "failed", "offline"])
def test_status_in_a_returned_value_is_ignored(word):
    """A `status` in the returned value is not the status of the call or the run."""
    agent = Agent(
        "clerk", [Tool(lambda: {"order": 7, "status": word}, "order")], llm=ScriptedLLM(call("order"), "It is.")
    )
    result = agent.run("How is it?")
    assert (result.status, result.output) == ("done", "It is.")
    assert [used.result.status for used in result.tool_calls] == ["ok"]


def test_queued_call_is_not_started_after_the_time_limit():
    """A queued call on an object is not started after the time limit."""
    started = threading.Semaphore(0)
    calls = [call("acquire"), call("release")]
    tools = [Tool(started.acquire, timeout_seconds=None), Tool(started.release, timeout_seconds=None)]
    llm = ScriptedLLM(calls, "Late.")
    result = Agent("helper", tools, llm=llm, limits=Limits(seconds=0.3)).run("go")
    assert [used.result.status for used in result.tool_calls] == ["timed_out", "denied"]
    assert not started.acquire(blocking=False)
    started.release()


def many_calls(count, tool="add"):
    """Return a response with the given number of calls."""
    return AssistantMessage("", tuple(ToolCall(f"c{index}", tool, f'{{"a": {index}}}') for index in range(count)))


def counting(seconds=0.0):
    """Return a slow tool, and the lists of judged and executed calls."""
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


MODES = {
    "run": lambda agent: agent.run("go"),
    "arun": lambda agent: asyncio.run(agent.arun("go")),
    "stream": lambda agent: list(agent.stream("go"))[-1].result,
}


@pytest.mark.parametrize("mode", MODES)
def test_calls_beyond_the_limit_per_response_are_not_judged(mode):
    """Calls beyond the limit per response are not judged, and get an error as result."""
    tool, judged, ran = counting()
    llm = ScriptedLLM(many_calls(20), "Done.")
    result = MODES[mode](Agent("helper", [tool], llm=llm, limits=Limits(calls_per_response=3)))
    assert (result.status, sorted(judged), sorted(ran)) == ("done", [0, 1, 2], [0, 1, 2])
    assert [used.call.id for used in result.tool_calls] == [f"c{index}" for index in range(20)]
    assert all("Only the first 3 tool calls" in used.result.error for used in result.tool_calls[3:])
    assert len([message for message in llm.requests[1].messages if type(message).__name__ == "ToolMessage"]) == 20


@pytest.mark.parametrize("mode", MODES)
def test_no_call_is_judged_after_the_time_limit(mode):
    """No call is judged after the time limit, and every call gets one result."""
    tool, judged, ran = counting(seconds=0.02)
    llm = ScriptedLLM(many_calls(1_000), "Done.")
    result = MODES[mode](Agent("helper", [tool], llm=llm, limits=Limits(seconds=0.2, calls_per_response=None)))
    assert (result.status, result.limit, ran) == ("limit", "seconds", [])
    assert 1 <= len(judged) <= 11
    assert len(result.tool_calls) == 1_000
    assert all("reached its time limit" in used.result.error for used in result.tool_calls)


def test_default_limit_of_calls_per_response():
    """The number of calls per response has a default limit."""
    tool, judged, _ = counting()
    agent = Agent("helper", [tool], llm=ScriptedLLM(many_calls(1_000), "Done."))
    assert len(agent.run("go").tool_calls) == 1_000
    assert len(judged) == Limits().calls_per_response == 128
