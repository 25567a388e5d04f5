"""Tests for output schemas, which are adjusted for servers that build a grammar of them."""

import pytest
from anthropic import transform_schema
from pydantic import BaseModel, Field

from agentkit.llm.protocols.anthropic import AnthropicMessages, enforceable_schema
from agentkit.messages import Request, ToolSpec, UserMessage

CLOSED = {"additionalProperties": False}

# a schema; its enforceable part
SCHEMAS = {
    "an object": (
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], **CLOSED},
    ),
    "bounds": (
        {"type": "integer", "description": "A number.", "minimum": 1, "maximum": 10},
        {"type": "integer", "description": "A number. (minimum: 1, maximum: 10)"},
    ),
    "bounds without a description": (
        {"type": "string", "maxLength": 3},
        {"type": "string", "description": "(maxLength: 3)"},
    ),
    "a default": (
        {"type": "boolean", "default": True, "title": "T"},
        {"type": "boolean", "title": "T", "description": "(default: True)"},
    ),
    "a known format": ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
    "another format": (
        {"type": "string", "format": "color"},
        {"type": "string", "description": "(format: color)"},
    ),
    "lists": (
        {"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": 9},
        {"type": "array", "items": {"type": "object", **CLOSED}, "minItems": 1, "description": "(maxItems: 9)"},
    ),
    "a longer list": (
        {"type": "array", "minItems": 2},
        {"type": "array", "description": "(minItems: 2)"},
    ),
    "choices": (
        {"oneOf": [{"type": "object"}, {"const": 1}], "discriminator": {}},
        {"anyOf": [{"type": "object", **CLOSED}, {"const": 1}]},
    ),
    "several types": (
        {"type": ["string", "null"], "description": "A name.", "maxLength": 3},
        {
            "description": "A name.",
            "anyOf": [{"type": "string", "description": "(maxLength: 3)"}, {"type": "null"}],
        },
    ),
    "definitions": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}, "title": "T"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", **CLOSED}}},
    ),
    "a reference": ({"$ref": "#/$defs/a", "description": "D"}, {"$ref": "#/$defs/a"}),
    "free names": (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ),
    "anything": (
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": True}, **CLOSED},
    ),
    "a choice of words": ({"enum": ["a", "b"], "$schema": "x"}, {"enum": ["a", "b"]}),
}


@pytest.mark.for_each(("schema", "expected"), SCHEMAS.values(), ids=SCHEMAS)
def test_unsupported_keywords_move_to_the_description(schema, expected):
    """Objects are closed, unsupported keywords move to the description, and the input is not modified."""
    given = repr(schema)
    assert enforceable_schema(schema) == expected
    assert repr(schema) == given


class Place(BaseModel):
    """A location."""

    city: str = Field(min_length=2)
    altitude: float | None = None


class Note(BaseModel):
    """A note."""

    places: list[Place] = Field(min_length=2)
    kind: int = Field(ge=0, le=9, description="Which kind.")


def shape_of(schema):
    """Return a schema without its descriptions and titles."""
    if isinstance(schema, list):
        return [shape_of(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: shape_of(value) for name, value in schema.items() if name not in {"description", "title"}}


def test_schema_matches_the_anthropic_package():
    """The anthropic package sends a schema of the same shape for a pydantic model."""
    schema = Note.model_json_schema()
    assert shape_of(enforceable_schema(schema)) == shape_of(transform_schema(schema))


def test_tools_are_strict_if_requested():
    """With strict mode requested, a tool with a strict form is sent as strict, and others are not."""
    plain, strict = {"type": "object"}, {"type": "object", "required": [], **CLOSED}
    request = Request([UserMessage("Hi")], "Go", tools=(ToolSpec("f", "F", plain, strict), ToolSpec("g", "", plain)))
    assert AnthropicMessages().encode(request, "m", strict=True)["tools"] == [
        {"name": "f", "description": "F", "input_schema": strict, "strict": True},
        {"name": "g", "input_schema": plain},
    ]


# the schema of a tool's input; the schema that is sent, and the added description
ROOTS = {
    "an object": ({"type": "object", "properties": {}}, {"type": "object", "properties": {}}, "F"),
    "nothing": ({}, {"type": "object"}, "F"),
    "a choice": (
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}},
        {"properties": {"a": {}, "b": {}}, "type": "object"},
        'F (Arguments fit anyOf: [{"required": ["a"]}, {"required": ["b"]}])',
    ),
}


@pytest.mark.parametrize(("schema", "sent", "description"), ROOTS.values(), ids=ROOTS)
def test_tool_schema_is_an_object_at_its_root(schema, sent, description):
    """A tool's schema is sent as an object; alternatives at its root are moved to the description."""
    request = Request([UserMessage("Hi")], "Go", tools=(ToolSpec("f", "F", schema),))
    (tool,) = AnthropicMessages().encode(request, "m", strict=False)["tools"]
    assert tool == {"name": "f", "description": description, "input_schema": sent}
