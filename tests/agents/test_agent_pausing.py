"""What happens to a run that waits for a person, and how does it go on?"""

import asyncio
import json
from dataclasses import replace

import pytest

from agentkit import Agent, Approval, ConfigError, Policy, RunError, RunResult, Tool, Verdict
from agentkit.errors import SessionError, Unreachable
from agentkit.events import Approved, ToolCallPostponed
from agentkit.messages import UserMessage
from agentkit.safety.rules import Rule
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.human import ask_user_tool

WAYS = ["run", "arun", "stream", "astream"]


def later(request):
    """Wants to decide later."""
    return Approval.LATER


async def alater(request):
    """Wants to decide later, after a while."""
    await asyncio.sleep(0)
    return Approval.LATER


class Desk:
    """A tool that must be asked for, one that need not, and what they did."""

    def __init__(self):
        self.erased, self.added = [], []

    def erase(self, name: str) -> str:
        """Erase something."""
        self.erased.append(name)
        return f"{name} is gone"

    def add(self, a: int) -> int:
        """Add one."""
        self.added.append(a)
        return a + 1

    def tools(self):
        """Both tools."""
        return [Tool(self.erase, level="SYSTEM"), self.add]

    def agent(self, *lines, approve=later, **options):
        """An agent with both tools."""
        return Agent("helper", self.tools(), llm=ScriptedLLM(*lines), approve=approve, **options)

    def paused(self, *lines, **options):
        """An agent with a run that waits for approval to erase `it`, and its result; then the model says `lines`."""
        agent = self.agent(call("erase", name="it"), *lines, **options)
        return agent, agent.run("go")


@pytest.mark.for_each("approve", [later, alater])
@pytest.mark.for_each("way", WAYS)
def test_later_pauses(way, approve, drive, find_faults):
    """When the approver wants to answer later, the run pauses: what needs no approval has run, and the rest waits."""
    desk = Desk()
    agent = desk.agent([call("add", a=1), call("erase", name="it")], "Done.", approve=approve)
    result = drive(agent, way)
    assert (result.status, desk.added, desk.erased, result.error) == ("paused", [1], [], None)
    (pending,) = result.pending
    assert (pending.tool, json.loads(pending.arguments), pending.needs_answer) == ("erase", {"name": "it"}, False)
    assert "'helper'" not in pending.question
    assert "helper wants to call erase" in pending.question
    assert agent.history == []
    done = drive(agent, way, result.resumption(True))
    assert (done.status, done.output, desk.added, desk.erased) == ("done", "Done.", [1], ["it"])
    assert find_faults(agent.history) == []
    assert [message["role"] for message in agent.history] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [used.result.value for used in done.tool_calls] == [2, "it is gone"]


def test_messages_of_a_paused_run_are_valid(find_faults):
    """The messages of a paused result have a result for each call: one that waits says so."""
    _, result = Desk().paused()
    assert [type(message).__name__ for message in result.messages] == ["UserMessage", "AssistantMessage", "ToolMessage"]
    assert "waits for a person" in result.messages[-1].content


@pytest.mark.for_each(
    ("answer", "erased", "told"),
    [
        (True, ["it"], "it is gone"),
        (Approval.ONCE, ["it"], "it is gone"),
        (False, [], "Approval was refused."),
        (Approval.NO, [], "Approval was refused."),
        ("it is mine", [], "it is mine"),
        (lambda request: request.arguments == {"name": "it"}, ["it"], "it is gone"),
        ({"call_1_1": True}, ["it"], "it is gone"),
        ({"call_1_1": Approval.ONCE}, ["it"], "it is gone"),
        ({"call_1_1": False}, [], "Approval was refused."),
        ({"call_1_1": "no, because"}, [], "no, because"),
        ({"call_1_1": {"name": "that"}}, ["that"], "that is gone"),
    ],
)
@pytest.mark.for_each("way", WAYS)
def test_answers(way, answer, erased, told, drive, find_faults):
    """A waiting call is answered with yes, no, words that say why not, other arguments, or by a function."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    done = drive(agent, way, result.resumption(answer))
    assert (done.output, desk.erased) == ("Done.", erased)
    assert told in agent.llm.requests[1].messages[-1].content
    assert find_faults(agent.history) == []


def test_async_function_answers():
    """An async function is asked about waiting calls, blocking or awaiting."""

    async def approve(request):
        await asyncio.sleep(0)
        return request.tool == "erase"

    desk = Desk()
    _, result = desk.paused("Done.")
    assert asyncio.run(result.aresume(approve)).output == "Done."
    _, result = desk.paused("Done.")
    assert result.resume(approve).output == "Done."
    assert desk.erased == ["it", "it"]


@pytest.mark.parametrize("form", [lambda result: result, RunResult.to_json])
def test_agent_goes_on_awaiting(form):
    """An agent goes on with a result, or with the text of one, also awaiting."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    done = asyncio.run(agent.aresume(form(result), True, max_iterations=1))
    assert (done.output, done.status, desk.erased) == ("Done.", "done", ["it"])


@pytest.mark.for_each(
    "answers",
    [1, "yes", ["yes"], object(), {"call_9": True}, *({"call_1_1": said} for said in (None, 5, print, "ok"))],
)
def test_what_is_no_answer_is_an_error(answers):
    """What is no answer, or names a call that does not wait, changes nothing; the run can be resumed after it."""
    desk = Desk()
    _, result = desk.paused("Done.")
    with pytest.raises(ConfigError):
        result.resume(answers)
    assert desk.erased == []
    assert result.resume(True).output == "Done."


def test_yes_is_for_waiting_calls_only():
    """A yes for all is for the calls that wait: one that the model wishes for afterwards waits in its turn."""
    desk = Desk()
    _, result = desk.paused(call("erase", name="more"), "Done.")
    again = result.resume(True)
    assert (again.status, desk.erased, [json.loads(each.arguments)["name"] for each in again.pending]) == (
        "paused",
        ["it"],
        ["more"],
    )
    assert again.resume(False).output == "Done."
    assert desk.erased == ["it"]


def test_some_answers_pause_again(find_faults):
    """Calls without an answer go on waiting, and those with one have run."""
    desk = Desk()
    agent = desk.agent([call("erase", name="a"), call("erase", name="b")], "Done.")
    first = agent.run("go")
    one, two = (pending.id for pending in first.pending)
    second = first.resume({one: True})
    assert (second.status, desk.erased, [pending.id for pending in second.pending]) == ("paused", ["a"], [two])
    third = second.resume({two: False})
    assert (third.status, desk.erased) == ("done", ["a"])
    assert find_faults(agent.history) == []
    assert len(agent.llm.requests) == 2


def test_without_answers_the_approver_is_asked():
    """Resumed without answers, the agent's approver is asked again; without an approver the run goes on waiting."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    agent.approve = None
    again = result.resume()
    assert again.status == "paused"
    agent.approve = lambda _: True
    assert again.resume().output == "Done."


def test_no_approver_at_first_is_a_no():
    """Without an approver nobody is waited for: the model is told, as before."""
    assert Desk().paused("I may not.", approve=None)[1].output == "I may not."


def test_no_is_stronger_than_what_was_approved_since():
    """A call that waits is answered by what is said of it, whatever was approved for calls like it meanwhile."""
    desk = Desk()
    lines = [call("erase", name="it"), call("erase", name="it"), "Done.", "I may not."]
    agent = desk.agent(*lines, approve=later)
    waiting = agent.run("go")
    agent.approve = lambda _: Approval.ALWAYS
    agent("go")
    assert desk.erased == ["it"]
    assert waiting.resume({waiting.pending[0].id: False}).output == "I may not."
    assert desk.erased == ["it"]


def test_no_is_stronger_than_a_policy_that_has_changed():
    """A call that waits is the person's to decide also where the policy would let it run by now."""
    desk = Desk()
    text = desk.paused()[1].to_json()
    bold = desk.agent("I may not.", "Done.", safety="SYSTEM", approve=None)
    assert bold.resume(text, False).output == "I may not."
    assert desk.erased == []


def test_yes_for_the_rest_of_the_run():
    """An answer that is for calls like it, too, is one for those that wait beside it."""
    desk = Desk()
    agent = desk.agent([call("erase", name="it"), call("erase", name="it")], call("erase", name="it"), "Done.")
    paused = agent.run("go")
    assert paused.resume({paused.pending[0].id: Approval.RUN}).output == "Done."
    assert desk.erased == ["it", "it", "it"]


def test_other_arguments_are_judged_again():
    """Arguments that a person put in the place of the model's are judged like the model's: `deny` binds them, too."""
    desk = Desk()
    policy = Policy(rules=[Rule(Verdict.DENY, "erase", {"name": {"equals": "everything"}}, reason="Not that.")])
    agent, result = desk.paused("I may not.", policy=policy)
    done = result.resume({result.pending[0].id: {"name": "everything"}})
    assert (desk.erased, done.decisions[0].denied) == ([], True)
    assert "Not that." in agent.llm.requests[1].messages[-1].content


def test_other_arguments_are_told():
    """The model is told that its arguments were changed, and the result holds the call as it ran."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    done = result.resume({result.pending[0].id: {"name": "that"}})
    assert "a person changed the arguments" in agent.llm.requests[1].messages[-1].content
    assert json.loads(done.tool_calls[0].call.arguments) == {"name": "that"}
    assert json.loads(agent.history[1]["tool_calls"][0]["function"]["arguments"]) == {"name": "it"}


def test_other_arguments_must_fit():
    """Arguments that an approver gives, and that do not fit the tool, are told to the model as a failure."""
    desk = Desk()
    agent, result = desk.paused("Sorry.")
    result.resume(lambda _: {"nome": "that"})
    assert desk.erased == []
    assert "nome" in agent.llm.requests[1].messages[-1].content


def test_new_prompt_while_paused(find_faults):
    """A paused run does not hold up the conversation: it is entered when it has ended."""
    desk = Desk()
    agent, result = desk.paused("Hello.", "Done.")
    assert agent("Hi!") == "Hello."
    assert [message["role"] for message in agent.history] == ["user", "assistant"]
    result.resume(True)
    assert [message.get("content") for message in agent.history][-1] == "Done."
    assert find_faults(agent.history) == []
    assert len(agent.history) == 6


def test_reset_while_paused():
    """A run that waits goes on with the conversation that it began with, also when the agent has forgotten it."""
    desk = Desk()
    agent = desk.agent("Hello.", call("erase", name="it"), "Done.")
    agent("Hi!")
    result = agent.run("go")
    agent.reset()
    assert result.resume(True).output == "Done."
    assert agent.llm.requests[-1].messages[0].content == "Hi!"


def test_resume_twice():
    """A run goes on from where it is: from an older result it cannot be resumed a second time."""
    desk = Desk()
    _, result = desk.paused(call("erase", name="more"), "Done.")
    result.resume(True)
    with pytest.raises(SessionError, match=r"resumed since.*Use agent\.resume\(\)"):
        result.resume(True)
    assert desk.erased == ["it"]


def test_done_run_is_not_asked_again():
    """A run that is done gives its answer again when it is resumed, without asking the model."""
    agent = Desk().agent("Hello.")
    result = agent.run("Hi!")
    again = result.resume()
    assert (again.output, again.status, len(agent.llm.requests)) == ("Hello.", "done", 1)
    assert len(agent.history) == 2


def test_calling_a_paused_agent_raises():
    """An agent called for its text alone raises when it pauses; the error holds the result."""
    desk = Desk()
    agent = desk.agent(call("erase", name="it"), "Done.")
    with pytest.raises(RunError, match="waits for a person") as caught:
        agent("go")
    assert caught.value.result.resume(True).output == "Done."


@pytest.mark.parametrize("way", WAYS)
def test_text_goes_elsewhere(way, drive, find_faults):
    """A paused run goes as text to another agent of the same make, and goes on there with what was said before."""
    desk, elsewhere = Desk(), Desk()
    agent = desk.agent("Hello.", call("erase", name="it"))
    agent("Hi!")
    text = drive(agent, way).to_json()
    other = elsewhere.agent("Done.")
    saved = RunResult.from_json(text)
    done = drive(other, way, saved.resumption({saved.pending[0].id: True}))
    assert (done.output, desk.erased, elsewhere.erased) == ("Done.", [], ["it"])
    kinds = [type(message).__name__ for message in other.llm.requests[0].messages]
    assert kinds == ["UserMessage", "AssistantMessage", "UserMessage", "AssistantMessage", "ToolMessage"]
    assert find_faults(other.history) == []


def test_saved_run_tells_what_it_was():
    """A saved run can be looked at before anybody goes on with it."""
    _, result = Desk().paused()
    saved = RunResult.from_json(result.to_json())
    for name in ("status", "pending", "messages", "usage", "run_id", "iterations", "history"):
        assert getattr(saved, name) == getattr(result, name)
    with pytest.raises(RunError, match="has no reference to its agent"):
        saved.resume(True)
    failed = Agent("helper", llm=ScriptedLLM(Unreachable("It is down."))).run("go")
    assert str(RunResult.from_json(failed.to_json()).error) == "It is down."


def test_text_with_half_a_character():
    """Text that no encoding can say survives being saved."""
    desk = Desk()
    agent = desk.agent(call("erase", name="it"), "Done.")
    text = agent.run("go \ud83d").to_json()
    assert RunResult.from_json(text.encode().decode()).messages[0].content == "go \ud83d"


OTHER_TEXTS = ["", "[]", "{}", '"x"', "[" * 100_000, '{"agentkit_run": 1, "run": "a", "history": [1]}']


@pytest.mark.parametrize("text", OTHER_TEXTS)
def test_other_text_is_no_run(text):
    """What is no saved run is a clear error."""
    with pytest.raises(SessionError, match="not a run saved by RunResult"):
        Desk().agent().resume(text)


def test_saved_by_another_version():
    """A run saved in a format that is not known is refused; for a newer one the remedy is said."""
    text = Desk().paused()[1].to_json()
    with pytest.raises(SessionError, match=r"format 2; this version reads 1. Update agentkit.$"):
        Desk().agent().resume(text.replace('"agentkit_run":1', '"agentkit_run":2'), True)
    with pytest.raises(SessionError, match=r"format 0; this version reads 1.$"):
        Desk().agent().resume(text.replace('"agentkit_run":1', '"agentkit_run":0'), True)


def tampered(text, change):
    """The saved run after somebody has changed it."""
    data = json.loads(text)
    change(data)
    return json.dumps(data)


def add_approval(data):
    """Say that the waiting call was approved."""
    postponed = next(each for each in data["milestones"] if each["event"] == "tool_call_postponed")
    approved = {"event": "approved", "call_id": postponed["call"]["id"], "answer": "once"}
    data["milestones"].insert(-1, approved)


def change_arguments(data):
    """Let the waiting call erase something else."""
    for each in data["milestones"]:
        if each["event"] == "response_received":
            each["response"]["message"]["tool_calls"][0]["arguments"] = '{"name": "everything"}'


def change_run(data):
    """Name no run."""
    data["run"] = ""


@pytest.mark.parametrize("change", [add_approval, change_run])
@pytest.mark.parametrize("answers", [None, False, True])
def test_text_cannot_approve(change, answers):
    """A saved run that says itself that its call was approved, or that names no run, is refused."""
    desk = Desk()
    text = tampered(desk.paused()[1].to_json(), change)
    with pytest.raises(SessionError, match="was changed"):
        desk.agent("Done.").resume(text, answers)
    assert desk.erased == []


def test_text_cannot_begin_a_call():
    """A saved run that says that its call was allowed and begun is not believed: the call is told to be interrupted."""
    desk = Desk()

    def begin(data):
        postponed = next(each for each in data["milestones"] if each["event"] == "tool_call_postponed")
        decision = {**postponed["decision"], "verdict": "allow"}
        data["milestones"].insert(-1, {"event": "tool_call_started", "call": postponed["call"], "decision": decision})
        data["milestones"].remove(postponed)

    done = desk.agent("Done.").resume(tampered(desk.paused()[1].to_json(), begin), True)
    assert (done.output, desk.erased, done.tool_calls[0].result.status) == ("Done.", [], "interrupted")


def test_text_cannot_overrule_the_session():
    """Where the session knows the run, a text in which other calls wait is refused, and the run can still go on."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    with pytest.raises(
        SessionError, match=r"waiting calls of this run are not those.*Save the run again with result\.to_json"
    ):
        agent.resume(tampered(result.to_json(), change_arguments), True)
    assert desk.erased == []
    assert agent.resume(result.to_json(), True).output == "Done."
    assert desk.erased == ["it"]


def test_function_sees_what_would_run():
    """Whoever answers with a function is asked about the call as it is in the text now, whatever it was before."""
    desk, seen = Desk(), []

    def approve(request):
        seen.append(request.arguments)
        return request.arguments == {"name": "it"}

    text = tampered(desk.paused()[1].to_json(), change_arguments)
    desk.agent("Done.").resume(text, approve)
    assert (seen, desk.erased) == ([{"name": "everything"}], [])


def test_deny_binds_a_saved_run():
    """Policy is the agent's own and not the text's: what it denies stays denied, whatever was answered."""
    desk = Desk()
    policy = Policy(rules=[Rule(Verdict.DENY, "erase", reason="Never.")])
    done = desk.agent("Done.", policy=policy).resume(desk.paused()[1].to_json(), True)
    assert (done.output, desk.erased) == ("Done.", [])


def test_newest_run_of_the_session(tmp_path):
    """Without a result an agent goes on with the newest run of its session that waits."""
    desk = Desk()
    desk.paused(session=Session.open(tmp_path / "a.db", "trip"))
    agent = desk.agent("Done.", session=Session.open(tmp_path / "a.db", "trip"))
    assert agent.history == []
    assert agent.resume(answers=True).output == "Done."
    assert desk.erased == ["it"]
    with pytest.raises(SessionError):
        agent.resume()


@pytest.mark.parametrize("way", WAYS)
def test_approval_and_question_together(way, drive, find_faults):
    """A yes for all approves what waits for approval; a question goes on waiting for words."""
    desk = Desk()
    tools = [*desk.tools(), ask_user_tool()]
    lines = [[call("ask_user", question="Which?"), call("erase", name="it")], "Done."]
    agent = Agent("helper", tools, llm=ScriptedLLM(*lines), approve=later)
    first = drive(agent, way)
    assert sorted((pending.tool, pending.needs_answer) for pending in first.pending) == [
        ("ask_user", True),
        ("erase", False),
    ]
    second = drive(agent, way, first.resumption(True))
    assert (second.status, desk.erased, [each.question for each in second.pending]) == ("paused", ["it"], ["Which?"])
    third = drive(agent, way, second.resumption("The red one."))
    assert third.output == "Done."
    assert [message.content for message in agent.llm.requests[-1].messages[-2:]] == ["The red one.", "it is gone"]
    assert find_faults(agent.history) == []


def test_events_of_a_pause():
    """A stream tells what waits and, when the run goes on, what was answered."""
    desk = Desk()
    agent = desk.agent(call("erase", name="it"), "Done.")
    events = list(agent.stream("go"))
    (postponed,) = [event for event in events if isinstance(event, ToolCallPostponed)]
    assert postponed.decision.verdict is Verdict.ASK
    events = list(agent.stream(events[-1].result.resumption("not now")))
    (approved,) = [event for event in events if isinstance(event, Approved)]
    assert (approved.answer, approved.call_id) == ("no", postponed.call.id)
    assert "not now" in approved.text


def test_resumed_run_that_cannot_begin_is_left_as_it_was():
    """When a run cannot go on here, it still can elsewhere."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    agent.name = "renamed"
    with pytest.raises(ConfigError, match="not among the handoffs"):
        result.resume(True)
    agent.name = "helper"
    assert result.resume(True).output == "Done."


def test_yes_in_a_new_session_is_for_the_waiting_call_only():
    """A run that goes on in a session new to it keeps its ids to itself: a later call with one of them is asked for."""
    desk = Desk()
    _, paused = desk.paused()
    agent = desk.agent(replace(call("erase", name="all"), id=paused.pending[0].id))
    result = agent.resume(paused.to_json(), True)
    assert (result.status, desk.erased) == ("paused", ["it"])
    assert [json.loads(each.arguments) for each in result.pending] == [{"name": "all"}]
    assert result.pending[0].id != paused.pending[0].id


def test_text_cannot_change_what_the_session_has_read(tmp_path):
    """Where the session knows the run, the conversation before it is the session's, whatever the text says of it."""
    place = tmp_path / "sessions.db"
    asking = Desk().agent("Hello.", call("erase", name="it"), session=Session.open(place, "x"))
    asking.run("first")
    saved = json.loads(asking.run("go").to_json())
    assert saved["history"].pop(0)["content"] == "first"
    agent = Desk().agent("Done.", session=Session.open(place, "x"))
    assert agent.resume(json.dumps(saved), True).status == "done"
    assert UserMessage("first") in agent.llm.requests[0].messages


def test_history_of_a_run_from_elsewhere_stays_its_own():
    """A run that goes on in a conversation that is not its own has what was said before it, however often it waits."""
    desk = Desk()
    asking = desk.agent("Hello.", call("erase", name="it"))
    asking.run("first")
    text = asking.run("go").to_json()
    agent = desk.agent("Hi.", call("erase", name="all"), "Done.")
    agent.run("other")
    done = agent.resume(text, True).resume(True)
    assert (done.status, desk.erased) == ("done", ["it", "all"])
    assert UserMessage("first") in agent.llm.requests[-1].messages
    assert UserMessage("other") not in agent.llm.requests[-1].messages


@pytest.mark.parametrize("way", ["reset", "delete"])
@pytest.mark.parametrize("stored", [True, False])
def test_run_does_not_go_on_twice_when_forgotten(way, stored, tmp_path):
    """A finished call is not made again after the conversation was reset or deleted."""
    session = Session.open(tmp_path / "sessions.db", "x") if stored else Session()
    desk = Desk()
    agent, paused = desk.paused("Done.", "Done.", session=session)
    assert paused.resume(True).status == "done"
    agent.reset() if way == "reset" else agent.session.delete()
    with pytest.raises(SessionError, match="was resumed since"):
        paused.resume(True)
    assert desk.erased == ["it"]
