"""Tests for the schemas of Python types beyond those of pydantic: enums, named tuples, descriptions."""

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
    """The urgency."""

    LOW = 1
    HIGH = 2
    TOP = 2


Bare = enum.Enum("Bare", {"ONE": 1.5})


Renamed = enum.Enum("Renamed", {"RED": "red", "CRIMSON": "red"})


class Access(enum.Flag):
    """The permissions."""

    READ = 1
    WRITE = 2


class Nothing(enum.Enum):
    """An enum without values."""


class Point(NamedTuple):
    """A place."""

    x: int
    y: int = 0


@dataclass
class Counted:
    """A class with a field that is not an argument."""

    name: str
    count: int = field(init=False, default=0)


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the schema of a parameter with this annotation."""

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
        (Level, {"type": "integer", "enum": [1, 2], "description": "The urgency. 1 = LOW, 2 = HIGH"}),
        (Renamed, {"type": "string", "enum": ["red"]}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Literal[1, True], {"enum": [1, True]}),
        (Point, {"type": "object", "properties": POINT, "required": ["x"], "additionalProperties": False}),
    ],
)
def test_enums_and_named_tuples_are_described(hint: Any, schema: dict[str, Any]) -> None:
    """Members of a numeric enum are described by name, and named tuples are objects."""
    assert schema_of(hint) == schema


def test_enum_with_one_member_is_described() -> None:
    """The description of an enum with one number contains the name of its member."""
    assert schema_of(Bare)["description"] == "1.5 = ONE"


def test_dataclass_field_without_init_is_omitted() -> None:
    """A dataclass field with `init=False` is omitted from the properties."""
    assert list(schema_of(Counted)["properties"]) == ["name"]


def test_type_without_values_is_rejected() -> None:
    """An empty enum or `Literal` raises an error."""
    for hint in (Nothing, Literal[()]):
        with pytest.raises(ConfigError, match="cannot be read from JSON"):
            schema_of(hint)


def test_named_tuples_have_a_strict_form() -> None:
    """A named tuple has a strict form, although strict mode does not support positions in lists."""
    assert strict({"type": "object", "properties": {"value": schema_of(Point)}, "additionalProperties": False})


def test_output_types_have_the_same_schema() -> None:
    """The schema of an output type equals that of a parameter."""
    assert Validator(list[Level]).schema["items"] == schema_of(Level)


def test_flags_are_numbers() -> None:
    """Flags are one number in the schema, with the names of their bits in the description."""
    text = "The permissions. 1 = READ, 2 = WRITE; or a sum of these"
    assert schema_of(Access) == {"type": "integer", "minimum": 0, "description": text}


@dataclass
class Described:
    """A person.

    Args:
        name: The name.
        age: In years.
    """

    name: str
    age: int = 0


class Listed(NamedTuple):
    """A person.

    Attributes:
        name: The name.
        age: In years.
    """

    name: str
    age: int = 0


class Beside(TypedDict):
    """A person."""

    name: Annotated[str, "The name."]
    age: Annotated[int, "In years."]


class Modelled(BaseModel):
    """A person.

    Parameters
    ----------
    name : str
        An ignored description.
    years : int
        In years.
    """

    name: str = Field(description="The name.")
    years: int = Field(alias="age")


@pytest.mark.parametrize("kind", [Described, Listed, Beside, Modelled])
def test_field_descriptions(kind: Any) -> None:
    """Fields are described by their annotations or by the docstring of their class."""
    schema = schema_of(kind)
    texts = {name: inner["description"] for name, inner in schema["properties"].items()}
    assert texts == {"name": "The name.", "age": "In years."}
    assert schema.get("description", "A person.") == "A person."


def test_fields_with_unresolvable_annotations() -> None:
    """A class whose annotations cannot be resolved still has a schema with all its properties."""

    class Inner(BaseModel):
        """An inner class."""

        count: int

    class Outer(BaseModel):
        """An outer class."""

        inner: Inner
        name: Annotated[str, "A name."] = ""

    assert list(schema_of(Outer)["properties"]) == ["inner", "name"]
