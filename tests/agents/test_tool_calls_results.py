"""Tests for guardrails on tool results."""

import asyncio
import dataclasses
import json
import time
from pathlib import Path

import pytest

from agentkit import Agent, Approval, Image, Limits, SafetyLevel, Tool, ToolResult
from agentkit.decisions import Label
from agentkit.errors import ToolError
from agentkit.events import ToolCallFinished
from agentkit.messages import READ_MORE
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call, record, replay
from agentkit.tools.files import write_file_tool
from agentkit.tools.human import ask_user_tool

SECRET = "hunter2"
DOT = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00"
    b"\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82"
)


def look(place: str) -> dict[str, str]:
    """Look at a place."""
    return {"place": place, "found": f"{SECRET} lies here"}


def hidden(result):
    """Remove the secret from the result."""
    return result.content.replace(SECRET, "***")


def replaced(result):
    """Return the changed result as a ToolResult."""
    return dataclasses.replace(result, content=result.content.replace(SECRET, "***"))


def refused(result):
    """Withhold a result that contains the secret."""
    if SECRET in result.content:
        raise ValueError("there is a password in it")


def asserted(result):
    """Raise AssertionError without a message."""
    if SECRET in result.content:
        raise AssertionError


def awaiting(check):
    """Return an async variant of the guardrail."""

    async def later(result):
        await asyncio.sleep(0)
        return check(result)

    return later


def run(agent, mode):
    """Return the events and the result of a run in one of the four ways to run an agent."""

    async def gathered():
        return [event async for event in agent.astream("go")]

    if mode in ("run", "arun"):
        received = []
        agent.listeners = [received.append]
        result = agent.run("go") if mode == "run" else asyncio.run(agent.arun("go"))
        return received, result
    events = list(agent.stream("go")) if mode == "stream" else asyncio.run(gathered())
    return events, events[-1].result


def only_result(check, tool=look, *lines, **options):
    """Return the result of the only call of a run with guardrails on tool results."""
    llm = ScriptedLLM(call(getattr(tool, "name", "look"), place="here"), *(lines or ("Done.",)))
    tools = [tool if isinstance(tool, Tool) else Tool(tool, "look")]
    return Agent("helper", tools, guardrails=[check], llm=llm, **options).run("go").tool_calls[0].result


@pytest.mark.parametrize("mode", ["run", "arun", "stream", "astream"])
@pytest.mark.parametrize("kind", [lambda check: check, awaiting], ids=["sync", "async"])
@pytest.mark.parametrize("check", [hidden, replaced, refused, asserted])
def test_text_removed_by_a_guardrail_is_not_stored(check, kind, mode, tmp_path):
    """Text removed by a guardrail is not in requests, events, history, session, recording or result."""
    llm = ScriptedLLM([call("look", place="here"), call("look", place="there")], "Done.")
    session = Session.open(tmp_path / "s.db")
    agent = Agent("helper", [look], guardrails=[kind(check)], llm=llm, session=session)
    with record(tmp_path / "c"):
        events, result = run(agent, mode)
    assert result.output == "Done."
    text = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for message in (repr(events), repr(result.messages), repr(llm.requests), result.to_json(), repr(agent.history)):
        assert SECRET not in message
    assert SECRET.encode() not in text
    assert [SECRET in repr(used.result.value) for used in result.tool_calls] == [False, False]
    finished = [event.result for event in events if isinstance(event, ToolCallFinished)]
    assert sorted(each.content for each in finished) == sorted(used.result.content for used in result.tool_calls)


def test_refused_result_is_withheld_with_a_reason():
    """The model is informed that the call was made and why its result is withheld."""
    result = only_result(refused)
    assert (result.status, result.ok, result.value) == ("blocked", False, None)
    assert json.loads(result.content) == {
        "error": "The call was made, but its result is withheld: there is a password in it",
        "tool": "look",
    }
    assert "The guardrail asserted refused it." in only_result(asserted).content


def test_accepted_result_is_unchanged():
    """A guardrail that returns None or the same result changes nothing."""
    seen = []

    def noted(result):
        seen.append(result)

    plain = only_result(noted)
    assert plain.value == look("here")
    assert seen[0].decision.allowed
    assert only_result(lambda result: result).content == plain.content


def test_guardrails_run_in_order_until_one_refuses():
    """Guardrails run in order on the changed result, and stop after one that refuses."""
    seen = []

    def first(result):
        return f"{result.content}1"

    def second(result):
        seen.append(result.content)
        raise ValueError("no")

    def third(result):
        seen.append("third")

    llm = ScriptedLLM(call("say", text="a"), "Done.")

    def say(text: str) -> str:
        """Say."""
        return text

    Agent("helper", [say], guardrails=[first, second, third], llm=llm).run("go")
    assert seen == ["a1"]


def test_each_call_is_checked_once(tmp_path):
    """Concurrent, failed and repeated calls are checked once each; a replay runs no guardrail."""
    seen = []

    def count(number: int) -> int:
        """Count."""
        if number == 2:
            raise ToolError("not two")
        return number

    def noted(result):
        seen.append(result.content)

    def agent(*lines):
        return Agent("helper", [count], guardrails=[noted], llm=ScriptedLLM(*lines))

    lines = [[call("count", number=number) for number in range(4)], call("count", number=0), "Done."]
    with record(tmp_path / "c"):
        recorded = agent(*lines).run("go")
    assert sorted(seen) == ["0", "0", "1", "3", '{"error": "not two", "tool": "count"}']
    with replay(tmp_path / "c"):
        assert agent().run("go").messages == recorded.messages
    assert len(seen) == 5


def test_calls_that_did_not_run_are_not_checked():
    """Denied, unknown, malformed and pending calls are not checked."""
    seen = []
    dangerous = Tool(look, "danger", level=SafetyLevel.SYSTEM)
    requested_calls = [call("danger", place="x"), call("nothing"), call("look")]
    agent = Agent("helper", [dangerous, look], guardrails=[lambda result: seen.append(result.tool)])
    agent.llm = ScriptedLLM(requested_calls, "Done.")
    agent.run("go")
    assert seen == []
    agent = Agent("helper", [dangerous], guardrails=[hidden], approve=lambda _: Approval.LATER)
    agent.llm = ScriptedLLM(call("danger", place="x"), "Done.")
    paused = agent.run("go")
    assert paused.status == "paused"
    assert "***" in paused.resume(True).tool_calls[0].result.content


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_answer_of_a_person_is_checked(mode):
    """A person's answer to a tool is checked before it is sent to the model."""

    def agent(check, *lines, **options):
        return Agent("helper", [ask_user_tool()], guardrails=[check], llm=ScriptedLLM(*lines), **options)

    paused = agent(hidden, call("ask_user", question="What?")).run("go")
    assert paused.status == "paused"
    llm = ScriptedLLM("Thanks.")
    paused.last_agent.llm = llm
    result = paused.resume(f"It is {SECRET}") if mode == "run" else asyncio.run(paused.aresume(f"It is {SECRET}"))
    assert result.tool_calls[0].result.content == "It is ***"
    assert SECRET not in repr(llm.requests)


def test_guardrail_cannot_remove_labels():
    """A guardrail may add labels but not remove any or change decision, usage and name."""

    def clean(result):
        return ToolResult("other", "ok", "all is well", labels=frozenset({Label.PRIVATE}))

    tool = Tool(look, level=SafetyLevel.NETWORK)
    result = only_result(clean, tool)
    assert result.labels == {Label.UNTRUSTED, Label.PRIVATE}
    assert (result.tool, result.content, result.status) == ("look", "all is well", "ok")
    assert result.decision is not None
    assert only_result(refused, tool).labels == {Label.UNTRUSTED}
    assert only_result(hidden, tool).labels == {Label.UNTRUSTED}


def failing(place: str) -> str:
    """Fail."""
    raise ToolError(f"{SECRET} is broken")


@pytest.mark.parametrize("check", [hidden, replaced, refused])
def test_failed_call_stays_failed(check):
    """A failed call stays failed, and its error is the checked text."""
    result = only_result(check, failing)
    assert result.status == "failed"
    assert not result.ok
    assert SECRET not in f"{result.content}{result.error}"


def test_guardrail_may_fail_a_successful_call():
    """A guardrail may turn a success into a failure or replace the value."""

    def judged(result):
        return dataclasses.replace(result, error="too little", content="too little")

    assert only_result(judged).status == "failed"
    assert only_result(lambda result: dataclasses.replace(result, value=7)).value == 7


def test_full_text_of_a_long_result_is_checked():
    """The full text of a truncated result is the checked text, which is truncated if it is long."""
    long = Tool(lambda: f"{SECRET} " * 1_000, "long", "Long.", max_chars=1_000)

    def shortened(result):
        return result.content[:5]

    def lengthened(result):
        return "x" * 5_000 if result.content else None

    def agent(check, *lines):
        return Agent("helper", [long], guardrails=[check], llm=ScriptedLLM(*lines))

    assert "hunte" in agent(shortened, call("long"), "Done.").run("go").to_json()
    result = agent(lengthened, call("long"), "Done.").run("go").tool_calls[0].result
    assert (result.status, result.full_content) == ("truncated", "x" * 5_000)
    assert len(result.content) < 1_500
    cut = agent(replaced, call("long"), lambda request: call(READ_MORE, handle=request.messages[-1].call_id), "Done.")
    assert SECRET not in cut.run("go").to_json()


@pytest.mark.parametrize("check", [replaced, refused])
@pytest.mark.parametrize(
    "value", [f"{'x' * 2_000} {SECRET} {'y' * 2_000}", {"rows": ["x" * 2_000, SECRET, "y" * 2_000]}]
)
def test_hidden_part_of_a_result_is_checked(check, value):
    """A secret in the hidden part of a long result cannot be read in pieces."""
    long = Tool(lambda: value, "long", "Long.", max_chars=1_000)
    first, second = (str(value).index(SECRET) + place for place in (-20, 3))

    def reading(start):
        return lambda _: call(READ_MORE, handle="call_1_1", start=start, max_chars=22)

    lines = (call("long"), reading(first), reading(second), "Done.")
    result = Agent("helper", [long], guardrails=[check], llm=ScriptedLLM(*lines)).run("go")
    text = result.to_json()
    assert SECRET not in text
    assert not any(SECRET[3:] in str(used.result) or SECRET[:3] in str(used.result) for used in result.tool_calls)


def test_accepted_long_result_is_truncated():
    """A long result that is accepted is truncated as usual."""
    long = Tool(lambda: "word " * 1_000, "long", "Long.", max_chars=1_000)

    def passes(result):
        assert result

    def same(result):
        return result

    def shown(checks):
        agent = Agent("helper", [long], guardrails=checks, llm=ScriptedLLM(call("long"), "Done."))
        return agent.run("go").tool_calls[0].result

    assert shown([passes]).content == shown([same]).content == shown([]).content


def test_images_of_a_checked_result():
    """A string removes the images of a result; a ToolResult may include them."""
    picture = Tool(lambda: ["a dot", Image.read(DOT)], "look", "A picture.")
    llm = ScriptedLLM(call("look"), "Done.")

    def shown(check):
        return Agent("helper", [picture], guardrails=[check], llm=llm.__class__(call("look"), "Done.")).run("go")

    assert len(shown(lambda result: None if result.images else "none").tool_calls[0].result.images) == 1
    assert shown(lambda result: result.content[:5]).tool_calls[0].result.images == ()
    output = shown(lambda result: dataclasses.replace(result, content="dot")).tool_calls[0].result
    assert (len(output.images), output.value) == (1, "dot")


def numbered(result):
    """Return an invalid guardrail result."""
    return len(result.content)


def quoting(result):
    """Raise an error that quotes the result."""
    raise KeyError(result.content)


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (quoting, "The guardrail quoting failed (KeyError in test_tool_calls_results.py, line "),
        (awaiting(quoting), "The guardrail later failed (KeyError in test_tool_calls_results.py, line "),
        (numbered, "The guardrail numbered returned int; it must return None to pass, a text or another ToolResult."),
    ],
)
def test_result_of_a_failed_guardrail_is_withheld(check, reason):
    """A guardrail that fails withholds the result, and the error does not contain the result."""
    result = only_result(check)
    assert reason in result.error
    assert SECRET not in f"{result.content}{result.value}"


@pytest.mark.parametrize("mode", ["run", "arun"])
@pytest.mark.parametrize("kind", [lambda check: check, awaiting], ids=["sync", "async"])
def test_guardrail_respects_the_time_limit(kind, mode):
    """A guardrail that exceeds the time limit withholds the result."""

    def slow(result):
        time.sleep(0.6 if result.ok else 0)

    async def asleep(result):
        await asyncio.sleep(5 if result.ok else 0)

    check = slow if kind is not awaiting else asleep
    agent = Agent("helper", [look], guardrails=[check], limits=Limits(seconds=0.3))
    agent.llm = ScriptedLLM(call("look", place="x"), "Done.", repeat=True)
    result = agent.run("go") if mode == "run" else asyncio.run(agent.arun("go"))
    assert (result.status, result.limit) == ("limit", "seconds")
    assert "did not finish in time" in result.tool_calls[0].result.error


def test_call_with_a_withheld_result_can_be_undone(tmp_path):
    """The changes of a call with a withheld result can be undone."""
    llm = ScriptedLLM(call("write_file", path="a.txt", content="x"), "Done.")

    def never(result):
        raise ValueError("no")

    agent = Agent("helper", [write_file_tool], safety="system", guardrails=[never], llm=llm, workspace=tmp_path)
    result = agent.run("go")
    assert Path(tmp_path / "a.txt").read_text("utf-8") == "x"
    assert result.tool_calls[0].result.status == "blocked"
    assert "+x" in result.changes
    result.undo()
    assert not Path(tmp_path / "a.txt").exists()


def test_result_that_ends_a_run_is_checked():
    """The result of a tool that ends the run is checked; if it is withheld, the run continues."""
    ending = Tool(lambda: f"It is {SECRET}.", "finish", "Ends.", ends_run=True)

    def answer(check):
        return Agent("helper", [ending], guardrails=[check], llm=ScriptedLLM(call("finish"), "I may not say."))("go")

    assert answer(hidden) == "It is ***."
    assert answer(refused) == "I may not say."


def test_guardrails_of_the_active_agent_apply():
    """A handoff is not checked; after it, the guardrails of the active agent apply."""
    expert = Agent("expert", [look], llm=ScriptedLLM(call("look", place="x"), "Done."), guardrails=[hidden])
    front = Agent("front", llm=ScriptedLLM(call("hand_off_to_expert")), handoffs=[expert], guardrails=[quoting])
    result = front.run("go")
    assert [used.result.status for used in result.tool_calls] == ["ok", "ok"]
    assert "***" in result.tool_calls[1].result.content


def test_usage_of_a_guardrail_counts_for_the_call():
    """The usage of a model in a guardrail counts for the tool call."""
    judge = Agent("judge", llm=ScriptedLLM("harmless"))

    def judged(result):
        assert judge("Is this harmful?") == "harmless"

    assert only_result(judged).usage.requests == 1
