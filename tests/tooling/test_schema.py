"""Tests for schemas from signatures, and the conversion of arguments to Python values."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import pathlib
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any, Generic, Literal, NamedTuple, Required, TypedDict, TypeVar

import pytest
import typing_extensions
from pydantic import AliasChoices, AliasPath, BaseModel, Field, field_validator

from agentkit import Decision, Tool
from agentkit.decisions import Verdict
from agentkit.errors import BadArguments, ConfigError
from agentkit.tooling.schema import FunctionParameters, SchemaParameters

T = TypeVar("T")
TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """A point."""

    x: int
    y: int = 0


class Pair(NamedTuple):
    """Two things."""

    first: int
    second: str = "two"


class Options(TypedDict, total=False):
    """Some options."""

    size: Required[int]
    names: list[str]


class ModernOptions(typing_extensions.TypedDict):
    """Options of the typing extensions."""

    size: int


class Branch(TypedDict):
    """A recursive dictionary."""

    leaves: list[Branch]


class Person(BaseModel):
    """A person."""

    name: str
    friends: list[Person] = []
    born: datetime.date | None = None


class Box(BaseModel, Generic[T]):
    """A box of anything."""

    content: T


@dataclasses.dataclass
class Tree:
    """A recursive dataclass."""

    value: int
    branches: list[Tree] = dataclasses.field(default_factory=list)


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    """A dog."""

    kind: Literal["dog"]
    tricks: list[str] = []


class Even(BaseModel):
    """An even number; the validator fails for seven."""

    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        """Reject odd numbers."""
        if number == 7:
            raise KeyError("seven")
        assert number < 100, "too large"
        if number % 2:
            raise ValueError("it must be even")
        return number


def parameters(hint: Any, default: Any = inspect.Parameter.empty, name: str = "value") -> FunctionParameters:
    """Return the parameters of a function `demo(*, value: hint = default)`."""

    def demo(**arguments: Any) -> Any:
        return arguments

    parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
    demo.__signature__ = inspect.Signature([parameter])
    return FunctionParameters(demo, "demo")


def check(hint: Any, given: Any) -> Any:
    """Return the checked value."""
    return parameters(hint).check({"value": given})["value"]


def error_of(found: FunctionParameters, arguments: Any) -> str:
    """Return the error message for invalid arguments."""
    with pytest.raises(BadArguments) as caught:
        found.check(arguments)
    return str(caught.value)


@pytest.mark.for_each(
    ("hint", "given", "value"),
    [
        (Color, "blue", Color.BLUE),
        (Point, {"x": 1}, Point(1)),
        (Point, {"x": "1", "y": 2.0}, Point(1, 2)),
        (list[Point], [{"x": 1}, {"x": 2, "y": 3}], [Point(1), Point(2, 3)]),
        (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], ["1", 2], (1, 2)),
        (tuple[float, float], "40.7, -74", (40.7, -74.0)),
        (tuple[int, int] | None, "800,600", (800, 600)),
        (tuple[int, Color], "1; RED", (1, Color.RED)),
        (tuple[Literal["a"], int], "a, 2", ("a", 2)),
        (set[int], [1, 1, 2], {1, 2}),
        (frozenset[str], ["a"], frozenset({"a"})),
        (Pair, [1, "b"], Pair(1, "b")),
        (Pair, {"first": 1}, Pair(1)),
        (Options, {"size": "3"}, {"size": 3}),
        (list[Options] | None, [{"size": 1, "names": ["a"]}], [{"size": 1, "names": ["a"]}]),
        (dict[str, Options], {"a": {"size": 1}}, {"a": {"size": 1}}),
        (Annotated[Options, "text"], {"size": 1}, {"size": 1}),
        (ModernOptions, {"size": 1}, {"size": 1}),
        (Branch, {"leaves": [{"leaves": []}]}, {"leaves": [{"leaves": []}]}),
        (Person, {"name": "An", "friends": [{"name": "Bo"}]}, Person(name="An", friends=[Person(name="Bo")])),
        (Box[int], {"content": "3"}, Box[int](content=3)),
        (Tree, {"value": 1, "branches": [{"value": 2}]}, Tree(1, [Tree(2)])),
        (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "dog"}, Dog(kind="dog")),
        (Point | Person, {"name": "An"}, Person(name="An")),
        (datetime.datetime, "2026-01-02T03:04:05", datetime.datetime(2026, 1, 2, 3, 4, 5)),
        (datetime.datetime, datetime.datetime(2026, 1, 2), datetime.datetime(2026, 1, 2)),
        (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
        (datetime.timedelta, "PT1H", datetime.timedelta(hours=1)),
        (uuid.UUID, "00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
        (bytes, "abc", b"abc"),
        (Literal["a", 1], 1, 1),
        (int | str, "7", "7"),
        (int | str, 7.5, "7.5"),
        (Sequence[int], ["1"], [1]),
        (Mapping[str, Any], {"a": 1}, {"a": 1}),
        (Annotated[int, Field(ge=1)], "5", 5),
        (Any, [1], [1]),
        (T, "anything", "anything"),
        (str, 5, "5"),
        (str, 5.5, "5.5"),
        (int, "5", 5),
        (int, 5.0, 5),
        (float, "1e3", 1000.0),
        (bool, "true", True),
        (list[int], "[1, 2]", [1, 2]),
        (Point, '{"x": 1}', Point(1)),
        (list[Point], ['{"x": 1}'], [Point(1)]),
        (Person, '{"name": "An"}', Person(name="An")),
        (dict[str, int], '{"a": "1"}', {"a": 1}),
        (str | list[str], "[1]", "[1]"),
        (Point, {"x": 1, "y": None}, Point(1)),
        (list[Tree], [{"value": 1, "branches": None}], [Tree(1)]),
        (Person, {"name": "An", "born": None}, Person(name="An")),
    ],
)
def test_function_receives_real_python_values(hint: Any, given: Any, value: Any) -> None:
    """Arguments are converted to the annotated Python types, and common mistakes are corrected."""
    found = check(hint, given)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.for_each(
    ("hint", "schema"),
    [
        (Color, {"enum": ["red", "blue"], "type": "string", "description": "A color."}),
        (set[int], {"type": "array", "items": WHOLE, "uniqueItems": True}),
        (tuple[int, str], {"type": "array", "prefixItems": [WHOLE, TEXT], "minItems": 2, "maxItems": 2}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (pathlib.Path, {"type": "string", "format": "path"}),
        (int | list[str], {"anyOf": [WHOLE, {"type": "array", "items": TEXT}]}),
        (Annotated[int, Field(ge=1, description="d")], {"type": "integer", "minimum": 1, "description": "d"}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Box[int], {"type": "object", "properties": {"content": WHOLE}, "required": ["content"]}),
        (T, {}),
    ],
)
def test_schema_of_an_annotation(hint: Any, schema: Any) -> None:
    """Each annotation has a JSON schema without titles inside a closed object."""
    found = parameters(hint).json_schema
    assert found["properties"]["value"] == schema
    assert (found["type"], found["required"], found["additionalProperties"]) == ("object", ["value"], False)


def test_model_parameter_stays_one_parameter() -> None:
    """A single parameter that is a model stays one parameter."""
    schema = parameters(Cat).json_schema
    assert list(schema["properties"]) == ["value"]
    assert set(schema["properties"]["value"]["properties"]) == {"kind", "lives"}


def test_recursive_types_are_defined_once() -> None:
    """A recursive type is a definition with references."""
    schema = parameters(list[Tree]).json_schema
    assert list(schema["$defs"]) == ["Tree"]
    assert schema["$defs"]["Tree"]["properties"]["branches"]["items"] == {"$ref": "#/$defs/Tree"}


def described(
    a: Annotated[int, "from the annotation"],
    b: Annotated[int, Field(description="from the field"), "not this"],
    c: Point,
    d: int,
    e: Cat,
    f: Annotated[str, "text wins"] = "x",
) -> None:
    """Show where texts come from.

    Parameters:
        a: not this
        b: not this
        c: from the docstring
        f: not this
    """


def test_annotation_overrides_the_docstring() -> None:
    """A parameter is described by its field or annotation, or else by the docstring, or else by its type."""
    found = FunctionParameters(described, "described")
    texts = {name: schema.get("description") for name, schema in found.json_schema["properties"].items()}
    assert texts == {
        "a": "from the annotation",
        "b": "from the field",
        "c": "from the docstring",
        "d": None,
        "e": "A cat.",
        "f": "text wins",
    }
    assert found.documentation.text == "Show where texts come from."


def test_docstring_overrides_enum_description() -> None:
    """The docstring describes a parameter, or else the docstring of its enum does."""

    def demo(first: Color, second: Color = Color.RED) -> None:
        """Take colors.

        :param first: Of the wall.
        """

    found = FunctionParameters(demo, "demo").json_schema["properties"]
    assert [found[name]["description"] for name in ("first", "second")] == ["Of the wall.", "A color."]


AWKWARD = ["func", "schema", "copy", "model_config", "json", "_x", "cls", "name", "arguments", "model_fields", "__x"]


@pytest.mark.for_each("name", AWKWARD)
@pytest.mark.for_each("hint", [int, Annotated[int, Field()]])
def test_any_parameter_name_is_accepted(name: str, hint: Any) -> None:
    """A parameter may have any name, including those used internally by pydantic."""
    found = parameters(hint, name=name)
    assert list(found.json_schema["properties"]) == [name]
    assert found.check({name: "7"}) == {name: 7}


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        (float, float("inf")),
        (float, float("nan")),
        (list[float], [float("inf")]),
        (Annotated[float, Field(lt=float("inf"))], 0.5),
        (int, dataclasses.MISSING),
        (Point, object()),
    ],
)
def test_default_without_json_form_is_omitted(hint: Any, default: Any) -> None:
    """A default outside JSON still works, and the schema stays valid."""
    found = parameters(hint, default)
    json.dumps(found.json_schema, allow_nan=False)
    assert found.check({})["value"] is default


def test_default_is_not_copied() -> None:
    """A default is neither copied nor validated, as in any Python call."""
    default = [Point(1)]
    found = parameters(list[Point], default)
    assert found.check({})["value"] is default
    assert found.json_schema["properties"]["value"]["default"] == [{"x": 1, "y": 0}]


def test_defaults_of_fields() -> None:
    """A default may be declared as in pydantic models."""
    for hint, default in ((int, Field(3, ge=1)), (Annotated[int, Field(default=3)], inspect.Parameter.empty)):
        found = parameters(hint, default)
        assert found.check({}) == {"value": 3}
        assert found.check({"value": None}) == {"value": 3}
    found = parameters(list[int], Field(default_factory=lambda: [1]))
    assert found.check({}) == {"value": [1]}
    assert "is missing" in error_of(parameters(int, Field(description="required")), {})


@pytest.mark.parametrize("hint", [int, Annotated[int, Field()], Color, list[Point]])
def test_null_of_an_optional_parameter_is_its_default(hint: Any) -> None:
    """A null for an optional parameter is replaced by its default."""
    found = parameters(hint, "the default")
    assert found.check({"value": None}) == {"value": "the default"}
    assert "got null" in error_of(parameters(hint), {"value": None})


def test_null_for_a_nullable_parameter() -> None:
    """A null for a nullable parameter is passed as None."""
    for hint in (int | None, Point | None, Any):
        assert parameters(hint, 5).check({"value": None}) == {"value": None}


def test_aliases_are_accepted() -> None:
    """A parameter can have other names for models, declared with pydantic."""
    hint = Annotated[str, Field(validation_alias=AliasChoices("value", "file_path", AliasPath("paths", 0)))]
    found = parameters(hint)
    assert list(found.json_schema["properties"]) == ["value"]
    for given in ({"value": "x"}, {"file_path": "x"}, {"paths": ["x"]}):
        assert found.check(given) == {"value": "x"}
    assert error_of(found, {}) == "Argument 'value' is missing; it should be text."
    assert parameters(hint, "d").check({"file_path": None}) == {"value": "d"}
    renamed = parameters(Annotated[int, Field(alias="class")])
    assert list(renamed.json_schema["properties"]) == ["class"]
    assert renamed.check({"class": 1}) == {"value": 1}


def same_alias(a: Annotated[int, Field(alias="x")], b: Annotated[int, Field(alias="x")]) -> None:
    """Have two parameters with one alias."""


def holds_a_function(a: int, b: Callable[[int], int]) -> None:
    """Take what JSON cannot carry."""


def has_a_broken_pattern(a: Annotated[str, Field(pattern="(")]) -> None:
    """Take what no text fits."""


def holds_an_object(item: object, printer: type(print)) -> None:
    """Take what JSON cannot carry."""


def has_half_a_type(a: dict[str]) -> None:
    """Take a dictionary of nobody knows what."""


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        (holds_a_function, r"'demo': parameter 'b' of type .*Callable.* cannot be read from JSON .* use plain types"),
        (holds_an_object, r"parameter 'printer' of type .* cannot be read from JSON"),
        (has_a_broken_pattern, r"parameter 'a' of type .* cannot be read from JSON"),
        (same_alias, "two of its parameters have the same alias"),
        (has_half_a_type, r"parameter 'a' of type dict\[str\] cannot be read from JSON"),
    ],
)
def test_parameter_without_json_form_is_rejected(function: Any, refused: str) -> None:
    """A parameter that cannot be read from JSON raises an error with its name and type."""
    with pytest.raises(ConfigError, match=refused) as caught:
        FunctionParameters(function, "demo")
    assert "pydantic.dev" not in str(caught.value)


def test_joint_failure_names_all_parameters() -> None:
    """If parameters can be read only one at a time, the error names all of them."""
    attempts: list[int] = []

    class Moody:
        """A type whose schema cannot be built the first time."""

        @classmethod
        def __get_pydantic_core_schema__(cls, _: Any, handler: Any) -> Any:
            """Fail once."""
            attempts.append(1)
            if len(attempts) == 1:
                raise RuntimeError("not in the mood")
            return handler(int)

    def demo(a: Moody, b: Moody) -> None:
        """Take two of them."""

    with pytest.raises(ConfigError, match=r"parameter 'a' .*, parameter 'b' .* cannot be read .*not in the mood"):
        FunctionParameters(demo, "demo")


def test_local_types_can_refer_to_one_another() -> None:
    """Types local to a function, including recursive ones, can refer to each other."""

    @dataclasses.dataclass
    class Local:
        """A local dataclass."""

        inner: Local | None = None

    class Model(BaseModel):
        """A local model."""

        local: Local

    def demo(models: list[Model]) -> None:
        """Take local models."""

    found = FunctionParameters(demo, "demo").check({"models": [{"local": {"inner": {}}}]})
    assert found == {"models": [Model(local=Local(Local()))]}


@pytest.mark.for_each(
    ("hint", "given", "sentence"),
    [
        (
            int,
            "many",
            "Argument 'value' should be a valid integer, unable to parse string as an integer; got \"many\".",
        ),
        (int, 5.5, "Argument 'value' should be a valid integer, got a number with a fractional part; got 5.5."),
        (str, None, "Argument 'value' should be a valid string; got null."),
        (str, {"a": 1}, "Argument 'value' should be a valid string; got {'a': 1}."),
        (Point, 5, "Argument 'value' should be an object; got 5."),
        (Cat, "cat", "Argument 'value' should be an object; got \"cat\"."),
        (list[str], "1, 2", "Argument 'value' should be a list; got \"1, 2\"."),
        (tuple[int, int], "1, 2, 3", "Argument 'value' should be a list; got \"1, 2, 3\"."),
        (tuple[int, str], "1, 2", "Argument 'value' should be a list; got \"1, 2\"."),
        (tuple[int, int], 5, "Argument 'value' should be a list; got 5."),
        (list[Point], [{"x": 1}, {"y": 2}], "Argument 'value[1].x' is missing."),
        (tuple[int, str], [1], "Argument 'value[1]' is missing."),
        (Point, {"x": 1, "z": 2}, "Argument 'value.z' is not a known name; got 2."),
        (Color, "green", "Argument 'value' should be 'red' or 'blue'; got \"green\"."),
        (int | list[int] | None, "x", "Argument 'value' should be a valid integer or a list; got \"x\"."),
        (uuid.UUID, 3, "Argument 'value' should be a UUID, such as 123e4567-e89b-12d3-a456-426614174000; got 3."),
        (pathlib.Path, None, "Argument 'value' should be a path, as text; got null."),
        (Annotated[str, Field(max_length=2)], "abc", "Argument 'value' should have at most 2 characters; got \"abc\"."),
        (Even, {"number": 3}, "Argument 'value.number' is not accepted (it must be even); got 3."),
        (Even, {"number": 300}, "Argument 'value.number' is not accepted (too large); got 300."),
        (Even, {"number": 7}, "The arguments could not be checked (KeyError: 'seven')."),
    ],
)
def test_error_names_the_argument_and_the_expected_type(hint: Any, given: Any, sentence: str) -> None:
    """The error names the invalid argument, the expected type and the given value in one sentence."""
    assert error_of(parameters(hint), {"value": given}) == sentence


def test_missing_argument_is_reported_with_its_type() -> None:
    """The error names a missing required argument and its type."""
    assert error_of(parameters(list[Point]), {}) == "Argument 'value' is missing; it should be a list."
    assert error_of(parameters(Point), {}) == "Argument 'value' is missing; it should be an object."
    assert error_of(parameters(Tree), {}) == "Argument 'value' is missing; it should be an object."
    assert error_of(parameters(int), "") == "Argument 'value' is missing; it should be a whole number."


@pytest.mark.parametrize("hint", [int, Point])
def test_unknown_argument_error_lists_the_parameters(hint: Any) -> None:
    """The error for an unknown argument names it and lists the parameters."""
    sentence = "demo has no parameter 'valeu'; its parameters are value."
    assert sentence in error_of(parameters(hint), {"valeu": 1})


def test_errors_are_bounded() -> None:
    """The error message is short, regardless of the size and number of invalid arguments."""
    wrong = {"value": [{"x": "y" * 10_000} for _ in range(1_000)], **{f"extra{n}": n for n in range(1_000)}}
    assert len(error_of(parameters(list[Point]), wrong)) <= 1_000


@pytest.mark.parametrize(
    "hint", [Iterable[int], typing.Iterable[int], Iterable[int] | None, Annotated[Iterable[int], Field(min_length=1)]]
)
def test_iterable_is_a_list(hint: Any) -> None:
    """An iterable parameter receives a list whose entries are validated."""
    assert parameters(hint).check({"value": ["1", 2]}) == {"value": [1, 2]}
    assert "should be a valid integer" in error_of(parameters(hint), {"value": [1, "x"]})


def test_bare_iterable_is_a_list_of_anything() -> None:
    """An iterable without an entry type receives a list with any entries."""
    assert parameters(dict[str, Iterable]).check({"value": {"a": [1, "x"]}}) == {"value": {"a": [1, "x"]}}


class Lazy(BaseModel):
    """A model with iterators that can be read once; defaults and fields may have any name."""

    metadata: Iterable[int]
    serialization: dict[str, str] = {"type": "generator"}


class Eager(BaseModel):
    """A model without iterators, although its default mentions one."""

    type: dict[str, str] = {"type": "generator"}


@pytest.mark.parametrize("hint", [typing.Generator[int, None, None], Lazy, list[Lazy]])
def test_generator_parameter_is_rejected(hint: Any) -> None:
    """A parameter annotated as a generator raises an error when the tool is created."""
    with pytest.raises(ConfigError, match=r"parameter 'value' .*a generator can be read only once"):
        parameters(hint)


def test_default_resembling_a_core_schema() -> None:
    """A default that resembles a pydantic core schema is used as a plain value."""
    assert parameters(Eager).check({"value": {}})["value"] == Eager()


def test_arguments_are_not_mutated() -> None:
    """Checking does not mutate the given arguments, also when values are corrected."""
    given = {"value": [{"x": "1", "y": None}]}
    parameters(list[Point]).check(given)
    assert given == {"value": [{"x": "1", "y": None}]}


@pytest.mark.for_each(
    ("hint", "possible"),
    [
        (str, True),
        (list[Point], True),
        (Tree, True),
        (Annotated[Cat | Dog, Field(discriminator="kind")], True),
        (datetime.datetime, True),
        (decimal.Decimal, True),
        (Options, True),
        (Any, False),
        (list, False),
        (dict[str, int], False),
        (set[int], False),
        (pathlib.Path, False),
        (bytes, False),
        (tuple[int, str], False),
    ],
)
def test_strict_schema_if_possible(hint: Any, *, possible: bool) -> None:
    """A tool has a strict schema if and only if the provider would accept it."""
    found = parameters(hint).strict_schema
    assert (found is not None) is possible
    assert found is None or found["required"] == ["value"]


def test_keyword_arguments_of_a_direct_call() -> None:
    """The arguments of a direct call are converted to keyword arguments, with defaults and unchanged values."""
    found = FunctionParameters(described, "described")
    assert found.bind((1, 2), {"c": 3, "d": 4, "e": 5}) == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": "x"}
    with pytest.raises(TypeError, match=r"described\(\) missing a required argument: 'a'"):
        found.bind((), {})


def test_given_schema_is_copied() -> None:
    """A given JSON schema is copied, and closed for strict mode where possible."""
    schema = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    found = SchemaParameters(schema, "demo")
    schema["properties"] = {}
    assert found.json_schema == {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert found.strict_schema == {**found.json_schema, "additionalProperties": False}
    assert found.check('{"a": 1}') == {"a": "1"}
    assert found.bind((), {"a": 1}) == {"a": 1}
    with pytest.raises(TypeError, match=r"demo\(\) takes its arguments by name"):
        found.bind((1,), {})
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert SchemaParameters({"properties": {"value": inner}}, "demo").strict_schema is None
    nothing = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert SchemaParameters({"properties": {}}, "demo").strict_schema == nothing
    anything = SchemaParameters({}, "demo")
    assert (anything.strict_schema, anything.json_schema) == (None, {"type": "object", "properties": {}})


DEEP: dict[str, Any] = {}
for _ in range(2_000):
    DEEP = {"items": DEEP}


@pytest.mark.for_each(
    "schema",
    [
        [],
        "object",
        {"type": "string"},
        {"type": ["array", "null"]},
        {"properties": []},
        {"properties": {"a": "string"}},
        {"properties": {"a": {"type": 5}}},
        {"properties": {"a": {"enum": "x"}}},
        {"properties": {"a": {"$ref": 5}}},
        {"required": "a"},
        {"required": [["a"]]},
        {"anyOf": {}},
        {"properties": {"a": {"default": float("nan")}}},
        {"properties": {"a": {"default": object()}}},
        {"properties": {"a": DEEP}},
        {"properties": {"a": {"type": "gibberish"}}},
        {"a": {"type": "string"}},
    ],
    ids=range(17),
)
def test_invalid_schema_is_rejected(schema: Any) -> None:
    """An invalid JSON schema raises an error when the tool is created."""
    with pytest.raises(ConfigError, match="Tool 'demo': its schema"):
        SchemaParameters(schema, "demo")


def test_older_schema_draft_is_accepted_without_strict_mode() -> None:
    """A list of item schemas becomes `prefixItems`, and unknown keywords are passed through."""
    schema = {"properties": {"a": {"type": "array", "items": [{"type": "string"}]}, "b": True}, "definitions": {}}
    found = SchemaParameters(schema, "demo")
    assert found.json_schema["properties"] == {"a": {"type": "array", "prefixItems": [{"type": "string"}]}, "b": True}
    assert found.json_schema["definitions"] == {}
    assert found.strict_schema is None


@pytest.mark.for_each(
    ("schema", "given", "checked"),
    [
        ({"$ref": "#/$defs/Row"}, '{"x": 1}', {"x": 1}),
        ({"$ref": "#/definitions/Row"}, '{"x": 1}', {"x": 1}),
        ({"$ref": "#/nowhere/Row"}, "anything", "anything"),
        ({"$ref": "elsewhere.json"}, "anything", "anything"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "1,000", 1000),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        ({"type": ["integer", "null"]}, "None", None),
        ({"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}, "a", ["a"]),
        ({"type": "array"}, "a", ["a"]),
        ({"type": "boolean"}, "False", False),
        ({"type": "boolean"}, "yes", True),
        ({"const": "q"}, "Q", "q"),
        ({"anyOf": [{"type": "integer"}]}, "many", None),
        ({"const": "q"}, "r", None),
        ({"$ref": "#/$defs/Row"}, "no object", None),
        ({"type": "integer"}, "null", None),
    ],
)
def test_given_schema_with_unions_and_references(schema: Any, given: Any, checked: Any) -> None:
    """Unions, references and constants in a given schema are applied like types."""
    row = {"type": "object", "properties": {"x": {"type": "integer"}}}
    full_text = {
        "properties": {"value": schema},
        "required": ["value"],
        "$defs": {"Row": row},
        "definitions": {"Row": row},
    }
    found = SchemaParameters(full_text, "demo")
    if checked is None and "null" not in str(schema):
        with pytest.raises(BadArguments, match="Argument 'value' should be"):
            found.check({"value": given})
    else:
        assert found.check({"value": given}) == {"value": checked}


def test_recursive_schema_is_read_once() -> None:
    """Each part of a schema is visited once, however many references lead to it."""
    many = {f"P{index}": {"anyOf": [{"$ref": f"#/$defs/P{index + 1}"}] * 10} for index in range(40)}
    loop = {"Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}] * 10}}
    last = {"Q0": {"anyOf": [{"$ref": "#/$defs/Q1"}] * 10}, "Q1": {"type": "integer"}}
    wide = {f"W{index}": {"type": "integer"} for index in range(150)}
    wide["Wide"] = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in wide]}
    for name, fits in (("P0", True), ("Loop", True), ("Q0", False), ("Wide", False)):
        full_text = {"properties": {"value": {"$ref": f"#/$defs/{name}"}}, "$defs": {**many, **loop, **last, **wide}}
        found = SchemaParameters(full_text, "demo")
        if fits:
            assert found.check({"value": "x"}) == {"value": "x"}
        else:
            with pytest.raises(BadArguments, match="Argument 'value' should be"):
                found.check({"value": "x"})


def test_null_string_for_an_optional_argument() -> None:
    """The string "null" omits an optional argument that can be neither a string nor null."""
    found = SchemaParameters({"properties": {"count": {"type": "integer"}}}, "demo")
    assert found.check({"count": "null"}) == {}


def test_names_of_a_given_schema_match_regardless_of_case() -> None:
    """`startDate` is accepted for `start_date`, unless it matches two parameters."""
    found = SchemaParameters({"properties": {"start_date": {"type": "string"}}}, "demo")
    assert found.check({"startDate": "today"}) == {"start_date": "today"}
    with pytest.raises(BadArguments, match="has no parameter 'startDate'"):
        found.check({"startDate": "a", "StartDate": "b"})


def test_older_notation_of_annotations() -> None:
    """Unions and lists of the typing module, and a typing.TypedDict inside them, are accepted."""
    for hint in ("Union[Options, None]", "Optional[List[Options]]", "Dict[str, Options]"):
        found = parameters(
            typing.get_type_hints(SimpleNamespace(__annotations__={"a": hint}), {**vars(typing), **globals()})["a"]
        )
        assert "size" in str(found.json_schema)


def test_arguments_without_json_form_are_checked() -> None:
    """A number too large for JSON and a recursive value are checked as Python values."""
    endless: list[Any] = []
    endless.append(endless)
    for hint, value in ((list[str], [10**5_000]), (list[int], endless)):
        with pytest.raises(BadArguments):
            check(hint, value)


def test_number_of_repairs_is_limited() -> None:
    """Arguments that require too many repairs are rejected."""
    text: Any = [1]
    for _ in range(15):
        text = [json.dumps(text)]
    hint: Any = int
    for _ in range(16):
        hint = list[hint]
    with pytest.raises(BadArguments, match="should be a list"):
        check(hint, text)


def test_class_variable_is_rejected() -> None:
    """A parameter annotated with `ClassVar` raises an error."""
    with pytest.raises(
        ConfigError, match=r"parameter .value. of type .*ClassVar.* cannot be read from JSON .it cannot be the type"
    ):
        parameters(typing.ClassVar[int])


def keeps_its_own(a: int, key: Callable[[int], int] = abs, printer: type(print) = print, b: int = 2) -> int:
    """Take what a model may give, and what only a program can."""
    return key(a) * b


def test_parameter_without_json_form_has_its_default() -> None:
    """A parameter without a JSON form uses its default, and a direct call can pass it."""
    made = Tool(keeps_its_own)
    assert list(made.parameters["properties"]) == ["a", "b"]
    assert made.invoke({"a": -3}).value == 6
    assert made.invoke({"a": -3, "key": "abs"}).status == "failed"
    assert made(-3, key=lambda number: number) == -6


def test_judge_receives_only_arguments_of_the_schema() -> None:
    """Arguments that JSON cannot express reach the function but not the judge."""
    received: list[Any] = []

    def judge(arguments: Mapping[str, Any]) -> Decision:
        received.append(dict(arguments))
        return Decision(Verdict.ALLOW, "heard", "Heard.")

    made = Tool(keeps_its_own, judge=judge)
    assert made(-3, key=lambda number: number) == -6
    assert made(-3) == 6
    assert received == [{"a": -3, "b": 2}] * 2


def test_function_without_json_parameters_has_no_arguments() -> None:
    """If only parameters with defaults remain, a model calls the tool without arguments."""

    def demo(key: Callable[[int], int] = abs) -> int:
        return key(-1)

    assert Tool(demo).parameters["properties"] == {}
    assert Tool(demo).invoke({}).value == 1
