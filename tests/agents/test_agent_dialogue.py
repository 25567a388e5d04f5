"""Tests for questions to a person, messages to a person, and `finish`."""

import asyncio

import pytest

from agentkit import Agent, Approval, Tool
from agentkit.errors import Postponed
from agentkit.events import Approved, RunResumed, ToolCallFinished
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionEntry
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.human import ask_user_tool, dialogue_tools, finish_tool, tell_user_tool

MODES = ["run", "arun", "stream", "astream"]
ASK = call("ask_user", question="Which one?")


async def answer_later(question):
    """Return the person's answer after a delay."""
    await asyncio.sleep(0)
    return f"{question} The red one."


@pytest.mark.for_each("ask", [lambda question: f"{question} The red one.", answer_later])
@pytest.mark.for_each("mode", MODES)
def test_ask_user_with_a_function(mode, ask, drive):
    """The return value of a sync or async ask function is the result of the call."""
    llm = ScriptedLLM(ASK, "Red it is.")
    assert drive(Agent("helper", dialogue_tools(ask), llm=llm), mode).output == "Red it is."
    assert llm.requests[1].messages[-1].content == "Which one? The red one."


@pytest.mark.parametrize("mode", MODES)
def test_ask_user_without_a_function_pauses(mode, drive, find_faults):
    """Without a function, the run pauses with the question and resumes with the person's answer."""
    llm = ScriptedLLM(ASK, "Red it is.")
    agent = Agent("helper", dialogue_tools(), llm=llm)
    result = drive(agent, mode)
    (pending,) = result.pending
    assert (result.status, pending.question, pending.needs_answer) == ("paused", "Which one?", True)
    done = drive(agent, mode, result.resumption({pending.id: "The red one."}))
    assert (done.output, llm.requests[1].messages[-1].content) == ("Red it is.", "The red one.")
    assert find_faults(agent.history) == []
    assert done.tool_calls[0].result.value == "The red one."


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The red one.", "The red one."),
        ({"call_1_1": "The red one."}, "The red one."),
        ({"call_1_1": True}, "yes"),
        ({"call_1_1": False}, "no"),
        ({"call_1_1": {"colour": "red"}}, '{"colour": "red"}'),
        (lambda request: f"About {request.decision.reason!r}: red.", "About 'Which one?': red."),
    ],
)
def test_answers(answer, expected):
    """A question is answered by a value, by a mapping from its id, or by a function."""
    llm = ScriptedLLM(ASK, "Done.")
    Agent("helper", [ask_user_tool()], llm=llm).run("go").resume(answer)
    assert llm.requests[1].messages[-1].content == expected


NO_WORDS = [None, True, False, {}, Approval.ONCE, Approval.NO, {"call_1_1": Approval.ALWAYS}]


@pytest.mark.for_each("answer", [*NO_WORDS, lambda _: True, lambda _: None, lambda _: Approval.LATER])
def test_approving_everything_does_not_answer_a_question(answer):
    """Approving or denying all pending calls does not answer a question: the run stays paused."""
    result = Agent("helper", [ask_user_tool()], llm=ScriptedLLM(ASK)).run("go").resume(answer)
    assert (result.status, [pending.question for pending in result.pending]) == ("paused", ["Which one?"])


def test_approver_does_not_answer_questions():
    """An approver does not answer questions for the person."""
    agent = Agent("helper", [ask_user_tool()], approve=lambda _: True, llm=ScriptedLLM(ASK))
    assert agent.run("go").resume().status == "paused"


def fail(request):
    """Raise an error."""
    raise LookupError("nobody home")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [({"call_1_1": Approval.NO}, "The person did not answer."), (fail, "LookupError: nobody home")],
)
def test_missing_answer_is_reported_to_the_model(answer, expected):
    """If the person declines to answer or asking fails, the model is informed and the run continues."""
    llm = ScriptedLLM(ASK, "Then not.")
    assert Agent("helper", [ask_user_tool()], llm=llm).run("go").resume(answer).output == "Then not."
    assert expected in llm.requests[1].messages[-1].content


def test_custom_tool_may_pause_the_run():
    """A tool that raises Postponed pauses the run until it is answered."""
    started = []

    def order(item: str) -> str:
        started.append(item)
        raise Postponed(f"Has the {item} come?")

    llm = ScriptedLLM(call("order", item="lamp"), "Fine.")
    agent = Agent("helper", [Tool(order, level="SYSTEM")], approve=lambda _: True, llm=llm)
    first = agent.run("go")
    assert [pending.question for pending in first.pending] == ["Has the lamp come?"]
    assert first.resume("It has.").output == "Fine."
    assert (started, llm.requests[1].messages[-1].content) == (["lamp"], "It has.")


def test_stored_answer_is_not_requested_again(tmp_path):
    """A stored answer is not requested again after the process has died."""
    result = Agent("helper", [ask_user_tool()], llm=ScriptedLLM(ASK)).run("go")
    session = Session.open(tmp_path / "a.db", "trip")
    messages = [*result.events, RunResumed(), Approved("call_1_1", Approval.ONCE, "The red one.")]
    session.store.append("trip", [SessionEntry("run", 1.0, event) for event in messages])
    llm = ScriptedLLM("Red it is.")
    assert Agent("helper", [ask_user_tool()], llm=llm, session=session).resume().output == "Red it is."
    assert llm.requests[0].messages[-1].content == "The red one."


@pytest.mark.parametrize("mode", MODES)
def test_tell_user(mode, drive):
    """A message of `tell_user` is passed to the function and is also reported as an event."""
    messages, events = [], []

    async def show(message):
        await asyncio.sleep(0)
        messages.append(message)

    for tell in (None, messages.append, show):
        agent = Agent("helper", [tell_user_tool(tell)], llm=ScriptedLLM(call("tell_user", message="Halfway."), "Done."))
        agent.on(ToolCallFinished, events.append)
        assert drive(agent, mode).output == "Done."
    assert messages == ["Halfway.", "Halfway."]
    assert len(events) == 3


@pytest.mark.parametrize("mode", MODES)
def test_finish_ends_the_run(mode, drive, find_faults):
    """`finish` ends the run with its argument as the answer, without another request."""
    llm = ScriptedLLM(call("finish", answer="It is 4."))
    agent = Agent("helper", dialogue_tools(), llm=llm)
    result = drive(agent, mode)
    assert (result.output, result.status, result.iterations) == ("It is 4.", "done", 1)
    assert find_faults(agent.history) == []
    assert agent.history[-1] == {"role": "assistant", "content": "It is 4."}


def test_finish_is_not_truncated():
    """A long answer of `finish` is not truncated."""
    answer = "x" * 200_000
    assert Agent("helper", [finish_tool], llm=ScriptedLLM(call("finish", answer=answer)))("go") == answer


def test_finish_waits_for_the_other_calls(find_faults):
    """The other calls of the response run as well, and a pending question pauses the run before it ends."""
    llm = ScriptedLLM([call("finish", answer="Done."), ASK])
    agent = Agent("helper", dialogue_tools(), llm=llm)
    result = agent.run("go")
    assert result.status == "paused"
    assert result.resume("Red.").output == "Done."
    assert find_faults(agent.history) == []
    assert len(llm.requests) == 1


def test_failed_finish_does_not_end_the_run():
    """A `finish` call without its argument fails, and the run continues."""
    assert Agent("helper", [finish_tool], llm=ScriptedLLM(call("finish"), "It is 4."))("go") == "It is 4."
