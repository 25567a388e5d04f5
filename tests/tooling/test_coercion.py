"""Tests for the coercion of values and names that models write differently."""

from __future__ import annotations

import enum
import inspect
import json
import numbers
import types
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, AnyStr, Literal, LiteralString, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, Field, Json
from pydantic_core import TzInfo
from typing_extensions import TypeAliasType

from agentkit.errors import BadArguments
from agentkit.tooling.coercion import group_by_letters, is_optional, names_in, nodes_at
from agentkit.tooling.schema import FunctionParameters


class Color(enum.Enum):
    """A color."""

    RED = "red"
    DARK_BLUE = "dark_blue"


class Level(enum.IntEnum):
    """The urgency."""

    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    """The permissions."""

    READ = 1
    WRITE = 2


class Corner(enum.Enum):
    """A place."""

    LEFT = (1, 2)
    RIGHT = (3, 4)


class Twins(enum.Enum):
    """Two members that differ only in case."""

    FIRST = "Same"
    SECOND = "SAME"


@dataclass
class Guest:
    """A guest."""

    name: str
    arrives: date | None = None
    is_vegan: bool = False


@dataclass
class Tree:
    """A recursive dataclass."""

    value: int
    branches: list[Tree] = field(default_factory=list)


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]


class Dog(BaseModel):
    """A dog."""

    kind: Literal["dog"]


class Strict(BaseModel):
    """A model that takes no other types."""

    model_config = ConfigDict(strict=True)
    day: date


class Pair(NamedTuple):
    """Two things."""

    first: int
    second: str = "b"


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Nest = TypeAliasType("Nest", "list[Nest]")
NAMES: dict[str, Any] = {
    **{each.__name__: each for each in (Color, Level, Access, Corner, Twins, Guest, Tree, Cat, Dog, Strict, Pair)},
    **{each.__name__: each for each in (date, datetime, time, timedelta, Collection, Decimal, Sequence, Field, TzInfo)},
    "Pet": Pet,
    "Nest": Nest,
    "Json": Json,
    "numbers": numbers,
    "AnyStr": AnyStr,
    "Annotated": Annotated,
    "Literal": Literal,
    "LiteralString": LiteralString,
}
SLIPS = [json.loads(line) for line in Path(__file__).with_name("slips.jsonl").read_text("utf-8").splitlines()]


def python(expression: str) -> Any:
    """Return the value of a Python expression in the data."""
    return types.FunctionType(compile(expression, "slips.jsonl", "eval"), NAMES)()


@pytest.mark.for_each("slip", SLIPS, ids=lambda slip: f"{slip['hint']}: {slip['given']!r}")
def test_values_are_coerced_or_rejected(slip: dict[str, Any]) -> None:
    """An unambiguous mistake is corrected; any other raises an error that names the argument."""

    def demo(**arguments: Any) -> Any:
        return arguments["value"]

    default = python(slip["default"]) if "default" in slip else inspect.Parameter.empty
    hint = python(slip["hint"])
    parameter = inspect.Parameter("value", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
    demo.__signature__ = inspect.Signature([parameter])
    found = FunctionParameters(demo, "demo")
    if slip["meant"] is None:
        with pytest.raises(BadArguments, match="value"):
            found.check({"value": slip["given"]})
    else:
        wanted, got = python(slip["meant"]), found.check({"value": slip["given"]})["value"]
        assert (got, type(got)) == (wanted, type(wanted))


SCHEMA: dict[str, Any] = {
    "properties": {
        "a": {"anyOf": [{"$ref": "#/$defs/Row"}, {"type": "null"}]},
        "b": {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        "c": {"additionalProperties": {"type": "boolean"}},
        "d": True,
    },
    "required": ["b"],
    "$defs": {"Row": {"properties": {"x": {"type": "number"}}, "required": ["x"]}},
}


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        (("a", "x"), ["number"]),
        (("b", 0), ["string"]),
        (("b", 7), ["integer"]),
        (("c", "anything"), ["boolean"]),
        (("d",), []),
        (("e",), []),
    ],
)
def test_schemas_at_a_path(path: tuple[str | int, ...], kinds: list[str]) -> None:
    """The schemas at a path are found through references and unions."""
    assert [node["type"] for node in nodes_at(SCHEMA, path)] == kinds


def test_names_match_regardless_of_case_and_separators() -> None:
    """Names match regardless of case and separators."""
    assert group_by_letters(["startDate", "START-DATE", "end"]) == {
        "startdate": ["startDate", "START-DATE"],
        "end": ["end"],
    }
    assert group_by_letters(["start_date", "a_", "_a"]) == {"startdate": ["start_date"], "a": ["a_", "_a"]}
    assert names_in([SCHEMA]) == ["a", "b", "c", "d"]
    assert (is_optional("a", [SCHEMA]), is_optional("b", [SCHEMA]), is_optional("z", [SCHEMA])) == (True, False, False)
