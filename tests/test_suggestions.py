"""Tests for suggestions for misspelt arguments."""

import asyncio

import pytest

from agentkit import LLM, Agent, Limits, Tool, core_tools, tool
from agentkit.agents.default import QuickAgent
from agentkit.code_mode import program_tool
from agentkit.evals import Case, SimulatedUser, Suite, contains
from agentkit.knowledge import Knowledge, Memory
from agentkit.mcp import MCPServer
from agentkit.safety.rules import Rule
from agentkit.suggestions import closest
from agentkit.testing import ScriptedLLM


@pytest.mark.parametrize(
    ("name", "cutoff", "found"),
    [
        ("calculater", 0.5, "calculator"),
        ("weather", 0.5, ""),
        ("calculater", 0.99, ""),
        ("calculator" * 10_000, 0.5, ""),
    ],
)
def test_closest_name(name, cutoff, found):
    """The most similar known name is returned, and none if all are too different."""
    assert closest(name, ("calculator", "wikipedia"), cutoff) == found


def helper():
    """Return an agent without scripted lines."""
    return Agent("helper", llm=ScriptedLLM())


@pytest.mark.for_each(
    ("make", "text"),
    [
        (lambda: LLM("openai", timeout=3), "LLM() takes no argument timeout=. Did you mean timeout_seconds=?"),
        (lambda: LLM(temprature=0), "LLM() takes no argument temprature=. Did you mean temperature=?"),
        (lambda: LLM(xyz=1), "LLM() takes no argument xyz=. It takes: provider, model, api_key, azure_endpoint,"),
        (lambda: Limits(secnds=3), "Limits() takes no argument secnds=. Did you mean seconds=?"),
        (lambda: Rule("deny", "x", wher={}), "Rule() takes no argument wher=. Did you mean where=?"),
        (lambda: Tool(print, timeout=3), "Tool() takes no argument timeout=. Did you mean timeout_seconds=?"),
        (lambda: tool(max_char=300)(len), "Tool() takes no argument max_char=. Did you mean max_chars=?"),
        (lambda: QuickAgent()("Hi!", modle="gpt-5"), "agent() takes no argument modle=. Did you mean model=?"),
        (lambda: program_tool(core_tools, sandbx=""), "program_tool() takes no argument sandbx=. Did you mean sandb"),
        (lambda: core_tools.searchable(limit=3), "Toolset.searchable() takes no argument limit=. It takes: none."),
        (lambda: MCPServer("uvx x", env={}), "MCPServer() takes no argument env=. Did you mean environment=?"),
        (lambda: MCPServer("uvx x", zz={}), "MCPServer() takes no argument zz=. It takes: "),
        (lambda: Knowledge(":memory:", embdding=1), "Knowledge() takes no argument embdding=. "),
        (lambda: Memory(":memory:", usr="ann"), "Memory() takes no argument usr=. Did you mean user=?"),
        (lambda: Case("1+1?", expcted="2"), "Case() takes no argument expcted=. Did you mean expected=?"),
        (lambda: SimulatedUser("Buy.", max_turns=3), "SimulatedUser() takes no argument max_turns=. "),
        (lambda: Suite("x", [], scorer=[]), "Suite() takes no argument scorer=. Did you mean scorers=?"),
        (
            lambda: Suite("sums", [Case("1+1?", "2")], [contains()]).run(len, repeat=3),
            "Suite.run() takes no argument repeat=. Did you mean repeats=?",
        ),
        (lambda: Agent("helper", instructions="x"), "Agent() takes no argument instructions=. Did you mean instruct"),
        (lambda: Agent("helper", wrkspace="."), "Agent() takes no argument wrkspace=. Did you mean workspace=?"),
        (lambda: Agent("helper", planning=3), "Agent() takes no argument planning=. It takes: name, tools, instruc"),
        (lambda: helper()("Hi!", limit=3), "Agent.__call__() takes no argument limit=. Did you mean limits=?"),
        (lambda: helper().run("Hi!", limit=3), "Agent.run() takes no argument limit=. Did you mean limits=?"),
        (lambda: helper().stream("Hi!", limit=3), "Agent.stream() takes no argument limit=. Did you mean limits=?"),
        (lambda: helper().astream("Hi!", limit=3), "Agent.astream() takes no argument limit=. Did you mean limits=?"),
        (
            lambda: asyncio.run(helper().arun("Hi!", limit=3)),
            "Agent.arun() takes no argument limit=. Did you mean limits=?",
        ),
        (lambda: helper().map(["Hi!"], limit=3), "Agent.map() takes no argument limit=. Did you mean limits=?"),
        (
            lambda: asyncio.run(helper().amap(["Hi!"], concurency=3)),
            "Agent.amap() takes no argument concurency=. Did you mean concurrency=?",
        ),
        (lambda: helper().as_tool(nme="x"), "Agent.as_tool() takes no argument nme=. Did you mean name=?"),
    ],
)
def test_misspelt_argument(make, text):
    """A misspelt argument is an error that names the probable one, or all accepted ones."""
    with pytest.raises(TypeError) as raised:
        make()
    assert str(raised.value).startswith(text)


def test_unknown_attribute_of_an_agent():
    """Setting an unknown attribute of an agent raises an AttributeError that Python can complete with a suggestion."""
    agent = helper()
    with pytest.raises(
        AttributeError, match="'Agent' object has no attribute 'intruction'; these can be set: name, "
    ) as raised:
        agent.intruction = "Be brief."
    assert (raised.value.name, raised.value.obj) == ("intruction", agent)


def test_unknown_name_of_the_package():
    """An unknown attribute of the package raises an AttributeError."""
    import agentkit

    with pytest.raises(AttributeError, match="module 'agentkit' has no attribute 'nothing_of_the_kind'"):
        getattr(agentkit, "nothing_of_" + "the_kind")
