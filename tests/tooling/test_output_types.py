"""Tests for output types: schemas, instructions, values, errors and partial answers."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import io
import json
import typing
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import pydantic
import pytest
import typing_extensions
from pydantic import BaseModel, Field

from agentkit.errors import BadResponse, ConfigError
from agentkit.messages import OutputSchema
from agentkit.tooling.output_types import OutputType


class Item(BaseModel):
    """An item."""

    name: str
    price: float


class Invoice(BaseModel):
    """An invoice."""

    number: str
    items: list[Item]
    total: Decimal
    due: datetime.date | None = None

    @pydantic.model_validator(mode="after")
    def _owes(self):
        if self.total < 0:
            raise ValueError("total must not be negative")
        return self


@dataclasses.dataclass
class Person:
    """A person."""

    name: str
    age: int = 18
    tags: list[str] = dataclasses.field(default_factory=list)


@pydantic.dataclasses.dataclass
class City:
    """A city, as a dataclass of pydantic."""

    name: str


class Place(typing.TypedDict):
    """A place, as a dictionary."""

    name: str
    country: typing.NotRequired[str]


class Point(NamedTuple):
    """A point, as a named tuple."""

    x: int
    label: str = "here"


class Colour(enum.Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    """A tree."""

    value: int
    children: list[Node] = []


class Cat(BaseModel):
    """A pet that says what it is."""

    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    """Another."""

    kind: Literal["dog"]
    bark: str


class Temperature(pydantic.RootModel[float]):
    """A number with a name."""


class Strict(BaseModel):
    """A model that takes nothing for something else."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")
    day: datetime.date


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Celsius = typing.NewType("Celsius", float)
Names = typing_extensions.TypeAliasType("Names", list[str])

LAMP = '{"name": "lamp", "price": 30}'
BILL = f'{{"number": "A1", "items": [{LAMP}], "total": "30.00", "due": null}}'
FLOAT = "should be a valid number, unable to parse string as a number"
INT = "should be a valid integer, unable to parse string as an integer"

RIGHT = [
    (Invoice, BILL, Invoice(number="A1", items=[Item(name="lamp", price=30)], total=Decimal(30))),
    (Person, '{"name": "Ada", "age": null, "tags": ["x"]}', Person("Ada", 18, ["x"])),
    (Person, '{"name": "Ada", "age": "36", "tags": "[\\"x\\"]"}', Person("Ada", 36, ["x"])),
    (City, '{"name": "Hanoi", "more": 1}', City("Hanoi")),
    (Place, '{"name": "Hanoi"}', {"name": "Hanoi"}),
    (list[Place], '{"result": [{"name": "Hanoi", "country": "VN"}]}', [{"name": "Hanoi", "country": "VN"}]),
    (Point, '{"x": 1}', Point(1)),
    (Point, '[1, "there"]', Point(1, "there")),
    (Colour, '{"result": "blue"}', Colour.BLUE),
    (Colour, "blue", Colour.BLUE),
    (Literal["yes", "no"], "**yes**.", "yes"),
    (Literal["yes", "no"], '"no"', "no"),
    (Literal[1, 2], "2", 2),
    (int, "```\n42\n```", 42),
    (int, '{"result": 42.0}', 42),
    (float, '{"result": 1e3}', 1000.0),
    (float, '{"result": Infinity}', float("inf")),
    (bool, '{"result": true}', True),
    (datetime.date, "2027-03-05", datetime.date(2027, 3, 5)),
    (datetime.datetime, '{"result": "2027-03-05T10:00:00"}', datetime.datetime(2027, 3, 5, 10)),
    (Decimal, '{"result": "1.10"}', Decimal("1.10")),
    (Any, '{"result": {"a": [1]}}', {"a": [1]}),
    (None, "null", None),
    (Annotated[str, Field(max_length=5)], "Hello", "Hello"),
    (Annotated[int, Field(ge=1)], "1", 1),
    (list[Item], f"Here they are:\n[{LAMP}]\nAnything else?", [Item(name="lamp", price=30)]),
    (list[int], '{"result": [1]} as in [2]', [1]),
    (Iterable[int], '{"result": [1, 2]}', [1, 2]),
    (set[int], "[1, 1]", {1}),
    (dict[str, float], '{"a": 1, "b": 2.5}', {"a": 1.0, "b": 2.5}),
    (dict[str, Item], f'{{"a": {LAMP}}}', {"a": Item(name="lamp", price=30)}),
    (tuple[int, str], '{"result": [1, "a"]}', (1, "a")),
    (tuple[int, ...], '{"result": [1, 2, 3]}', (1, 2, 3)),
    (int | str, '{"result": "a"}', "a"),
    (int | str, '{"result": 1}', 1),
    (Item | None, '{"result": null}', None),
    (Item | None, LAMP, Item(name="lamp", price=30)),
    (Item | str, "There is nothing to buy.", "There is nothing to buy."),
    (Cat | Dog, '{"result": {"kind": "dog", "bark": "wau"}}', Dog(kind="dog", bark="wau")),
    (Pet, '{"kind": "cat", "lives": 9}', Cat(kind="cat", lives=9)),
    (Node, '{"value": 1, "children": [{"value": 2}]}', Node(value=1, children=[Node(value=2)])),
    (list[Node], '{"result": [{"value": 2}]}', [Node(value=2)]),
    (Temperature, '{"result": 3}', Temperature(3)),
    (Strict, '{"day": "2027-03-05"}', Strict(day=datetime.date(2027, 3, 5))),
    (Celsius, "21.5", 21.5),
    (Names, '{"result": ["Ada"]}', ["Ada"]),
    (str, '{"not": "read"}', '{"not": "read"}'),
]

WRONG = [
    (Invoice, "", "The answer should be JSON; it is empty."),
    (Invoice, "I cannot see one.", "The answer should be JSON; it contains none."),
    (Invoice, "[1]", "The answer should be an object; got [1]."),
    (Invoice, '{"number": "A1", "items": [', "The JSON is cut off before its end."),
    (
        Invoice,
        '{"number": "A1", "items": [},',
        'The answer is not valid JSON: Expecting value at character 27, near "r\\": \\"A1\\", \\"items\\": [},".',
    ),
    (
        Invoice,
        '{"number": 1, "items": [{"name": "lamp"}, {"name": "chair", "price": "x"}], "total": null}',
        "'number' should be a valid string; got 1. 'items[0].price' is missing; it should be a number. "
        f"'items[1].price' {FLOAT}; got \"x\". 'total' should be a number or text; got null.",
    ),
    (
        Invoice,
        '{"number": "A1", "items": [], "total": -1}',
        "The answer is not accepted (total must not be negative); got {'items': [], 'number': 'A1', 'total': -1}.",
    ),
    (
        Invoice,
        BILL.replace("null", '"soon"'),
        "'due' should be a date such as 2026-12-24; got \"soon\".",
    ),
    (Person, '{"tags": "none"}', "'name' is missing; it should be text. 'tags' should be a list; got \"none\"."),
    (Point, '{"label": "a"}', "'x' is missing; it should be a whole number."),
    (Point, '"1,2"', 'The answer should be an object; got "1,2".'),
    (Place, '{"country": null}', "'name' is missing; it should be text."),
    (Colour, '{"result": "green"}', "'result' should be 'red' or 'blue'; got \"green\"."),
    (Literal["yes", "no"], "Perhaps", "The answer should be 'yes' or 'no'; got \"Perhaps\"."),
    (int, "It is 42.", f'The answer {INT}; got "It is 42.".'),
    (int, '{"result": 1.5}', "'result' should be a valid integer, got a number with a fractional part; got 1.5."),
    (int, "NaN", "The answer should be a finite number; got nan."),
    (Annotated[int, Field(ge=1)], "0", "The answer should be greater than or equal to 1; got 0."),
    (list[Item], '{"result": {"a": 1}}', "'result' should be a list; got {'a': 1}."),
    (list[Item], '[{"name": "a"}]', "'[0].price' is missing; it should be a number."),
    (dict[str, int], '{"a": "x"}', f"'a' {INT}; got \"x\"."),
    (tuple[int, str], '{"result": [1]}', "'result[1]' is missing; it should be text."),
    (int | str, "[1]", "The answer should be a valid integer or a valid string; got [1]."),
    (Item | None, '{"result": "lamp"}', "'result' should be an object; got \"lamp\"."),
    (Item | None, '{"result": {"name": "lamp"}}', "'result.price' is missing; it should be a number."),
    (Cat | Dog, '{"result": {"kind": "cat", "lives": "x"}}', f"'result.lives' {INT}; got \"x\"."),
    (Pet, '{"result": {"kind": "cow"}}', "'result.kind' should be one of 'cat', 'dog'; got \"cow\"."),
    (Pet, '{"result": {}}', '\'result.kind\' is missing; it should be "cat" or "dog".'),
    (Pet, '{"kind": "dog"}', "'bark' is missing; it should be text."),
    (dict[str, Cat], '{"tom": {"kind": "cat"}}', "'tom.lives' is missing; it should be a whole number."),
    (Node, '{"value": 1, "children": [{}]}', "'children[0].value' is missing; it should be a whole number."),
    (Strict, '{"day": "2027-03-05", "x": 1}', "'x' is not a known name; got 1."),
    (list[datetime.date], "[null]", "'[0]' should be a date such as 2026-12-24; got null."),
]


def named(case):
    """Return the name of a type for a test id."""
    return OutputType.of(case).name if isinstance(case, type) or typing.get_origin(case) else None


@pytest.mark.for_each(("kind", "text", "value"), RIGHT, ids=named)
def test_valid_answers(kind, text, value):
    """A valid answer is parsed from JSON, code fences, surrounding text, or without its wrapper."""
    read = OutputType.of(kind).parse(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.for_each(("kind", "text", "value"), RIGHT, ids=named)
def test_values_round_trip(kind, text, value):
    """A value that is encoded and parsed again is equal."""
    output = OutputType.of(kind)
    assert output.parse(output.encode(value)) == value


def test_nan_round_trips():
    """NaN is preserved when a value is encoded and parsed again."""
    output = OutputType.of(list[float])
    assert str(output.parse(output.encode(output.parse("[NaN]")))) == "[nan]"


@pytest.mark.for_each(("kind", "text", "message"), WRONG, ids=named)
def test_invalid_answers(kind, text, message):
    """The error lists each invalid place with the expected type, without references to pydantic."""
    with pytest.raises(BadResponse) as caught:
        OutputType.of(kind).parse(text)
    assert str(caught.value).startswith(message)
    assert "pydantic" not in str(caught.value)
    assert "http" not in str(caught.value)


def test_many_errors_are_truncated():
    """The error lists the first five problems and the number of the remaining ones."""
    with pytest.raises(BadResponse, match=r"^'\[0\]' .* And 95 more\.$"):
        OutputType.of(list[int]).parse(json.dumps(["x"] * 100))


CLOSED = {"type": "object", "additionalProperties": False}

SCHEMAS = [
    (Point, "Point", True, {"properties": {"x": {"type": "integer"}}, "required": ["x", "label"]}),
    (Place, "Place", True, {"required": ["name", "country"]}),
    (int, "int", True, {**CLOSED, "properties": {"result": {"type": "integer"}}, "required": ["result"]}),
    (dict[str, int], "dict_of_str_and_int", False, {"type": "object", "additionalProperties": {"type": "integer"}}),
    (tuple[int, ...], "tuple_of_int", True, CLOSED),
    (tuple[int, str], "tuple_of_int_and_str", False, CLOSED),
    (Any, "Any", False, {"properties": {"result": {}}}),
    (Item | None, "Item_or_null", True, CLOSED),
    (Literal["a"], "choice", True, {"properties": {"result": {"enum": ["a"], "type": "string"}}}),
    (Annotated[list[Item], "all"], "list_of_Item", True, CLOSED),
    (Temperature, "Temperature", True, {"properties": {"result": {"type": "number"}}}),
    (type("Größe", (BaseModel,), {}), "Gr_e", False, {"properties": {}}),
    (type("名", (BaseModel,), {}), "answer", False, {"properties": {}}),
    (Node, "Node", True, CLOSED),
    (list[Node], "list_of_Node", True, CLOSED),
]


def contains(full_text: Any, part: Any) -> bool:
    """Return whether a dictionary has these entries, comparing nested dictionaries in the same way."""
    if isinstance(part, dict):
        return all(key in full_text and contains(full_text[key], inner) for key, inner in part.items())
    return full_text == part


@pytest.mark.for_each(("kind", "name", "is_strict", "part"), SCHEMAS, ids=named)
def test_schemas_are_objects(kind, name, is_strict, part):
    """The schema is an object with a valid name, and strict where possible."""
    schema = OutputType.of(kind).schema
    assert (schema.name, schema.strict, schema.schema["type"]) == (name, is_strict, "object")
    assert contains(schema.schema, part)


def test_recursive_types_refer_to_themselves():
    """The definition of a recursive type is stored at the top level of the schema."""
    wrapped = OutputType.of(list[Node]).schema.schema
    assert wrapped["properties"]["result"]["items"] == {"$ref": "#/$defs/Node"}
    assert wrapped["$defs"].keys() == OutputType.of(Node).schema.schema["$defs"].keys() == {"Node"}


def test_instruction_and_tool_without_native_schema():
    """A provider without structured output gets an instruction or a tool with the same schema."""
    output = OutputType.of(Item)
    assert output.instruction.startswith("Answer with JSON only")
    assert json.loads(output.instruction.partition("\n")[2]) == output.schema.schema
    assert output.schema.schema["required"] == ["name", "price"]
    assert (output.schema.strict, OutputType.of(dict[str, int]).schema.strict) == (True, False)
    assert output.parse(LAMP) == Item(name="lamp", price=30)


def test_plain_text_has_no_schema():
    """`str` has no schema and no instruction, and returns any text unchanged."""
    output = OutputType.of(str)
    assert (output.schema, output.instruction, output.parse(" Hi "), output.encode("Hi")) == (None, "", " Hi ", "Hi")
    assert (output.partial_parser().feed("Hi"), output.partial_parser().feed("")) == ("Hi", None)


def test_output_type_is_cached():
    """Equal hashable types return the same OutputType object."""
    assert OutputType.of(list[Item]) is OutputType.of(list[Item])
    assert repr(OutputType.of(list[Item])) == "OutputType(list_of_Item)"
    apart = Annotated[int, {"not": "hashable"}]
    assert OutputType.of(apart).schema == OutputType.of(apart).schema
    assert isinstance(OutputType.of(apart).schema, OutputSchema)


IMPOSSIBLE = [
    (len, "it is a function; pass the type that it returns"),
    (lambda: 1, "it is a function"),
    ("Invoice", "it is a string; pass the type itself, without quotes"),
    ({"type": "object"}, r"pass a JSON schema to LLM.complete\(output_schema=...\)"),
    (Item(name="a", price=1), "it is an object of the class Item, not a type"),
    (io.StringIO(), "it is an object of the class StringIO, not a type"),
    (typing.TextIO, "Unable to generate pydantic-core schema"),
    (Callable[[int], int], "JsonSchema"),
    (Iterator[int], "cannot be the type of an answer"),
    (typing.Generator[int, None, None], "a generator can be read only once; use a list"),
    (list[typing.ForwardRef("NotThere")], "not fully defined"),
]


@pytest.mark.for_each(("kind", "why"), IMPOSSIBLE)
def test_unsupported_type_is_rejected(kind, why):
    """An unsupported output type raises an error that suggests supported types."""
    with pytest.raises(ConfigError, match=why) as caught:
        OutputType.of(kind)
    assert "use pydantic models, dataclasses" in str(caught.value)


PARTS = [
    (Invoice, f"Here: {BILL[:38]}", {"number": "A1", "items": [{"name": "l"}]}),
    (Invoice, "As said in [1], ", None),
    (list[int], '{"result": [1, 22', [1]),
    (list[int], "[1, 2]", [1, 2]),
    (list[int], '{"res', None),
    (Pet, '{"kind": "cat", "li', {"kind": "cat"}),
    (Item, '{"result": 1', {}),
    (int, "4", None),
]


@pytest.mark.for_each(("kind", "text", "value"), PARTS, ids=named)
def test_partial_answers(kind, text, value):
    """An incomplete answer returns the keys and entries received so far as plain values."""
    assert OutputType.of(kind).partial_parser().feed(text) == value


def test_streamed_answer_grows():
    """Each piece of a streamed answer returns a new value and does not change earlier ones."""
    growing = OutputType.of(Invoice).partial_parser()
    seen = [growing.feed(BILL[index : index + 12]) for index in range(0, len(BILL), 12)]
    assert seen[:3] == [{"number": ""}, {"number": "A1"}, {"number": "A1", "items": [{}]}]
    assert seen[-1] == json.loads(BILL)
    text = OutputType.of(str).partial_parser()
    assert (text.feed("He"), text.feed("llo")) == ("He", "Hello")


@pytest.mark.parametrize(("kind", "text"), [(list[int], "[1" + ", 23" * 30_000 + "]"), (str, "words " * 20_000)])
def test_long_answer_is_reported_less_often(kind, text):
    """The total size of the partial values of a long answer is bounded; the last one is complete."""
    growing = OutputType.of(kind).partial_parser()
    messages = [
        value for start in range(0, len(text), 4) if (value := growing.feed(text[start : start + 4])) is not None
    ]
    full_text = json.loads(text) if kind is not str else text
    assert messages[:2] == ([[1], [1, 23]] if kind is not str else ["word", "words wo"])
    assert 2_000 < len(messages) < 2_400
    assert len(messages[-1]) > len(full_text) * 63 / 64
    assert kind is str or messages[-1] == full_text
    assert growing.feed("") is None
