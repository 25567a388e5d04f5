"""Tests for answers to pending calls, which apply only to the call, folder and agent that requested them."""

from dataclasses import replace

import pytest

from agentkit import Agent, Approval, ConfigError, RunResult, Tool, write_file_tool
from agentkit.agents.human_approval import with_answers
from agentkit.agents.run_config import NONE
from agentkit.errors import SessionError
from agentkit.events import Approved, ResponseReceived, RunEnded, RunResumed, RunStarted, ToolCallPostponed
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call
from agentkit.tooling.run_context import NO_RUN
from agentkit.tools.human import ask_user_tool

WRITE = call("write_file", path="x.txt", content="Hello.")


def later(request):
    """Defer the approval."""
    return Approval.LATER


def folder(tmp_path, name):
    """A new folder."""
    made = tmp_path / name
    made.mkdir()
    return made


def writer(*lines, tools=(write_file_tool,), **options):
    """Return an agent that needs approval to write files."""
    return Agent("writer", tools, llm=ScriptedLLM(*lines), **options)


@pytest.mark.parametrize("by_text", [True, False])
@pytest.mark.parametrize("answers", [True, {"call_1_1": Approval.RUN}, lambda _: True])
def test_approval_applies_to_its_folder(tmp_path, by_text, answers):
    """An approval applies only to an agent in the folder of the request."""
    here, there, place = folder(tmp_path, "d1"), folder(tmp_path, "d2"), tmp_path / "sessions.db"
    paused = writer(WRITE, session=Session.open(place, "x"), approve=later, workspace=here).run("Write.")
    saved = paused.to_json() if by_text else None
    elsewhere = writer("Written.", session=Session.open(place, "x"), workspace=there)
    with pytest.raises(ConfigError) as caught:
        elsewhere.resume(saved, answers)
    assert f"waits for approval in {str(here)!r}, but the workspace is {str(there)!r}" in str(caught.value)
    assert f"workspace={str(here)!r}" in str(caught.value)
    assert list(there.iterdir()) == list(here.iterdir()) == []
    again = writer("Written.", session=Session.open(place, "x"), workspace=here)
    assert again.resume(saved, answers).status == "done"
    assert (here / "x.txt").read_text() == "Hello."
    assert list(there.iterdir()) == []


def test_stored_approval_applies_to_its_folder(tmp_path):
    """An approval stored before a kill is not applied in another folder."""
    here, there, session = folder(tmp_path, "d1"), folder(tmp_path, "d2"), Session.open(tmp_path / "sessions.db", "x")
    paused = writer(WRITE, session=session, approve=later, workspace=here).run("Write.")
    killed = session.reopen(paused.run_id)
    for event in (RunResumed(), Approved("call_1_1", "once")):
        killed.keep(event)
    killed.leave()
    assert session.unfinished == (paused.run_id,)
    with pytest.raises(ConfigError, match="waits for approval in"):
        writer("Written.", session=session, workspace=there).resume()
    assert list(there.iterdir()) == []


def test_question_can_be_answered_in_any_folder(tmp_path):
    """A question can be answered in any folder."""
    here, there = folder(tmp_path, "d1"), folder(tmp_path, "d2")
    options = {"tools": [ask_user_tool()]}
    text = writer(call("ask_user", question="Which?"), **options, workspace=here).run("Write.").to_json()
    done = writer("Written.", **options, workspace=there).resume(text, "This one.")
    assert (done.status, done.tool_calls[0].result.value) == ("done", "This one.")


def test_pending_call_without_a_folder_can_be_approved(tmp_path):
    """A pending call stored without a folder can be approved in the current folder."""
    session, question = Session(), writer(WRITE, approve=later, workspace=tmp_path).run("Write.")
    run = session.begin()
    for event in question.events:
        is_asked = isinstance(event, ToolCallPostponed)
        run.progress.apply(ToolCallPostponed(event.call, event.question, event.decision) if is_asked else event)
    run.close()
    assert [type(each) for each in question.events] == [RunStarted, ResponseReceived, ToolCallPostponed, RunEnded]
    assert writer("Written.", session=session, workspace=tmp_path).resume(answers=True).status == "done"


def test_resuming_requires_the_tool_of_the_pending_call(tmp_path):
    """Resuming without the tool of the pending call raises ConfigError and leaves the run pending."""
    place, erased = tmp_path / "sessions.db", []

    def erase(name: str) -> None:
        """Erase something."""
        erased.append(name)

    tools = [Tool(erase, level="SYSTEM")]
    writer(call("erase", name="it"), tools=tools, session=Session.open(place, "x"), approve=later).run("Erase.")
    with pytest.raises(ConfigError, match=r"'erase' .* tools="):
        writer("Erased.", session=Session.open(place, "x")).resume(answers=True)
    done = writer("Erased.", tools=tools, session=Session.open(place, "x")).resume(answers=True)
    assert (done.status, erased) == ("done", ["it"])


def test_resuming_without_answers_shows_pending_calls(tmp_path):
    """Resuming without answers and approver returns the pending calls."""
    place = tmp_path / "sessions.db"
    writer(WRITE, session=Session.open(place, "x"), approve=later, workspace=tmp_path).run("Write.")
    looking = writer("Written.", session=Session.open(place, "x"), workspace=tmp_path)
    seen = looking.resume()
    assert (seen.status, [each.tool for each in seen.pending], looking.llm.requests) == ("paused", ["write_file"], [])
    assert not (tmp_path / "x.txt").exists()
    assert seen.resume({seen.pending[0].id: True}).status == "done"


@pytest.mark.parametrize("text", [True, False, Approval.ONCE, {"call_1_1": True}, later, ["call_1_1"]])
def test_answer_instead_of_a_run_is_rejected(tmp_path, text):
    """Passing an answer instead of a run to `resume` raises ConfigError, and the run stays paused."""
    agent = writer(WRITE, "Written.", session=Session.open(tmp_path / "s.db", "x"), approve=later, workspace=tmp_path)
    agent.run("Write.")
    with pytest.raises(ConfigError, match=r"agent\.resume\(answers=True\)"):
        agent.resume(text)
    assert agent.resume(answers=True).status == "done"


def test_run_is_resumed_by_its_id(tmp_path):
    """A paused run is resumed by its id, and an unknown id raises SessionError."""
    place = tmp_path / "sessions.db"
    lines = [call("write_file", path=name, content="") for name in ("a.txt", "b.txt")]
    asking_agent = writer(*lines, session=Session.open(place, "x"), approve=later, workspace=tmp_path)
    first, second = asking_agent.run("Write."), asking_agent.run("Write.")
    deciding = writer("Written.", "Written.", session=Session.open(place, "x"), workspace=tmp_path)
    assert deciding.session.unfinished == (first.run_id, second.run_id)
    with pytest.raises(
        SessionError, match=f"The session 'x' has no unfinished run '0+'. Its unfinished runs: {first.run_id}, "
    ):
        deciding.resume("0" * 32, True)
    done = deciding.resume(first.run_id, True)
    assert (done.status, done.run_id, deciding.session.unfinished) == ("done", first.run_id, (second.run_id,))
    assert (tmp_path / "a.txt").exists()
    assert not (tmp_path / "b.txt").exists()
    assert RunResult.from_json(second.to_json()).run_id == second.run_id


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            lambda waits: {waits.id: {"path": "a.txt", "contents": "x"}},
            "cannot have these arguments: .*'contents'.* No",
        ),
        (
            lambda _: {"path": "a.txt", "content": "x"},
            r"No call with the id path, content waits .*write {'call_\S+': {",
        ),
    ],
)
def test_invalid_replacement_arguments_are_rejected(text, message, tmp_path):
    """Invalid replacement arguments raise ConfigError, and the call stays pending."""
    agent = writer(call("write_file", path="a.txt", content=""), "Written.", approve=later, workspace=tmp_path)
    paused = agent.run("Write.")
    with pytest.raises(ConfigError, match=message):
        paused.resume(text(paused.pending[0]))
    assert paused.resume({paused.pending[0].id: {"path": "b.txt", "content": "x"}}).status == "done"
    assert (tmp_path / "b.txt").read_text("utf-8") == "x"


def test_nothing_to_resume():
    """Resuming without a stored session or a paused run raises an error that explains why."""
    with pytest.raises(SessionError, match="This agent has no run to resume: no run is paused, and without"):
        writer().resume()


def refusing(ran, *lines, **options):
    """Return an agent that pays with approval, and a worker that may erase without an approver."""

    def pay(order: str) -> str:
        """Pay."""
        ran.append(order)
        return "paid"

    def erase(name: str) -> str:
        """Erase something."""
        ran.append(name)
        return "erased"

    worker = Agent("worker", [Tool(erase, level="SYSTEM")], llm=ScriptedLLM(call("erase", name="all"), "Erased."))
    tools = [Tool(pay, level="SYSTEM"), worker.as_tool()]
    return Agent("boss", tools, llm=ScriptedLLM(*lines), approve=later, **options)


@pytest.mark.parametrize("by_id", [True, False])
def test_approval_does_not_cover_a_worker_with_the_same_id(by_id):
    """An approval does not cover a worker's call with the same id."""
    ran = []
    boss = refusing(ran, call("pay", order="A1"), call("worker", request="Tidy up."), "Done.")
    paused = boss.run("Pay.")
    (pending,) = paused.pending
    assert pending.id == "call_1_1"
    again = paused.resume({pending.id: True} if by_id else True)
    assert (again.status, ran) == ("paused", ["A1"])
    assert [each.tool for each in again.pending] == ["erase"]


def test_approval_does_not_cover_the_call_of_a_worker():
    """Approving a pending call does not approve a worker's call next to it."""
    ran = []
    calls = [call("pay", order="A1"), call("worker", request="Tidy up.")]
    paused = refusing(ran, calls, "Done.").run("Pay.")
    pay, erase = paused.pending
    again = paused.resume({pay.id: True})
    assert ([each.id for each in again.pending], ran) == ([erase.id], ["A1"])


def test_answer_applies_to_one_call_once():
    """An answer applies once, and only to a call with the same id, tool and arguments."""
    agent = refusing([], call("pay", order="A1"))
    agent.run("Pay.")
    run = agent.session.reopen()
    (waiting,) = run.progress.waiting
    config = with_answers(agent._run_config(NO_RUN, None, NONE, lambda: agent.llm), True, [waiting])
    for other in ({"arguments": '{"order": "B2"}'}, {"name": "worker"}, {"id": "call_2_1"}):
        assert config.prepared_answer(replace(waiting.call, **other)) is None
    assert config.prepared_answer(waiting.call) is not None
    assert config.prepared_answer(waiting.call) is None
