"""Proves that arguments are found where a model has put one object too many around them, or one too few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from agentkit.errors import BadArguments
from agentkit.tooling.coercion import regrouped
from agentkit.tooling.schema import FunctionParameters, GivenParameters


@dataclass
class Search:
    """What is looked for."""

    query: str
    limit: int = 10


def search(wanted: Search) -> None:
    """Search."""


def weather(city: str, days: int = 1) -> None:
    """Tell the weather."""


def nothing() -> None:
    """Take nothing."""


def test_an_object_around_all_arguments_is_taken_off() -> None:
    """Some models put all arguments into one object called `arguments`, which may be written as text."""
    found = FunctionParameters(weather, "weather")
    for given in ({"arguments": {"city": "Rome"}}, {"Parameters": {"city": "Rome"}}, {"input": '{"city": "Rome"}'}):
        assert found.check(given) == {"city": "Rome", "days": 1}
    assert FunctionParameters(nothing, "nothing").check({"args": {}}) == {}


def test_the_name_of_an_only_parameter_may_be_left_out() -> None:
    """The fields of the only object that is asked for may stand in its place."""
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
def test_other_names_are_told_to_the_model(function: Any, given: dict[str, Any]) -> None:
    """What may have been meant otherwise is refused, by name."""
    with pytest.raises(BadArguments, match=r"is missing|has no parameter"):
        FunctionParameters(function, "demo").check(given)


def test_a_schema_of_somebody_else_is_understood_in_the_same_way() -> None:
    """Also where somebody else described the parameters; one that takes any names may mean just these."""
    schema = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
    assert GivenParameters(schema, "demo").check({"arguments": {"city": "Rome"}}) == {"city": "Rome"}
    assert GivenParameters({}, "demo").check({"arguments": {}}) == {"arguments": {}}
    assert regrouped({"city": "Rome"}, schema) is None
