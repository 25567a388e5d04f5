"""How are Python types described to models? As pydantic writes schemas, but with what a model needs to know."""

from __future__ import annotations

import contextlib
import enum
import inspect
import json
from typing import Any, ForwardRef, get_type_hints

from agentkit.tooling.functions.hints import text_of
from agentkit.tooling.functions.signature import UNRESOLVABLE, Documentation, documented
from agentkit.tooling.strict import PYTHON, SUMMED, Schema

_NO_SCHEMAS = {"default", "metadata", "serialization"}
"""Where a core schema holds anything else."""


def generator(base: type) -> Any:
    """The class that writes schemas, made of pydantic's own.

    Named tuples are objects, because names tell a model what a place in a list does not. Fields have the texts that
    stand beside their types or in the docstring of their class. Choices keep their names and Python values under the
    keyword PYTHON, until the schema is tidied; flags, which may be added up, are numbers.
    """
    return type(
        "Schemas",
        (base,),
        {
            "ignored_warning_kinds": {"non-serializable-default", "skipped-choice"},
            **{method.__name__.removeprefix("_"): method for method in _METHODS},
            # Before version 2.13 of pydantic named tuples are the arguments of a function that has no other metadata.
            "arguments_schema": lambda self, schema: super(type(self), self).arguments_schema(
                {**schema, "metadata": {}}
            ),
        },
    )


def refuse_lazy(core_schema: Any) -> None:
    """Raise TypeError where pydantic's core schema would give one-shot iterators, which a judge uses up unchecked."""
    if _is_lazy(core_schema):
        raise TypeError("a generator can be read only once; let it be a list")


def _is_lazy(schema: Any) -> bool:
    if isinstance(schema, dict):
        skipped = _NO_SCHEMAS if isinstance(schema.get("type"), str) else ()
        inner = (value for key, value in schema.items() if key not in skipped)
        return schema.get("type") == "generator" or any(map(_is_lazy, inner))
    return isinstance(schema, list | tuple) and any(map(_is_lazy, schema))


def _named_tuple_schema(self: Any, schema: Any) -> Schema:
    fields = {field["name"]: field["schema"] for field in schema["fields"]}
    properties = {name: self.generate_inner(inner) for name, inner in fields.items()}
    required = [name for name, inner in fields.items() if inner["type"] != "default"]
    node = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return _with_texts(node, schema["cls"])


def _dataclass_schema(self: Any, schema: Any) -> Schema:
    return _with_texts(super(type(self), self).dataclass_schema(schema), schema["cls"])


def _dataclass_args_schema(self: Any, schema: Any) -> Schema:
    taken = [field for field in schema["fields"] if field.get("init", True)]
    return _written(super(type(self), self).dataclass_args_schema({**schema, "fields": taken}))


def _model_schema(self: Any, schema: Any) -> Schema:
    return _with_texts(super(type(self), self).model_schema(schema), schema["cls"])


def _typed_dict_schema(self: Any, schema: Any) -> Schema:
    return _with_texts(super(type(self), self).typed_dict_schema(schema), schema.get("cls", dict))


def _enum_schema(self: Any, schema: Any) -> Schema:
    node = _written(super(type(self), self).enum_schema(schema))
    named = [(member.name, member) for member in schema["members"]]
    return _flags(node, schema["cls"]) if issubclass(schema["cls"], enum.Flag) else _with_choices(node, named)


def _literal_schema(self: Any, schema: Any) -> Schema:
    node = _written(super(type(self), self).literal_schema(schema))
    return _with_choices(node, [(getattr(each, "name", ""), each) for each in schema["expected"]])


_METHODS = (
    *(_named_tuple_schema, _dataclass_schema, _dataclass_args_schema, _model_schema, _typed_dict_schema),
    *(_enum_schema, _literal_schema),
)


def _written(node: Any) -> Schema:
    return dict(node)


def _with_texts(node: Any, kind: type) -> Schema:
    """The node of an object with what its class says of its fields, beside their types or in its docstring."""
    fields = {**getattr(kind, "__annotations__", {}), **getattr(kind, "model_fields", {})}
    names = {getattr(field, "alias", None) or name: name for name, field in fields.items()}
    docstring = kind.__doc__ or ""
    documentation = documented(docstring, list(fields)) if "\n" in docstring else Documentation(docstring)
    texts = {**documentation.parameters, **_annotated_texts(kind)}
    written: Schema = dict(node)
    if "properties" in written:
        written["properties"] = {
            name: {"description": texts[names[name]], **inner} if texts.get(names.get(name, "")) else inner
            for name, inner in written["properties"].items()
        }
    if documentation.parameters and written.get("description") == inspect.cleandoc(docstring):
        written["description"] = documentation.text
    return written


def _annotated_texts(kind: type) -> dict[str, str]:
    lines = [getattr(each, "__annotations__", {}) for each in reversed(kind.__mro__)]
    annotations = {name: hint for each in lines for name, hint in each.items()}
    if any(isinstance(hint, str | ForwardRef) for hint in annotations.values()):
        # names of other places may be unknown here, although pydantic knew them
        with contextlib.suppress(*UNRESOLVABLE):
            annotations = get_type_hints(kind, include_extras=True)
    texts = {name: text_of(hint) for name, hint in annotations.items()}
    return {name: text for name, text in texts.items() if text}


def _flags(node: Schema, kind: type[enum.Flag]) -> Schema:
    """The node of flags, which may be added up: a number whose parts have names."""
    kept = {key: node[key] for key in node if key != "enum"}
    return {**kept, "type": "integer", "minimum": 0, PYTHON: list(kind.__members__.items()), SUMMED: True}


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
