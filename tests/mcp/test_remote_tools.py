"""Tests for the description of remote tools: limits and hidden characters."""

import json
from types import SimpleNamespace

import pytest

from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError
from agentkit.mcp.client import Bounds, RemoteTool
from agentkit.mcp.definitions import Definition

HIDDEN = "Fine.\U000e0052\U000e0045 \u202eback \x1b[2J \u200b"
BOUNDS = Bounds(SafetyLevel.SAFE, 1_000, frozenset())


def remote_tool(description, schema):
    """Return the tool for a server's description and schema."""
    return RemoteTool(SimpleNamespace(name="far"), "book", "book", Definition("book", description, schema), BOUNDS)


def test_invisible_characters_are_escaped():
    """Invisible characters in the description and schema texts are escaped."""
    city = {"type": "string", "description": HIDDEN, "title": HIDDEN}
    schema = {
        "type": "object",
        "properties": {"description": city, "cities": {"type": "array", "items": city}},
        "$defs": {"x": {"anyOf": [city]}},
    }
    tool = remote_tool(HIDDEN, schema)
    text = json.dumps([tool.description, tool.parameters], ensure_ascii=False)
    assert not any(letter in text for letter in "\U000e0052\u202e\x1b\u200b")
    assert "\\u{202e}back" in tool.description


def test_schema_values_are_unchanged():
    """Values that the server compares, such as those of an enum, are not changed."""
    schema = {"type": "object", "properties": {"a": {"enum": ["\u200b", "b"], "pattern": "\u200b", "const": HIDDEN}}}
    assert remote_tool("", schema).parameters["properties"]["a"]["enum"] == ["\u200b", "b"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object", "description": "x" * 100_001}, "the limit is 100,000"),
        (
            {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(10_000)}},
            "the limit is 100,000",
        ),
        ({"type": "object", "properties": {"a": {"enum": [{1, 2}]}}}, "not a valid JSON schema"),
    ],
)
def test_invalid_schema(schema, reason):
    """A schema that is too long or not valid JSON Schema raises a ConfigError."""
    with pytest.raises(ConfigError, match=reason):
        remote_tool("", schema)
