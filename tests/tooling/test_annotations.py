"""Tests for annotations that pydantic reads differently or not at all."""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Generic, NotRequired, TypedDict, TypeVar

import pytest
from pydantic import Field
from typing_extensions import Doc, TypeAliasType

from agentkit import ConfigError, Tool
from agentkit.tooling.signature import text_of

T = TypeVar("T")
Numbers = TypeAliasType("Numbers", "Iterable[int]")
Lazy = TypeAliasType("Lazy", Iterable[int])
Named = TypeAliasType("Named", Annotated[str, "A name."])
Tree = TypeAliasType("Tree", "dict[str, Tree] | int")
Pair = TypeAliasType("Pair", tuple[T, T], type_params=(T,))


class Box(TypedDict, Generic[T]):
    """A generic box."""

    item: T
    more: NotRequired[list[T]]


def made(hint: Any) -> Tool[..., Any]:
    """Return a tool with one parameter of this annotation, which it returns."""

    def demo(value: Any) -> Any:
        return value

    demo.__annotations__["value"] = hint
    return Tool(demo)


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of a parameter with this annotation."""
    schema: dict[str, Any] = made(hint).parameters["properties"]["value"]
    return schema


@pytest.mark.for_each(
    ("hint", "given", "value"),
    [
        (Lazy, ["1", 2], [1, 2]),
        (tuple[Lazy, Lazy], [["1"], [2]], ([1], [2])),
        (Named, 5, "5"),
        (Tree, {"a": {"b": "1"}}, {"a": {"b": 1}}),
        (Pair[int], ["1", 2], (1, 2)),
        (typing.Final[int], "3", 3),
        (typing.SupportsFloat, "1.5", 1.5),
        (Box[int], {"item": "1", "more": ["2"]}, {"item": 1, "more": [2]}),
        (Box, {"item": "x"}, {"item": "x"}),
    ],
    ids=str,
)
def test_named_recursive_and_generic_types(hint: Any, given: Any, value: Any) -> None:
    """Named, recursive and generic type aliases are supported."""
    result = made(hint).invoke({"value": given})
    assert (result.status, result.value) == ("ok", value)


def test_annotated_text_describes_nested_types() -> None:
    """`Annotated[..., "text"]` also describes nested types; a description in `Field` takes precedence."""
    assert schema_of(list[Annotated[int, "Each."]])["items"] == {"type": "integer", "description": "Each."}
    assert schema_of(dict[str, Annotated[int, Doc("Each.")]])["additionalProperties"]["description"] == "Each."
    assert schema_of(Annotated[int, "Other.", Field(description="This.")])["description"] == "This."
    assert schema_of(Named)["description"] == "A name."
    assert [text_of(hint) for hint in (int, Annotated[int, 5], Named)] == ["", "", "A name."]


class TooEarly:
    """A type alias, as created by a type statement, whose value is read before it can be resolved."""

    @property
    def __value__(self) -> Any:
        raise NameError("name 'Later' is not defined")


TooEarly.__name__ = "TypeAliasType"


def test_type_alias_that_cannot_be_resolved_yet() -> None:
    """A type alias whose value cannot be resolved yet has an empty description."""
    assert text_of(TooEarly()) == ""


def test_typeddict_may_refer_to_a_later_one() -> None:
    """A TypedDict inside a function may refer to another that is defined after it."""

    class Order(TypedDict):
        """An order."""

        line: Line

    class Line(TypedDict):
        """A line."""

        count: int

    def demo(order: Order) -> Any:
        return order

    assert Tool(demo).invoke({"order": {"line": {"count": "2"}}}).value == {"line": {"count": 2}}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="`type X = ...` is syntax from Python 3.12 on")
def test_type_statements() -> None:
    """`type Ids = list[int]` is accepted, also generic, recursive, or with type parameters of the function."""
    names: dict[str, Any] = {}
    code = (
        "from __future__ import annotations\n"
        "from typing import Annotated, Literal\n"
        "type Ids = list[int]\n"
        "type Tree = dict[str, Tree] | int\n"
        "type Mode = Literal['fast', 'slow']\n"
        "type Text = Annotated[str, 'Some text.']\n"
        "type Two[T] = tuple[T, T]\n"
        "def demo[T: int](ids: Ids, tree: Tree, mode: Mode, two: Two[int], one: T, text: Text = '') -> list:\n"
        "    return [ids, tree, mode, two, one, text]\n"
    )
    types.FunctionType(compile(code, "statements.py", "exec"), names)()
    tool = Tool(names["demo"])
    given = {"ids": "[1]", "tree": {"a": {"b": 1}}, "mode": "FAST", "two": ["1", 2], "one": "3"}
    assert tool.invoke(given).value == [[1], {"a": {"b": 1}}, "fast", (1, 2), 3, ""]
    assert tool.parameters["properties"]["text"]["description"] == "Some text."


def test_final_parameter_with_default() -> None:
    """A parameter annotated with `Final` is validated like any other and may have a default."""

    def demo(value: Any = 3) -> Any:
        return value

    demo.__annotations__["value"] = typing.Final[int]
    assert [Tool(demo).invoke(given).value for given in ({}, {"value": "4"})] == [3, 4]


class Connection:
    """A type without a JSON form."""


@pytest.mark.for_each(
    ("hint", "schema"),
    [
        (str | Connection, {"type": "string"}),
        (None | Connection | int, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (list[str | Connection], {"type": "array", "items": {"type": "string"}}),
        (Annotated[int | Connection, "How many."], {"type": "integer", "description": "How many."}),
        (dict[str, list[int | Connection]] | Connection, {"type": "object"}),
        (tuple[int, typing.Literal["a"] | Connection], {"type": "array"}),
        (str | Callable[[int], str], {"type": "string"}),
        (Connection | Callable[[int | Connection], str] | str, {"type": "string"}),
        (str | list[Callable[[int], str]] | Connection, {"type": "string"}),
    ],
)
@pytest.mark.filterwarnings("error")
def test_union_members_without_json_form_are_omitted(hint: Any, schema: dict[str, Any]) -> None:
    """Members of a union that JSON cannot express are omitted from the schema."""
    assert schema.items() <= schema_of(hint).items()
    assert "Connection" not in str(made(hint).parameters)


@pytest.mark.parametrize(
    "hint", [Connection | None, list[Connection], dict[str, Connection | None], Annotated[Connection, "x"]]
)
def test_type_without_json_form_is_rejected(hint: Any) -> None:
    """A type that cannot be read from JSON raises an error, also inside a union or container."""
    with pytest.raises(ConfigError, match=r"parameter 'value' of type .*Connection.* cannot be read from JSON"):
        made(hint)


def test_union_member_without_json_form_keeps_default() -> None:
    """A default that JSON cannot express is used when the argument is omitted."""
    own = Connection()

    def demo(where: str | Connection = own, then: Connection | None = None) -> Any:
        return where

    assert Tool(demo).parameters["properties"] == {"where": {"type": "string"}}
    assert Tool(demo).check({}) == {"where": own}
    assert Tool(demo).check({"where": 5}) == {"where": "5"}


@dataclasses.dataclass
class Money:
    """An amount."""

    cents: int

    def plus(self, others: list[typing.Self]) -> int:
        """Add up."""
        return sum(other.cents for other in (self, *others))


def test_self_is_the_class_of_the_method() -> None:
    """A method with a parameter of type `Self` accepts objects of its class."""
    made = Tool(Money(1).plus)
    assert made.parameters["properties"]["others"]["items"]["properties"] == {"cents": {"type": "integer"}}
    assert made.invoke({"others": [{"cents": "2"}]}).value == 3


def test_self_without_a_known_class_is_rejected() -> None:
    """`Self` raises an error when the class it refers to is unknown."""
    with pytest.raises(ConfigError, match=r"parameter 'others' of type list\[typing.Self\] cannot be read from JSON"):
        Tool(Money.plus)
