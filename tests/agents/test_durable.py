"""Tests for durable functions: steps and runs of agents are stored once and not repeated."""

import asyncio
import json
import linecache
import runpy
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FunctionType

import pytest

from agentkit import Agent, ConfigError, Limits, RunError, Session
from agentkit.agents.durable import ask_person, durable, step, wait_until
from agentkit.errors import Cancelled, SessionError, StepFailed
from agentkit.sessions.stores import store_at
from agentkit.testing import ScriptedLLM, call
from agentkit.tooling.tool import Tool

PROGRAM = Path(__file__).with_name("durable_program.py")
ENTRIES = 56
"""At least as many entries as a run of the program stores in all sessions."""


@pytest.fixture
def session(tmp_path):
    """A stored session."""
    return Session.open(tmp_path / "sessions.db", "trip")


@dataclass
class Weather:
    """A typed value."""

    city: str
    degrees: int


def weather(city: str, day: datetime) -> Weather:
    """Return a typed value."""
    return Weather(city, day.day)


def test_values_are_converted_by_their_annotations(session):
    """Arguments and results are converted by their annotations, or are JSON without any."""
    seen = []

    def pair(one, *, other):
        seen.append((one, other))
        return one, other

    @durable
    def trip(city: str, day: datetime, *more, **named) -> Weather:
        found = step(weather, city, day)
        seen.append((type(found), step(pair, city, other=None), more, named))
        return found

    given = "Hue", datetime(2026, 5, 4, tzinfo=UTC), 1, "x"
    result = trip.run(session, *given, a=[2])
    assert result.output == Weather("Hue", 4)
    assert seen == [("Hue", None), (Weather, ["Hue", None], (1, "x"), {"a": [2]})]
    assert trip.run(session, *given, a=[2]) == trip.resume(session) == result
    assert len(seen) == 2
    assert trip("Hue", given[1]) == Weather("Hue", 4)


@pytest.mark.parametrize("value", [object(), {1, 2}, lambda: 1])
def test_values_that_cannot_be_stored_are_rejected(session, value):
    """A value that cannot be stored raises an error that names the function and the value."""

    def unresolved(given):
        return given

    unresolved.__annotations__["return"] = "Missing"
    assert durable(lambda: step(unresolved, [1])).run(Session.open(session.store, "unresolved")).output == [1]
    trip = durable(lambda: step(lambda: value))
    with pytest.raises(ConfigError, match="cannot be stored"):
        trip.run(session)
    with pytest.raises(ConfigError, match="cannot be stored"):
        durable(lambda what: what).run(Session.open(session.store, "other"), value)


def test_failed_step_is_retried_unless_handled(session):
    """A step's error is stored only if the function handles it; otherwise the step is retried."""
    tried, fail_last = [], [True]

    def may_fail(name: str) -> str:
        tried.append(name)
        if name == "handled" or fail_last[0]:
            raise ValueError(f"no {name}")
        return name

    @durable
    def trip() -> list[str]:
        try:
            step(may_fail, "handled")
        except StepFailed as error:
            text = str(error)
        return [text, step(may_fail, "last")]

    with pytest.raises(StepFailed, match="may_fail failed: ValueError: no last"):
        trip.run(session)
    assert "failed" in session.show()
    fail_last[0] = False
    first, last = trip.resume(session).output
    assert first.endswith("may_fail failed: ValueError: no handled")
    assert (last, tried) == ("last", ["handled", "last", "last"])


def test_agents_keep_their_conversation(session):
    """An agent keeps its conversation; agents without memory and batches use new sessions."""
    llm = ScriptedLLM(lambda request: f"{len(request.messages)}: {request.messages[-1].content}", repeat=True)
    helper, other = Agent("helper", llm=llm), Agent("other", llm=llm, remember=False)

    @durable
    def trip() -> list[str]:
        messages = [helper.run("a").output, helper("b"), other("c"), other("d"), step(helper, "e")]
        messages += [each.output for each in helper.map(["f", "g"])]
        return [*messages, "".join(helper.stream_text("h"))]

    answers = ["1: a", "3: b", "1: c", "1: d", "5: e", "1: f", "1: g", "7: h"]
    result = trip.run(session)
    assert result.output == answers
    assert result.usage.requests == 8
    assert helper.history == []
    stored = [each.name for each in Session.summaries(session.store)]
    assert sorted(stored) == ["trip", "trip/0000", "trip/0002", "trip/0003", "trip/0005/0000", "trip/0005/0001"]
    again = Session.open(session.store, "again")
    renamed = durable(version=trip.version)(trip.function)
    assert renamed.run(again).output == answers
    assert len(llm.requests) == 16
    assert "Step 1, helper: done, in session trip/0000" in session.show()


def test_interrupted_agent_continues_with_its_next_call(session):
    """An interrupted agent continues with its next call, in the same budget."""
    done = []

    def note(text: str) -> str:
        """Note something down."""
        done.append(text)
        if text == "two" and len(done) == 2:
            agent.stop()
        return text

    llm = ScriptedLLM(call("note", text="one"), call("note", text="two"), call("note", text="three"), "ok")
    agent = Agent("a", [note], llm=llm)
    trip = durable(limits=Limits(tool_calls=3))(lambda: agent.run("go").output)
    with pytest.raises(Cancelled):
        trip.run(session)
    assert trip.resume(session).output == "ok"
    assert done == ["one", "two", "three"]
    over = durable(limits=Limits(tool_calls=3))(lambda: [agent.run("go").status, agent.run("on").status])
    agent.llm = ScriptedLLM([call("note", text=f"{at}") for at in range(3)], "ok", call("note", text="4"), "limit")
    assert over.run(Session.open(session.store, "over")).output == ["done", "limit"]


def test_function_pauses_for_pending_calls(session):
    """The result lists the pending calls, and the answers resume the run."""
    done = []

    def book(city: str) -> str:
        """Book a trip."""
        done.append(city)
        return f"booked {city}"

    llm = ScriptedLLM(call("book", city="Hue"), "It is booked.", repeat=False)
    clerk = Agent("clerk", [Tool(book, level="system")], llm=llm, approve="later")

    @durable
    def trip() -> list[str]:
        first = "swallowed"
        with suppress(Exception):
            first = ask_person("Where to?")
        return [first, clerk.run("book").output, ask_person("Send it?")]

    paused = trip.run(session)
    assert [(each.id, each.question, each.needs_answer) for each in paused.pending] == [("0", "Where to?", True)]
    with pytest.raises(RunError, match=r"waiting: Where to\?"):
        _ = paused.output
    assert trip.resume(session).pending == paused.pending
    paused = trip.resume(session, "Hue")
    assert (paused.status, [(each.id, each.tool) for each in paused.pending]) == ("paused", [("1/call_1_1", "book")])
    assert done == []
    paused = trip.resume(session, {"1/call_1_1": True})
    assert (done, [each.id for each in paused.pending]) == (["Hue"], ["2"])
    assert trip.resume(session, {"0": "late", "2": True}).output == ["Hue", "It is booked.", "True"]
    assert done == ["Hue"]


@pytest.mark.parametrize("is_async", [False, True])
def test_paused_runs_of_a_batch_are_answered_by_resume(session, is_async):
    """Pending calls of a batch have ids; answered runs resume and the others stay paused."""
    booked = []

    def book(city: str) -> str:
        """Book a room."""
        booked.append(city)
        return f"a room in {city}"

    def decide(request):
        question, newest = request.messages[0].content, request.messages[-1].content
        return call("book", city=question) if newest == question and question != "Rome" else newest

    clerk = Agent("clerk", [Tool(book, level="system")], llm=ScriptedLLM(decide, repeat=True), approve="later")
    cities = ["Hue", "Rome", "Vinh"]

    def trip() -> list[str]:
        return [each.output for each in clerk.map(cities)]

    async def atrip() -> list[str]:
        return [each.output for each in await clerk.amap(cities)]

    function = durable(atrip if is_async else trip)

    def resume(*answers):
        return asyncio.run(function.aresume(session, *answers)) if is_async else function.resume(session, *answers)

    paused = asyncio.run(function.arun(session)) if is_async else function.run(session)
    ids = {json.loads(each.arguments)["city"]: each.id for each in paused.pending}
    assert (paused.status, sorted(ids), ids["Vinh"].startswith("0/2/")) == ("paused", ["Hue", "Vinh"], True)
    assert resume().pending == paused.pending
    paused = resume({ids["Vinh"]: True})
    assert (booked, [each.id for each in paused.pending]) == (["Vinh"], [ids["Hue"]])
    rooms = resume(False).output
    assert (rooms[1:], booked) == (["Rome", "a room in Vinh"], ["Vinh"])
    assert "refused" in rooms[0]


def test_handled_pause_still_pauses(session):
    """A function that handles every exception still pauses."""

    def trip():
        with suppress(BaseException):
            return ask_person("Well?")

    assert durable(trip).run(session).status == "paused"


def test_waiting_for_a_time_blocks_or_pauses_the_run(session):
    """The wake-up time is stored once; a long wait pauses and resumes when the time has come."""
    whens = []

    def wait():
        whens.append(datetime.now(UTC) + timedelta(seconds=0.3))
        wait_until(whens[-1])
        return datetime.now(UTC) >= whens[0]

    assert durable(wait).run(session).output is True
    other = Session.open(session.store, "other")
    trip = durable(max_wait_seconds=0)(wait)
    whens.clear()
    paused = trip.run(other)
    assert (paused.status, paused.until) == ("paused", whens[0])
    with pytest.raises(RunError, match="waiting: until"):
        _ = paused.output
    assert durable(wait).resume(other).output is True


def test_coroutine_functions(session):
    """Coroutine functions can use steps, agents and waits, and gathered steps keep their numbers."""
    seen = []
    llm = ScriptedLLM(lambda request: request.messages[-1].content, repeat=True)

    async def look(name: str) -> str:
        await asyncio.sleep(0.01 if name == "a" else 0)
        seen.append(name)
        if name == "bad":
            raise ValueError(name)
        return name

    @durable
    async def trip() -> list[str]:
        agent = Agent("a", llm=llm)
        found = await asyncio.gather(step(look, "a"), step(look, "b"))
        try:
            await step(look, "bad")
        except StepFailed:
            found.append((await agent.arun("hi")).output)
        found += [each.output for each in await agent.amap(["x", "y"])]
        wait_until(datetime.now().astimezone() + timedelta(seconds=0.05))
        return [*found, ask_person("ok?")]

    first = asyncio.run(trip.arun(session))
    assert (first.status, first.until is None) == ("paused", False)
    waited = asyncio.run(trip.aresume(session))
    while waited.until is not None:
        waited = asyncio.run(trip.aresume(session))
    assert asyncio.run(trip.aresume(session, "yes")).output == ["a", "b", "hi", "x", "y", "yes"]
    assert sorted(seen) == ["a", "b", "bad"]
    assert len(llm.requests) == 3
    assert asyncio.run(trip.aresume(session)).status == "done"
    with pytest.raises(ConfigError, match="arun"):
        trip.run(session)
    with pytest.raises(ConfigError, match="run\\(\\)"):
        asyncio.run(durable(lambda: 1).arun(session))


def test_changed_function_is_rejected_without_a_version(session):
    """Changed steps or arguments are rejected, but not comments and layout."""

    def made(source, **options):
        path = Path(session.store.path).with_name("source.py")
        path.write_text(source)
        linecache.checkcache(str(path))
        return durable(**options)(runpy.run_path(str(path), {"step": step, "agent": agent})["trip"])

    agent = Agent("a", llm=ScriptedLLM("x", repeat=True))
    first = made("def trip(n: int):\n    step(abs, n)\n    agent.run('hi')\n    return step(nothing)\n")
    with pytest.raises(NameError):
        first.run(session, -1)
    documented = "def trip(n: int):\n    'Document it.'\n    step(abs,  n)  # comment\n    agent.run('hi')\n"
    same = made(f"{documented}    return step(nothing)\n")
    assert same.version == first.version
    changed = "def trip(n: int):\n    step({0}, {1})\n    agent.run({2!r})\n    return 5\n"
    with pytest.raises(SessionError, match=r"trip was changed since its run in the session 'trip' began"):
        made(changed.format("abs", "n", "hi")).run(session, -1)
    for what, message in (
        (("max", "n", "hi"), "is max, and was abs"),
        (("abs", "n + 1", "hi"), "has other arguments"),
        (("abs", "n", "hello"), "another prompt"),
    ):
        with pytest.raises(SessionError, match=message):
            made(changed.format(*what), version=first.version).resume(session)
    assert made(changed.format("abs", "n", "hi"), version=first.version).resume(session).output == 5


def test_sessions_of_other_runs_are_rejected(session, tmp_path):
    """A session holds one run of one function, which cannot run twice concurrently."""
    trip = durable(lambda city: running.append(city) or trip.resume(session))
    running = []
    with pytest.raises(SessionError, match="has no run"):
        trip.resume(session)
    with pytest.raises(SessionError, match="runs in the session 'trip' already"):
        trip.run(session, "Hue")
    assert running == ["Hue"]
    with pytest.raises(SessionError, match="has other arguments"):
        trip.run(session, "Hanoi")
    Agent("a", llm=ScriptedLLM("hi"), session=Session.open(session.store, "talk")).run("hello")
    with pytest.raises(SessionError, match="belongs to another function or agent"):
        trip.run(Session.open(session.store, "talk"), "Hue")
    with pytest.raises(ConfigError, match="needs a stored session"):
        trip.run(Session(), "Hue")


def test_durable_operations_outside_a_run(session):
    """Waiting outside a run and streaming are rejected; steps outside a run are plain calls."""
    for wait in (lambda: ask_person("?"), lambda: wait_until(datetime.now(UTC))):
        with pytest.raises(ConfigError, match="can only be called inside a durable function"):
            wait()
    assert step(abs, -1) == 1
    assert step.map(abs, [-1]) == [1]

    def inner() -> str:
        """Use another agent, and a step."""
        return Agent("b", llm=ScriptedLLM("deep")).run("x").output + str(step(abs, -2))

    agent = Agent("a", [inner], llm=ScriptedLLM(call("inner"), "ok"))
    assert durable(lambda: agent.run("hi").output).run(session).output == "ok"
    assert [each.name for each in Session.summaries(session.store)] == ["trip", "trip/0000"]
    for stream in (agent.stream, agent.astream):
        with pytest.raises(ConfigError, match="cannot be stored in a durable function"):
            durable(lambda stream=stream: stream("hi")).run(Session.open(session.store, stream.__name__))


def test_functions_without_source_have_a_version():
    """A function compiled from a string has the version of its code."""
    codes = (compile(text, "<text>", "eval") for text in ("1", "2", "1 "))
    one, two, same = (durable(FunctionType(code, {}, "f")).version for code in codes)
    assert one == same != two


def test_stores_in_memory_can_be_used():
    """A store in memory can be used."""
    session = Session.open(store_at(":memory:"), "m")
    assert durable(lambda: step.map(abs, [-1, -2])).run(session).output == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_killed_function_repeats_no_stored_call(tmp_path, part):
    """A process killed around each stored entry resumes without repeated tool calls."""
    size = ENTRIES // 4
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(part * size + 1), str((part + 1) * size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROGRAM.parent)
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == 2 * size
    for report in reports:
        assert report["again"] == 0, done.stderr
        assert report["died"] in (-9, 0)
        first, *rest = report["output"]
        assert first.startswith("noted begin Hue, ")
        assert first.endswith("broken failed: OSError: no disk")
        assert rest == [
            "found one",
            "found two",
            "found a",
            "found b",
            "noted x",
            "noted y",
            "noted z",
            "yes",
            "noted end",
        ]
        tools = {name: count for name, count in report["effects"].items() if name.startswith("tool")}
        assert set(tools.values()) == {1}
        # Calls started before the kill are not repeated: at most the four of "a" and "b", which run concurrently.
        assert len(tools) >= 4
        steps = {name: count for name, count in report["effects"].items() if name.startswith("step")}
        assert set(steps) == {f"step {name}" for name in ("begin Hue", "x", "y", "z", "broken", "end")}
        assert sum(steps.values()) <= len(steps) + 3
    kills = [report["died"] for report in reports]
    assert kills[0] == -9
    assert part < 3 or kills[-1] == 0
