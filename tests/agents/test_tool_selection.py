"""Tests for the selection of tools: searchable tools, found tools, and their order."""

import asyncio
import json

import pytest

from agentkit import Agent, Approval, ConfigError, Policy, Rule, SafetyLevel, Tool, Toolset
from agentkit.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call, record, replay, say
from agentkit.tools.run_tools import FIND_TOOLS, MAX_FOUND, found_specs, initial_specs


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def weather(city: str) -> str:
    """The weather in a city."""
    return f"fine in {city}"


def stock(company: str) -> str:
    """Return a share price."""
    return f"{company}: 12"


BIG = Toolset([weather, stock]).searchable()


def names_in(llm):
    """Return the names of the tools offered in each request."""
    return [[spec.name for spec in request.tools] for request in llm.requests]


def test_found_tools_are_offered():
    """Tools found by a search are appended to the offered tools and stay for later prompts."""
    llm = ScriptedLLM(
        call(FIND_TOOLS, query="weather of a city"), call("weather", city="Hue"), "Fine.", call("add", a=1, b=2), "3."
    )
    helper = Agent("helper", [add, BIG], llm=llm)
    assert helper("How is the weather?") == "Fine."
    assert helper("And 1 + 2?") == "3."
    known = ["add", FIND_TOOLS]
    assert names_in(llm) == [known, *[[*known, "weather"]] * 4]
    data = json.loads(helper.history[2]["content"])
    assert data["tools"] == ["weather"]


def test_async_run_offers_the_same_tools():
    """An async run is offered the same tools."""
    llm = ScriptedLLM(call(FIND_TOOLS, query="share"), call("stock", company="X"), "12.")
    assert asyncio.run(Agent("helper", [add, BIG], llm=llm).arun("go")).output == "12."
    assert names_in(llm)[1:] == [["add", FIND_TOOLS, "stock"]] * 2


def test_found_tools_are_in_the_order_of_the_search():
    """Found tools are offered in the order in which they were found."""
    llm = ScriptedLLM(
        [call(FIND_TOOLS, query="share"), call(FIND_TOOLS, query="weather")],
        call(FIND_TOOLS, query="weather, share"),
        ".",
    )
    Agent("helper", BIG, llm=llm).run("go")
    assert names_in(llm) == [[FIND_TOOLS], [FIND_TOOLS, "stock", "weather"], [FIND_TOOLS, "stock", "weather"]]


def test_search_without_matches_is_empty():
    """A search without matches returns an empty result."""
    llm = ScriptedLLM(call(FIND_TOOLS, query="zebra"), "No.")
    result = Agent("helper", [BIG], llm=llm).run("go")
    assert result.tool_calls[0].result.status == "empty"
    assert names_in(llm)[1] == [FIND_TOOLS]


def test_search_returns_the_best_matches():
    """A search returns only the best matches."""
    many = Toolset(Tool(weather, f"weather_{number}") for number in range(100)).searchable()
    llm = ScriptedLLM(call(FIND_TOOLS, query="weather"), ".")
    Agent("helper", many, llm=llm).run("go")
    assert len(llm.requests[1].tools) == 1 + MAX_FOUND


def test_searchable_tool_can_be_called_without_a_search():
    """A searchable tool can be called without a search, and is offered after a call."""
    llm = ScriptedLLM(call("weather", city="Hue"), call("stock", firm="X"), call("stock", company="X"), "12.")
    result = Agent("helper", [BIG], llm=llm).run("go")
    assert [used.result.status for used in result.tool_calls] == ["ok", "failed", "ok"]
    assert names_in(llm)[1:3] == [[FIND_TOOLS, "weather"], [FIND_TOOLS, "weather", "stock"]]


def test_policy_applies_to_found_tools():
    """Level, rules and approver apply to found tools and to the search."""
    ran = []

    def erase(name: str) -> str:
        """Erase something."""
        ran.append(name)
        return "gone"

    dangerous = Toolset([Tool(erase, level=SafetyLevel.SYSTEM)]).searchable()
    found = ScriptedLLM(call(FIND_TOOLS, query="erase"), call("erase", name="x"), "I could not.")
    result = Agent("helper", dangerous, llm=found).run("go")
    assert (result.tool_calls[1].result.status, ran) == ("denied", [])
    forbidden = Policy(rules=[Rule("deny", FIND_TOOLS)])
    outcome = Agent("helper", BIG, llm=ScriptedLLM(call(FIND_TOOLS, query="share"), "No."), policy=forbidden).run("go")
    assert outcome.tool_calls[0].result.status == "denied"


def test_unknown_tool_lists_the_offered_tools():
    """The error for an unknown tool suggests the closest name and lists only the offered tools."""
    result = Agent("helper", [add, BIG], llm=ScriptedLLM(call("wether", city="Hue"), "Sorry.")).run("go")
    error = result.tool_calls[0].result.error
    assert "Did you mean 'weather'?" in error
    assert error.endswith(f"The tools are: add, {FIND_TOOLS}.")


def test_found_tools_are_offered_after_resuming(tmp_path):
    """Found tools are offered again after resuming, in a stored session and in a set history."""
    messages = [call(FIND_TOOLS, query="weather"), call("ask", text="?")]

    def ask(text: str) -> str:
        """Ask."""
        return text

    tools = [Tool(ask, level=SafetyLevel.SYSTEM), BIG]
    saved = Agent("helper", tools, llm=ScriptedLLM(*messages), approve=lambda _: Approval.LATER).run("go").to_json()
    llm = ScriptedLLM("Done.", "Done again.")
    helper = Agent("helper", tools, llm=llm, session=Session.open(tmp_path / "s.db", "trip"))
    helper.resume(saved, True)
    again = Agent("helper", tools, llm=llm, session=Session.open(tmp_path / "s.db", "trip"))
    again.run("And now?")
    third = Agent("helper", tools, llm=ScriptedLLM("Yes."))
    third.history = again.history
    third.run("And now?")
    assert {tuple(offer) for offer in [*names_in(llm), *names_in(third.llm)]} == {("ask", FIND_TOOLS, "weather")}


def test_replay_offers_the_same_tools(tmp_path):
    """A run with found tools can be replayed."""

    def helper(*lines):
        return Agent("helper", [add, BIG], llm=ScriptedLLM(*lines))

    with record(tmp_path / "c"):
        recorded = helper(call(FIND_TOOLS, query="weather"), call("weather", city="Hue"), "Fine.").run("go")
    with replay(tmp_path / "c"):
        assert helper().run("go").messages == recorded.messages


def test_handoff_target_offers_its_own_tools():
    """After a handoff, the other agent's tools are offered, including those already found."""
    expert = Agent("expert", [Toolset([weather]).searchable()], llm=ScriptedLLM("It is fine."))
    llm = ScriptedLLM(call(FIND_TOOLS, query="weather share"), call("hand_off_to_expert"))
    Agent("front", [BIG], llm=llm, handoffs=[expert]).run("go")
    assert names_in(expert.llm) == [[FIND_TOOLS, "weather"]]
    assert names_in(llm)[1][:2] == ["hand_off_to_expert", FIND_TOOLS]


def test_read_more_is_offered_after_found_tools():
    """`read_more` is offered after the found tools."""
    long = Tool(lambda: "x" * 5_000, "long", "A long text.", max_chars=1_000)
    llm = ScriptedLLM(call(FIND_TOOLS, query="share"), call("long"), ".")
    Agent("helper", [long, BIG], llm=llm).run("go")
    assert names_in(llm)[2] == ["long", FIND_TOOLS, "stock", "read_more"]


@pytest.mark.parametrize(
    "content",
    ["", "no JSON", "[1]", '{"tools": "weather"}', '{"tools": [1, null]}', '{"found": ["weather"]}', "[" * 100_000],
)
def test_other_content_names_no_tools(content):
    """Content that is not a search result names no tools."""
    assert found_specs([ToolMessage("1", FIND_TOOLS, content)], BIG) == ()


def test_only_searches_and_calls_name_tools():
    """Only search results and calls name found tools; a note after a result is ignored."""
    content = '{"tools": ["weather", "nothing"]}'
    conversation = [
        UserMessage(content),
        AssistantMessage(content),
        ToolMessage("1", "other", content),
        AssistantMessage("", (ToolCall("2", "stock", "{}"),)),
    ]
    assert [spec.name for spec in found_specs(conversation, BIG)] == ["stock"]
    message = ToolMessage("3", FIND_TOOLS, f"{content}\n\n[Note: the same.]")
    assert [spec.name for spec in found_specs([message], BIG)] == ["weather"]


def test_no_search_without_searchable_tools():
    """An agent without searchable tools has no search tool."""
    tools = Toolset([add])
    assert initial_specs(tools) == (tools, (tools[0].spec,))


def test_search_description_lists_names_or_words():
    """The search tool lists the tool names, or the most frequent words of many names."""
    described = initial_specs(BIG)[0][FIND_TOOLS].description
    assert "They are: weather, stock." in described
    many = Toolset(Tool(weather, f"server_weather_word{number}") for number in range(500)).searchable()
    described = initial_specs(many)[0][FIND_TOOLS].description
    assert "There are 500 more" in described
    assert "Words in their names: server, weather, word0" in described
    assert len(described) < 2_500


def test_name_of_the_search_tool_is_reserved():
    """A tool with the name of the search tool raises ConfigError."""
    own = Tool(add, FIND_TOOLS)
    with pytest.raises(ConfigError, match="Two tools are named 'find_tools'"):
        Agent("helper", [own, BIG], llm=ScriptedLLM(say("."))).run("go")
