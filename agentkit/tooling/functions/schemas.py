"""How are Python types described to models? As pydantic writes schemas, but with what a model needs to know."""

from __future__ import annotations

import json
from typing import Any

from agentkit.tooling.strict import PYTHON, Schema


def generator(base: type) -> Any:
    """The class that writes schemas, made of pydantic's own.

    Named tuples are objects, because names tell a model what a place in a list does not. Choices
    keep their names and Python values under the keyword PYTHON, until the schema is tidied.
    """

    def named_tuple_schema(self: Any, schema: Any) -> Schema:
        fields = {field["name"]: field["schema"] for field in schema["fields"]}
        properties = {name: self.generate_inner(inner) for name, inner in fields.items()}
        required = [name for name, inner in fields.items() if inner["type"] != "default"]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def dataclass_args_schema(self: Any, schema: Any) -> Schema:
        taken = [field for field in schema["fields"] if field.get("init", True)]
        return _written(super(type(self), self).dataclass_args_schema({**schema, "fields": taken}))

    def enum_schema(self: Any, schema: Any) -> Schema:
        node = _written(super(type(self), self).enum_schema(schema))
        return _with_choices(node, [(member.name, member) for member in schema["members"]])

    def literal_schema(self: Any, schema: Any) -> Schema:
        node = _written(super(type(self), self).literal_schema(schema))
        return _with_choices(node, [(getattr(each, "name", ""), each) for each in schema["expected"]])

    methods = (named_tuple_schema, dataclass_args_schema, enum_schema, literal_schema)
    return type(
        "Schemas",
        (base,),
        {
            "ignored_warning_kinds": {"non-serializable-default"},
            **{method.__name__: method for method in methods},
            # Before version 2.13 of pydantic named tuples are the arguments of a function that has no other metadata.
            "arguments_schema": lambda self, schema: super(type(self), self).arguments_schema(
                {**schema, "metadata": {}}
            ),
        },
    )


def _written(node: Any) -> Schema:
    return dict(node)


def _with_choices(node: Schema, choices: list[tuple[str, Any]]) -> Schema:
    """The node of an enum or literal, with each choice once."""
    written = node["enum"] if "enum" in node else [node["const"]]
    places = {json.dumps(each): place for place, each in reversed(list(enumerate(written)))}
    kept = sorted(places.values())
    if not kept:
        raise TypeError("it has no values")
    node = {**node, PYTHON: [choices[place] for place in kept]}
    if "enum" in node:
        node["enum"] = [written[place] for place in kept]
    return node
