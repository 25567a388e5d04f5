"""Tests for paused runs: pending calls, answers, saved runs, and resuming."""

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

MODES = ["run", "arun", "stream", "astream"]


def later(request):
    """Defer the approval."""
    return Approval.LATER


async def alater(request):
    """Defer the approval after a delay."""
    await asyncio.sleep(0)
    return Approval.LATER


class Desk:
    """A tool that requires approval and one that does not, and a record of their calls."""

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
        """Return both tools."""
        return [Tool(self.erase, level="SYSTEM"), self.add]

    def agent(self, *lines, approve=later, **options):
        """Return an agent with both tools."""
        return Agent("helper", self.tools(), llm=ScriptedLLM(*lines), approve=approve, **options)

    def paused(self, *lines, **options):
        """Return an agent whose run is paused before it erases `it`, and the result; the model then says `lines`."""
        agent = self.agent(call("erase", name="it"), *lines, **options)
        return agent, agent.run("go")


@pytest.mark.for_each("approve", [later, alater])
@pytest.mark.for_each("mode", MODES)
def test_deferred_approval_pauses_the_run(mode, approve, drive, find_faults):
    """A deferred approval pauses the run; calls that need no approval are run."""
    desk = Desk()
    agent = desk.agent([call("add", a=1), call("erase", name="it")], "Done.", approve=approve)
    result = drive(agent, mode)
    assert (result.status, desk.added, desk.erased, result.error) == ("paused", [1], [], None)
    (pending,) = result.pending
    assert (pending.tool, json.loads(pending.arguments), pending.needs_answer) == ("erase", {"name": "it"}, False)
    assert "'helper'" not in pending.question
    assert "helper wants to call erase" in pending.question
    assert agent.history == []
    done = drive(agent, mode, result.resumption(True))
    assert (done.status, done.output, desk.added, desk.erased) == ("done", "Done.", [1], ["it"])
    assert find_faults(agent.history) == []
    assert [message["role"] for message in agent.history] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [used.result.value for used in done.tool_calls] == [2, "it is gone"]


def test_messages_of_a_paused_run_are_valid(find_faults):
    """The messages of a paused run contain a result for each call, including pending ones."""
    _, result = Desk().paused()
    assert [type(message).__name__ for message in result.messages] == ["UserMessage", "AssistantMessage", "ToolMessage"]
    assert "waits for a person" in result.messages[-1].content


@pytest.mark.for_each(
    ("answer", "erased", "expected"),
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
@pytest.mark.for_each("mode", MODES)
def test_answers(mode, answer, erased, expected, drive, find_faults):
    """A pending call is answered by a bool, a reason for denying it, changed arguments, or a function."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    done = drive(agent, mode, result.resumption(answer))
    assert (done.output, desk.erased) == ("Done.", erased)
    assert expected in agent.llm.requests[1].messages[-1].content
    assert find_faults(agent.history) == []


def test_async_function_answers():
    """An async function can answer pending calls in sync and async runs."""

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
def test_async_resume_accepts_a_result_or_its_json(form):
    """`aresume` accepts a result or its JSON."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    done = asyncio.run(agent.aresume(form(result), True, max_iterations=1))
    assert (done.output, done.status, desk.erased) == ("Done.", "done", ["it"])


@pytest.mark.for_each(
    "answers",
    [1, "yes", ["yes"], object(), {"call_9": True}, *({"call_1_1": said} for said in (None, 5, print, "ok"))],
)
def test_invalid_answers_are_rejected(answers):
    """Invalid answers raise ConfigError, and the run can still be resumed."""
    desk = Desk()
    _, result = desk.paused("Done.")
    with pytest.raises(ConfigError):
        result.resume(answers)
    assert desk.erased == []
    assert result.resume(True).output == "Done."


def test_approval_covers_pending_calls_only():
    """Approving everything covers only pending calls; later calls need a new approval."""
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


def test_partial_answers_pause_the_run_again(find_faults):
    """Calls without an answer stay pending, and answered calls are run."""
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


def test_resuming_without_answers_calls_the_approver():
    """Resuming without answers calls the agent's approver; without an approver the run stays paused."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    agent.approve = None
    again = result.resume()
    assert again.status == "paused"
    agent.approve = lambda _: True
    assert again.resume().output == "Done."


def test_missing_approver_denies_the_call():
    """Without an approver, the call is denied and the run is not paused."""
    assert Desk().paused("I may not.", approve=None)[1].output == "I may not."


def test_denial_overrides_a_later_approval():
    """An explicit denial of a pending call overrides a later approval of the same call."""
    desk = Desk()
    lines = [call("erase", name="it"), call("erase", name="it"), "Done.", "I may not."]
    agent = desk.agent(*lines, approve=later)
    waiting = agent.run("go")
    agent.approve = lambda _: Approval.ALWAYS
    agent("go")
    assert desk.erased == ["it"]
    assert waiting.resume({waiting.pending[0].id: False}).output == "I may not."
    assert desk.erased == ["it"]


def test_denial_overrides_a_changed_policy():
    """A denial applies to a pending call even if the policy allows it by then."""
    desk = Desk()
    text = desk.paused()[1].to_json()
    bold = desk.agent("I may not.", "Done.", safety="SYSTEM", approve=None)
    assert bold.resume(text, False).output == "I may not."
    assert desk.erased == []


def test_approval_for_the_run_covers_pending_calls():
    """Approving a call for the run also approves identical pending calls."""
    desk = Desk()
    agent = desk.agent([call("erase", name="it"), call("erase", name="it")], call("erase", name="it"), "Done.")
    paused = agent.run("go")
    assert paused.resume({paused.pending[0].id: Approval.RUN}).output == "Done."
    assert desk.erased == ["it", "it", "it"]


def test_changed_arguments_are_judged_again():
    """Arguments changed by a person are judged again, and a deny rule applies to them."""
    desk = Desk()
    policy = Policy(rules=[Rule(Verdict.DENY, "erase", {"name": {"equals": "everything"}}, reason="Not that.")])
    agent, result = desk.paused("I may not.", policy=policy)
    done = result.resume({result.pending[0].id: {"name": "everything"}})
    assert (desk.erased, done.decisions[0].denied) == ([], True)
    assert "Not that." in agent.llm.requests[1].messages[-1].content


def test_changed_arguments_are_reported_to_the_model():
    """Changed arguments are reported to the model, and the result contains the call as it was run."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    done = result.resume({result.pending[0].id: {"name": "that"}})
    assert "a person changed the arguments" in agent.llm.requests[1].messages[-1].content
    assert json.loads(done.tool_calls[0].call.arguments) == {"name": "that"}
    assert json.loads(agent.history[1]["tool_calls"][0]["function"]["arguments"]) == {"name": "it"}


def test_changed_arguments_must_be_valid():
    """Invalid arguments from an approver fail the call, and the error is reported to the model."""
    desk = Desk()
    agent, result = desk.paused("Sorry.")
    result.resume(lambda _: {"nome": "that"})
    assert desk.erased == []
    assert "nome" in agent.llm.requests[1].messages[-1].content


def test_new_prompt_while_paused(find_faults):
    """A new prompt can be run while a run is paused; the paused run is added to the history when it ends."""
    desk = Desk()
    agent, result = desk.paused("Hello.", "Done.")
    assert agent("Hi!") == "Hello."
    assert [message["role"] for message in agent.history] == ["user", "assistant"]
    result.resume(True)
    assert [message.get("content") for message in agent.history][-1] == "Done."
    assert find_faults(agent.history) == []
    assert len(agent.history) == 6


def test_reset_while_paused():
    """A paused run resumes with its own conversation, even if the agent was reset."""
    desk = Desk()
    agent = desk.agent("Hello.", call("erase", name="it"), "Done.")
    agent("Hi!")
    result = agent.run("go")
    agent.reset()
    assert result.resume(True).output == "Done."
    assert agent.llm.requests[-1].messages[0].content == "Hi!"


def test_outdated_result_cannot_be_resumed():
    """Resuming an outdated result raises SessionError."""
    desk = Desk()
    _, result = desk.paused(call("erase", name="more"), "Done.")
    result.resume(True)
    with pytest.raises(SessionError, match=r"resumed since.*Use agent\.resume\(\)"):
        result.resume(True)
    assert desk.erased == ["it"]


def test_resuming_a_finished_run_sends_no_request():
    """Resuming a finished run returns its answer without a request."""
    agent = Desk().agent("Hello.")
    result = agent.run("Hi!")
    again = result.resume()
    assert (again.output, again.status, len(agent.llm.requests)) == ("Hello.", "done", 1)
    assert len(agent.history) == 2


def test_calling_a_paused_agent_raises():
    """Calling an agent raises an error if the run pauses, and the error contains the result."""
    desk = Desk()
    agent = desk.agent(call("erase", name="it"), "Done.")
    with pytest.raises(RunError, match="waits for a person") as caught:
        agent("go")
    assert caught.value.result.resume(True).output == "Done."


@pytest.mark.parametrize("mode", MODES)
def test_saved_run_can_be_resumed_by_another_agent(mode, drive, find_faults):
    """A paused run can be saved as JSON and resumed by another agent."""
    desk, elsewhere = Desk(), Desk()
    agent = desk.agent("Hello.", call("erase", name="it"))
    agent("Hi!")
    text = drive(agent, mode).to_json()
    other = elsewhere.agent("Done.")
    saved = RunResult.from_json(text)
    done = drive(other, mode, saved.resumption({saved.pending[0].id: True}))
    assert (done.output, desk.erased, elsewhere.erased) == ("Done.", [], ["it"])
    kinds = [type(message).__name__ for message in other.llm.requests[0].messages]
    assert kinds == ["UserMessage", "AssistantMessage", "UserMessage", "AssistantMessage", "ToolMessage"]
    assert find_faults(other.history) == []


def test_saved_run_can_be_inspected():
    """A saved run can be inspected before it is resumed."""
    _, result = Desk().paused()
    saved = RunResult.from_json(result.to_json())
    for name in ("status", "pending", "messages", "usage", "run_id", "iterations", "history"):
        assert getattr(saved, name) == getattr(result, name)
    with pytest.raises(RunError, match="has no reference to its agent"):
        saved.resume(True)
    failed = Agent("helper", llm=ScriptedLLM(Unreachable("It is down."))).run("go")
    assert str(RunResult.from_json(failed.to_json()).error) == "It is down."


def test_text_with_a_lone_surrogate_can_be_saved():
    """Text with a lone surrogate can be saved."""
    desk = Desk()
    agent = desk.agent(call("erase", name="it"), "Done.")
    text = agent.run("go \ud83d").to_json()
    assert RunResult.from_json(text.encode().decode()).messages[0].content == "go \ud83d"


OTHER_TEXTS = ["", "[]", "{}", '"x"', "[" * 100_000, '{"agentkit_run": 1, "run": "a", "history": [1]}']


@pytest.mark.parametrize("text", OTHER_TEXTS)
def test_invalid_saved_run_is_rejected(text):
    """Text that is not a saved run raises SessionError."""
    with pytest.raises(SessionError, match="not a run saved by RunResult"):
        Desk().agent().resume(text)


def test_saved_run_of_another_version_is_rejected():
    """A saved run with an unknown format version raises SessionError."""
    text = Desk().paused()[1].to_json()
    with pytest.raises(SessionError, match=r"format 2; this version reads 1. Update agentkit.$"):
        Desk().agent().resume(text.replace('"agentkit_run":1', '"agentkit_run":2'), True)
    with pytest.raises(SessionError, match=r"format 0; this version reads 1.$"):
        Desk().agent().resume(text.replace('"agentkit_run":1', '"agentkit_run":0'), True)


def tampered(text, change):
    """Return the saved run after a change."""
    data = json.loads(text)
    change(data)
    return json.dumps(data)


def add_approval(data):
    """Add an approval of the pending call."""
    postponed = next(each for each in data["events"] if each["event"] == "tool_call_postponed")
    approved = {"event": "approved", "call_id": postponed["call"]["id"], "answer": "once"}
    data["events"].insert(-1, approved)


def change_arguments(data):
    """Change the arguments of the pending call."""
    for each in data["events"]:
        if each["event"] == "response_received":
            each["response"]["message"]["tool_calls"][0]["arguments"] = '{"name": "everything"}'


def change_run(data):
    """Remove the id of the run."""
    data["run"] = ""


@pytest.mark.parametrize("change", [add_approval, change_run])
@pytest.mark.parametrize("answers", [None, False, True])
def test_saved_run_cannot_approve_its_calls(change, answers):
    """A saved run that contains its own approval or has no run id is rejected."""
    desk = Desk()
    text = tampered(desk.paused()[1].to_json(), change)
    with pytest.raises(SessionError, match="was changed"):
        desk.agent("Done.").resume(text, answers)
    assert desk.erased == []


def test_edited_saved_run_cannot_start_a_call():
    """A saved run edited to say that its call had started reports the call as interrupted."""
    desk = Desk()

    def begin(data):
        postponed = next(each for each in data["events"] if each["event"] == "tool_call_postponed")
        decision = {**postponed["decision"], "verdict": "allow"}
        data["events"].insert(-1, {"event": "tool_call_started", "call": postponed["call"], "decision": decision})
        data["events"].remove(postponed)

    done = desk.agent("Done.").resume(tampered(desk.paused()[1].to_json(), begin), True)
    assert (done.output, desk.erased, done.tool_calls[0].result.status) == ("Done.", [], "interrupted")


def test_saved_run_must_match_the_session():
    """A saved run whose pending calls differ from the session is rejected."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    with pytest.raises(
        SessionError, match=r"waiting calls of this run are not those.*Save the run again with result\.to_json"
    ):
        agent.resume(tampered(result.to_json(), change_arguments), True)
    assert desk.erased == []
    assert agent.resume(result.to_json(), True).output == "Done."
    assert desk.erased == ["it"]


def test_approver_receives_the_call_of_the_saved_run():
    """An approver function receives the call as it is in the saved run."""
    desk, seen = Desk(), []

    def approve(request):
        seen.append(request.arguments)
        return request.arguments == {"name": "it"}

    text = tampered(desk.paused()[1].to_json(), change_arguments)
    desk.agent("Done.").resume(text, approve)
    assert (seen, desk.erased) == ([{"name": "everything"}], [])


def test_policy_applies_to_a_saved_run():
    """The agent's policy applies to a saved run: a denied call is not made even if it is approved."""
    desk = Desk()
    policy = Policy(rules=[Rule(Verdict.DENY, "erase", reason="Never.")])
    done = desk.agent("Done.", policy=policy).resume(desk.paused()[1].to_json(), True)
    assert (done.output, desk.erased) == ("Done.", [])


def test_resume_continues_the_newest_run_of_the_session(tmp_path):
    """Without a result, `resume` continues the newest paused run of the session."""
    desk = Desk()
    desk.paused(session=Session.open(tmp_path / "a.db", "trip"))
    agent = desk.agent("Done.", session=Session.open(tmp_path / "a.db", "trip"))
    assert agent.history == []
    assert agent.resume(answers=True).output == "Done."
    assert desk.erased == ["it"]
    with pytest.raises(SessionError):
        agent.resume()


@pytest.mark.parametrize("mode", MODES)
def test_approval_and_question_together(mode, drive, find_faults):
    """Approving everything approves pending calls, but a pending question still needs an answer."""
    desk = Desk()
    tools = [*desk.tools(), ask_user_tool()]
    lines = [[call("ask_user", question="Which?"), call("erase", name="it")], "Done."]
    agent = Agent("helper", tools, llm=ScriptedLLM(*lines), approve=later)
    first = drive(agent, mode)
    assert sorted((pending.tool, pending.needs_answer) for pending in first.pending) == [
        ("ask_user", True),
        ("erase", False),
    ]
    second = drive(agent, mode, first.resumption(True))
    assert (second.status, desk.erased, [each.question for each in second.pending]) == ("paused", ["it"], ["Which?"])
    third = drive(agent, mode, second.resumption("The red one."))
    assert third.output == "Done."
    assert [message.content for message in agent.llm.requests[-1].messages[-2:]] == ["The red one.", "it is gone"]
    assert find_faults(agent.history) == []


def test_events_of_a_pause():
    """A stream reports the pending calls and, after resuming, the answers."""
    desk = Desk()
    agent = desk.agent(call("erase", name="it"), "Done.")
    events = list(agent.stream("go"))
    (postponed,) = [event for event in events if isinstance(event, ToolCallPostponed)]
    assert postponed.decision.verdict is Verdict.ASK
    events = list(agent.stream(events[-1].result.resumption("not now")))
    (approved,) = [event for event in events if isinstance(event, Approved)]
    assert (approved.answer, approved.call_id) == ("no", postponed.call.id)
    assert "not now" in approved.text


def test_run_that_fails_to_resume_is_unchanged():
    """A run that fails to resume is unchanged and can be resumed later."""
    desk = Desk()
    agent, result = desk.paused("Done.")
    agent.name = "renamed"
    with pytest.raises(ConfigError, match="not among the handoffs"):
        result.resume(True)
    agent.name = "helper"
    assert result.resume(True).output == "Done."


def test_approval_in_a_new_session_covers_one_call():
    """An approval in a new session applies only to the pending call, not to a later call with the same id."""
    desk = Desk()
    _, paused = desk.paused()
    agent = desk.agent(replace(call("erase", name="all"), id=paused.pending[0].id))
    result = agent.resume(paused.to_json(), True)
    assert (result.status, desk.erased) == ("paused", ["it"])
    assert [json.loads(each.arguments) for each in result.pending] == [{"name": "all"}]
    assert result.pending[0].id != paused.pending[0].id


def test_saved_run_cannot_change_the_session_history(tmp_path):
    """Resuming uses the conversation of the session, not the one in the saved run."""
    place = tmp_path / "sessions.db"
    asking_agent = Desk().agent("Hello.", call("erase", name="it"), session=Session.open(place, "x"))
    asking_agent.run("first")
    saved = json.loads(asking_agent.run("go").to_json())
    assert saved["history"].pop(0)["content"] == "first"
    agent = Desk().agent("Done.", session=Session.open(place, "x"))
    assert agent.resume(json.dumps(saved), True).status == "done"
    assert UserMessage("first") in agent.llm.requests[0].messages


def test_resumed_run_keeps_its_own_history():
    """A run resumed in another conversation keeps its own history, even if it pauses again."""
    desk = Desk()
    asking_agent = desk.agent("Hello.", call("erase", name="it"))
    asking_agent.run("first")
    text = asking_agent.run("go").to_json()
    agent = desk.agent("Hi.", call("erase", name="all"), "Done.")
    agent.run("other")
    done = agent.resume(text, True).resume(True)
    assert (done.status, desk.erased) == ("done", ["it", "all"])
    assert UserMessage("first") in agent.llm.requests[-1].messages
    assert UserMessage("other") not in agent.llm.requests[-1].messages


@pytest.mark.parametrize("mode", ["reset", "delete"])
@pytest.mark.parametrize("stored", [True, False])
def test_finished_call_is_not_repeated_after_a_reset(mode, stored, tmp_path):
    """A finished call is not repeated after the conversation was reset or deleted."""
    session = Session.open(tmp_path / "sessions.db", "x") if stored else Session()
    desk = Desk()
    agent, paused = desk.paused("Done.", "Done.", session=session)
    assert paused.resume(True).status == "done"
    agent.reset() if mode == "reset" else agent.session.delete()
    with pytest.raises(SessionError, match="was resumed since"):
        paused.resume(True)
    assert desk.erased == ["it"]
