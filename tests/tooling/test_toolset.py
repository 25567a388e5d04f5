"""Tests for toolsets: creation, selection, combination, lookup, and errors."""

from __future__ import annotations

import functools
import json
import operator
import pickle
import types
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from agentkit import Agent
from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError, UnknownTool
from agentkit.testing import ScriptedLLM
from agentkit.tooling.tool import Tool, tool
from agentkit.tooling.toolset import Toolset


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(level=SafetyLevel.NETWORK)
def fetch(url: str) -> str:
    """Fetch."""
    return url


@tool(level="system")
def remove(path: str) -> str:
    """Remove."""
    return path


def plain(text: str) -> str:
    """Return the text."""
    return text


async def later(text: str) -> str:
    """Return the text later."""
    return text


class Shelf:
    """A class with tools among its methods."""

    @tool
    def take(self, count: int) -> int:
        """Take some."""
        return count

    @classmethod
    @tool
    def describe(cls, count: int) -> str:
        """Describe the class."""
        return cls.__name__ * count

    def put(self, count: int) -> int:
        """Put some back."""
        return count


class Fielded:
    """Say so."""

    def __iter__(self) -> Iterator[str]:
        yield "said"

    def __call__(self) -> str:
        """Say it."""
        return "so"


three = Toolset([add, fetch, remove])


@pytest.mark.for_each(
    ("items", "names"),
    [
        ((), ()),
        (add, ("add",)),
        (plain, ("plain",)),
        ([add, plain, later], ("add", "plain", "later")),
        ((add, [fetch, (remove,)]), ("add", "fetch", "remove")),
        (three, ("add", "fetch", "remove")),
        ([three, plain], ("add", "fetch", "remove", "plain")),
        ((each for each in (add, plain)), ("add", "plain")),
        ({"a": add}.values(), ("add",)),
        ([Shelf().put, Shelf().take, Shelf.describe], ("put", "take", "describe")),
        (functools.partial(plain), ("plain",)),
        (SimpleNamespace(as_tool=lambda: add), ("add",)),
        ([Fielded()], ("Fielded",)),
    ],
)
def test_toolset_from_many_kinds_of_items(items: Any, names: tuple[str, ...]) -> None:
    """A toolset can be created from tools, functions, methods, toolsets and iterables of these, in order."""
    toolset = Toolset(items)
    assert toolset.names == names
    assert all(isinstance(each, Tool) for each in toolset)


def test_uncalled_as_tool_is_rejected() -> None:
    """Passing `as_tool` without calling it raises an error that shows the call."""
    agent = Agent("clerk", llm=ScriptedLLM())
    with pytest.raises(ConfigError, match=r"Agent.as_tool returns tools when it is called. Write: as_tool\(\)"):
        Toolset([agent.as_tool])


def test_tools_of_a_class_and_its_instances() -> None:
    """A tool of an instance receives the instance, and one of a class the class."""
    toolset = Toolset([Shelf().take, Shelf.describe, Shelf().put])
    assert [each.invoke({"count": 2}).value for each in toolset] == [2, "ShelfShelf", 2]


def test_class_method_tool_inside_a_bound_method() -> None:
    """A tool wrapped in a bound class method is found and bound to the class."""
    bound: Any = types.MethodType(Shelf.__dict__["describe"].__func__, Shelf)
    assert Toolset([bound]).find("describe").invoke({"count": 1}).value == "Shelf"


@pytest.mark.for_each(
    ("items", "message"),
    [
        ("web", r"tools= takes tools, e\.g\. tools=core_tools .* got the string 'web'; pass the tool itself"),
        (b"web", "got the string b'web'"),
        (["add"], "got the string 'add'"),
        ({"type": "function"}, "got a dictionary; to create a tool from a JSON schema, use Tool.from_schema"),
        (Shelf, "got the class Shelf; pass a function, or a method of an instance"),
        (json, "got the module json; pass the functions in it"),
        (5, "got 5"),
        (None, "got None"),
        ([None], "got None"),
        (Shelf.take, "'take' is a method; take it from an instance, not from its class"),
        ([add, add], r"The tool 'add' is given twice. .*: \.without\('add'\)\."),
        (
            [add, Toolset([add]).searchable()],
            r"once as a searchable tool.*: tools\.only\('add'\) \+ tools\.without\('add'\)\.searchable\(\)",
        ),
        ([add, Tool(plain, name="add")], "Two tools are named 'add'"),
        (lambda text: text, "'<lambda>' is not a name that providers accept"),
    ],
)
def test_invalid_item_is_rejected_with_a_hint(items: Any, message: str) -> None:
    """An item that is not a tool raises an error with a suggestion."""
    with pytest.raises(ConfigError, match=message):
        Toolset(items)


def test_toolsets_can_be_added() -> None:
    """A toolset can be added to a toolset, list, tuple, tool or function, on either side."""
    base = Toolset([add])
    for other, name in ((Toolset([fetch]), "fetch"), ([fetch], "fetch"), ((fetch,), "fetch"), (plain, "plain")):
        assert (base + other).names == ("add", name)
        assert (other + base).names == (name, "add")
    assert (base + fetch).names == ("add", "fetch")
    assert (fetch + base).names == ("fetch", "add")
    assert base.names == ("add",)
    with pytest.raises(ConfigError, match="'add' is given twice"):
        operator.add(base, [add])


def test_selection_of_tools() -> None:
    """Tools can be selected or excluded by name, or limited to a safety level."""
    assert three.only("remove", "add").names == ("remove", "add")
    assert three.only() == Toolset()
    assert three.without("fetch").names == ("add", "remove")
    assert three.up_to(SafetyLevel.NETWORK).names == ("add", "fetch")
    assert three.up_to("safe").names == ("add",)
    with pytest.raises(ConfigError, match="not a safety level"):
        three.up_to("harmless")


def test_toolset_lookup() -> None:
    """A toolset supports indexing by position or name, and membership tests."""
    assert (three[0], three["fetch"]) == (add, fetch)
    assert "fetch" in three
    assert fetch in three
    assert "fetched" not in three
    with pytest.raises(UnknownTool, match="Did you mean 'fetch'"):
        three["fetched"]


def test_unknown_name_error_suggests_a_name() -> None:
    """Selecting an unknown tool raises an error that suggests the closest name."""
    for choose in (three.only, three.without):
        with pytest.raises(ConfigError, match=r"No tool is named 'fetsh'. Did you mean 'fetch'\? The tools are: add"):
            choose("fetsh")


@pytest.mark.parametrize(
    ("toolset", "name", "expected"),
    [
        (three, "fech", "No tool is named 'fech'. Did you mean 'fetch'? The tools are: add, fetch, remove."),
        (three, "zzz", "No tool is named 'zzz'. The tools are: add, fetch, remove."),
        (three, "", "No tool is named ''. The tools are: add, fetch, remove."),
        (Toolset(), "add", "No tool is named 'add': the collection is empty."),
    ],
)
def test_unknown_name_lists_the_tools(toolset: Toolset, name: str, expected: str) -> None:
    """An unknown name raises UnknownTool, which suggests the closest name and lists the others."""
    with pytest.raises(UnknownTool) as caught:
        toolset.find(name)
    assert str(caught.value) == expected


def test_long_unknown_name_is_truncated() -> None:
    """An unknown name of any length is handled quickly and truncated in the error."""
    with pytest.raises(UnknownTool) as caught:
        three.find("fetch" * 1_000_000)
    assert len(str(caught.value)) < 300


def test_toolset_is_an_immutable_sequence() -> None:
    """A toolset has a length, order, membership, slices and equality, and cannot be changed."""
    assert len(three) == 3
    assert bool(three)
    assert not Toolset()
    assert list(three) == [add, fetch, remove]
    assert three[0] is add
    assert three[-2:] == Toolset([fetch, remove])
    assert fetch in three
    assert three.find("add") is add
    assert three == Toolset([add]) + fetch + remove
    assert three != Toolset([fetch, add, remove])
    assert three != [add, fetch, remove]
    assert len({three, Toolset(three)}) == 1
    assert repr(three) == "Toolset(add, fetch, remove)"
    with pytest.raises(AttributeError):
        three.extra = 1


def test_tools_stay_searchable() -> None:
    """Searchable tools remain searchable in derived and combined toolsets."""
    searched = three.searchable()
    assert searched.names == three.names
    assert searched != three
    assert searched == three.searchable()
    assert repr(three.only("add").searchable()) == "Toolset(add (searchable))"
    made = [
        searched,
        searched.only("remove", "fetch", "add"),
        searched.without(),
        searched.up_to("system"),
        searched.within(None),
        searched[0:],
        Toolset(searched),
        Toolset([[searched]]),
        Toolset(iter([searched])),
        searched + Toolset(),
        list[Any]() + searched,
        pickle.loads(pickle.dumps(searched)),
    ]
    assert {each.searchable_names for each in made} == {frozenset(three.names)}
    beside = Toolset([three.only("add"), three.without("add").searchable()])
    assert beside.searchable_names == {"fetch", "remove"}
    assert beside.only("add", "fetch").searchable_names == {"fetch"}
    assert three.searchable_names == frozenset()


def test_searchable_tools_are_not_listed() -> None:
    """The error for an unknown name lists only plain tools, but may suggest a searchable one."""
    with pytest.raises(UnknownTool) as caught:
        Toolset([three.only("add"), three.without("add").searchable()]).find("fetsh")
    assert str(caught.value) == "No tool is named 'fetsh'. Did you mean 'fetch'? The tools are: add."


def test_toolset_method_is_rejected() -> None:
    """Passing a method of a toolset without calling it raises an error."""
    with pytest.raises(ConfigError, match=r"Call it: toolset\.searchable\(\.\.\.\)"):
        Toolset([three.searchable])
