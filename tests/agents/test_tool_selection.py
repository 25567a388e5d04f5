"""Which tools is a model offered now?"""

import asyncio
import json

import pytest

from agentkit import Agent, Approval, ConfigError, Policy, Rule, SafetyLevel, Tool, Toolset
from agentkit.agents.model_requests import FIND_TOOLS, MOST_FOUND, found_in, offered
from agentkit.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call, record, replay, say


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def weather(city: str) -> str:
    """The weather in a city."""
    return f"fine in {city}"


def stock(company: str) -> str:
    """What a share costs."""
    return f"{company}: 12"


BIG = Toolset([weather, stock]).searchable()


def names_in(llm):
    """The tools that each request offered."""
    return [[spec.name for spec in request.tools] for request in llm.requests]


def test_a_model_is_offered_what_it_has_found():
    """A search adds what it has found behind what was offered before, and it stays there for the next prompt."""
    llm = ScriptedLLM(
        call(FIND_TOOLS, query="weather of a city"), call("weather", city="Hue"), "Fine.", call("add", a=1, b=2), "3."
    )
    helper = Agent("helper", [add, BIG], llm=llm)
    assert helper("How is the weather?") == "Fine."
    assert helper("And 1 + 2?") == "3."
    known = ["add", FIND_TOOLS]
    assert names_in(llm) == [known, *[[*known, "weather"]] * 4]
    told = json.loads(helper.history[2]["content"])
    assert told["tools"] == ["weather"]


def test_awaiting_searches_alike():
    """A run that is awaited is offered the same."""
    llm = ScriptedLLM(call(FIND_TOOLS, query="share"), call("stock", company="X"), "12.")
    assert asyncio.run(Agent("helper", [add, BIG], llm=llm).arun("go")).output == "12."
    assert names_in(llm)[1:] == [["add", FIND_TOOLS, "stock"]] * 2


def test_what_was_found_stands_in_the_order_of_finding():
    """What is found later stands behind what was found before, so that the beginning of a request stays as it was."""
    llm = ScriptedLLM(
        [call(FIND_TOOLS, query="share"), call(FIND_TOOLS, query="weather")],
        call(FIND_TOOLS, query="weather, share"),
        ".",
    )
    Agent("helper", BIG, llm=llm).run("go")
    assert names_in(llm) == [[FIND_TOOLS], [FIND_TOOLS, "stock", "weather"], [FIND_TOOLS, "stock", "weather"]]


def test_a_search_that_finds_nothing_says_so():
    """The model is told that no tool fits."""
    llm = ScriptedLLM(call(FIND_TOOLS, query="zebra"), "No.")
    result = Agent("helper", [BIG], llm=llm).run("go")
    assert result.tool_calls[0].result.status == "empty"
    assert names_in(llm)[1] == [FIND_TOOLS]


def test_one_search_finds_a_few():
    """However many tools share a word with a query, the best few are found."""
    many = Toolset(Tool(weather, f"weather_{number}") for number in range(100)).searchable()
    llm = ScriptedLLM(call(FIND_TOOLS, query="weather"), ".")
    Agent("helper", many, llm=llm).run("go")
    assert len(llm.requests[1].tools) == 1 + MOST_FOUND


def test_a_tool_that_was_not_found_is_judged_and_run():
    """A model that knows a tool's name alone may call it; with wrong arguments it is told so, and offered the tool."""
    llm = ScriptedLLM(call("weather", city="Hue"), call("stock", firm="X"), call("stock", company="X"), "12.")
    result = Agent("helper", [BIG], llm=llm).run("go")
    assert [used.result.status for used in result.tool_calls] == ["ok", "failed", "ok"]
    assert names_in(llm)[1:3] == [[FIND_TOOLS, "weather"], [FIND_TOOLS, "weather", "stock"]]


def test_finding_permits_nothing():
    """Level, rules and approver hold for a tool that was found, and for the search itself."""
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
    told = Agent("helper", BIG, llm=ScriptedLLM(call(FIND_TOOLS, query="share"), "No."), policy=forbidden).run("go")
    assert told.tool_calls[0].result.status == "denied"


def test_a_made_up_tool_is_told_what_is_shown():
    """Who calls what there is not is told the nearest name, and not a list of hundreds."""
    result = Agent("helper", [add, BIG], llm=ScriptedLLM(call("wether", city="Hue"), "Sorry.")).run("go")
    error = result.tool_calls[0].result.error
    assert "Did you mean 'weather'?" in error
    assert error.endswith(f"The tools are: add, {FIND_TOOLS}.")


def test_a_run_that_goes_on_elsewhere_offers_what_it_had_found(tmp_path):
    """What was found is read from the conversation, also from a text of a run, a stored session and a set history."""
    said = [call(FIND_TOOLS, query="weather"), call("ask", text="?")]

    def ask(text: str) -> str:
        """Ask."""
        return text

    tools = [Tool(ask, level=SafetyLevel.SYSTEM), BIG]
    saved = Agent("helper", tools, llm=ScriptedLLM(*said), approve=lambda _: Approval.LATER).run("go").to_json()
    llm = ScriptedLLM("Done.", "Done again.")
    helper = Agent("helper", tools, llm=llm, session=Session.open(tmp_path / "s.db", "trip"))
    helper.resume(saved, True)
    again = Agent("helper", tools, llm=llm, session=Session.open(tmp_path / "s.db", "trip"))
    again.run("And now?")
    third = Agent("helper", tools, llm=ScriptedLLM("Yes."))
    third.history = again.history
    third.run("And now?")
    assert {tuple(offer) for offer in [*names_in(llm), *names_in(third.llm)]} == {("ask", FIND_TOOLS, "weather")}


def test_a_replay_offers_the_same(tmp_path):
    """A recorded run is replayed without a search."""

    def helper(*lines):
        return Agent("helper", [add, BIG], llm=ScriptedLLM(*lines))

    with record(tmp_path / "c"):
        recorded = helper(call(FIND_TOOLS, query="weather"), call("weather", city="Hue"), "Fine.").run("go")
    with replay(tmp_path / "c"):
        assert helper().run("go").messages == recorded.messages


def test_who_takes_over_has_tools_of_its_own():
    """After a handoff the other agent's tools are offered, and those to be found that the conversation has named."""
    expert = Agent("expert", [Toolset([weather]).searchable()], llm=ScriptedLLM("It is fine."))
    llm = ScriptedLLM(call(FIND_TOOLS, query="weather share"), call("hand_off_to_expert"))
    Agent("front", [BIG], llm=llm, handoffs=[expert]).run("go")
    assert names_in(expert.llm) == [[FIND_TOOLS, "weather"]]
    assert names_in(llm)[1][:2] == ["hand_off_to_expert", FIND_TOOLS]


def test_what_reads_long_results_stands_behind_what_was_found():
    """The tool that reads on is offered beside those that were found."""
    long = Tool(lambda: "x" * 5_000, "long", "A long text.", max_chars=1_000)
    llm = ScriptedLLM(call(FIND_TOOLS, query="share"), call("long"), ".")
    Agent("helper", [long, BIG], llm=llm).run("go")
    assert names_in(llm)[2] == ["long", FIND_TOOLS, "stock", "read_more"]


@pytest.mark.parametrize(
    "content",
    ["", "no JSON", "[1]", '{"tools": "weather"}', '{"tools": [1, null]}', '{"found": ["weather"]}', "[" * 100_000],
)
def test_other_contents_name_no_tools(content):
    """What stands in the place of a search's result, such as the words of a check, names no tools."""
    assert found_in([ToolMessage("1", FIND_TOOLS, content)], BIG) == ()


def test_only_what_was_searched_or_called_counts():
    """A result of another tool, a person and a model's words name no tools; a note behind a result does no harm."""
    content = '{"tools": ["weather", "nothing"]}'
    conversation = [
        UserMessage(content),
        AssistantMessage(content),
        ToolMessage("1", "other", content),
        AssistantMessage("", (ToolCall("2", "stock", "{}"),)),
    ]
    assert [spec.name for spec in found_in(conversation, BIG)] == ["stock"]
    told = ToolMessage("3", FIND_TOOLS, f"{content}\n\n[Note: the same.]")
    assert [spec.name for spec in found_in([told], BIG)] == ["weather"]


def test_without_tools_to_search_for_nothing_changes():
    """An agent whose tools are all plain has no search."""
    tools = Toolset([add])
    assert offered(tools) == (tools, (tools[0].spec,))


def test_the_names_are_told_as_far_as_there_is_room():
    """A model is told the names of what it can find; of hundreds the words in them, the most frequent first."""
    described = offered(BIG)[0][FIND_TOOLS].description
    assert "They are: weather, stock." in described
    many = Toolset(Tool(weather, f"server_weather_word{number}") for number in range(500)).searchable()
    described = offered(many)[0][FIND_TOOLS].description
    assert "There are 500 more" in described
    assert "Words in their names: server, weather, word0" in described
    assert len(described) < 2_500


def test_the_name_of_the_search_is_taken():
    """Two tools of that name are refused before anything runs."""
    own = Tool(add, FIND_TOOLS)
    with pytest.raises(ConfigError, match="Two tools are named 'find_tools'"):
        Agent("helper", [own, BIG], llm=ScriptedLLM(say("."))).run("go")
