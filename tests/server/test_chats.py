"""Tests for the conversations of the chat page: events, questions, stopping, undo and storage."""

import asyncio
import json

import pytest

from agentkit import Agent, Session, system_tools, tool
from agentkit.agents.result import Resumption
from agentkit.errors import SessionError
from agentkit.safety.approval import Approval
from agentkit.server import chats
from agentkit.server.chats import Chats, parse_answer
from agentkit.server.http_types import ConcurrencyLimit, HTTPError
from agentkit.sessions.stores.in_memory import InMemorySessionStore
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.human import ask_user_tool

WRITE = call("write_file", path="a.txt", content="new\n")


def opened(*lines, tools=system_tools, store=None, max_runs=8, **options):
    """Return the conversations of an agent with scripted lines."""
    agent = Agent("helper", tools, llm=ScriptedLLM(*lines), **options)
    return Chats(agent, store or InMemorySessionStore(), ConcurrencyLimit(max_runs))


async def events_until(chat, serial, until=None):
    """Return the events of a run up to its end or the first event of the given kind."""
    found = []
    async for line in chat.lines(serial):
        found.append(json.loads(line))
        if found[-1]["kind"] == until:
            break
    return found


def kinds(events):
    """Return the kinds of events in order."""
    return [event["kind"] for event in events]


def test_all_listeners_receive_every_event():
    """All listeners receive every event of a run, also after it has ended."""

    async def main():
        chat = opened("Hello there.").find("talk")
        serial = chat.start("Hi")
        one, two = await asyncio.gather(events_until(chat, serial), events_until(chat, serial))
        assert one == two == await events_until(chat, serial)
        assert kinds(one)[0] == "started"
        assert kinds(one)[-1] == "ended"
        assert [line async for line in chat.lines(serial, after=len(one) - 1)] == [
            line async for line in chat.lines(serial)
        ][-1:]

    asyncio.run(main())


def test_another_serial_returns_no_events():
    """Listening with the serial of another run returns no events."""

    async def main():
        chat = opened("One.").find("talk")
        await events_until(chat, chat.start("Hi"))
        assert await events_until(chat, 7) == []

    asyncio.run(main())


def test_document_contains_past_runs():
    """The document of a conversation contains its past runs but not the run in progress."""

    async def main():
        store = InMemorySessionStore()
        chat = opened("One.", WRITE, "Two.", store=store).find("talk")
        await events_until(chat, chat.start("First"))
        serial = chat.start("Second")
        await events_until(chat, serial, until="question")
        document = await chat.document()
        assert (document["running"], document["serial"]) == (True, serial)
        assert [event["prompt"] for event in document["events"] if event["kind"] == "started"] == ["First"]
        await chat.stop()
        document = await opened(store=store).find("talk").document()
        assert [event["prompt"] for event in document["events"] if event["kind"] == "started"] == ["First", "Second"]
        assert (document["running"], document["tokens"]) == (False, 30)

    asyncio.run(main())


def test_one_run_at_a_time():
    """A conversation has one run at a time, and the total number of runs is limited."""

    async def main():
        known = opened(WRITE, "Done.", max_runs=1)
        chat = known.find("talk")
        serial = chat.start("Write")
        await events_until(chat, serial, until="question")
        with pytest.raises(HTTPError, match="is in progress"):
            chat.start("Again")
        with pytest.raises(HTTPError, match=r"maximum number of runs is in progress \(1\)"):
            known.find("other").start("Hi")
        with pytest.raises(HTTPError, match="has ended"):
            await chat.undo("any")
        await known.close()
        assert not chat.is_running

    asyncio.run(main())


@pytest.mark.parametrize(
    ("expected", "content"),
    [
        (Approval.ONCE, "new\n"),
        ({"path": "a.txt", "content": "edited\n"}, "edited\n"),
        (Approval.NO, None),
        ("not today", None),
    ],
)
def test_answer_decides_the_call(expected, content, tmp_path):
    """The person's answer decides whether the call runs, runs with other arguments or is denied."""

    async def main():
        chat = opened(WRITE, "Done.", workspace=tmp_path).find("talk")
        serial = chat.start("Write")
        question = (await events_until(chat, serial, until="question"))[-1]
        chat.answer(question["question"], expected)
        events = await events_until(chat, serial)
        assert ((tmp_path / "a.txt").read_text() if content else None) == content
        result = next(event for event in events if event["kind"] == "result")
        assert result["ok"] is bool(content)
        assert expected != "not today" or "not today" in result["content"]
        with pytest.raises(HTTPError, match="no longer"):
            chat.answer(question["question"], expected)

    asyncio.run(main())


@pytest.mark.parametrize("number", [99, None, "1", [1]])
def test_unknown_question_cannot_be_answered(number):
    """Answering a question that was not asked raises an error."""

    async def main():
        with pytest.raises(HTTPError, match="no longer waits"):
            opened().find("talk").answer(number, Approval.ONCE)

    asyncio.run(main())


def test_always_lasts_for_the_conversation(tmp_path):
    """A call that is always allowed is not asked again in its conversation, but is asked in others."""

    async def main():
        known = opened(WRITE, "One.", WRITE, "Two.", WRITE, "Three.", workspace=tmp_path)
        chat = known.find("talk")
        serial = chat.start("Write")
        chat.answer((await events_until(chat, serial, until="question"))[-1]["question"], Approval.ALWAYS)
        await events_until(chat, serial)
        assert "question" not in kinds(await events_until(chat, chat.start("Again")))
        other = known.find("other")
        assert kinds(await events_until(other, other.start("And here"), until="question"))[-1] == "question"
        await known.close()

    asyncio.run(main())


def test_postponed_question_can_be_answered_later(tmp_path):
    """A postponed question pauses the run, and a later answer resumes it."""

    async def main():
        store = InMemorySessionStore()
        chat = opened(WRITE, store=store, workspace=tmp_path).find("talk")
        serial = chat.start("Write")
        chat.answer((await events_until(chat, serial, until="question"))[-1]["question"], Approval.LATER)
        ended = (await events_until(chat, serial))[-1]
        assert ended["status"] == "paused"
        later = opened("Done.", store=store, workspace=tmp_path).find("talk")
        (pending,) = (await later.document())["events"][-1]["pending"]
        events = await events_until(later, later.start(Resumption(answers={pending["id"]: Approval.ONCE})))
        assert kinds(events)[0] == "resumed"
        assert (tmp_path / "a.txt").read_text() == "new\n"

    asyncio.run(main())


def test_unanswered_question_pauses_the_run(tmp_path):
    """A question that is not answered in time pauses the run without running the call."""

    async def main():
        agent = Agent("helper", system_tools, llm=ScriptedLLM(WRITE), workspace=tmp_path)
        chat = Chats(agent, InMemorySessionStore(), ConcurrencyLimit(1), patience_seconds=0.01).find("talk")
        ended = (await events_until(chat, chat.start("Write")))[-1]
        assert (ended["status"], len(ended["pending"])) == ("paused", 1)
        assert not (tmp_path / "a.txt").exists()

    asyncio.run(main())


def test_question_for_text_pauses_the_run():
    """A question to the person pauses the run, and the typed text becomes its result."""

    async def main():
        chat = opened(call("ask_user", question="Which?"), "Blue it is.", tools=[ask_user_tool()]).find("talk")
        ended = (await events_until(chat, chat.start("Paint")))[-1]
        (pending,) = ended["pending"]
        assert pending["needs_text"] is True
        events = await events_until(chat, chat.start(Resumption(answers={pending["id"]: "blue"})))
        assert next(event for event in events if event["kind"] == "result")["content"] == "blue"

    asyncio.run(main())


def test_changes_of_a_run_can_be_undone_once(tmp_path):
    """The changes of a run can be undone once, and only from its own conversation."""
    (tmp_path / "a.txt").write_text("old\n")

    async def main():
        known = opened(WRITE, "Done.", workspace=tmp_path, safety="system")
        chat = known.find("talk")
        ended = (await events_until(chat, chat.start("Write")))[-1]
        assert "+new" in ended["changes"]
        for name, record in (("other", ended["record"]), ("talk", "x"), ("talk", "")):
            with pytest.raises(HTTPError, match="has changed that"):
                await known.find(name).undo(record)
        assert "a.txt" in await chat.undo(ended["record"])
        assert (tmp_path / "a.txt").read_text() == "old\n"
        assert (await chat.document())["events"][-1]["undone"] is True
        with pytest.raises(HTTPError, match="already undone"):
            await chat.undo(ended["record"])

    asyncio.run(main())


def test_failed_run_reports_its_error():
    """A run that cannot start or that raises an exception reports its error in an event."""

    async def main():
        known = opened(ZeroDivisionError("broken"), "unused")
        chat = known.find("talk")
        with pytest.raises(SessionError, match="1 to 200"):
            known.find("\n")
        events = await events_until(chat, chat.start(Resumption()))
        assert (kinds(events), "no run to resume" in events[0]["error"]) == (["failed"], True)
        events = await events_until(chat, chat.start("Hi"))
        assert (events[-1]["kind"], events[-1]["status"]) == ("ended", "failed")
        assert "ZeroDivisionError: broken" in events[-1]["error"]
        assert not chat.is_running

    asyncio.run(main())


def test_run_can_be_stopped():
    """Stopping a run interrupts it and allows the next one; stopping an idle chat is ignored."""

    async def main():
        chat = opened(WRITE, "Hello again.").find("talk")
        await chat.stop()
        serial = chat.start("Write")
        await events_until(chat, serial, until="question")
        await chat.stop()
        assert kinds(await events_until(chat, serial))[-1] == "stopped"
        assert kinds(await events_until(chat, chat.start("Hi")))[-1] == "ended"
        assert [event["status"] for event in (await chat.document())["events"] if event["kind"] == "ended"] == [
            "interrupted",
            "done",
        ]

    asyncio.run(main())


def test_agent_inside_a_tool_asks_in_the_same_chat(tmp_path):
    """A question from an agent inside a tool is asked in the same chat, even from another thread."""
    inner = Agent("inner", system_tools, llm=ScriptedLLM(WRITE, "Written."), workspace=tmp_path)

    @tool(timeout_seconds=None)
    def delegate() -> str:
        """Let another agent do it."""
        return inner("Write")

    async def main():
        chat = opened(call("delegate"), "Done.", tools=[delegate]).find("talk")
        serial = chat.start("Write")
        question = (await events_until(chat, serial, until="question"))[-1]
        assert question["agent"] == "inner"
        chat.answer(question["question"], Approval.ONCE)
        await events_until(chat, serial)
        assert (tmp_path / "a.txt").exists()

    asyncio.run(main())


def test_page_conversations_do_not_change_the_agent():
    """Conversations of the page do not change the agent's session or approver."""

    async def main():
        agent = Agent("helper", llm=ScriptedLLM("Hello."), session=Session(), approve=lambda _: True)
        approve = agent.approve
        chat = Chats(agent, InMemorySessionStore(), ConcurrencyLimit(1)).find("talk")
        await events_until(chat, chat.start("Hi"))
        assert (agent.history, agent.approve) == ([], approve)

    asyncio.run(main())


def test_idle_conversations_are_closed():
    """Idle conversations beyond the maximum are closed and loaded from the store on next use."""

    async def main():
        known = opened("Hello.")
        first = known.find("first")
        await events_until(first, first.start("Hi"))
        for number in range(chats._MAX_CHATS):
            known.find(f"idle {number}")
        again = known.find("first")
        assert again is not first
        assert (await again.document())["events"][0]["kind"] == "started"
        assert [each["name"] for each in known.list_sessions()] == ["first"]

    asyncio.run(main())


@pytest.mark.parametrize("name", [None, 5, ["a"]])
def test_name_must_be_a_string(name):
    """A conversation name that is not a string raises an error."""
    with pytest.raises(HTTPError, match="session is the name"):
        opened().find(name)


def test_serials_differ_between_openings():
    """A conversation that is opened again starts at a different serial."""

    async def main():
        store = InMemorySessionStore()
        serials = {opened("unused", store=store).find("talk").serial for _ in range(8)}
        assert len(serials) > 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"answer": "once"}, Approval.ONCE),
        ({"answer": "always", "arguments": {"a": 1}}, Approval.ALWAYS),
        ({"answer": "once", "arguments": {"a": 1}}, {"a": 1}),
        ({"answer": "no", "text": " "}, Approval.NO),
        ({"answer": "no", "text": "not now"}, "not now"),
        ({"answer": "text", "text": "blue"}, "blue"),
        ({"answer": "later"}, Approval.LATER),
    ],
)
def test_answer_is_parsed(document, expected):
    """An answer is parsed as an approval, edited arguments, a reason or text."""
    assert parse_answer(document) == expected


@pytest.mark.parametrize(
    "document", [{}, {"answer": "yes"}, {"answer": "no", "text": 5}, {"answer": "once", "arguments": [1]}]
)
def test_invalid_answer_is_rejected(document):
    """An invalid answer raises an error."""
    with pytest.raises(HTTPError, match="answer is one of"):
        parse_answer(document)
