"""Tests for JSON schemas in a form for models, and their strict form."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from agentkit.tooling.strict_schema import admits_null, check_schema, strict, tidy

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
CLOSED_POINT = {**POINT, "additionalProperties": False}


def closed(inner: Any, *, required: bool = True) -> Any:
    """Return the strict form of a schema with the only property `value`, or None."""
    schema = {"type": "object", "properties": {"value": inner}, "required": ["value"] if required else []}
    found = strict(schema)
    return None if found is None else found["properties"]["value"]


@pytest.mark.for_each(
    ("inner", "expected"),
    [
        ({"type": "string"}, {"type": "string"}),
        ({"type": "integer", "minimum": 1, "description": "d"}, {"type": "integer", "minimum": 1, "description": "d"}),
        ({"type": "string", "minLength": 1, "maxLength": 5, "default": "x", "examples": []}, {"type": "string"}),
        ({"type": "string", "pattern": "^a$"}, {"type": "string", "pattern": "^a$"}),
        ({"type": "string", "pattern": "^(?!a)"}, {"type": "string"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"const": "a", "type": "string"}, {"enum": ["a"], "type": "string"}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "array", "items": POINT, "maxItems": 3}, {"type": "array", "items": CLOSED_POINT, "maxItems": 3}),
        ({"anyOf": [{"type": "string"}, POINT]}, {"anyOf": [{"type": "string"}, CLOSED_POINT]}),
        ({"oneOf": [{"type": "string"}, POINT]}, {"anyOf": [{"type": "string"}, CLOSED_POINT]}),
        ({"$ref": "#/$defs/P", "description": "d"}, {"$ref": "#/$defs/P"}),
        (POINT, CLOSED_POINT),
        (
            {"type": "object", "properties": {}, "additionalProperties": False},
            {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        ),
    ],
)
def test_strict_mode_keeps_supported_keywords(inner: Any, expected: Any) -> None:
    """Strict mode retains supported keywords, removes other constraints and closes objects."""
    assert closed(inner) == expected


@pytest.mark.for_each(
    "inner",
    [
        {},
        True,
        {"description": "anything"},
        {"enum": ["a", 1]},
        {"type": "string", "format": "path"},
        {"type": "string", "format": "binary"},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        {"type": "array", "prefixItems": [{"type": "integer"}]},
        {"type": "object"},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": True},
        {"type": "object", "properties": {"x": {}}},
        {"allOf": [{"type": "string"}]},
        {"not": {"type": "string"}},
        {"type": "string", "if": {}},
        {"anyOf": [{"type": "string"}, {}]},
        {"anyOf": [{"type": "array"}]},
    ],
)
def test_unsupported_schema_has_no_strict_form(inner: Any) -> None:
    """Free-form values, sets, paths, bytes and unknown keywords have no strict form."""
    assert closed(inner) is None


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ({"type": "string", "description": "d"}, {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"enum": ["a", None], "type": ["string", "null"]}, {"enum": ["a", None], "type": ["string", "null"]}),
        ({"enum": ["a"], "type": "string"}, {"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}]}),
        ({"$ref": "#/$defs/P"}, {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]}),
    ],
)
def test_optional_property_becomes_nullable(inner: Any, expected: Any) -> None:
    """An optional property becomes required and nullable in strict mode."""
    assert closed(inner, required=False) == expected


def test_definitions_are_closed_too() -> None:
    """Recursive definitions are closed in strict mode."""
    node = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}},
        "required": [],
    }
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "required": ["n"], "$defs": {"N": node}}
    found = strict(schema)
    assert found is not None
    assert found["$defs"]["N"]["additionalProperties"] is False
    assert found["$defs"]["N"]["required"] == ["next"]
    assert strict({**schema, "$defs": {"N": {"type": "object"}}}) is None


def test_schemas_nested_too_deeply_have_no_strict_form() -> None:
    """Strict mode limits how deep objects are nested."""
    schema: dict[str, Any] = {"type": "string"}
    for depth in range(12):
        schema = {"type": "object", "properties": {"inner": schema}, "required": ["inner"]}
        assert (strict(schema) is None) is (depth >= 10)


def test_nested_nulls_can_be_disallowed() -> None:
    """With `nested_nulls=False` a nested optional property has no strict form."""
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"value": inner}}
    assert strict(schema) is not None
    assert strict(schema, nested_nulls=False) is None
    assert strict({**schema, "properties": {"value": POINT}}, nested_nulls=False) is not None


def test_schema_is_not_modified() -> None:
    """Closing or simplifying a schema does not modify it."""
    schema = {"type": "object", "title": "T", "properties": {"a": {"type": "string", "title": "A"}}, "$defs": {}}
    before = json.dumps(schema)
    strict(schema)
    tidy(schema)
    assert json.dumps(schema) == before


@pytest.mark.for_each(
    ("schema", "expected"),
    [
        ({}, True),
        (True, True),
        (False, False),
        ({"type": "null"}, True),
        ({"type": "string"}, False),
        ({"type": ["string", "null"]}, True),
        ({"enum": [1, None]}, True),
        ({"enum": [1]}, False),
        ({"const": None}, True),
        ({"const": 1}, False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"oneOf": [{"type": "string"}]}, False),
        ({"$ref": "#/$defs/P"}, False),
        ({"description": "anything"}, True),
    ],
)
def test_admits_null(schema: Any, *, expected: bool) -> None:
    """`admits_null` returns whether a schema allows null."""
    assert admits_null(schema) is expected


def test_titles_and_discriminators_are_removed() -> None:
    """Titles and discriminators are removed, but properties of those names are retained."""
    schema = {
        "title": "Arguments",
        "type": "object",
        "properties": {"title": {"type": "string", "title": "Title"}, "discriminator": {"title": "D"}},
        "oneOf": [{"title": "x", "const": 1}],
        "discriminator": {"propertyName": "kind"},
        "items": True,
        "default": {"title": "kept: this is a value"},
    }
    assert tidy(schema) == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "discriminator": {}},
        "oneOf": [{"const": 1}],
        "items": True,
        "default": {"title": "kept: this is a value"},
    }


@pytest.mark.parametrize("value", [float("inf"), [float("nan")], {"a": [-float("inf")]}])
def test_infinite_numbers_are_omitted(value: Any) -> None:
    """An infinite default or bound, which is invalid in JSON, is omitted."""
    assert tidy({"type": "number", "default": value, "maximum": value, "minimum": 1.5}) == {
        "type": "number",
        "minimum": 1.5,
    }


def test_definitions_are_inlined() -> None:
    """References are replaced by their definitions, with the description given at the reference."""
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A", "description": "mine"}, "b": {"$ref": "#/$defs/A"}},
        "$defs": {
            "A": {"type": "object", "description": "its own", "properties": {"p": {"$ref": "#/$defs/P"}}},
            "P": {"type": "string"},
        },
    }
    inner = {"type": "object", "properties": {"p": {"type": "string"}}}
    assert tidy(schema) == {
        "properties": {"a": {**inner, "description": "mine"}, "b": {**inner, "description": "its own"}}
    }


def test_recursive_definitions_are_not_inlined() -> None:
    """Directly or indirectly recursive definitions are not inlined."""
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "elsewhere": {"$ref": "other.json"}},
        "$defs": {
            "A": {"items": {"$ref": "#/$defs/B"}},
            "B": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/Leaf"}]},
            "Leaf": {"type": "string"},
        },
    }
    assert tidy(schema) == {
        "properties": schema["properties"],
        "$defs": {
            "A": {"items": {"$ref": "#/$defs/B"}},
            "B": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "string"}]},
        },
    }


def test_exponential_definitions_are_not_inlined() -> None:
    """Definitions whose size would double at each step are not inlined."""
    definitions: dict[str, Any] = {
        f"D{n}": {"properties": {"a": {"$ref": f"#/$defs/D{n + 1}"}, "b": {"$ref": f"#/$defs/D{n + 1}"}}}
        for n in range(30)
    }
    schema = {"properties": {"d": {"$ref": "#/$defs/D0"}}, "$defs": {**definitions, "D30": {"type": "string"}}}
    assert tidy(schema) == schema


def test_malformed_schema_error_names_the_property() -> None:
    """The error of a malformed schema names the property and the allowed values."""
    with pytest.raises(TypeError, match=r"'color' is not a valid type of 'paint'; use one of string, number, integer,"):
        check_schema({"properties": {"paint": {"type": ["string", "color"]}}})
    with pytest.raises(TypeError, match=r"\[\] is not a valid type of the schema"):
        check_schema({"type": []})
    check_schema(CLOSED_POINT)


def test_required_undescribed_property_has_no_strict_form() -> None:
    """A required property without a description in `properties` has no strict form."""
    assert strict({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x", "y"]}) is None


@pytest.mark.for_each(
    ("part", "text"),
    [
        ({"type": 5}, "'type' of '#/x' must not be a int"),
        ({"type": [{}]}, "{} is not a valid type of '#/x'"),
        ({"enum": 5}, "'enum' of '#/x' must not be a int"),
        ({"allOf": 5}, "'allOf' of '#/x' must not be a int"),
        ({"prefixItems": 5}, "'prefixItems' of '#/x' must not be a int"),
        ({"properties": 5}, "'properties' of '#/x' must not be a int"),
        ({"required": 5}, "'required' of '#/x' must not be a int"),
        ({"$ref": "#/y"}, "'type' of '#/y' must not be a int"),
        ([], "'#/x' must be an object, not a list"),
        ({"agentkit-python": [["A", 1]]}, "'agentkit-python' of '#/x' must not be a list"),
        ({"agentkit-summed": True}, "'agentkit-summed' of '#/x' must not be a bool"),
    ],
)
def test_referenced_parts_are_validated(part: Any, text: str) -> None:
    """A referenced part of the schema is validated wherever it is defined."""
    schema = {"properties": {"a": {"$ref": "#/x"}}, "x": part, "y": {"type": 5}}
    with pytest.raises(TypeError, match=re.escape(text)):
        check_schema(schema)


def nested(inner: Any, keyword: str, levels: int) -> Any:
    """Return lists nested in lists under a keyword."""
    for _ in range(levels):
        inner = {keyword: [inner]}
    return inner


@pytest.mark.parametrize("keyword", ["anyOf", "default", "enum", "x-unknown"])
def test_too_deeply_nested_schema_is_rejected(keyword: str) -> None:
    """A schema that is nested more than 100 levels deep raises an error."""
    check_schema(nested({}, keyword, 20))
    with pytest.raises(TypeError, match="nested more than 100 levels"):
        check_schema(nested({}, keyword, 100))


def test_large_shared_definition_is_not_inlined() -> None:
    """A large definition with several references is not inlined."""
    large = {"properties": {f"p{number}": {"type": "string"} for number in range(1_000)}}
    schema = {"$defs": {"large": large}, "properties": {f"q{n}": {"$ref": "#/$defs/large"} for n in range(6)}}
    assert tidy(schema) == schema
    once = {"$defs": {"large": large}, "properties": {"q": {"$ref": "#/$defs/large"}}}
    assert tidy(once) == {"properties": {"q": large}}
