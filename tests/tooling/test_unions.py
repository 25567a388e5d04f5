"""Tests for unions of object types, whose members are distinguished."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Required

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from agentkit import LLM, Agent, ConfigError, tool
from agentkit.errors import BadResponse
from agentkit.testing import FakeServer, ScriptedLLM
from agentkit.tooling.output_types import OutputType


@dataclass
class Flight:
    """A member of a union: flight."""

    number: str
    price: int


@dataclass
class NoFlight:
    """A member of a union: noflight."""

    reason: str = ""


class Fruit(BaseModel):
    """A member of a union: fruit."""

    name: str


class Vehicle(BaseModel):
    """A member of a union: vehicle."""

    name: str
    wheels: int = 4


class Cat(BaseModel):
    """A member of a union: cat."""

    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    """A member of a union: dog."""

    kind: Literal["dog"]
    name: str = ""


class Leaf(BaseModel):
    """A member of a union: leaf."""

    value: int


class Node(BaseModel):
    """A member of a union: node."""

    child: "Node | Leaf | None" = None


class Open(BaseModel):
    """A member of a union: open."""

    model_config = ConfigDict(extra="allow")
    name: str


class Renamed(BaseModel):
    """A member of a union: renamed."""

    number: str = Field(alias="flightNumber")


class Row(TypedDict, total=False):
    """A member of a union: row."""

    key: Required[int]
    note: str


class Point(NamedTuple):
    """A member of a union: point."""

    x: int
    y: int = 0


ANSWERS = [
    (Flight | NoFlight, {"number": "A1", "price": 3}, Flight("A1", 3)),
    (Flight | NoFlight, {"type": "Flight", "number": "A1", "price": 3}, Flight("A1", 3)),
    (Flight | NoFlight, {}, NoFlight()),
    (Flight | NoFlight | None, None, None),
    ([Fruit, Vehicle], {"type": "Vehicle", "name": "bus"}, Vehicle(name="bus")),
    (Fruit | Vehicle, {"name": "bus", "wheels": 6}, Vehicle(name="bus", wheels=6)),
    ([Cat, Dog], {"kind": "dog", "name": "Rex"}, Dog(kind="dog", name="Rex")),
    (Row | Flight, {"key": 1}, {"key": 1}),
    (Point | Flight, {"x": 1}, Point(1)),
    (Point | Flight, {"number": "A1", "price": 3}, Flight("A1", 3)),
    (Open | Flight, {"name": "x", "more": 1}, Open(name="x", more=1)),
    (Renamed | NoFlight, {"flightNumber": "A1"}, Renamed(flightNumber="A1")),
    (list[Flight | NoFlight], [{"number": "A1", "price": 3}, {}], [Flight("A1", 3), NoFlight()]),
    (dict[str, Flight | NoFlight], {"a": {"reason": "fog"}}, {"a": NoFlight("fog")}),
    (Flight | NoFlight | str, "later", "later"),
    (Flight | NoFlight | str | int, 5, 5),
    (Node, {"child": {"child": {"value": 1}}}, Node(child=Node(child=Leaf(value=1)))),
]


@pytest.mark.for_each(("kind", "given", "value"), ANSWERS)
def test_member_of_an_answer(kind, given, value):
    """An answer is parsed as the member that it names or whose fields it has, and encoded so that it can be parsed."""
    output = OutputType.of(kind)
    assert output.parse(json.dumps(given)) == value
    assert output.parse(output.encode(value)) == value
    assert "type" not in json.dumps(output.plain(value))


@pytest.mark.for_each(
    ("kind", "given", "fault"),
    [
        (Flight | NoFlight, {"number": "A1", "price": "dear"}, "'price' should be a valid integer, unable to parse"),
        (Flight | NoFlight, {"number": "A1"}, "'price' is missing; it should be a whole number."),
        (Flight | NoFlight, {"type": "NoFlight", "number": "A1"}, "'number' is not a known name; got \"A1\"."),
        (Flight | NoFlight, {"type": "Train"}, '\'type\' should be "Flight" or "NoFlight"; got "Train".'),
        (Flight | NoFlight, "no", 'The answer should be an object; got "no".'),
        (Fruit | Vehicle, {"name": "kiwi"}, '\'type\' is missing; it should be "Fruit" or "Vehicle".'),
        (Cat | Dog, {"kind": "cat", "lives": "nine"}, "'lives' should be a valid integer, unable to parse"),
        (Cat | Dog, {"kind": "cow"}, '\'kind\' should be "cat" or "dog"; got "cow".'),
        (Cat | Dog, {"lives": 3, "name": "x"}, '\'kind\' is missing; it should be "cat" or "dog".'),
        (Node, {"child": {"value": "x"}}, "'child.value' should be a valid integer"),
        (Node, {"child": {"child": {"valeu": 1}}}, "'child.child.valeu' is not a known name"),
        (list[Flight | NoFlight], [{}, {"number": "A1", "price": "x"}], "'[1].price' should be a valid integer"),
        (Flight | NoFlight | str, {"number": "A1", "price": "x"}, "'price' should be a valid integer"),
    ],
)
def test_invalid_answer_is_explained_by_its_member(kind, given, fault):
    """An invalid answer is not parsed as another member, and the error is that of the intended one."""
    with pytest.raises(BadResponse) as raised:
        OutputType.of(kind).parse(json.dumps(given))
    assert str(raised.value).startswith(fault)


def test_schema_names_the_members():
    """Each member of a union has a required tag in the schema; a type that contains itself stays a definition."""
    members = OutputType.of(Flight | NoFlight).schema.schema["properties"]["result"]["anyOf"]
    assert [each["properties"]["type"]["enum"] for each in members] == [["Flight"], ["NoFlight"]]
    assert all(each["required"][0] == "type" and each["additionalProperties"] is False for each in members)
    assert list(OutputType.of(Node).schema.schema["$defs"]) == ["Node_with_type"]


def test_names_of_tags():
    """A tag has a name that no member has as a field, and members of the same name are numbered."""

    class Typed(BaseModel):
        type: str
        kind: str
        variant: str
        answer_type: str

    other = type("Flight", (BaseModel,), {"__annotations__": {"number": str, "gate": str}})
    output = OutputType.of(Typed | NoFlight)
    (_, member) = output.schema.schema["properties"]["result"]["anyOf"]
    assert member["required"][0] == "_" * 12
    again = OutputType.of(Flight | other).schema.schema["properties"]["result"]["anyOf"]
    assert [each["properties"]["type"]["enum"] for each in again] == [["Flight"], ["Flight_2"]]


@pytest.mark.parametrize(
    "kind", [Flight | dict[str, Any] | NoFlight, Annotated[Cat | Dog, Field(discriminator="kind")]]
)
def test_unions_that_are_unchanged(kind):
    """Unions with a dictionary or a custom discriminator are validated unchanged."""
    assert OutputType.of(kind).parse('{"kind": "dog", "name": "Rex"}')


@pytest.mark.parametrize("kinds", [[], [3], ["Flight"]])
def test_invalid_lists_of_types(kinds):
    """A list that contains anything but types is rejected."""
    with pytest.raises(ConfigError):
        OutputType.of(kinds)


@tool
def book(what: Flight | NoFlight, seats: int = 1) -> str:
    """Book a flight."""
    return f"{what!r} {seats}"


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"what": {"number": "A1", "price": 300}}, "Flight(number='A1', price=300) 1"),
        ({"what": {"type": "NoFlight"}, "seats": 2}, "NoFlight(reason='') 2"),
        ({"what": {"type": "no_flight", "reason": "fog"}}, "NoFlight(reason='fog') 1"),
        ({"what": {"number": "A1", "price": "dear"}}, "Argument 'what.price' should be a valid integer"),
        ({"what": {"number": "A1", "price": 3, "gate": "B"}}, "Argument 'what.gate' is not a known name"),
    ],
)
def test_union_arguments_of_tools(given, answer):
    """Union members in tool arguments are distinguished as in output types."""
    result = book.invoke(given)
    assert (result.error or result.value).startswith(answer)


def test_invalid_answer_of_an_agent_is_corrected():
    """The error is sent back to the model, which answers again."""
    llm = ScriptedLLM('{"number": "A1", "price": "three hundred"}', '{"number": "A1", "price": 300}')
    result = Agent("clerk", llm=llm, output_type=[Flight, NoFlight]).run("A flight, please.")
    assert result.output == Flight("A1", 300)
    assert "'price' should be a valid integer" in llm.requests[1].messages[-1].content
    assert result.text == '{"number": "A1", "price": 300}'


def test_extract_accepts_unions():
    """`LLM.extract` accepts unions and lists of types."""
    with FakeServer('{"type": "NoFlight", "reason": "fog"}') as server:
        llm = LLM(base_url=server.base_url, model="m")
        assert llm.extract("No flight because of fog.", [Flight, NoFlight]) == NoFlight("fog")
