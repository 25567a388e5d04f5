"""Proves what the schemas of Python types tell a model beyond what pydantic writes."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentkit.errors import ConfigError
from agentkit.tooling.output_types import Validator
from agentkit.tooling.schema import FunctionParameters
from agentkit.tooling.strict_schema import strict


class Level(enum.IntEnum):
    """How urgent it is."""

    LOW = 1
    HIGH = 2
    TOP = 2


Bare = enum.Enum("Bare", {"ONE": 1.5})


Renamed = enum.Enum("Renamed", {"RED": "red", "CRIMSON": "red"})


class Access(enum.Flag):
    """What may be done."""

    READ = 1
    WRITE = 2


class Nothing(enum.Enum):
    """No values at all."""


class Point(NamedTuple):
    """A place."""

    x: int
    y: int = 0


@dataclass
class Counted:
    """Something with a number that is given by nobody."""

    name: str
    count: int = field(init=False, default=0)


def schema_of(hint: Any) -> dict[str, Any]:
    """The schema of a parameter with this annotation."""

    def demo(value: Any) -> Any:
        return value

    demo.__annotations__["value"] = hint
    schema = FunctionParameters(demo, "demo").json_schema
    Draft202012Validator.check_schema(schema)
    json.dumps(schema, allow_nan=False)
    return dict(schema["properties"]["value"])


POINT = {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Level, {"type": "integer", "enum": [1, 2], "description": "How urgent it is. 1 = LOW, 2 = HIGH"}),
        (Renamed, {"type": "string", "enum": ["red"]}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Literal[1, True], {"enum": [1, True]}),
        (Point, {"type": "object", "properties": POINT, "required": ["x"], "additionalProperties": False}),
    ],
)
def test_choices_and_places_have_names(hint: Any, schema: dict[str, Any]) -> None:
    """Numbers that stand for something are told by name, each choice once, and named tuples are objects."""
    assert schema_of(hint) == schema


def test_a_single_choice_is_named_too() -> None:
    """An enum of one number says what it stands for."""
    assert schema_of(Bare)["description"] == "1.5 = ONE"


def test_what_a_dataclass_sets_itself_is_not_asked_for() -> None:
    """A field that is no argument of the dataclass is no property."""
    assert list(schema_of(Counted)["properties"]) == ["name"]


def test_a_choice_of_nothing_is_refused() -> None:
    """A type that has no value at all cannot be given."""
    for hint in (Nothing, Literal[()]):
        with pytest.raises(ConfigError, match="cannot be read from JSON"):
            schema_of(hint)


def test_named_tuples_have_a_strict_form() -> None:
    """A named tuple can be asked for in strict mode, which knows no places in lists."""
    assert strict({"type": "object", "properties": {"value": schema_of(Point)}, "additionalProperties": False})


def test_answers_have_the_same_schemas() -> None:
    """What a typed answer may be is described as a parameter is."""
    assert Validator(list[Level]).schema["items"] == schema_of(Level)


def test_flags_are_numbers_that_may_be_added_up() -> None:
    """A flag or several are asked for as one number, whose parts have names."""
    told = "What may be done. 1 = READ, 2 = WRITE; or a sum of these"
    assert schema_of(Access) == {"type": "integer", "minimum": 0, "description": told}


@dataclass
class Described:
    """Somebody.

    Args:
        name: What to call them.
        age: In years.
    """

    name: str
    age: int = 0


class Listed(NamedTuple):
    """Somebody.

    Attributes:
        name: What to call them.
        age: In years.
    """

    name: str
    age: int = 0


class Beside(TypedDict):
    """Somebody."""

    name: Annotated[str, "What to call them."]
    age: Annotated[int, "In years."]


class Modelled(BaseModel):
    """Somebody.

    Parameters
    ----------
    name : str
        What is not told.
    years : int
        In years.
    """

    name: str = Field(description="What to call them.")
    years: int = Field(alias="age")


@pytest.mark.parametrize("kind", [Described, Listed, Beside, Modelled])
def test_fields_are_described_by_their_class(kind: Any) -> None:
    """Texts beside the types of fields, and those in the docstring of their class, are told where they belong."""
    schema = schema_of(kind)
    texts = {name: inner["description"] for name, inner in schema["properties"].items()}
    assert texts == {"name": "What to call them.", "age": "In years."}
    assert schema.get("description", "Somebody.") == "Somebody."


def test_fields_of_classes_from_elsewhere_are_described_as_far_as_they_can_be_read() -> None:
    """A class whose annotations name what is known only where it was made still says what it can."""

    class Inner(BaseModel):
        """What is inside."""

        count: int

    class Outer(BaseModel):
        """What is outside."""

        inner: Inner
        name: Annotated[str, "A name."] = ""

    assert list(schema_of(Outer)["properties"]) == ["inner", "name"]
