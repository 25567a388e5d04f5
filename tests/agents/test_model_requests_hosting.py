"""Tests for hosted tools: policy decisions, approvals, labels, and events."""

import json

import pytest

from agentkit import Agent, Approval, Policy, Rule, tool
from agentkit.decisions import Label
from agentkit.events import HostedCallFinished
from agentkit.messages import AssistantMessage, HostedUse, Response, ToolCall
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.hosted import HostedTool

SEARCH = HostedTool("web_search")
USED = HostedUse(ToolCall("ws_1", "web_search", '{"query": "rain in Hue"}'))


def hosted_answer(text, *uses):
    """Return an answer with hosted tool uses."""
    return Response(AssistantMessage(text), hosted=uses)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(labels=["private"])
def diary() -> str:
    """Read the diary."""
    return "Monday: dentist."


@tool(level="network", labels=["untrusted"])
def send(text: str) -> str:
    """Send a text to somebody."""
    return f"Sent {text}."


def offered(llm):
    """Return the names of the tools in each request."""
    return [[spec.name for spec in request.tools] for request in llm.requests]


def test_hosted_tool_uses_are_among_the_tool_calls():
    """A provider's tool use is listed with its decision, and its labels apply to the answer."""
    llm = ScriptedLLM(hosted_answer("It rains.", USED))
    result = Agent("reporter", [SEARCH], llm=llm).run("Does it rain in Hue?")
    (used,) = result.tool_calls
    assert (used.call, used.result.status) == (USED.call, "ok")
    assert result.decisions[0].allowed
    assert result.messages[-1].labels == {Label.UNTRUSTED}
    assert [message.labels for message in result.messages[1:]] == [used.result.labels]


def test_sources_of_a_search_are_its_value():
    """The value of a hosted search is its sources."""
    page = {"url": "https://who.int", "title": "Health"}
    llm = ScriptedLLM(hosted_answer("It rains.", HostedUse(USED.call, sources=(page,))))
    assert Agent("reporter", [SEARCH], llm=llm).run("Does it rain?").values("web_search") == [[page]]


def test_failed_hosted_use_has_an_error():
    """A failed hosted tool use has the provider's error."""
    llm = ScriptedLLM(
        hosted_answer("I do not know.", HostedUse(USED.call, "The provider could not use web_search: too many."))
    )
    (used,) = Agent("reporter", [SEARCH], llm=llm).run("Does it rain?").tool_calls
    assert (used.result.status, used.result.error) == ("failed", "The provider could not use web_search: too many.")


def test_hosted_uses_without_an_id_are_distinguished(tmp_path):
    """Hosted uses without an id are stored separately in the session."""
    nameless = HostedUse(ToolCall("", "web_search", "{}"))
    llm = ScriptedLLM(hosted_answer("One.", nameless, nameless), hosted_answer("Two.", nameless))
    agent = Agent("reporter", [SEARCH], llm=llm, session="talk")
    calls = [used.call.id for _ in range(2) for used in agent.run("Again?").tool_calls]
    agent.session.export(tmp_path / "talk.jsonl")
    assert (len(calls), (tmp_path / "talk.jsonl").read_text().count("hosted_call_finished")) == (3, 3)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"safety": "safe"}, "safety-level"),
        ({"policy": Policy("network", [Rule("deny", "web_search", reason="No searching.")])}, "web_search"),
        ({"policy": Policy("network", [Rule("ask", "web_search")])}, "web_search"),
        ({"policy": Policy("network", [Rule("deny", "web_search", {"query": {"contains": "x"}})])}, "deny web_search"),
        ({"policy": Policy("network", [Rule("ask", "web_search", {"query": {"from_user": False}})])}, "ask web_search"),
    ],
)
def test_denied_hosted_tool_is_not_offered(options, rule):
    """A denied hosted tool is not offered, and its denial is reported once per run."""
    llm = ScriptedLLM(call("add", a=1, b=2), "I cannot search.")
    result = Agent("reporter", [SEARCH, add], llm=llm, **options).run("Does it rain?")
    assert offered(llm) == [["add"], ["add"]]
    withheld = [used.result for used in result.tool_calls if used.call.name == "web_search"]
    assert [(each.status, each.decision.denied) for each in withheld] == [("denied", True)]
    assert rule in str(withheld[0].decision)


@pytest.mark.parametrize(
    ("answer", "question", "names"),
    [
        (True, 1, [["web_search"], ["web_search"]]),
        (Approval.ALWAYS, 1, [["web_search"], ["web_search"]]),
        (False, 1, [[], []]),
        ("Not today", 1, [[], []]),
        (Approval.LATER, 1, [[], []]),
        ({"query": "rain"}, 1, [[], []]),
    ],
)
def test_approval_of_a_hosted_tool_is_requested_once(answer, question, names):
    """An approval request for a hosted tool applies to the whole run; deferring denies it."""
    questions = []

    def approve(request):
        questions.append(str(request))
        return answer

    llm = ScriptedLLM(call("nothing"), "Done.")
    result = Agent("reporter", [SEARCH], llm=llm, safety="safe", approve=approve).run("Does it rain?")
    assert (len(questions), offered(llm), result.status) == (question, names, "done")
    assert "an approval applies to this run" in questions[0]


def test_approval_of_a_hosted_tool_is_limited_to_its_agent():
    """An approval of a hosted tool does not apply to a handoff target."""
    questions = []

    def approve(request):
        questions.append(request.agent)
        return True

    second = Agent("second", [SEARCH], llm=ScriptedLLM("Done."), safety="safe", approve=approve)
    llm = ScriptedLLM(call("hand_off_to_second"))
    result = Agent("first", [SEARCH], llm=llm, safety="safe", approve=approve, handoffs=[second]).run("Does it rain?")
    assert (result.output, questions) == ("Done.", ["first", "second"])


def test_hosted_tool_cannot_be_approved_with_other_arguments():
    """A hosted tool cannot be approved with other arguments."""
    llm = ScriptedLLM("I cannot search.")
    agent = Agent("reporter", [SEARCH], llm=llm, safety="safe", approve=lambda _: {"query": "rain"})
    (withheld,) = agent.run("Does it rain?").tool_calls
    assert "The arguments of a tool that the provider runs cannot be changed" in withheld.result.error


def test_allow_rule_with_a_test_does_not_allow_a_search():
    """A rule with an argument test does not allow a hosted search, as its query is unknown."""
    llm = ScriptedLLM("I cannot search.")
    policy = Policy("safe", [Rule("allow", "web_search", {"query": {"contains": "rain"}})])
    (withheld,) = Agent("reporter", [SEARCH], llm=llm, policy=policy).run("Does it rain?").tool_calls
    assert withheld.result.decision.rule == "safety-level"


def test_denied_hosted_tool_does_not_affect_the_next_agent():
    """After a handoff, a function with the name of a denied hosted tool is offered."""

    def web_search(query: str) -> str:
        """Search the web."""
        return query

    second_llm = ScriptedLLM(hosted_answer("Done.", USED))
    second = Agent("second", [web_search], llm=second_llm)
    policy = Policy("network", [Rule("deny", "web_search")])
    first = Agent("first", [SEARCH], llm=ScriptedLLM(call("hand_off_to_second")), policy=policy, handoffs=[second])
    result = first.run("Does it rain?")
    assert offered(second_llm) == [["web_search"]]
    assert result.tool_calls[-1].result.decision is None


def test_undeclared_hosted_use_after_a_handoff():
    """After a handoff, a hosted use that the second agent does not declare has no decision."""
    second = Agent("second", llm=ScriptedLLM(hosted_answer("Done.", USED)))
    first = Agent("first", [SEARCH], llm=ScriptedLLM(call("hand_off_to_second")), handoffs=[second])
    used = first.run("Does it rain?").tool_calls[-1]
    assert (used.call, used.result.decision, used.result.labels) == (USED.call, None, {Label.UNTRUSTED})


def test_permanent_approval_of_a_hosted_tool():
    """A permanent approval of a hosted tool applies to the next run."""
    questions = []
    llm = ScriptedLLM("One.", "Two.")
    agent = Agent(
        "reporter",
        [SEARCH],
        llm=llm,
        safety="safe",
        approve=lambda request: questions.append(request) or Approval.ALWAYS,
    )
    agent.run("Does it rain?")
    agent.run("And now?")
    assert (len(questions), offered(llm)) == (1, [["web_search"], ["web_search"]])


def test_no_search_after_private_and_untrusted_data():
    """A hosted search is not offered after private and untrusted data were read."""
    llm = ScriptedLLM(Response(AssistantMessage("", (call("diary"),)), "tool_calls", hosted=(USED,)), "Dentist.")
    result = Agent("reporter", [SEARCH, diary], llm=llm).run("When is my dentist, and will it rain?")
    assert offered(llm) == [["web_search", "diary"], ["diary"]]
    assert [decision.rule for decision in result.decisions if decision.denied] == ["flow"]


def test_no_search_after_private_data():
    """A hosted search is not offered after private data was read, as its results are untrusted."""
    llm = ScriptedLLM(call("diary"), "Dentist.")
    result = Agent("reporter", [SEARCH, diary], llm=llm).run("When is my dentist?")
    assert offered(llm) == [["web_search", "diary"], ["diary"]]
    reason = result.decisions[-1].reason
    assert "private data (read by diary({}))" in reason
    assert "untrusted text (by the call itself)" in reason


def test_code_execution_is_offered_after_private_data():
    """Hosted code execution is still offered after private data was read."""
    llm = ScriptedLLM(call("diary"), "Dentist.")
    Agent("reporter", [HostedTool("code_execution"), diary], llm=llm).run("When is my dentist?")
    assert offered(llm) == [["code_execution", "diary"]] * 2


def test_hosted_search_is_considered_by_the_flow_rule():
    """Results of a hosted search count as untrusted in the flow rule."""
    llm = ScriptedLLM(
        Response(AssistantMessage("", (call("diary"),)), "tool_calls", hosted=(USED,)),
        call("send", text="dentist"),
        "I may not send it.",
    )
    result = Agent("reporter", [SEARCH, diary, send], llm=llm).run("When is my dentist?")
    (refused,) = [used.result for used in result.tool_calls if used.call.name == "send"]
    assert refused.status == "denied"
    assert "a tool that the provider has used" in refused.decision.reason


def test_undeclared_hosted_tool_is_untrusted():
    """A hosted use of an undeclared tool is labelled untrusted."""
    result = Agent("reporter", llm=ScriptedLLM(hosted_answer("It rains.", USED))).run("Does it rain?")
    (used,) = result.tool_calls
    assert (result.messages[-1].labels, used.result.decision) == ({Label.UNTRUSTED}, None)


def test_labels_of_hosted_uses_apply_to_the_outer_agent():
    """The result of an agent used as a tool has the labels of its hosted uses."""
    below = Agent("reporter", [SEARCH], llm=ScriptedLLM(hosted_answer("It rains.", USED)))
    llm = ScriptedLLM(call("reporter", request="Does it rain?"), "It does.")
    result = Agent("clerk", [below.as_tool()], llm=llm).run("Does it rain?")
    assert result.tool_calls[0].result.labels == {Label.UNTRUSTED}


def test_listeners_receive_hosted_uses():
    """Each hosted use is emitted as an event before its response."""
    llm = ScriptedLLM(hosted_answer("It rains.", USED))
    names = [type(event).__name__ for event in Agent("reporter", [SEARCH], llm=llm).stream("Does it rain?")]
    assert names.index("HostedCallFinished") < names.index("ResponseReceived")


def test_session_stores_the_labels_of_hosted_uses(tmp_path):
    """The flow rule considers hosted uses of another agent in the same session."""
    first = Agent("reporter", [SEARCH], llm=ScriptedLLM(hosted_answer("It rains.", USED)), session="talk")
    first.run("Does it rain?")
    llm = ScriptedLLM(call("diary"), call("send", text="Monday: dentist."), "No.")
    result = Agent("clerk", [diary, send], llm=llm, session="talk").run("Tell them of my dentist.")
    assert [used.result.status for used in result.tool_calls] == ["ok", "denied"]


def test_hosted_search_is_allowed_in_a_dry_run():
    """A hosted search is allowed in a dry run."""
    llm = ScriptedLLM(hosted_answer("It rains.", USED))
    Agent("reporter", [SEARCH], llm=llm, dry_run=True).run("Does it rain?")
    assert offered(llm) == [["web_search"]]


def test_saved_run_contains_hosted_uses():
    """A saved run contains its hosted uses and can be resumed."""
    llm = ScriptedLLM(
        Response(AssistantMessage("", (call("send", text="hello"),)), "tool_calls", hosted=(USED,)), "Sent."
    )
    agent = Agent(
        "reporter",
        [SEARCH, send],
        llm=llm,
        safety="safe",
        approve=lambda request: request.tool == "web_search" or Approval.LATER,
    )
    paused = agent.run("Does it rain? Send it.")
    assert json.loads(paused.to_json())["status"] == "paused"
    result = agent.resume(paused.to_json(), True)
    assert [used.call.name for used in result.tool_calls] == ["web_search", "send"]
    assert isinstance(result.tool_calls[0], HostedCallFinished)
