"""Tests for the texts of an agent that can be improved, and agents created with other texts."""

import pytest

from agentkit import Agent, Limits, Tool, core_tools, system_tools
from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError
from agentkit.evals.optimization.candidates import (
    max_chars,
    placeholders,
    texts_of,
    tool_of,
    validation_error,
    with_texts,
)
from agentkit.testing import ScriptedLLM, call
from agentkit.workspace.workspace import Workspace


def agent(**options):
    """Return an agent with the core tools and one that works in a workspace."""
    tools = core_tools + system_tools.only("read_file")
    return Agent("helper", tools, "Be brief.", llm=ScriptedLLM("Hello.", repeat=True), **options)


@pytest.mark.parametrize(
    ("improve", "parts"),
    [
        ("instruction", ["instruction"]),
        (("instruction", "calculator"), ["instruction", "tool:calculator"]),
        (["tool:read_file"], ["tool:read_file"]),
        ("tools", [f"tool:{tool.name}" for tool in core_tools + system_tools.only("read_file")]),
    ],
)
def test_parts_are_chosen_by_name(improve, parts):
    """The instruction, all tools or named tools can be selected."""
    assert list(texts_of(agent(), improve)) == parts


@pytest.mark.parametrize("improve", ["calculater", (), "tools"])
def test_unknown_parts_are_rejected(improve):
    """An unknown tool or an empty selection raises a ConfigError."""
    with pytest.raises(ConfigError):
        texts_of(Agent("bare", llm=ScriptedLLM("")), improve)


def test_text_with_a_secret_is_not_shown_to_a_proposer():
    """An instruction that contains a secret is rejected, because the proposer would read it."""
    keyed = Agent("keyed", instruction="Use the key sk-abcdefghij0123456789abcd.", llm=ScriptedLLM(""))
    with pytest.raises(ConfigError, match="The instruction contains what looks like a secret"):
        texts_of(keyed, "instruction")


def test_part_names_its_tool():
    """`tool:NAME` is the description of a tool, and `instruction` names no tool."""
    assert (tool_of("tool:calculator"), tool_of("instruction")) == ("calculator", "")


def test_only_texts_are_changed():
    """An agent with new texts has the same schemas, levels and limits, and the original is unchanged."""
    first = agent(limits=Limits(tool_calls=3), safety="safe")
    before = (first.instruction, first.tools.find("calculator").description)
    received = []
    first.listeners.append(received.append)
    other = with_texts(first, {"instruction": "Be kind.", "tool:calculator": "Reckons."})
    assert (other.instruction, other.tools.find("calculator").description) == ("Be kind.", "Reckons.")
    assert (first.instruction, first.tools.find("calculator").description) == before
    for old, new in zip(first.tools, other.tools, strict=True):
        assert (new.name, new.parameters, new.level, new.max_chars) == (
            old.name,
            old.parameters,
            old.level,
            old.max_chars,
        )
        assert (new.judge({}), new.labels, new.function) == (old.judge({}), old.labels, old.function)
        assert (new is old) == (old.name != "calculator")
    assert other.policy is first.policy
    assert other.policy.level == SafetyLevel.SAFE
    assert (other.limits, other.llm) == (first.limits, first.llm)
    assert other.listeners == first.listeners
    assert other.listeners is not first.listeners


def test_model_receives_the_new_description(tmp_path):
    """The model receives the new description of a tool, and a tool bound to the workspace still works."""
    (tmp_path / "note.txt").write_text("ten o'clock")
    llm = ScriptedLLM(call("read_file", path="note.txt"), "Ten.")
    first = Agent("helper", system_tools.only("read_file"), llm=llm, safety="system", workspace=Workspace(tmp_path))
    assert with_texts(first, {"tool:read_file": "Opens a note."})("When?") == "Ten."
    assert [tool.description for request in llm.requests for tool in request.tools] == ["Opens a note."] * 2
    assert "ten o'clock" in llm.requests[1].messages[-1].content


def test_cached_description_is_replaced():
    """A new description replaces one that was already read from the tool's spec."""
    adder = Tool(lambda a, b: a + b, "add", "Adds.")
    assert adder.spec.description == "Adds."
    other = with_texts(Agent("adder", [adder], llm=ScriptedLLM("")), {"tool:add": "Adds two."})
    assert (other.tools[0].spec.description, other.tools[0](1, 2)) == ("Adds two.", 3)


@pytest.mark.for_each(
    ("new", "objection"),
    [
        ("Answer {name} in {{ language }}.", ""),
        ("Answer {name} in {{language}}. Tabs\tand\nlines are seen.", ""),
        ("  \n", "The text is empty."),
        ("x" * 8_001, "The text has 8,001 characters; at most 8,000 are allowed."),
        ("Answer {name} in {{ language }}\u202e.", "The text contains an invisible character (U+202E)."),
        ("Answer {name} in {{ language }}\x1b[31m.", "The text contains an invisible character (U+001B)."),
        ("Answer {name}.", "The text must keep the placeholders of the old one, and add none: {{language}}."),
        (
            "Answer {name} in {{ language }}, {city}.",
            "The text must keep the placeholders of the old one, and add none: {city}.",
        ),
        ("{name} {{language}} sk-abcdefghij0123456789abcd", "The text contains what looks like a secret."),
    ],
)
def test_text_is_checked_before_it_is_tried(new, objection):
    """A text is not empty, not too long, visible, keeps its placeholders and contains no secret."""
    assert validation_error("instruction", "Answer {name} in {{ language }}.", new) == objection


def test_joiners_of_scripts_and_emoji_are_allowed():
    """Joiners of scripts and emoji do not count as hidden text."""
    assert validation_error("instruction", "Be brief.", "Answer with \U0001f469\u200d\U0001f4bb.") == ""


def test_text_may_be_as_long_as_the_old_one():
    """A description has at most 1,000 characters, unless the old one has more."""
    assert max_chars("tool:add", "Adds.") == 1_000
    assert max_chars("tool:add", "x" * 1_500) == 1_500


def test_placeholders_are_found_in_a_text():
    """Braces, doubled braces, shell variables and percent signs are placeholders; JSON has none."""
    assert placeholders("{a} {{ b }} ${c} %(d)s {a.b}") == {"{a}", "{{b}}", "${c}", "%(d)s", "{a.b}"}
    assert placeholders('{"a": 1} {} {1}') == frozenset()
