"""What was meant by a name that there is not?"""

import pytest

from agentkit import LLM, Limits, Tool, tool
from agentkit.agents.default import QuickAgent
from agentkit.naming import arguments_of, closest
from agentkit.naming.foreign import TABLES
from agentkit.safety.rules import Rule

KINDS = (LLM, Limits, Rule, Tool)


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
    ],
)
def test_a_misspelt_or_foreign_argument_says_which_one_was_meant(make, said):
    """What is made with a misspelt argument, or with another toolkit's word, says which argument was meant."""
    with pytest.raises(TypeError) as raised:
        make()
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("kind", KINDS)
def test_no_word_of_a_table_is_an_argument(kind):
    """What is taken stands in no table of what is not, and a word is put down for an argument that is taken."""
    taken, table = arguments_of(kind), TABLES[kind.__name__]
    assert set(taken).isdisjoint(table)
    meant = {words.removesuffix("=") for words in table.values() if words.endswith("=")}
    assert meant
    assert meant <= {*taken, "base_url=, or for Azure azure_endpoint"}


def test_there_is_a_table_for_each_kind_that_is_made():
    """Each table is one of a class that is made with arguments."""
    assert TABLES.keys() == {kind.__name__ for kind in KINDS}
