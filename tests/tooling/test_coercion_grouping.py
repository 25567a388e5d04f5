"""Tests for arguments with a superfluous or a missing wrapper object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from agentkit.errors import BadArguments
from agentkit.tooling.coercion import nest_or_unwrap
from agentkit.tooling.schema import FunctionParameters, SchemaParameters


@dataclass
class Search:
    """A search."""

    query: str
    limit: int = 10


def search(wanted: Search) -> None:
    """Search."""


def weather(city: str, days: int = 1) -> None:
    """Report the weather."""


def nothing() -> None:
    """Take nothing."""


def test_wrapper_object_is_removed() -> None:
    """An object that wraps all arguments is removed, also when it is written as a string."""
    found = FunctionParameters(weather, "weather")
    for given in ({"arguments": {"city": "Rome"}}, {"Parameters": {"city": "Rome"}}, {"input": '{"city": "Rome"}'}):
        assert found.check(given) == {"city": "Rome", "days": 1}
    assert FunctionParameters(nothing, "nothing").check({"args": {}}) == {}


def test_name_of_single_parameter_may_be_omitted() -> None:
    """The fields of a single object parameter may be passed as top-level arguments."""
    assert FunctionParameters(search, "search").check({"query": "a", "limit": "3"}) == {"wanted": Search("a", 3)}


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (weather, {"arguments": {"town": "Rome"}}),
        (weather, {"arguments": {"city": "Rome"}, "days": 2}),
        (weather, {"arguments": "Rome"}),
        (weather, {"arguments": ["Rome"]}),
        (weather, {"where": {"city": "Rome"}}),
        (search, {"query": "a", "colour": "red"}),
        (search, {}),
    ],
)
def test_ambiguous_grouping_is_rejected(function: Any, given: dict[str, Any]) -> None:
    """Arguments with an ambiguous grouping are rejected with the name of the argument."""
    with pytest.raises(BadArguments, match=r"is missing|has no parameter"):
        FunctionParameters(function, "demo").check(given)


def test_wrapper_object_with_a_given_schema() -> None:
    """A wrapper object is also removed for a given schema, unless the schema accepts any name."""
    schema = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
    assert SchemaParameters(schema, "demo").check({"arguments": {"city": "Rome"}}) == {"city": "Rome"}
    assert SchemaParameters({}, "demo").check({"arguments": {}}) == {"arguments": {}}
    assert nest_or_unwrap({"city": "Rome"}, schema) is None
