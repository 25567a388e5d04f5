"""Tests for binding named arguments to positional and variadic parameters."""

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any, ParamSpec, TypedDict, TypeVarTuple, Unpack

import pytest

from agentkit import Decision, Tool
from agentkit.decisions import Verdict

Types = TypeVarTuple("Types")
Params = ParamSpec("Params")


def by_place(first: int, /, second: int = 2) -> str:
    """Take the first by its place."""
    return f"{first} {second}"


def many(first: str, *values: int, last: str = "end") -> str:
    """Take any number of values.

    Args:
        first: The first.
        values: The numbers.
        last: The last.
    """
    return f"{first} {values} {last}"


def options(first: str, **others: float) -> str:
    """Take numbers of any name."""
    return f"{first} {others}"


def anything(*args, **kwargs) -> str:
    """Take anything."""
    return f"{args} {kwargs}"


class Wish(TypedDict, total=False):
    """Optional keyword arguments."""

    unit: str
    days: int


class Need(TypedDict):
    """A required keyword argument."""

    unit: str


def wishes(city: str, **request: Unpack[Wish]) -> str:
    """Take named wishes."""
    return f"{city} {request}"


def needs(city: str, **need: Unpack[Need]) -> str:
    """Take a named need."""
    return f"{city} {need}"


class Counter:
    """A class with a method."""

    def add(self, /, *numbers: Annotated[int, "What to add."]) -> int:
        """Add the numbers."""
        return sum(numbers)


@pytest.mark.for_each(
    ("function", "arguments", "value"),
    [
        (by_place, {"first": "1"}, "1 2"),
        (by_place, {"second": 3, "first": 1}, "1 3"),
        (many, {"first": "a"}, "a () end"),
        (many, {"first": "a", "values": [1, "2"], "last": "z"}, "a (1, 2) z"),
        (many, {"first": "a", "values": 5}, "a (5,) end"),
        (many, '{"first": "a", "values": "[1, 2]"}', "a (1, 2) end"),
        (options, {"first": "a"}, "a {}"),
        (options, {"first": "a", "others": {"x": "1.5"}}, "a {'x': 1.5}"),
        (options, {"first": "a", "x": 1, "y": 2}, "a {'x': 1.0, 'y': 2.0}"),
        (options, {"first": "a", "others": {"x": 1}, "y": 2}, "a {'x': 1.0, 'y': 2.0}"),
        (options, {"first": "a", "others": '{"x": 1}'}, "a {'x': 1.0}"),
        (options, {"First": "a", "x": 1}, "a {'x': 1.0}"),
        (options, {"others": {"first": "a", "x": 1}}, "a {'x': 1.0}"),
        (options, {"others": {"FIRST": "a"}, "x": 1}, "a {'x': 1.0}"),
        (options, {"arguments": {"first": "a", "x": 1}}, "a {'x': 1.0}"),
        (options, {"first": "a", "First": 1}, "a {'First': 1.0}"),
        (options, {"first": "a", "others": None}, "a {}"),
        (anything, {}, "() {}"),
        (anything, {"arguments": {"a": 1}}, "() {'arguments': {'a': 1}}"),
        (anything, {"args": [1, "a"], "kwargs": {"k": None}}, "(1, 'a') {'k': None}"),
        (wishes, {"city": "Hue"}, "Hue {}"),
        (wishes, {"city": "Hue", "days": "3"}, "Hue {'days': 3}"),
        (needs, {"city": "Hue", "need": {"unit": "C"}}, "Hue {'unit': 'C'}"),
        (Counter().add, {"numbers": [1, 2]}, 3),
    ],
)
def test_arguments_are_bound_to_parameters(function: Callable[..., Any], arguments: Any, value: Any) -> None:
    """A list is unpacked into `*values`, an object into `**options`, and misplaced values are moved."""
    result = Tool(function).invoke(arguments)
    assert result.value == value, result.content


@pytest.mark.for_each(
    ("function", "arguments", "expected"),
    [
        (by_place, {}, "'first' is missing"),
        (many, {"first": "a", "values": ["b"]}, "values[0]"),
        (many, {"first": "a", "value": [1]}, "'value'"),
        (options, {"first": "a", "x": "much"}, "others"),
        (options, {"first": "a", "others": 5, "x": 1}, "others"),
        (options, {"FIRST": "a", "First": "b"}, "'first' is missing"),
        (wishes, {"city": "Hue", "wind": 3}, "wind"),
        (needs, {"city": "Hue"}, "'need' is missing"),
    ],
)
def test_error_names_the_invalid_argument(function: Callable[..., Any], arguments: Any, expected: str) -> None:
    """A value of the wrong type or an unknown argument is rejected with the argument's name."""
    result = Tool(function).invoke(arguments)
    assert result.decision.rule == "bad-arguments", result
    assert expected in result.content


@pytest.mark.parametrize(
    ("function", "schema"),
    [
        (by_place, {"first": {"type": "integer"}, "second": {"type": "integer", "default": 2}}),
        (
            many,
            {
                "first": {"type": "string", "description": "The first."},
                "values": {"type": "array", "items": {"type": "integer"}, "default": [], "description": "The numbers."},
                "last": {"type": "string", "default": "end", "description": "The last."},
            },
        ),
        (
            options,
            {
                "first": {"type": "string"},
                "others": {"type": "object", "additionalProperties": {"type": "number"}, "default": {}},
            },
        ),
        (
            Counter().add,
            {
                "numbers": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "default": [],
                    "description": "What to add.",
                }
            },
        ),
    ],
)
def test_schema_of_variadic_parameters(function: Callable[..., Any], schema: dict[str, Any]) -> None:
    """The schema has an optional list for `*values` and an optional object for `**options`."""
    parameters = Tool(function).parameters
    assert json.loads(json.dumps(parameters["properties"])) == schema
    assert {"values", "others", "numbers"}.isdisjoint(parameters.get("required", ()))


def test_direct_call_uses_python_arguments() -> None:
    """A direct call accepts the arguments of the function, and the judge receives them by name."""
    seen: list[Any] = []

    def judge(arguments: Any) -> Decision:
        seen.append(dict(arguments))
        return Decision(Verdict.ALLOW, "seen", "Seen.")

    judged = Tool(many, judge=judge)
    assert judged("a", 1, 2, last="z") == Tool(many)("a", 1, 2, last="z") == "a (1, 2) z"
    assert seen == [{"first": "a", "values": [1, 2], "last": "z"}]


def test_async_function_with_variadic_parameters() -> None:
    """An async function with variadic parameters is called in the same way."""

    async def total(*values: int) -> int:
        """Add."""
        return sum(values)

    assert asyncio.run(Tool(total).ainvoke({"values": [1, 2, 3]})).value == 6


def of_one_type(*values: *tuple[int, ...]) -> list[int]:
    """Take numbers."""
    return list(values)


def of_places(*values: *tuple[int, str]) -> list[Any]:
    """Take a number and a text."""
    return list(values)


def of_older_places(*values) -> list[int]:
    """Take numbers."""
    return list(values)


of_older_places.__annotations__["values"] = Unpack[tuple[int, ...]]


def of_any_types(*values: *Types) -> list[Any]:
    """Take values of any types."""
    return list(values)


def of_another(*args: Params.args, **kwargs: Params.kwargs) -> list[Any]:
    """Take what another function takes."""
    return [*args, kwargs]


@pytest.mark.parametrize(
    ("function", "given", "value"),
    [
        (of_one_type, {"values": ["1", 2]}, [1, 2]),
        (of_one_type, {}, []),
        (of_older_places, {"values": ["1", 2]}, [1, 2]),
        (of_places, {"values": ["1", "a"]}, [1, "a"]),
        (of_any_types, {"values": [1, "a"]}, [1, "a"]),
        (of_another, {"args": [1], "kwargs": {"a": "b"}}, [1, {"a": "b"}]),
    ],
)
def test_annotations_of_variadic_parameters(function: Callable[..., Any], given: dict[str, Any], value: Any) -> None:
    """`*values: *tuple[int, str]`, type variables and `ParamSpec` annotations are supported."""
    result = Tool(function).invoke(given)
    assert (result.status, result.value) == ("ok", value)


def test_fixed_length_values_must_be_complete() -> None:
    """A list with too few values is rejected, and so is a missing list."""
    for given in ({}, {"values": [1]}):
        assert Tool(of_places).invoke(given).status == "failed"


def test_parameter_without_json_form_keeps_its_default() -> None:
    """A parameter that JSON cannot express keeps its default, also between positional parameters."""

    def compute(first: int, /, key: Callable[[int], int] = abs, second: int = 0) -> int:
        """Compute."""
        return key(first) + second

    def place(first: int, key: Callable[[int], int] = abs, second: int = 0, /) -> int:
        """Compute."""
        return key(first) + second

    for function in (compute, place):
        assert list(Tool(function).parameters["properties"]) == ["first", "second"]
        assert Tool(function).invoke({"first": -1, "second": 2}).value == 3
