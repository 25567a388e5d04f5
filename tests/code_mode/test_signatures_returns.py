"""Tests for the return types in signatures."""

import asyncio
import datetime
import decimal
import enum
import functools
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypeVar

import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

from agentkit import Tool
from agentkit.code_mode.signatures import describe_function, return_schema
from agentkit.content import Image
from agentkit.tooling.results import render


class Color(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Tree:
    """A recursive type."""

    name: str
    left: "Tree | None" = None


class Room(TypedDict, total=False):
    """A TypedDict."""

    number: int
    beds: list[str]


class Place(NamedTuple):
    """A named tuple."""

    x: float
    y: float


class Hotel(BaseModel):
    """A pydantic model."""

    opened: datetime.date
    rooms: list[Room]
    secret: str = Field(default="", exclude=True)


class Numbers(RootModel[list[int]]):
    """A root model."""


class Bare:
    """A class without annotations."""


class Voiced:
    """A class with a custom `__str__`."""

    def __str__(self):
        """Return the text."""
        return "voiced"


Unresolved = make_dataclass("Unresolved", [("found", "Nowhere")])
Guest = NewType("Guest", int)
T = TypeVar("T")


def signature(hint, name="f"):
    """Return the return type in the signature of a function."""

    def function():
        """Do it."""

    function.__annotations__["return"] = hint
    return describe_function(name, Tool(function, name=name)).splitlines()[0].partition("()")[2]


@pytest.mark.for_each(
    ("hint", "text"),
    [
        (int, "int"),
        ("int", "int"),
        (None, "None"),
        (bool, "bool"),
        (dict, "dict"),
        (dict[str, Any], "dict"),
        (list[int], "list[int]"),
        (tuple[int, str], "list[int, str]"),
        (tuple[int, ...], "list[int]"),
        (set[str], "list[str]"),
        (range, "list[object]"),
        (Sequence[Room], "list[{'number'?: int, 'beds'?: list[str]}]"),
        (Iterator[int], "list[int]"),
        (AsyncIterator[Place], "list[{'x': float, 'y': float}]"),
        (Awaitable[Tree], "{'name': str, 'left': dict | None}"),
        (Tree | None, "{'name': str, 'left': dict | None} | None"),
        ("Tree", "{'name': str, 'left': dict | None}"),
        (Mapping[str, Place], "dict[str, {'x': float, 'y': float}]"),
        (Hotel, "{'opened': str, 'rooms': list[{'number'?: int, 'beds'?: list[str]}]}"),
        (Numbers, "list[int]"),
        (Color, "Literal['red', 'blue']"),
        (Literal["a", Color.RED], "Literal['a', 'red']"),
        (Annotated[int, "a number"], "int"),
        (Guest, "int"),
        (Path, "str"),
        (decimal.Decimal, "str"),
        (uuid.UUID, "str"),
        (datetime.datetime, "str"),
        (datetime.timedelta, "str"),
        (bytes, "str"),
        (Image, "str"),
        (Voiced, "str"),
        (Unresolved, "{'found': object}"),
    ],
)
def test_return_types_are_described(hint, text):
    """Each return type is described as its JSON representation, with keys."""
    assert signature(hint) == f" -> {text}"


@pytest.mark.for_each("hint", [Any, object, Bare, T, "Nowhere", Callable[[], int], 3, type(NotImplemented)])
def test_unknown_return_type(hint):
    """An unknown return type is omitted, or shown as `str` if it is rendered as text."""
    assert signature(hint) in ("", " -> str")


class Clerk:
    """A class with methods."""

    def find(self, city: str) -> Place:
        """Find it."""

    async def __call__(self, city: str) -> list[Place]:
        """Find all."""


async def ask(city: str) -> Tree:
    """Ask for it."""


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (ask, "{'name': str, 'left': dict | None}"),
        (Clerk().find, "{'x': float, 'y': float}"),
        (Clerk(), "list[{'x': float, 'y': float}]"),
        (functools.partial(Clerk().find, city="Hue"), "{'x': float, 'y': float}"),
    ],
)
def test_return_types_of_all_kinds_of_functions(function, text):
    """Async functions, methods, callable objects and partials are described."""
    assert describe_function("f", Tool(function, name="f")).splitlines()[0].endswith(f" -> {text}")


def test_function_without_a_signature():
    """A function without a signature has an empty return schema."""
    assert return_schema(Tool.from_schema("most", "The most.", {"type": "object"}, max)) == {}


@pytest.mark.for_each(
    ("value", "hint"),
    [
        (Tree("oak", Tree("twig")), Tree),
        (Place(1.0, 2.0), Place),
        (Hotel(opened=datetime.date(2026, 11, 1), rooms=[{"number": 1}]), Hotel),
        (Numbers([1, 2]), Numbers),
        (Color.RED, Color),
        ({1, 2}, set[int]),
        (range(3), range),
        (decimal.Decimal("1.50"), decimal.Decimal),
        (datetime.timedelta(hours=2), datetime.timedelta),
        (Voiced(), Voiced),
        (b"abc", bytes),
    ],
)
def test_described_type_matches_the_rendered_value(value, hint):
    """The described type matches the rendered value."""

    def function():
        """Do it."""

    function.__annotations__["return"] = hint
    schema = return_schema(Tool(function))
    (came,) = json.loads(render([value], 10_000)[0])
    kinds = {str: "string", list: "array", dict: "object", int: "integer", float: "number"}
    assert kinds[type(came)] == schema.get("type", "string")
    if isinstance(came, dict):
        assert set(came) == set(schema["properties"])


def test_types_of_a_nested_function_are_resolved():
    """A class defined next to a nested function is resolved."""

    @dataclass
    class Ticket:
        price: int

    async def buy() -> "Ticket":
        """Buy one."""
        return Ticket(await asyncio.sleep(0, 3))

    assert describe_function("buy", Tool(buy)).splitlines()[0] == "buy() -> {'price': int}"
