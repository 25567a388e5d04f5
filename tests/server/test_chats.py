"""Does a conversation of the page go on, ask, stop, undo, and come back?"""

import asyncio
import json

import pytest

from agentkit import Agent, Session, system_tools, tool
from agentkit.agents.result import Resumption
from agentkit.errors import SessionError
from agentkit.safety.approval import Approval
from agentkit.server import chats
from agentkit.server.chats import Chats, said_of
from agentkit.server.http_types import ConcurrencyLimit, HTTPError
from agentkit.sessions.stores.in_memory import InMemorySessionStore
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.human import ask_user_tool

WRITE = call("write_file", path="a.txt", content="new\n")


def opened(*lines, tools=system_tools, store=None, most_runs=8, **options):
    """The conversations of an agent with these lines."""
    agent = Agent("helper", tools, llm=ScriptedLLM(*lines), **options)
    return Chats(agent, store or InMemorySessionStore(), ConcurrencyLimit(most_runs))


async def heard(chat, serial, until=None):
    """What happens in a run, to its end or to an event of that kind."""
    found = []
    async for line in chat.lines(serial):
        found.append(json.loads(line))
        if found[-1]["kind"] == until:
            break
    return found


def kinds(events):
    """The kinds of events, in order."""
    return [event["kind"] for event in events]


def test_a_run_is_heard_by_all_who_listen():
    """Everybody hears all of a run, from whenever they listen, also after its end."""

    async def main():
        chat = opened("Hello there.").find("talk")
        serial = chat.start("Hi")
        one, two = await asyncio.gather(heard(chat, serial), heard(chat, serial))
        assert one == two == await heard(chat, serial)
        assert kinds(one)[0] == "begun"
        assert kinds(one)[-1] == "ended"
        assert [line async for line in chat.lines(serial, after=len(one) - 1)] == [
            line async for line in chat.lines(serial)
        ][-1:]

    asyncio.run(main())


def test_a_run_of_another_number_is_not_heard():
    """Who listens to a run that another has followed hears nothing, rather than the wrong one."""

    async def main():
        chat = opened("One.").find("talk")
        await heard(chat, chat.start("Hi"))
        assert await heard(chat, 7) == []

    asyncio.run(main())


def test_what_was_said_is_told_again():
    """A conversation tells all that was said before, and while a run goes on, what stood before it."""

    async def main():
        store = InMemorySessionStore()
        chat = opened("One.", WRITE, "Two.", store=store).find("talk")
        await heard(chat, chat.start("First"))
        serial = chat.start("Second")
        await heard(chat, serial, until="asked")
        document = await chat.document()
        assert (document["running"], document["serial"]) == (True, serial)
        assert [event["prompt"] for event in document["events"] if event["kind"] == "begun"] == ["First"]
        await chat.stop()
        document = await opened(store=store).find("talk").document()
        assert [event["prompt"] for event in document["events"] if event["kind"] == "begun"] == ["First", "Second"]
        assert (document["running"], document["tokens"]) == (False, 30)

    asyncio.run(main())


def test_one_run_at_a_time():
    """A conversation has one run at a time, and all together no more than there is room for."""

    async def main():
        known = opened(WRITE, "Done.", most_runs=1)
        chat = known.find("talk")
        serial = chat.start("Write")
        await heard(chat, serial, until="asked")
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
    ("said", "content"),
    [
        (Approval.ONCE, "new\n"),
        ({"path": "a.txt", "content": "edited\n"}, "edited\n"),
        (Approval.NO, None),
        ("not today", None),
    ],
)
def test_a_person_answers(said, content, tmp_path):
    """What the person says of a call is what happens: it runs, runs with other arguments, or does not."""

    async def main():
        chat = opened(WRITE, "Done.", workspace=tmp_path).find("talk")
        serial = chat.start("Write")
        question = (await heard(chat, serial, until="asked"))[-1]
        chat.answer(question["question"], said)
        events = await heard(chat, serial)
        assert ((tmp_path / "a.txt").read_text() if content else None) == content
        result = next(event for event in events if event["kind"] == "result")
        assert result["ok"] is bool(content)
        assert said != "not today" or "not today" in result["content"]
        with pytest.raises(HTTPError, match="no longer"):
            chat.answer(question["question"], said)

    asyncio.run(main())


@pytest.mark.parametrize("number", [99, None, "1", [1]])
def test_only_what_is_asked_can_be_answered(number):
    """An answer to a question that nobody asked is refused."""

    async def main():
        with pytest.raises(HTTPError, match="no longer waits"):
            opened().find("talk").answer(number, Approval.ONCE)

    asyncio.run(main())


def test_always_lasts_for_the_conversation(tmp_path):
    """A call that is always allowed is not asked about again in its conversation, and still is in another."""

    async def main():
        known = opened(WRITE, "One.", WRITE, "Two.", WRITE, "Three.", workspace=tmp_path)
        chat = known.find("talk")
        serial = chat.start("Write")
        chat.answer((await heard(chat, serial, until="asked"))[-1]["question"], Approval.ALWAYS)
        await heard(chat, serial)
        assert "asked" not in kinds(await heard(chat, chat.start("Again")))
        other = known.find("other")
        assert kinds(await heard(other, other.start("And here"), until="asked"))[-1] == "asked"
        await known.close()

    asyncio.run(main())


def test_what_is_left_for_later_can_be_answered_later(tmp_path):
    """A question that is put off pauses the run; an answer given later lets it go on."""

    async def main():
        store = InMemorySessionStore()
        chat = opened(WRITE, store=store, workspace=tmp_path).find("talk")
        serial = chat.start("Write")
        chat.answer((await heard(chat, serial, until="asked"))[-1]["question"], Approval.LATER)
        ended = (await heard(chat, serial))[-1]
        assert ended["status"] == "paused"
        later = opened("Done.", store=store, workspace=tmp_path).find("talk")
        (pending,) = (await later.document())["events"][-1]["pending"]
        events = await heard(later, later.start(Resumption(answers={pending["id"]: Approval.ONCE})))
        assert kinds(events)[0] == "resumed"
        assert (tmp_path / "a.txt").read_text() == "new\n"

    asyncio.run(main())


def test_silence_is_no_answer(tmp_path):
    """A question that nobody answers in time is left for later: the run ends paused, and nothing has happened."""

    async def main():
        agent = Agent("helper", system_tools, llm=ScriptedLLM(WRITE), workspace=tmp_path)
        chat = Chats(agent, InMemorySessionStore(), ConcurrencyLimit(1), patience_seconds=0.01).find("talk")
        ended = (await heard(chat, chat.start("Write")))[-1]
        assert (ended["status"], len(ended["pending"])) == ("paused", 1)
        assert not (tmp_path / "a.txt").exists()

    asyncio.run(main())


def test_a_question_for_words_waits_for_them():
    """A tool that asks the person pauses the run; the words become its result."""

    async def main():
        chat = opened(call("ask_user", question="Which?"), "Blue it is.", tools=[ask_user_tool()]).find("talk")
        ended = (await heard(chat, chat.start("Paint")))[-1]
        (pending,) = ended["pending"]
        assert pending["needs_words"] is True
        events = await heard(chat, chat.start(Resumption(answers={pending["id"]: "blue"})))
        assert next(event for event in events if event["kind"] == "result")["content"] == "blue"

    asyncio.run(main())


def test_what_a_run_changed_can_be_undone_once(tmp_path):
    """The changes of a run are taken back by its record, and by no other conversation."""
    (tmp_path / "a.txt").write_text("old\n")

    async def main():
        known = opened(WRITE, "Done.", workspace=tmp_path, safety="system")
        chat = known.find("talk")
        ended = (await heard(chat, chat.start("Write")))[-1]
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


def test_what_a_run_fails_with_is_told():
    """A run that cannot begin, and one that breaks, say so to whoever listens."""

    async def main():
        known = opened(ZeroDivisionError("broken"), "unused")
        chat = known.find("talk")
        with pytest.raises(SessionError, match="1 to 200"):
            known.find("\n")
        events = await heard(chat, chat.start(Resumption()))
        assert (kinds(events), "no run to resume" in events[0]["error"]) == (["failed"], True)
        events = await heard(chat, chat.start("Hi"))
        assert (events[-1]["kind"], events[-1]["status"]) == ("ended", "failed")
        assert "ZeroDivisionError: broken" in events[-1]["error"]
        assert not chat.is_running

    asyncio.run(main())


def test_a_run_can_be_stopped():
    """A run that is stopped ends, keeps what was done, and lets the next begin; stopping nothing is no error."""

    async def main():
        chat = opened(WRITE, "Hello again.").find("talk")
        await chat.stop()
        serial = chat.start("Write")
        await heard(chat, serial, until="asked")
        await chat.stop()
        assert kinds(await heard(chat, serial))[-1] == "stopped"
        assert kinds(await heard(chat, chat.start("Hi")))[-1] == "ended"
        assert [event["status"] for event in (await chat.document())["events"] if event["kind"] == "ended"] == [
            "interrupted",
            "done",
        ]

    asyncio.run(main())


def test_an_agent_within_a_tool_asks_here_too(tmp_path):
    """What an agent inside a tool must ask for is asked on the same page, also from another thread."""
    inner = Agent("inner", system_tools, llm=ScriptedLLM(WRITE, "Written."), workspace=tmp_path)

    @tool(timeout_seconds=None)
    def delegate() -> str:
        """Let another agent do it."""
        return inner("Write")

    async def main():
        chat = opened(call("delegate"), "Done.", tools=[delegate]).find("talk")
        serial = chat.start("Write")
        question = (await heard(chat, serial, until="asked"))[-1]
        assert question["agent"] == "inner"
        chat.answer(question["question"], Approval.ONCE)
        await heard(chat, serial)
        assert (tmp_path / "a.txt").exists()

    asyncio.run(main())


def test_the_agents_own_conversation_stays_its_own():
    """Conversations of the page leave the agent object, its session and its approver as they are."""

    async def main():
        agent = Agent("helper", llm=ScriptedLLM("Hello."), session=Session(), approve=lambda _: True)
        approve = agent.approve
        chat = Chats(agent, InMemorySessionStore(), ConcurrencyLimit(1)).find("talk")
        await heard(chat, chat.start("Hi"))
        assert (agent.history, agent.approve) == ([], approve)

    asyncio.run(main())


def test_idle_conversations_are_let_go():
    """Of conversations that nobody uses only so many stay open; they are kept where sessions are kept."""

    async def main():
        known = opened("Hello.")
        first = known.find("first")
        await heard(first, first.start("Hi"))
        for number in range(chats._MOST_CHATS):
            known.find(f"idle {number}")
        again = known.find("first")
        assert again is not first
        assert (await again.document())["events"][0]["kind"] == "begun"
        assert [each["name"] for each in known.listed()] == ["first"]

    asyncio.run(main())


@pytest.mark.parametrize("name", [None, 5, ["a"]])
def test_a_name_is_a_text(name):
    """What is no text names no conversation."""
    with pytest.raises(HTTPError, match="session is the name"):
        opened().find(name)


def test_conversations_are_told_apart_in_time():
    """Neither the numbers of runs nor the marks of questions come again when a conversation is opened anew."""

    async def main():
        store = InMemorySessionStore()
        serials = {opened("unused", store=store).find("talk").serial for _ in range(8)}
        assert len(serials) > 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"answer": "once"}, Approval.ONCE),
        ({"answer": "always", "arguments": {"a": 1}}, Approval.ALWAYS),
        ({"answer": "once", "arguments": {"a": 1}}, {"a": 1}),
        ({"answer": "no", "text": " "}, Approval.NO),
        ({"answer": "no", "text": "not now"}, "not now"),
        ({"answer": "words", "text": "blue"}, "blue"),
        ({"answer": "later"}, Approval.LATER),
    ],
)
def test_an_answer_is_understood(document, said):
    """A word of approval, other arguments, a reason or words are what an approver may say."""
    assert said_of(document) == said


@pytest.mark.parametrize(
    "document", [{}, {"answer": "yes"}, {"answer": "no", "text": 5}, {"answer": "once", "arguments": [1]}]
)
def test_what_is_no_answer_is_refused(document):
    """Anything else is no answer, and above all no yes."""
    with pytest.raises(HTTPError, match="answer is one of"):
        said_of(document)
