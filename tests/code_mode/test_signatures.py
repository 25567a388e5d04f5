"""Tests for the signatures of tools for programs."""

from datetime import date
from typing import Any, Literal

import pytest

from agentkit import ConfigError, Tool, Toolset, tool
from agentkit.code_mode.signatures import describe_function, parameter_names, tool_functions


def plan(
    place: str,
    day: date,
    *,
    people: int = 2,
    kind: Literal["hotel", "tent"] = "tent",
    stops: list[str] | None = None,
) -> dict[str, float]:
    """Plan a journey.

    Args:
        place: Where to.
        day: When.
        people: How many.
        kind: Where to sleep.
        stops: Where to rest.

    Returns:
        The price of each night,
        in euros.
    """
    return {place: float(people)}


def test_tool_is_described_as_a_function():
    """A signature has annotations, defaults, parameter descriptions and the return value."""
    assert describe_function("plan", Tool(plan)) == (
        "plan(place: str, day: str, people: int = 2, kind: Literal['hotel', 'tent'] = 'tent', "
        "stops: list[str] | None = None) -> dict[str, float]\n"
        "    Plan a journey.\n"
        "    place: Where to.\n    day: When.\n    people: How many.\n    kind: Where to sleep.\n"
        "    stops: Where to rest.\n"
        "    Returns: The price of each night, in euros."
    )


DEFINITIONS = {
    "Tree": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "object", "additionalProperties": {"type": "integer"}},
            "next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
        },
        "required": ["name"],
    }
}
PAIR = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}


@pytest.mark.for_each(
    ("schema", "signature"),
    [
        ({"type": "object", "properties": {}}, "f()"),
        ({"type": "object", "properties": {"a-b": {"type": "integer"}}}, "f(a_b: int = ...)"),
        ({"type": "object", "properties": {"class": {}}, "required": ["class"]}, "f(_class: object)"),
        ({"type": "object", "properties": {"x": {"type": ["string", "null"]}}}, "f(x: str | None = ...)"),
        ({"type": "object", "properties": {"x": {"type": "array", "items": True}}}, "f(x: list[object] = ...)"),
        (
            {"type": "object", "properties": {"b": {"type": "object"}, "a": {"type": "number"}}, "required": ["a"]},
            "f(a: float, b: dict = ...)",
        ),
        (
            {"type": "object", "properties": {"x": {"$ref": "#/$defs/Tree"}}, "required": ["x"], "$defs": DEFINITIONS},
            "f(x: {'name': str, 'size'?: dict[str, int], 'next'?: dict | None})",
        ),
        (
            {"type": "object", "properties": {"x": {"const": 1}, "y": PAIR, "z": {"$ref": "#/away"}}},
            "f(x: Literal[1] = ..., y: list[int, str] = ..., z: object = ...)",
        ),
    ],
)
def test_signature_of_a_json_schema(schema, signature):
    """A JSON schema becomes a signature with valid Python names, required parameters first."""
    made = Tool.from_schema("f", "Do it.", schema, lambda **arguments: arguments)
    assert describe_function("f", made) == f"{signature}\n    Do it."
    assert sorted(parameter_names(made)) == sorted(schema["properties"])


@pytest.mark.parametrize("kind", ["anyOf", "oneOf"])
def test_nested_definitions_are_bounded(kind):
    """A schema with exponentially nested references gives a text of limited length."""
    names = [f"d{number}" for number in range(50)]
    definitions = {
        name: {
            kind: [{"type": "object", "properties": {f"p{each}": {"$ref": f"#/$defs/{after}"}}} for each in range(50)]
        }
        for name, after in zip(names, [*names[1:], "d0"], strict=True)
    }
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    assert len(describe_function("f", Tool.from_schema("f", "Do it.", schema, lambda **arguments: arguments))) < 10_000


def test_names_are_valid_in_python():
    """A tool with an invalid Python name gets a valid one; duplicate names are rejected."""
    first, second = (Tool(lambda: 1, name=name, description="x") for name in ("get-it", "get_it"))
    assert list(tool_functions(Toolset([first]))) == ["get_it"]
    with pytest.raises(ConfigError, match="would both be called get_it"):
        tool_functions(Toolset([first, second]))


@tool
def bare(x):
    """Do something.

    Returns: nothing that is told here.
    """
    return x


def test_unspecific_return_types():
    """A dict[str, Any] return type is shown as dict, and Any is omitted."""

    def look() -> dict[str, Any]:
        """Look."""
        return {}

    def find() -> Any:
        """Find."""

    assert describe_function("look", Tool(look)) == "look() -> dict\n    Look."
    assert describe_function("find", Tool(find)) == "find()\n    Find."


def test_missing_return_type_is_omitted():
    """Without a return annotation and a Returns section, the return type is omitted."""
    assert describe_function("bare", bare).splitlines()[0] == "bare(x: object)"
