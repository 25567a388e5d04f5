"""Rewriting of JSON schemas for a receiver (pure).

A constraint that a receiver refuses is removed from the schema and stated in a description; the arguments and answers
that come back are validated against the original schema.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agentkit.tooling.strict_schema import LISTED, NAMED, SINGLE, referred, with_plain_references

if TYPE_CHECKING:
    from agentkit.llm.compat.receivers import Receiver

Schema = dict[str, Any]

_ALTERNATIVES = ("anyOf", "oneOf")
_ROOT_KEYWORDS = (*_ALTERNATIVES, "allOf", "enum", "const", "not", "if", "then", "else")
"""Keywords that some servers refuse at the root of a tool's schema."""

_SILENT = frozenset(
    (
        *("additionalProperties", "$schema", "$id", "$comment", "$anchor", "prefixItems", "discriminator", "examples"),
        *("unevaluatedProperties", "unevaluatedItems", "deprecated", "readOnly", "writeOnly"),
    )
)
"""Keywords that can be removed without a note: they do not describe the value, or it is described in another way."""

_MAX_NOTE_CHARS = 600
_MAX_CHOICES_NOTED = 100
_MAX_MERGED_LEVELS = 8
_MAX_EXPANDED_LEVELS = 3
"""How often a recursive definition is repeated where references are refused."""

_DIGEST_CHARS = 8
_MAX_NAME_CHARS = 64


def root_object(schema: Mapping[str, Any]) -> tuple[Schema, str]:
    """The schema of a tool's arguments with a plain object at its root, and a note on the constraints removed.

    The properties of all alternatives are offered; only those that every alternative requires stay required.
    """
    merged = _merged(dict(schema), schema, 0)
    note = _note({name: schema[name] for name in _ROOT_KEYWORDS if name in schema and name != "allOf"})
    kept = {name: value for name, value in merged.items() if name not in _ROOT_KEYWORDS and name != "$ref"}
    return {**kept, "type": "object", "properties": kept.get("properties", {})}, note


def _merged(schema: Schema, root: Any, level: int) -> Schema:
    """The schema with the properties and required names of its references, `allOf`, `anyOf` and `oneOf`."""
    if level > _MAX_MERGED_LEVELS:
        return schema
    parts = [referred(str(schema["$ref"]), root)] if "$ref" in schema else []
    everywhere = [_merged(each, root, level + 1) for each in (*parts, *schema.get("allOf", ())) if _is_open(each)]
    groups = [
        [_merged(each, root, level + 1) for each in schema.get(name, ()) if _is_open(each)] for name in _ALTERNATIVES
    ]
    if not everywhere and not any(groups):
        return schema
    alternatives = [each for group in groups for each in group]
    named = [each.get("properties", {}) for each in (schema, *everywhere, *alternatives)]
    names = dict.fromkeys(name for properties in named for name in properties)
    new = {**schema, "properties": {name: _either(p[name] for p in named if name in p) for name in names}}
    required = [*schema.get("required", ()), *(name for each in everywhere for name in each.get("required", ()))]
    required += [name for group in groups for name in _in_all(group)]
    if required:
        new["required"] = list(dict.fromkeys(required))
    closed = [each.get("additionalProperties") for each in (*everywhere, *alternatives)]
    if new.get("additionalProperties") is not False and all(each is False for each in closed):
        new["additionalProperties"] = False
    return new


def _is_open(schema: Any) -> bool:
    """Whether an alternative describes an object; others, such as null, cannot be the arguments of a tool."""
    return isinstance(schema, dict) and schema.get("type", "object") == "object"


def _in_all(schemas: list[Schema]) -> list[str]:
    """The names that all the schemas require."""
    lists = [each.get("required", []) for each in schemas]
    return [name for name in lists[0] if all(name in each for each in lists)] if lists else []


def _either(schemas: Iterable[Any]) -> Any:
    """One schema that accepts what any of the schemas accepts."""
    distinct = list({json.dumps(each, sort_keys=True): each for each in schemas}.values())
    if len(distinct) == 1:
        return distinct[0]
    choices = [_choices(each) for each in distinct]
    if all(choices):
        return {"enum": list(dict.fromkeys(choice for each in choices for choice in each))}
    return {"anyOf": distinct}


def _choices(schema: Any) -> list[str]:
    """The choices of a schema of texts, if it states nothing else."""
    if not isinstance(schema, dict) or not schema.keys() <= {"type", "const", "enum"}:
        return []
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return choices if all(isinstance(each, str) for each in choices) else []


def _note(constraints: Mapping[str, Any]) -> str:
    """A sentence in brackets on removed constraints; empty if there are no constraints."""
    if not constraints:
        return ""
    written = "; ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in constraints.items())
    return f"(Must fit {written})" if len(written) <= _MAX_NOTE_CHARS else f"(Must fit {written[:_MAX_NOTE_CHARS]}…)"


class SchemaRewriter:
    """Rewrites one schema for a receiver. `renamed` maps the names of properties that were changed to the originals."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.renamed: dict[str, str] = {}
        self._root: Schema = {}
        self._open: list[str] = []

    def arguments(self, schema: Mapping[str, Any]) -> tuple[Schema, str]:
        """The schema of a tool's arguments, and a note on the constraints removed from its root."""
        plain, note = root_object(with_plain_references(dict(schema)))
        return self.whole(plain), note

    def whole(self, schema: Mapping[str, Any]) -> Schema:
        """A schema with the rules applied at every level."""
        self._root = with_plain_references(dict(schema))
        body = self._root
        if not self._receiver.references:
            body = {name: value for name, value in body.items() if name != "$defs"}
        rewritten: Schema = self._node(body)
        return rewritten

    def _node(self, schema: Any) -> Any:
        if schema is True:
            return {}
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema and not self._receiver.references:
            return self._expanded(schema)
        new = dict(schema)
        notes = [change(new) for change in (self._adapt_types, self._adapt_choices, self._adapt_format)]
        self._adapt_arrays(new)
        notes.append(self._drop_refused(new))
        if text := " ".join(filter(None, notes)):
            new["description"] = f"{new.get('description', '')} {text}".strip()
        if self._receiver.single_types and "anyOf" in new:
            new = _bare_alternatives(new)
        self._descend(new)
        return new

    def _expanded(self, schema: Schema) -> Any:
        """A reference replaced by its target; recursion ends after a few levels with any value."""
        name = schema["$ref"]
        others = {key: value for key, value in schema.items() if key != "$ref"}
        target = referred(str(name), self._root)
        if not isinstance(target, dict) or self._open.count(name) >= _MAX_EXPANDED_LEVELS:
            kind = {"type": target["type"]} if isinstance(target, dict) and isinstance(target.get("type"), str) else {}
            return self._node({**kind, **others})
        self._open.append(name)
        try:
            return self._node({**{key: value for key, value in target.items() if key != "$defs"}, **others})
        finally:
            self._open.pop()

    def _adapt_types(self, new: Schema) -> str:
        """Replace a list of types by alternatives, and `oneOf` by `anyOf`, where the originals are refused."""
        refused = self._receiver.keywords
        if "oneOf" in refused and "oneOf" in new and "anyOf" not in new:
            new["anyOf"] = new.pop("oneOf")
        if "allOf" in refused and len(new.get("allOf", ())) == 1 and isinstance(new["allOf"][0], dict):
            only = new.pop("allOf")[0]
            new.update({key: value for key, value in only.items() if key not in new})
        kinds = new.get("type")
        if not self._receiver.single_types or not isinstance(kinds, list):
            return ""
        del new["type"]
        if len(kinds) == 1:
            new["type"] = kinds[0]
        elif "anyOf" not in new:
            about: Schema = {name: new.pop(name) for name in ("title", "description", "default") if name in new}
            inner = dict(new)
            new.clear()
            new.update(about, anyOf=[_of_type(inner, kind) for kind in kinds])
        return ""

    def _adapt_choices(self, new: Schema) -> str:
        """Move choices that are not texts to the description where they are refused."""
        if not self._receiver.string_choices or not new.keys() & {"enum", "const"}:
            return ""
        choices = [new.pop("const")] if "const" in new else new["enum"]
        new.pop("enum", None)
        texts = [each for each in choices if isinstance(each, str) and each]
        kind = new.get("type", "string")
        if len(texts) == len([each for each in choices if each is not None]) and kind == "string":
            string = {"type": "string", "enum": texts}
            new.update({"anyOf": [string, {"type": "null"}]} if None in choices else string)
            if "anyOf" in new:
                new.pop("type", None)
            return ""
        shown = ", ".join(json.dumps(each, ensure_ascii=False) for each in choices[:_MAX_CHOICES_NOTED])
        return f"(One of {shown})"

    def _adapt_format(self, new: Schema) -> str:
        accepted = self._receiver.formats
        if accepted is None or "format" not in new or new["format"] in accepted:
            return ""
        return f"(format: {new.pop('format')})"

    def _adapt_arrays(self, new: Schema) -> None:
        """State what the items of an array are: anything, or what a fixed tuple has in its places."""
        kinds = new.get("type")
        is_array = "array" in (kinds if isinstance(kinds, list) else [kinds]) or "prefixItems" in new
        if not is_array or isinstance(new.get("items"), dict):
            return
        places = new.get("prefixItems", ())
        if new.get("items") is False:
            new.setdefault("maxItems", len(places))
        new["items"] = _either(places) if places else {}

    def _drop_refused(self, new: Schema) -> str:
        refused = self._receiver.keywords & new.keys()
        dropped = {name: new.pop(name) for name in sorted(refused)}
        return _note({name: value for name, value in dropped.items() if name not in _SILENT})

    def _descend(self, new: Schema) -> None:
        for key in new.keys() & {*NAMED, "definitions"}:
            new[key] = {name: self._node(inner) for name, inner in new[key].items()}
        for key in new.keys() & {*LISTED}:
            new[key] = [self._node(inner) for inner in new[key]]
        for key in new.keys() & {*SINGLE}:
            new[key] = new[key] if isinstance(new[key], bool) else self._node(new[key])
        if "properties" in new:
            self._rename_properties(new)

    def _rename_properties(self, new: Schema) -> None:
        """Rename properties whose names are refused; their descriptions state the original names."""
        pattern = self._receiver.property_names
        changed = {name: name for name in new["properties"] if pattern and not re.fullmatch(pattern, name)}
        if not changed:
            return
        changed = {name: sendable_property(name) for name in changed}
        self.renamed |= {sent: name for name, sent in changed.items()}
        new["properties"] = {
            changed.get(name, name): _titled(inner, name) if name in changed else inner
            for name, inner in new["properties"].items()
        }
        if "required" in new:
            new["required"] = [changed.get(name, name) for name in new["required"]]


def _bare_alternatives(schema: Schema) -> Schema:
    """Move the keywords next to `anyOf` into the alternatives: Google's servers refuse them next to it."""
    inner = {name: value for name, value in schema.items() if name not in ("anyOf", "description", "$defs")}
    described = {"description": schema["description"]} if "description" in schema else {}
    choices = [{**inner, **each} if each != {"type": "null"} else each for each in schema["anyOf"]]
    first, *others = choices
    return {"anyOf": [{**first, **described} if described and "description" not in first else first, *others]}


def _of_type(schema: Schema, kind: Any) -> Schema:
    """A schema for one of several types; null has no constraints."""
    if kind == "null":
        return {"type": "null"}
    choices = {"enum": [each for each in schema["enum"] if each is not None]} if "enum" in schema else {}
    return {**schema, **choices, "type": kind}


def _titled(schema: Any, name: str) -> Any:
    """A property's schema whose description starts with the original name."""
    if not isinstance(schema, dict):
        return schema
    return {**schema, "description": f"{name}: {schema.get('description', '')}".removesuffix(": ").strip()}


def sendable_property(name: str) -> str:
    """A name of the characters that every provider accepts. A digest makes it distinct, and reversible by a table."""
    import hashlib

    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    folded = unicodedata.normalize("NFKD", name.replace("đ", "d").replace("Đ", "D")).encode("ascii", "ignore").decode()
    readable = re.sub(r"[^a-zA-Z0-9]+", "_", folded).strip("_")[: _MAX_NAME_CHARS - _DIGEST_CHARS - 1]
    return f"{readable or 'p'}_{digest}"


def keywords_in(schema: Any) -> Iterator[str]:
    """Yield the keywords used anywhere in a schema."""
    if isinstance(schema, dict):
        yield from schema
        for key in schema.keys() & {*NAMED, "definitions"}:
            for inner in schema[key].values():
                yield from keywords_in(inner)
        for key in schema.keys() & {*LISTED}:
            for inner in schema[key]:
                yield from keywords_in(inner)
        for key in schema.keys() & {*SINGLE}:
            yield from keywords_in(schema[key])
