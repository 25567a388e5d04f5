"""How does a run talk to a person, and how does a model say that it is done?"""

import asyncio

import pytest

from agentkit import Agent, Approval, Tool
from agentkit.errors import Postponed
from agentkit.events import Approved, RunResumed, ToolCallFinished
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionEntry
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.human import ask_user_tool, dialogue_tools, finish_tool, tell_user_tool

WAYS = ["run", "arun", "stream", "astream"]
ASK = call("ask_user", question="Which one?")


async def answer_later(question):
    """A person who answers after a while."""
    await asyncio.sleep(0)
    return f"{question} The red one."


@pytest.mark.for_each("ask", [lambda question: f"{question} The red one.", answer_later])
@pytest.mark.for_each("way", WAYS)
def test_ask_user_with_a_function(way, ask, drive):
    """A function answers at once, whether it blocks or awaits; its words are the result of the call."""
    llm = ScriptedLLM(ASK, "Red it is.")
    assert drive(Agent("helper", dialogue_tools(ask), llm=llm), way).output == "Red it is."
    assert llm.requests[1].messages[-1].content == "Which one? The red one."


@pytest.mark.parametrize("way", WAYS)
def test_ask_user_without_a_function_pauses(way, drive, find_faults):
    """Without a function the run pauses with the question, and goes on with the words of the person."""
    llm = ScriptedLLM(ASK, "Red it is.")
    agent = Agent("helper", dialogue_tools(), llm=llm)
    result = drive(agent, way)
    (pending,) = result.pending
    assert (result.status, pending.question, pending.needs_answer) == ("paused", "Which one?", True)
    done = drive(agent, way, result.resumption({pending.id: "The red one."}))
    assert (done.output, llm.requests[1].messages[-1].content) == ("Red it is.", "The red one.")
    assert find_faults(agent.history) == []
    assert done.tool_calls[0].result.value == "The red one."


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("The red one.", "The red one."),
        ({"call_1_1": "The red one."}, "The red one."),
        ({"call_1_1": True}, "yes"),
        ({"call_1_1": False}, "no"),
        ({"call_1_1": {"colour": "red"}}, '{"colour": "red"}'),
        (lambda request: f"About {request.decision.reason!r}: red.", "About 'Which one?': red."),
    ],
)
def test_answers(answer, told):
    """A question is answered with words, with yes or no when it is named, or by a function."""
    llm = ScriptedLLM(ASK, "Done.")
    Agent("helper", [ask_user_tool()], llm=llm).run("go").resume(answer)
    assert llm.requests[1].messages[-1].content == told


NO_WORDS = [None, True, False, {}, Approval.ONCE, Approval.NO, {"call_1_1": Approval.ALWAYS}]


@pytest.mark.for_each("answer", [*NO_WORDS, lambda _: True, lambda _: None, lambda _: Approval.LATER])
def test_yes_to_everything_answers_no_question(answer):
    """What approves or refuses everything has not answered a question: it goes on waiting."""
    result = Agent("helper", [ask_user_tool()], llm=ScriptedLLM(ASK)).run("go").resume(answer)
    assert (result.status, [pending.question for pending in result.pending]) == ("paused", ["Which one?"])


def test_approver_does_not_answer_questions():
    """An agent whose approver says yes to all asks the person all the same."""
    agent = Agent("helper", [ask_user_tool()], approve=lambda _: True, llm=ScriptedLLM(ASK))
    assert agent.run("go").resume().status == "paused"


def fail(request):
    """Has a bug."""
    raise LookupError("nobody home")


@pytest.mark.parametrize(
    ("answer", "told"), [({"call_1_1": Approval.NO}, "The person did not answer."), (fail, "LookupError: nobody home")]
)
def test_no_answer_is_told(answer, told):
    """When the person will not answer, or asking fails, the model is told, and the run goes on."""
    llm = ScriptedLLM(ASK, "Then not.")
    assert Agent("helper", [ask_user_tool()], llm=llm).run("go").resume(answer).output == "Then not."
    assert told in llm.requests[1].messages[-1].content


def test_any_tool_may_wait():
    """A tool of one's own that raises Postponed waits for words, after it was approved like any other."""
    begun = []

    def order(thing: str) -> str:
        begun.append(thing)
        raise Postponed(f"Has the {thing} come?")

    llm = ScriptedLLM(call("order", thing="lamp"), "Fine.")
    agent = Agent("helper", [Tool(order, level="SYSTEM")], approve=lambda _: True, llm=llm)
    first = agent.run("go")
    assert [pending.question for pending in first.pending] == ["Has the lamp come?"]
    assert first.resume("It has.").output == "Fine."
    assert (begun, llm.requests[1].messages[-1].content) == (["lamp"], "It has.")


def test_an_answer_that_was_kept_is_not_asked_for_again(tmp_path):
    """When the process dies right after a person has answered, the next one goes on with the answer."""
    result = Agent("helper", [ask_user_tool()], llm=ScriptedLLM(ASK)).run("go")
    session = Session.open(tmp_path / "a.db", "trip")
    kept = [*result.milestones, RunResumed(), Approved("call_1_1", Approval.ONCE, "The red one.")]
    session.store.append("trip", [SessionEntry("run", 1.0, milestone) for milestone in kept])
    llm = ScriptedLLM("Red it is.")
    assert Agent("helper", [ask_user_tool()], llm=llm, session=session).resume().output == "Red it is."
    assert llm.requests[0].messages[-1].content == "The red one."


@pytest.mark.parametrize("way", WAYS)
def test_tell_user(way, drive):
    """What the model tells on the way reaches the person while the run goes on, and the events in any case."""
    told, events = [], []

    async def show(message):
        await asyncio.sleep(0)
        told.append(message)

    for tell in (None, told.append, show):
        agent = Agent("helper", [tell_user_tool(tell)], llm=ScriptedLLM(call("tell_user", message="Halfway."), "Done."))
        agent.on(ToolCallFinished, events.append)
        assert drive(agent, way).output == "Done."
    assert told == ["Halfway.", "Halfway."]
    assert len(events) == 3


@pytest.mark.parametrize("way", WAYS)
def test_finish_ends_the_run(way, drive, find_faults):
    """`finish` ends the run: its argument is the answer, the last of the history; the model is not asked again."""
    llm = ScriptedLLM(call("finish", answer="It is 4."))
    agent = Agent("helper", dialogue_tools(), llm=llm)
    result = drive(agent, way)
    assert (result.output, result.status, result.iterations) == ("It is 4.", "done", 1)
    assert find_faults(agent.history) == []
    assert agent.history[-1] == {"role": "assistant", "content": "It is 4."}


def test_finish_is_given_whole():
    """However long an answer `finish` gives, it is the whole answer."""
    answer = "x" * 200_000
    assert Agent("helper", [finish_tool], llm=ScriptedLLM(call("finish", answer=answer)))("go") == answer


def test_finish_waits_for_the_other_calls(find_faults):
    """Calls beside `finish` run, too; when one waits for a person, the run ends after the person has answered."""
    llm = ScriptedLLM([call("finish", answer="Done."), ASK])
    agent = Agent("helper", dialogue_tools(), llm=llm)
    result = agent.run("go")
    assert result.status == "paused"
    assert result.resume("Red.").output == "Done."
    assert find_faults(agent.history) == []
    assert len(llm.requests) == 1


def test_finish_that_fails_goes_on():
    """Without its argument `finish` is told to be wrong, and the run goes on."""
    assert Agent("helper", [finish_tool], llm=ScriptedLLM(call("finish"), "It is 4."))("go") == "It is 4."
