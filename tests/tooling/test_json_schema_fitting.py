"""Tests for validating arguments against a given JSON schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentkit.errors import BadArguments
from agentkit.tooling.json_schema import validate_against

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "tags": {"type": "array"},
        "options": {"type": "object"},
        "nothing": {"type": "null"},
        "mode": {"enum": ["fast", "slow"]},
        "either": {"type": ["string", "integer"]},
        "free": {"anyOf": [{"type": "string"}, {"type": "object"}]},
        "any": True,
        "none": False,
        "file-name": {"type": "string"},
        "row": {
            "type": "object",
            "properties": {"cells": {"type": "array", "items": {"type": "integer"}}, "name": {"type": "string"}},
            "required": ["cells"],
        },
        "rows": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"$ref": "#/properties/row"}},
        "level": {"type": "integer", "minimum": 1, "exclusiveMaximum": 5, "default": "highest"},
        "code": {"type": "string", "minLength": 2, "maxLength": 3, "default": None},
        "pair": {"type": "array", "minItems": 2, "maxItems": 2},
        "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "yes": {"type": "string", "enum": ["True", "False", "any"]},
        "size": {"allOf": [{"type": "integer"}, {"minimum": 1}]},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "closed": {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
        "one": {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b", "c"]}]},
    },
    "required": ["text"],
    "additionalProperties": False,
}


@pytest.mark.for_each(
    ("given", "checked"),
    [
        ({"text": 5}, {"text": "5"}),
        ({"text": "a", "count": "5"}, {"count": 5}),
        ({"text": "a", "count": 5.0}, {"count": 5.0}),
        ({"text": "a", "ratio": "1.5"}, {"ratio": 1.5}),
        ({"text": "a", "ratio": 2}, {"ratio": 2}),
        ({"text": "a", "flag": "true"}, {"flag": True}),
        ({"text": "a", "tags": "[1]"}, {"tags": [1]}),
        ({"text": "a", "tags": (1,)}, {"tags": (1,)}),
        ({"text": "a", "options": '{"x": 1}'}, {"options": {"x": 1}}),
        ({"text": "a", "nothing": None}, {"nothing": None}),
        ({"text": "a", "mode": "fast"}, {"mode": "fast"}),
        ({"text": "a", "either": 5}, {"either": 5}),
        ({"text": "a", "free": {"x": 1}}, {"free": {"x": 1}}),
        ({"text": "a", "any": None}, {"any": None}),
        ({"text": "a", "file-name": "x"}, {"file-name": "x"}),
        ({"text": "a", "count": "5.0"}, {"count": 5}),
        ({"text": "a", "row": {"cells": [1], "other": 1}}, {"row": {"cells": [1], "other": 1}}),
        ({"text": "a", "row": '{"cells": ["1", 2.0], "name": 5}'}, {"row": {"cells": [1, 2], "name": "5"}}),
        ({"text": "a", "row": {"Cells": 1, "name": None}}, {"row": {"cells": [1]}}),
        ({"text": "a", "rows": ["x", {"cells": []}]}, {"rows": ["x", {"cells": []}]}),
        ({"text": "a", "level": "highest"}, {"level": "highest"}),
        ({"text": "a", "code": None}, {}),
        ({"text": "a", "yes": False}, {"yes": "False"}),
        ({"text": "a", "map": {"x": "1"}}, {"map": {"x": 1}}),
        ({"text": "a", "one": {"b": 1, "c": 2}}, {"one": {"b": 1, "c": 2}}),
        ({"text": "a", "count": None}, {}),
    ],
)
def test_arguments_are_checked_against_a_given_schema(given: dict[str, Any], checked: dict[str, Any]) -> None:
    """Valid arguments are accepted, with strings and numbers converted to the type in the schema."""
    assert validate_against(SCHEMA, given, "demo") == {"text": str(given["text"]), **checked}


@pytest.mark.for_each(
    ("given", "expected"),
    [
        ({}, "Argument 'text' is missing; it should be text."),
        ({"text": None}, "Argument 'text' should be text; got null."),
        ({"text": True}, "Argument 'text' should be text; got true."),
        ({"text": "a", "count": "many"}, "Argument 'count' should be a whole number; got \"many\"."),
        ({"text": "a", "count": 1.5}, "Argument 'count' should be a whole number; got 1.5."),
        ({"text": "a", "count": True}, "Argument 'count' should be a whole number; got true."),
        ({"text": "a", "ratio": False}, "Argument 'ratio' should be a number; got false."),
        ({"text": "a", "flag": 1}, "Argument 'flag' should be true or false; got 1."),
        ({"text": "a", "tags": "a, b"}, "Argument 'tags' should be a list; got \"a, b\"."),
        ({"text": "a", "options": []}, "Argument 'options' should be an object; got []."),
        ({"text": "a", "mode": "faster"}, 'Argument \'mode\' should be "fast" or "slow"; got "faster".'),
        ({"text": "a", "either": []}, "Argument 'either' should be text or a whole number; got []."),
        ({"text": "a", "none": 1}, "Argument 'none' should not be given; got 1."),
        ({"text": "a", "row": {}}, "Argument 'row.cells' is missing."),
        ({"text": "a", "row": {"cells": [1, "x"]}}, "Argument 'row.cells[1]' should be a whole number; got \"x\"."),
        ({"text": "a", "rows": ["x", 1]}, "Argument 'rows[1]' should be an object; got 1."),
        ({"text": "a", "level": 0}, "Argument 'level' should be at least 1; got 0."),
        ({"text": "a", "level": 5}, "Argument 'level' should be less than 5; got 5."),
        ({"text": "a", "code": "a"}, "Argument 'code' should be text of at least 2 characters; got \"a\"."),
        ({"text": "a", "code": "abcd"}, "Argument 'code' should be text of at most 3 characters; got \"abcd\"."),
        ({"text": "a", "pair": [1]}, "Argument 'pair' should be a list of at least 2; got [1]."),
        ({"text": "a", "pair": [1, 2, 3]}, "Argument 'pair' should be a list of at most 2; got [1, 2, 3]."),
        ({"text": "a", "share": 0}, "Argument 'share' should be more than 0; got 0."),
        ({"text": "a", "share": 2}, "Argument 'share' should be at most 1; got 2."),
        ({"text": "a", "yes": "no"}, 'Argument \'yes\' should be "True" or "False" or "any"; got "no".'),
        ({"text": "a", "size": 0}, "Argument 'size' should be at least 1; got 0."),
        ({"text": "a", "map": {"x": "y"}}, "Argument 'map.x' should be a whole number; got \"y\"."),
        ({"text": "a", "closed": {"b": 1}}, "Argument 'closed.b' is not a known name; got 1."),
        ({"text": "a", "one": {}}, "Argument 'one.a' is missing."),
        ({"text": "a", "free": [1]}, "Argument 'free' should be text or an object; got [1]."),
    ],
)
def test_invalid_arguments_are_explained(given: dict[str, Any], expected: str) -> None:
    """The error names the arguments that do not match the schema and states what was expected."""
    with pytest.raises(BadArguments) as caught:
        validate_against(SCHEMA, given, "demo")
    assert str(caught.value) == expected


def test_undescribed_arguments_are_rejected_by_default() -> None:
    """An argument that the schema does not describe is rejected unless the schema allows it."""
    text = {"properties": {"text": {"type": "string"}}}
    with pytest.raises(BadArguments, match=r"demo has no parameter 'extra'; its parameters are text\."):
        validate_against(text, {"text": "a", "extra": 1}, "demo")
    for more in ({"additionalProperties": True}, {"patternProperties": {"^e": {}}}, {"allOf": [{}]}):
        assert validate_against({**text, **more}, {"extra": 1}, "demo") == {"extra": 1}
    assert validate_against({}, {"extra": 1}, "demo") == {"extra": 1}
    with pytest.raises(BadArguments, match=r"demo has no parameter 'extra'; it takes no arguments\."):
        validate_against({"properties": {}}, {"extra": 1}, "demo")


def test_condition_on_all_arguments() -> None:
    """The error of a condition on the whole object refers to the arguments."""
    schema = {"properties": {"a": {}}, "anyOf": [{"type": "object", "enum": [{"a": 1}]}]}
    with pytest.raises(BadArguments, match=r"The arguments should be "):
        validate_against(schema, {"a": 2}, "demo")


def test_too_deeply_nested_arguments_are_rejected() -> None:
    """A value that is nested too deeply to be checked is rejected."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    schema = {
        "properties": {"a": {"$ref": "#/$defs/D"}},
        "$defs": {"D": {"type": "array", "items": {"$ref": "#/$defs/D"}}},
    }
    with pytest.raises(BadArguments, match=r"should not be nested so deeply"):
        validate_against(schema, {"a": deep}, "demo")


def chain(joining: Callable[[Any], Any], length: int) -> dict[str, Any]:
    """Return a schema whose only property leads through many linked definitions."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, length):
        definitions[f"d{number}"] = joining({"$ref": f"#/$defs/d{number - 1}"})
    return {"$defs": definitions, "properties": {"a": {"$ref": f"#/$defs/d{length - 1}"}}}


@pytest.mark.parametrize(
    "schema",
    [
        chain(lambda part: {"allOf": [part] * 4}, 40),
        chain(lambda part: {"anyOf": [part] * 4}, 40),
        chain(lambda part: {"oneOf": [part, {"allOf": [part] * 4}]}, 40),
        chain(lambda part: {"allOf": [part]}, 2_000),
        chain(lambda part: {"allOf": [part, {"maximum": 1}, {"$ref": "#"}]}, 400),
    ],
)
def test_nested_definitions_have_a_bounded_error(schema: dict[str, Any]) -> None:
    """Definitions with many or long reference chains raise a bounded error."""
    with pytest.raises(BadArguments) as caught:
        validate_against(schema, {"a": 2}, "demo")
    assert len(str(caught.value)) < 1_100


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_non_finite_number_is_rejected(value: float) -> None:
    """A number that JSON cannot represent is rejected."""
    with pytest.raises(BadArguments, match="should be a number"):
        validate_against({"properties": {"a": {"type": "number"}}}, {"a": value}, "demo")
