"""Tests for the resolution of references in JSON schemas."""

import pytest

from agentkit.tooling.strict_schema import resolve_reference, strict, with_plain_references
from agentkit.tooling.tool import Tool

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
ROOT = {
    "$defs": {
        "Point": POINT,
        "x/y": {"const": 1},
        "a~b": {"const": 2},
        "P<A>": {"const": 3},
        "n": {"anyOf": [{}, POINT]},
    },
    "properties": {"a": {"type": "array", "items": POINT}, "a/b": {"const": 4}},
}


@pytest.mark.for_each(
    ("reference", "target"),
    [
        ("#", ROOT),
        ("#/$defs/Point", POINT),
        ("#/$defs/x~1y", {"const": 1}),
        ("#/$defs/x/y", {"const": 1}),
        ("#/$defs/a~0b", {"const": 2}),
        ("#/$defs/P%3CA%3E", {"const": 3}),
        ("#/$defs/P<A>", {"const": 3}),
        ("#/$defs/n/anyOf/1", POINT),
        ("#/$defs/n/anyOf/9", None),
        ("#/$defs/n/anyOf/first", None),
        ("#/properties/a/items", POINT),
        ("#/properties/a~1b", {"const": 4}),
        ("#/nowhere/at/all", None),
        ("other.json#/$defs/Point", None),
        ("#anchor", None),
    ],
)
def test_references(reference, target):
    """A reference is resolved, whether its tokens are escaped, percent-encoded or plain."""
    assert resolve_reference(reference, ROOT) == target


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"properties": {"v": {"$ref": "#/$defs/x~1y"}}, "$defs": {"x/y": POINT}}, {"x": 1}, {"x": "one"}),
        ({"properties": {"v": {"$ref": "#/$defs/P%3CA%3E"}}, "$defs": {"P<A>": POINT}}, {"x": 1}, {}),
        ({"properties": {"v": {"$ref": "#/definitions/Point"}}, "definitions": {"Point": POINT}}, {"x": 1}, {}),
        ({"properties": {"v": {"$ref": "#/properties/w"}, "w": {"type": "integer"}}}, 1, "one"),
        ({"properties": {"v": {"$ref": "#/$defs/x~1y"}}, "$defs": {"x/y": POINT, "x_y": {}, "y": {}}}, {"x": 1}, 1),
    ],
)
def test_arguments_are_checked_behind_references(schema, right, wrong):
    """Arguments are validated against the target of a reference, and the reference that is sent has a plain name."""
    tool = Tool.from_schema("look", "", {"type": "object", **schema}, lambda v: v)
    assert tool.invoke({"v": right}).ok
    assert not tool.invoke({"v": wrong}).ok
    reference = tool.parameters["properties"]["v"]["$ref"]
    assert reference.removeprefix("#/$defs/") in tool.parameters["$defs"]


def test_references_without_a_target_allow_any_value():
    """Dangling references are removed; values, and properties with the names of keywords, are unchanged."""
    schema = {
        "properties": {"v": {"$ref": "#/$defs/Nowhere", "description": "d"}, "$ref": {"type": "string"}},
        "default": {"$ref": "#/$defs/Nowhere"},
        "anyOf": [{"$ref": "https://x.example/a.json"}],
    }
    assert with_plain_references(schema) == {
        "properties": {"v": {"description": "d"}, "$ref": {"type": "string"}},
        "default": {"$ref": "#/$defs/Nowhere"},
        "anyOf": [{}],
    }
    assert with_plain_references(ROOT) is ROOT


def test_definitions_with_references_to_each_other():
    """Indirectly used definitions are retained under plain names, and unused ones are removed."""
    schema = {
        "properties": {"v": {"$ref": "#/definitions/a b"}},
        "definitions": {"a b": {"items": {"$ref": "#/definitions/c"}}, "c": {"$ref": "#/definitions/a%20b"}, "d": {}},
    }
    plain = with_plain_references(schema)
    assert plain["properties"]["v"]["$ref"].removeprefix("#/$defs/") in plain["$defs"]
    assert len(plain["$defs"]) == 3
    assert all(
        each.get("items", each)["$ref"].removeprefix("#/$defs/") in plain["$defs"] for each in plain["$defs"].values()
    )


def closed(**properties):
    """Return a closed object."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def texts(count, chars=1):
    """Return an enum of strings."""
    return {"type": "string", "enum": [f"{number:0{chars}}" for number in range(count)]}


@pytest.mark.for_each(
    ("schema", "is_strict"),
    [
        (closed(a=texts(1_000)), True),
        (closed(a=texts(1_001)), False),
        (closed(a=texts(600), b=texts(600)), False),
        (closed(a=texts(250, 100)), True),
        (closed(a=texts(251, 100)), False),
        (closed(a={"type": "array", "items": texts(251, 100)}), False),
        (closed(**{f"p{number}": {"type": "string"} for number in range(5_001)}), False),
        (closed(**{f"p{number}": {"type": "string"} for number in range(5_000)}), True),
        (closed(**{f"{number:0200}": {"type": "string"} for number in range(601)}), False),
    ],
)
def test_limits_of_strict_mode(schema, is_strict):
    """A schema beyond a limit of strict mode has no strict form."""
    assert (strict(schema) is not None) is is_strict
