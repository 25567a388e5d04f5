"""Tests for `described`, which changes the description of a tool, and `judged_by`."""

import pickle

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.errors import ConfigError
from agentkit.tooling.tool import Tool


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def refuse(_):
    """Refuse every call."""
    return Decision(Verdict.DENY, "refuse", "No.")


def adding_in(workspace):
    """Return the tool that adds, for each workspace."""
    return Tool(add, "add", f"Adds in {workspace}.", within=adding_in)


class Clerk:
    """A class with a method that is a tool."""

    @Tool
    def greet(self, name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"


def test_described_changes_only_the_description():
    """`described` returns a tool that differs only in its description."""
    first = Tool(add, level="network", max_chars=500)
    assert first.spec.description == "Add two numbers."
    other = first.described("Adds.")
    assert (other.description, other.spec.description) == ("Adds.", "Adds.")
    assert other.to_openai_tool()["function"]["description"] == "Adds."
    assert (other.name, other.level, other.max_chars, other.parameters) == ("add", first.level, 500, first.parameters)
    assert (other(1, 2), other.invoke({"a": 1, "b": 2}).value) == (3, 3)
    assert first.spec.description == first.description == "Add two numbers."


def test_description_is_preserved_in_every_workspace():
    """A tool keeps its other description in each workspace and after pickling."""
    other = adding_in("here").described("Adds.")
    assert other.is_in_workspace
    for each in (other, pickle.loads(pickle.dumps(other))):
        assert each.within("there").within("elsewhere").description == "Adds."


def test_described_method():
    """`described` works before and after a method is bound to its object."""
    clerk = Clerk()
    before = Clerk.__dict__["greet"].described("Says hello.").__get__(clerk)
    for each in (before, clerk.greet.described("Says hello.")):
        assert (each.description, each("Ann")) == ("Says hello.", "Hello Ann")
    assert clerk.greet.description == "Greet somebody."


def test_description_must_be_a_string():
    """A description that is not a string raises an error; None restores the docstring."""
    with pytest.raises(ConfigError, match="description= takes text"):
        Tool(add).described(7)
    assert Tool(add, description="Adds.").described(None).description == "Add two numbers."


def test_judged_by():
    """`judged_by` returns the judge of a tool, or None if it has none."""
    assert Tool(add, judge=refuse).judged_by is refuse
    assert Tool(add).judged_by is None
