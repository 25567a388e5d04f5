"""Typed answers extracted from a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from agentkit.errors import BadResponse
from agentkit.llm.providers.offline.lexicon import words
from agentkit.llm.providers.offline.question_parser import Question
from agentkit.llm.providers.offline.validation import DATES, grounded, leaves, left_out, listed, repeated
from agentkit.llm.providers.offline.value_matching import definitions_of, is_said, plain_schema
from agentkit.messages import OutputSchema

MAX_TOKENS = 384
"""Token limit of a typed answer: a longer one would take the engine half a minute."""


class ExtractionForm:
    """A schema as a form for the engine. A schema that is not an object is wrapped in one."""

    def __init__(self, wanted: OutputSchema) -> None:
        self.name = wanted.name
        self._is_wrapped = wanted.schema.get("type") != "object"
        self._schema = _wrapped(wanted.schema) if self._is_wrapped else wanted.schema

    @cached_property
    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """The tools to offer to the engine: the form, then the form without required fields.

        If a required field is missing, the engine returns nothing, so that it is asked again for optional fields.
        """
        parameters = relaxed(self._schema)
        weaker = [{**parameters, "required": []}] if parameters.get("required") else []
        about = {"name": self.name, "description": self._schema.get("description", "")}
        return tuple({**about, "parameters": each} for each in (parameters, *weaker))

    def read(self, envelope: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The fields that the engine read, or None."""
        calls = envelope.get("function_calls") or envelope.get("suppressed_calls") or [{}]
        arguments: Mapping[str, Any] | None = calls[0].get("arguments")
        return arguments

    def settled(self, read: Mapping[str, Any], envelope: Mapping[str, Any], text: str) -> Any:
        """The value, if all of it follows from the text. Raises BadResponse with the fields that do not."""
        fields = listed(completed(read, self._schema, self._schema), self._schema, self._schema, text)
        if absent := absent_fields(fields, self._schema):
            raise BadResponse(f"The offline model does not find all of {self.name} in the text: {', '.join(absent)}.")
        if lost := left_out(fields, self._schema, text):
            raise BadResponse(
                f"The offline model read only a part of {self.name} in the text; it left out: {', '.join(lost)}."
            )
        confidence = envelope.get("confidence") or 0
        doubtful = doubtful_fields(fields, self._schema, text) + repeated(fields, self._schema, text)
        if confidence < _LEAST_CHOOSING:
            doubtful += chosen_fields(fields, self._schema, text)
        if doubtful or confidence < _LEAST_CONFIDENCE:
            named = f": {', '.join(dict.fromkeys(doubtful))}" if doubtful else ""
            raise BadResponse(f"The offline model could not read {self.name} reliably from the text{named}.")
        return fields["value"] if self._is_wrapped else fields


def completed(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """Set required nullable fields that were not found to None.

    The engine writes an empty text, an empty list or null for values that it does not find; these are removed.
    """
    schema = plain_schema(schema, root)
    if isinstance(value, list):
        return [completed(each, schema.get("items") or {}, root) for each in value]
    if not isinstance(value, Mapping):
        return value
    properties = schema.get("properties") or {}
    found = {
        name: completed(each, properties.get(name, {}), root)
        for name, each in value.items()
        if each not in ("", [], None)
    }
    absent = [name for name in schema.get("required") or () if name not in found and _nullable(properties.get(name))]
    return {**found, **dict.fromkeys(absent)}


def relaxed(schema: Any) -> Any:
    """The schema in the form that works best with the engine.

    Nullable fields are not required, because the engine omits values that it does not find; keywords are in the order
    that it expects.
    """
    if isinstance(schema, list):
        return [relaxed(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    is_schema = isinstance(schema.get("type"), str | list)
    keys = sorted(schema, key=lambda key: _KEYWORDS.get(key, len(_KEYWORDS))) if is_schema else schema
    parts = {key: relaxed(schema[key]) for key in keys if (key, schema[key]) != ("additionalProperties", False)}
    if isinstance(needed := schema.get("required"), list):
        properties = schema.get("properties") or {}
        parts["required"] = [name for name in needed if not _nullable(properties.get(name))]
    return parts


def _nullable(schema: Any) -> bool:
    variants = schema.get("anyOf", [schema]) if isinstance(schema, Mapping) else []
    types = [each.get("type") for each in variants]
    return any("null" in (kind if isinstance(kind, list) else [kind]) for kind in types)


def absent_fields(fields: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """The required fields that were not found in a text."""
    return [name for name in schema.get("required") or () if name not in fields]


def doubtful_fields(fields: Mapping[str, Any], schema: Mapping[str, Any], text: str) -> list[str]:
    """The fields whose value does not occur in the text, including dates."""
    question = Question(text)
    return [
        name
        for name, value, inner in _found(fields, schema)
        if not grounded(value, question, inner, schema)
        or not all(is_said(leaf, text) for leaf, kind in leaves(value, inner, schema) if kind.get("format") in DATES)
    ]


def chosen_fields(fields: Mapping[str, Any], schema: Mapping[str, Any], text: str) -> list[str]:
    """The fields with an enum or boolean value for which the text contains no word."""
    said = set(words(text))
    return [
        name
        for name, value, inner in _found(fields, schema)
        for leaf, kind in leaves(value, inner, schema)
        if isinstance(leaf, bool) or ("enum" in kind and not set(words(str(leaf).replace("_", " "))) <= said)
    ]


def _found(fields: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    properties = schema.get("properties") or {}
    return ((name, value, properties.get(name, {})) for name, value in fields.items() if value is not None)


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Wrap a schema that is not an object in an object: the engine fills objects only."""
    return {"type": "object", "properties": {"value": schema}, "required": ["value"], **definitions_of(schema)}


# A value read with low confidence is correct if all of it is in the text; a choice can rely on confidence only.
_LEAST_CONFIDENCE, _LEAST_CHOOSING = 0.05, 0.5
_KEYWORDS = {key: place for place, key in enumerate(("type", "description", "enum", "properties", "items", "required"))}
