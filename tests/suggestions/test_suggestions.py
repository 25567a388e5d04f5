"""What was meant by a name that there is not?"""

import pytest

from agentkit import LLM, Agent, Limits, Tool, core_tools, tool
from agentkit.agents.default import QuickAgent
from agentkit.code_mode import program_tool
from agentkit.evals import Case, SimulatedUser, Suite, contains, optimize
from agentkit.evals.run_config import SuiteRunOptions
from agentkit.knowledge import Knowledge, Memory
from agentkit.mcp import MCPServer
from agentkit.safety.rules import Rule
from agentkit.suggestions import arguments_of, closest
from agentkit.suggestions.other_toolkits import TABLES
from agentkit.testing import ScriptedLLM
from agentkit.tooling.toolset import Toolset

MADE = (LLM, Limits, Rule, Tool, MCPServer, Knowledge, Memory, Case, Suite, SimulatedUser)
CALLED = (program_tool, Toolset.searchable, Knowledge.search, Knowledge.as_tool, Suite.run, optimize)
MORE = {"Suite.run": tuple(SuiteRunOptions.__annotations__), "optimize": ("path", "rounds", "batch", "concurrency")}


def suite():
    """A suite of one case."""
    return Suite("sums", [Case("1+1?", "2")], [contains()])


@pytest.mark.parametrize(
    ("name", "cutoff", "found"),
    [
        ("calculater", 0.5, "calculator"),
        ("weather", 0.5, ""),
        ("calculater", 0.99, ""),
        ("calculator" * 10_000, 0.5, ""),
    ],
)
def test_the_closest_name(name, cutoff, found):
    """The known name that is most like the one that was written is found, and none where all are too different."""
    assert closest(name, ("calculator", "wikipedia"), cutoff) == found


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LLM("openai", timeout=3), "LLM() takes no argument timeout=. Did you mean timeout_seconds=?"),
        (lambda: LLM(temprature=0), "LLM() takes no argument temprature=. Did you mean temperature=?"),
        (lambda: LLM(top_p=0.9), "LLM() takes no argument top_p=. Did you mean settings={'top_p': ...}?"),
        (lambda: LLM(xyz=1), "LLM() takes no argument xyz=. It takes: provider, model, api_key, azure_endpoint,"),
        (lambda: Limits(max_turns=3), "Limits() takes no argument max_turns=. Did you mean iterations=?"),
        (lambda: Limits(secnds=3), "Limits() takes no argument secnds=. Did you mean seconds=?"),
        (lambda: Rule("deny", "x", wher={}), "Rule() takes no argument wher=. Did you mean where=?"),
        (lambda: Rule("deny", "x", condition={}), "Rule() takes no argument condition=. Did you mean where=?"),
        (lambda: Tool(print, timeout=3), "Tool() takes no argument timeout=. Did you mean timeout_seconds=?"),
        (lambda: tool(requires_approval=True)(len), "Tool() takes no argument requires_approval=. Did you mean level="),
        (lambda: QuickAgent()("Hi!", timeout=3), "agent() takes no argument timeout=. Did you mean timeout_seconds=?"),
        (
            lambda: program_tool(core_tools, sandbx="off"),
            "program_tool() takes no argument sandbx=. Did you mean sandb",
        ),
        (
            lambda: program_tool(core_tools, timeout=3),
            "program_tool() takes no argument timeout=. Did you mean limits=",
        ),
        (lambda: core_tools.searchable(limit=3), "Toolset.searchable() takes no argument limit=. It takes: none."),
        (
            lambda: core_tools.searchable(only="x"),
            "Toolset.searchable() takes no argument only=. Did you mean toolset.",
        ),
        (lambda: MCPServer("uvx x", env={}), "MCPServer() takes no argument env=. Did you mean environment=?"),
        (lambda: MCPServer("uvx", args=["x"]), "MCPServer() takes no argument args=. A command is given first, with"),
        (
            lambda: Knowledge(":memory:", chunk_size=9),
            "Knowledge() takes no argument chunk_size=. Did you mean passage_",
        ),
        (
            lambda: Knowledge(":memory:").search("x", top_k=3),
            "Knowledge.search() takes no argument top_k=. Did you mean",
        ),
        (
            lambda: Knowledge(":memory:").as_tool(top_k=3),
            "Knowledge.as_tool() takes no argument top_k=. Did you mean li",
        ),
        (lambda: Memory(":memory:", user_id="ann"), "Memory() takes no argument user_id=. Did you mean user=?"),
        (lambda: Case("1+1?", expcted="2"), "Case() takes no argument expcted=. Did you mean expected=?"),
        (lambda: Case(input="1+1?"), "Case() takes no argument input=. Did you mean prompt=?"),
        (lambda: SimulatedUser("Buy.", max_turns=3), "SimulatedUser() takes no argument max_turns=. Did you mean max_"),
        (lambda: Suite("x", [], metrics=[]), "Suite() takes no argument metrics=. Did you mean scorers=[...]?"),
        (lambda: suite().run(len, repeat=3), "Suite.run() takes no argument repeat=. Did you mean repeats=?"),
        (lambda: suite().run(len, max_workers=3), "Suite.run() takes no argument max_workers=. Did you mean concurre"),
        (
            lambda: optimize(Agent("a", llm=ScriptedLLM()), suite(), budget=3),
            "optimize() takes no argument budget=. Did you mean limits=Limits(cost=...)?",
        ),
    ],
)
def test_a_misspelt_or_foreign_argument_says_which_one_was_meant(make, said):
    """What is made with a misspelt argument, or with another toolkit's word, says which argument was meant."""
    with pytest.raises(TypeError) as raised:
        make()
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("kind", MADE + CALLED)
def test_no_word_of_a_table_is_an_argument(kind):
    """What is taken stands in no table of what is not, and a word is put down for an argument that is taken."""
    taken, table = {*arguments_of(kind), *MORE.get(kind.__qualname__, ())}, TABLES.get(kind.__qualname__, {})
    assert set(taken).isdisjoint(table)
    meant = {words.removesuffix("=") for words in table.values() if words.endswith("=")}
    assert meant <= {*taken, "base_url=, or for Azure azure_endpoint"}


def test_there_is_a_table_for_each_kind_that_is_made():
    """Each table is one of a class that is made, or of a function that is called, with arguments."""
    assert TABLES.keys() <= {kind.__qualname__ for kind in MADE + CALLED}
