"""When may a provider use tools of its own, and what is known of it afterwards?"""

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


def told(text, *uses):
    """An answer for which the provider has used tools of its own."""
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
    """The names of the tools in each request."""
    return [[spec.name for spec in request.tools] for request in llm.requests]


def test_what_the_provider_has_done_stands_among_the_tool_calls():
    """Each use has the judgment under which the tool was offered, and counts as read."""
    llm = ScriptedLLM(told("It rains.", USED))
    result = Agent("reporter", [SEARCH], llm=llm).run("Does it rain in Hue?")
    (used,) = result.tool_calls
    assert (used.call, used.result.status) == (USED.call, "ok")
    assert result.decisions[0].allowed
    assert result.messages[-1].labels == {Label.UNTRUSTED}
    assert [message.labels for message in result.messages[1:]] == [used.result.labels]


def test_the_sources_of_a_search_are_its_value():
    """A program can show where an answer is from."""
    page = {"url": "https://who.int", "title": "Health"}
    llm = ScriptedLLM(told("It rains.", HostedUse(USED.call, sources=(page,))))
    assert Agent("reporter", [SEARCH], llm=llm).run("Does it rain?").values("web_search") == [[page]]


def test_a_use_that_failed_says_so():
    """What the provider says of a failure is the error of the call."""
    llm = ScriptedLLM(told("I do not know.", HostedUse(USED.call, "The provider could not use web_search: too many.")))
    (used,) = Agent("reporter", [SEARCH], llm=llm).run("Does it rain?").tool_calls
    assert (used.result.status, used.result.error) == ("failed", "The provider could not use web_search: too many.")


def test_uses_without_an_id_are_told_apart(tmp_path):
    """Each is kept in the session, also where the provider gives them no ids."""
    nameless = HostedUse(ToolCall("", "web_search", "{}"))
    llm = ScriptedLLM(told("One.", nameless, nameless), told("Two.", nameless))
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
        ({"policy": Policy("network", [Rule("ask", "web_search", {"query": {"said": False}})])}, "ask web_search"),
    ],
)
def test_a_tool_that_may_not_be_used_is_not_offered(options, rule):
    """The request lacks it, and the result says once why, however many requests there are."""
    llm = ScriptedLLM(call("add", a=1, b=2), "I cannot search.")
    result = Agent("reporter", [SEARCH, add], llm=llm, **options).run("Does it rain?")
    assert offered(llm) == [["add"], ["add"]]
    withheld = [used.result for used in result.tool_calls if used.call.name == "web_search"]
    assert [(each.status, each.decision.denied) for each in withheld] == [("denied", True)]
    assert rule in str(withheld[0].decision)


@pytest.mark.parametrize(
    ("answer", "asked", "names"),
    [
        (True, 1, [["web_search"], ["web_search"]]),
        (Approval.ALWAYS, 1, [["web_search"], ["web_search"]]),
        (False, 1, [[], []]),
        ("Not today", 1, [[], []]),
        (Approval.LATER, 1, [[], []]),
        ({"query": "rain"}, 1, [[], []]),
    ],
)
def test_a_person_is_asked_once_in_a_run(answer, asked, names):
    """A yes and a no hold for all requests of the run; what would have to wait is a no."""
    questions = []

    def approve(request):
        questions.append(str(request))
        return answer

    llm = ScriptedLLM(call("nothing"), "Done.")
    result = Agent("reporter", [SEARCH], llm=llm, safety="safe", approve=approve).run("Does it rain?")
    assert (len(questions), offered(llm), result.status) == (asked, names, "done")
    assert "an approval applies to this run" in questions[0]


def test_a_yes_is_for_the_agent_that_was_asked_about():
    """The agent that a conversation is handed to must ask for its own tool."""
    questions = []

    def approve(request):
        questions.append(request.agent)
        return True

    second = Agent("second", [SEARCH], llm=ScriptedLLM("Done."), safety="safe", approve=approve)
    llm = ScriptedLLM(call("hand_off_to_second"))
    result = Agent("first", [SEARCH], llm=llm, safety="safe", approve=approve, handoffs=[second]).run("Does it rain?")
    assert (result.output, questions) == ("Done.", ["first", "second"])


def test_a_search_cannot_be_approved_with_other_arguments():
    """A person who narrows a search is told that nobody can, rather than that it was approved."""
    llm = ScriptedLLM("I cannot search.")
    agent = Agent("reporter", [SEARCH], llm=llm, safety="safe", approve=lambda _: {"query": "rain"})
    (withheld,) = agent.run("Does it rain?").tool_calls
    assert "The arguments of a tool that the provider runs cannot be changed" in withheld.result.error


def test_a_rule_that_allows_some_searches_allows_none_unseen():
    """What would be searched for is not known before, so that the safety level decides."""
    llm = ScriptedLLM("I cannot search.")
    policy = Policy("safe", [Rule("allow", "web_search", {"query": {"contains": "rain"}})])
    (withheld,) = Agent("reporter", [SEARCH], llm=llm, policy=policy).run("Does it rain?").tool_calls
    assert withheld.result.decision.rule == "safety-level"


def test_what_is_withheld_from_one_agent_is_not_taken_from_the_next():
    """A function of the same name, of the agent that the conversation is handed to, is offered."""

    def web_search(query: str) -> str:
        """Search the web."""
        return query

    second_llm = ScriptedLLM(told("Done.", USED))
    second = Agent("second", [web_search], llm=second_llm)
    policy = Policy("network", [Rule("deny", "web_search")])
    first = Agent("first", [SEARCH], llm=ScriptedLLM(call("hand_off_to_second")), policy=policy, handoffs=[second])
    result = first.run("Does it rain?")
    assert offered(second_llm) == [["web_search"]]
    assert result.tool_calls[-1].result.decision is None


def test_what_was_offered_to_one_agent_excuses_no_use_of_the_next():
    """A use that nobody has declared is told without the decision that another agent's tool had got."""
    second = Agent("second", llm=ScriptedLLM(told("Done.", USED)))
    first = Agent("first", [SEARCH], llm=ScriptedLLM(call("hand_off_to_second")), handoffs=[second])
    used = first.run("Does it rain?").tool_calls[-1]
    assert (used.call, used.result.decision, used.result.labels) == (USED.call, None, {Label.UNTRUSTED})


def test_an_approval_for_good_holds_in_the_next_run():
    """Who answers always is not asked again."""
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


def test_nothing_is_searched_once_private_data_and_a_strangers_text_were_read():
    """What a provider searches for could carry out what was read, so that it is offered no further search."""
    llm = ScriptedLLM(Response(AssistantMessage("", (call("diary"),)), "tool_calls", hosted=(USED,)), "Dentist.")
    result = Agent("reporter", [SEARCH, diary], llm=llm).run("When is my dentist, and will it rain?")
    assert offered(llm) == [["web_search", "diary"], ["diary"]]
    assert [decision.rule for decision in result.decisions if decision.denied] == ["flow"]


def test_nothing_is_searched_after_private_data_alone():
    """Within one answer the provider could read a stranger's orders and follow them, which nobody could stop."""
    llm = ScriptedLLM(call("diary"), "Dentist.")
    result = Agent("reporter", [SEARCH, diary], llm=llm).run("When is my dentist?")
    assert offered(llm) == [["web_search", "diary"], ["diary"]]
    reason = result.decisions[-1].reason
    assert "private data (read by diary({}))" in reason
    assert "untrusted text (by the call itself)" in reason


def test_code_at_the_provider_goes_on_after_private_data():
    """What reaches nobody else cannot carry anything out."""
    llm = ScriptedLLM(call("diary"), "Dentist.")
    Agent("reporter", [HostedTool("code_execution"), diary], llm=llm).run("When is my dentist?")
    assert offered(llm) == [["code_execution", "diary"]] * 2


def test_what_a_search_brings_counts_for_other_calls():
    """After a search by the provider and private data, sending something must be asked for."""
    llm = ScriptedLLM(
        Response(AssistantMessage("", (call("diary"),)), "tool_calls", hosted=(USED,)),
        call("send", text="dentist"),
        "I may not send it.",
    )
    result = Agent("reporter", [SEARCH, diary, send], llm=llm).run("When is my dentist?")
    (refused,) = [used.result for used in result.tool_calls if used.call.name == "send"]
    assert refused.status == "denied"
    assert "a tool that the provider has used" in refused.decision.reason


def test_a_tool_that_nobody_declared_counts_as_a_strangers_text():
    """A search that was asked for among the LLM's settings is labelled all the same."""
    result = Agent("reporter", llm=ScriptedLLM(told("It rains.", USED))).run("Does it rain?")
    (used,) = result.tool_calls
    assert (result.messages[-1].labels, used.result.decision) == ({Label.UNTRUSTED}, None)


def test_what_was_read_counts_for_the_agent_above():
    """An agent that is a tool of another one tells it what its provider has brought."""
    below = Agent("reporter", [SEARCH], llm=ScriptedLLM(told("It rains.", USED)))
    llm = ScriptedLLM(call("reporter", request="Does it rain?"), "It does.")
    result = Agent("clerk", [below.as_tool()], llm=llm).run("Does it rain?")
    assert result.tool_calls[0].result.labels == {Label.UNTRUSTED}


def test_listeners_hear_of_each_use():
    """A use is an event, before the response that it belongs to."""
    llm = ScriptedLLM(told("It rains.", USED))
    names = [type(event).__name__ for event in Agent("reporter", [SEARCH], llm=llm).stream("Does it rain?")]
    assert names.index("HostedCallFinished") < names.index("ResponseReceived")


def test_a_session_knows_what_was_used_and_read(tmp_path):
    """Another agent that goes on with the conversation is bound by what the first one's provider has brought."""
    first = Agent("reporter", [SEARCH], llm=ScriptedLLM(told("It rains.", USED)), session="talk")
    first.run("Does it rain?")
    llm = ScriptedLLM(call("diary"), call("send", text="Monday: dentist."), "No.")
    result = Agent("clerk", [diary, send], llm=llm, session="talk").run("Tell them of my dentist.")
    assert [used.result.status for used in result.tool_calls] == ["ok", "denied"]


def test_a_dry_run_may_search():
    """Nothing is changed by it."""
    llm = ScriptedLLM(told("It rains.", USED))
    Agent("reporter", [SEARCH], llm=llm, dry_run=True).run("Does it rain?")
    assert offered(llm) == [["web_search"]]


def test_a_result_can_be_saved_with_its_uses():
    """What waits or was cut off goes on elsewhere with all that was read."""
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
