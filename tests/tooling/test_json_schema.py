"""Tests for the normalisation of JSON schemas with nonstandard notation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentkit.tooling.json_schema import kind_of, normalise_schema, reject_wrapper

CLOSED_POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer", "minimum": 0}, "y": {"enum": ["a", None]}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.for_each(
    ("schema", "read"),
    [
        (
            {"type": "dict", "properties": {"a": {"type": "float"}}},
            {"type": "object", "properties": {"a": {"type": "number"}}},
        ),
        (
            {"type": "OBJECT", "properties": {"type": {"type": "STRING"}}},
            {"type": "object", "properties": {"type": {"type": "string"}}},
        ),
        (
            {"type": "object", "properties": None, "required": None, "default": None},
            {"type": "object", "default": None},
        ),
        ({"type": "any", "description": "d"}, {"description": "d"}),
        ({"type": ["INTEGER", "null"]}, {"type": ["integer", "null"]}),
        ({"items": [{"type": "str"}, True]}, {"prefixItems": [{"type": "string"}, True]}),
        (
            {"anyOf": [{"type": "int"}], "not": {"type": "bool"}},
            {"anyOf": [{"type": "integer"}], "not": {"type": "boolean"}},
        ),
        ({"definitions": {"P": {"type": "list"}}, "$defs": []}, {"definitions": {"P": {"type": "array"}}, "$defs": []}),
        ({"type": "gibberish"}, {"type": "gibberish"}),
        ({"type": ""}, {}),
        ({"type": "Any"}, {}),
        ({"type": ["any", "null"]}, {}),
        ({"type": "HashMap"}, {"type": "object"}),
        ({"type": "ArrayList", "items": {"type": "long"}}, {"type": "array", "items": {"type": "integer"}}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"nullable": True}, {}),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 1}),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": False}, {"type": "number", "maximum": 1}),
        ({"type": "array", "enum": ["a"]}, {"type": "array", "items": {"enum": ["a"]}}),
        (
            {"type": "array", "items": {"type": "int"}, "enum": ["1"]},
            {"type": "array", "items": {"type": "integer", "enum": [1]}},
        ),
        ({"type": "array", "enum": [["a"]]}, {"type": "array", "enum": [["a"]]}),
        ({"type": "string", "enum": []}, {"type": "string"}),
        ({"type": "string", "enum": ["a", 5, True]}, {"type": ["string", "boolean"], "enum": ["a", "5", True]}),
        ({"type": "string", "enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "integer", "enum": ["1", 1, "2"]}, {"type": "integer", "enum": [1, 2]}),
        ({"type": "integer", "enum": ["1", "all"]}, {"type": ["integer", "string"], "enum": [1, "all"]}),
        ({"type": "number", "enum": ["0.5", "1e3"]}, {"type": "number", "enum": [0.5, 1000.0]}),
        ({"type": "bool", "enum": ["True", "False"]}, {"type": "boolean", "enum": [True, False]}),
        ({"type": "string", "enum": "a"}, {"type": "string", "enum": "a"}),
        (
            {"properties": {"a": {"type": "str", "required": True}, "b": {"required": False}, "c": {"optional": True}}},
            {"properties": {"a": {"type": "string"}, "b": {}, "c": {}}, "required": ["a"]},
        ),
        (
            {"properties": {"a": {"required": True}, "required": {"type": "bool"}}, "required": ["a"]},
            {"properties": {"a": {}, "required": {"type": "boolean"}}, "required": ["a"]},
        ),
        ({"type": 5}, {"type": 5}),
        ("no schema", "no schema"),
    ],
)
def test_nonstandard_schemas_are_converted(schema: Any, read: Any) -> None:
    """Types of other languages, enum values of another type and keywords of older drafts are converted."""
    assert normalise_schema(schema) == read


def test_standard_schema_is_unchanged() -> None:
    """A schema that is already in the standard form is returned unchanged."""
    assert normalise_schema(CLOSED_POINT) == CLOSED_POINT


def test_properties_in_place_of_keywords_are_rejected() -> None:
    """A dictionary of parameters in place of a schema raises an error."""
    with pytest.raises(TypeError, match=r"'city' is not a keyword of JSON Schema: write {'properties': {'city': ...}}"):
        reject_wrapper({"city": {"type": "string"}})
    for schema in (
        {},
        {"default": {"type": "a"}},
        {"properties": {}, "city": {"type": "string"}},
        {"x-note": "a"},
        True,
    ):
        reject_wrapper(schema)


@pytest.mark.parametrize("name", ["parameters", "inputSchema", "input_schema"])
def test_tool_definition_is_rejected(name: str) -> None:
    """A whole tool definition raises an error that says which part is the schema."""
    definition = {"name": "ask", "description": "Ask.", name: CLOSED_POINT}
    for given in (definition, {"type": "function", "function": definition}):
        with pytest.raises(TypeError, match=f"it is a tool definition: pass its '{name}'"):
            reject_wrapper(given)
    reject_wrapper({"properties": {}, "name": "ask"})
    reject_wrapper({"function": "ask"})


@pytest.mark.parametrize(
    "operation",
    [
        {"operationId": "find", "parameters": [{"name": "id", "in": "path", "schema": {"type": "integer"}}]},
        {"requestBody": {"content": {"application/json": {"schema": CLOSED_POINT}}}},
    ],
)
def test_openapi_operation_is_rejected(operation: Any) -> None:
    """An OpenAPI operation raises an error that asks for the schema of its body."""
    with pytest.raises(TypeError, match="it is an operation of an API: give the schema of its body"):
        reject_wrapper(operation)


@pytest.mark.parametrize(
    "around", [{}, {"items": {}}, {"anyOf": [{}]}, {"$defs": {"a": {}}}, {"definitions": {"a": {}}}]
)
def test_unresolved_reference_is_rejected(around: Any) -> None:
    """A reference to a definition outside the schema raises an error at any depth."""
    lost = {"$ref": "#/components/schemas/Pet"}
    text = json.dumps({"properties": {"pet": around}}).replace("{}", json.dumps(lost))
    with pytest.raises(
        TypeError,
        match=r"refers to '#/components/schemas/Pet', .* add the schema under '\$defs', and refer to it as "
        r"'#/\$defs/Pet'",
    ):
        reject_wrapper(json.loads(text))
    reject_wrapper({**json.loads(text), "components": {"schemas": {"Pet": {"type": "object"}}}})
    for message in ("#", "#anchor", "https://example.com/pet.json", "#/$defs/Pet", 5):
        reject_wrapper({"properties": {"pet": {"$ref": message}}})


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("a", "string"),
        (1, "integer"),
        (1.5, "number"),
        (True, "boolean"),
        ([], "array"),
        ({}, "object"),
        (None, "null"),
    ],
)
def test_type_of_a_value_is_known(value: object, kind: str) -> None:
    """Each JSON value has one type: a whole number is an integer, and a boolean is not a number."""
    assert kind_of(value) == kind


def test_duplicate_choices_are_removed() -> None:
    """Duplicate enum values are removed and the order is preserved; 1 and true remain distinct."""
    choices = [3, "3", 1, True, 1.0, [2], [2], *range(50_000)]
    value = normalise_schema({"type": ["integer", "number", "boolean", "array"], "enum": choices})["enum"]
    assert repr(value[:5]) == "[3, 1, True, 1.0, [2]]"
    assert len(value) == 50_003
