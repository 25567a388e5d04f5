"""Unions of object types: a tag identifies the member, so that it is validated as the member it names.

The functions work on pydantic's core schemas and JSON schemas, which are plain dictionaries. Without a tag, the member
is selected by the names of the fields. A member refuses unknown fields: otherwise one without required fields would
accept any object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.tooling.strict_schema import Schema

NO_SCHEMAS = frozenset({"default", "metadata", "serialization"})
"""Keys of a core schema that do not contain schemas."""

TAGGED = {"agentkit_tagged": True}
"""Serialisation context in which the members of unions are written with their tags."""

_MEMBERS = "x-agentkit-members"
"""JSON schema keyword that holds the name of the tag and its value for each member, until `with_tags` applies it."""

_TAG_NAMES = ("type", "kind", "variant", "answer_type")
_OTHER_TAG = ""
"""The tag of the members that are not objects."""

_WRAPPERS = frozenset({"function-before", "function-after", "function-wrap", "default", "definitions"})
_OBJECTS = frozenset({"model-fields", "dataclass-args", "typed-dict", "arguments"})
_AMBIGUOUS = frozenset(
    {"dict", "any", "json", "custom-error", "function-plain", "is-instance", "chain", "lax-or-strict"}
)
"""Types of core schemas that can accept the fields of any member; unions with one are left as they are."""


@dataclass(frozen=True, slots=True)
class Member:
    """An object type in a union: its tag, its class, its fields, and the values of those with fixed ones."""

    tag: str
    kind: type | None
    names: frozenset[str]
    required: frozenset[str]
    fixed: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    is_open: bool = False

    def accepts(self, value: Mapping[str, Any]) -> bool:
        """Whether an object has all required fields, no unknown ones, and the fixed values."""
        known = self.is_open or value.keys() <= self.names
        return known and self.required <= value.keys() and self.matches_fixed_values(value)

    def matches_fixed_values(self, value: Mapping[str, Any]) -> bool:
        """Whether the fields with fixed values, where given, have one of them."""
        return all(value[name] in allowed for name, allowed in self.fixed.items() if name in value)


class Discriminator:
    """Selects the member of a union for a value; None if that is not clear."""

    def __init__(self, name: str, members: Sequence[Member], *, has_other_types: bool) -> None:
        self.name, self.members, self.has_other_types = name, members, has_other_types
        self.__name__ = name  # read by pydantic

    def __call__(self, value: Any) -> str | None:
        """The tag of the member. An object without a tag is selected by its fields."""
        if not isinstance(value, Mapping):
            instance_tag = next((each.tag for each in self.members if each.kind and isinstance(value, each.kind)), None)
            return instance_tag or (_OTHER_TAG if self.has_other_types else self.members[0].tag)
        if self.name in value:
            tag = value[self.name]
            return next((each.tag for each in self.members if tag in self.values(each)), None)
        return self._best_match(value)

    def values(self, member: Member) -> Sequence[Any]:
        """The values of the tag that name a member: its own tag, or the fixed values of its field."""
        return member.fixed.get(self.name, (member.tag,))

    @property
    def expected_tags(self) -> str:
        """The values of the tag, as written in an error message."""
        return " or ".join(json.dumps(value, default=str) for each in self.members for value in self.values(each))

    def _best_match(self, value: Mapping[str, Any]) -> str | None:
        """The only member that fits; without one, the one with the most of these fields and the fewest missing."""
        accepted = [each.tag for each in self.members if each.accepts(value)]
        if accepted:
            return accepted[0] if len(accepted) == 1 else None
        ranking = sorted(
            (
                not each.matches_fixed_values(value),
                -len(each.names & value.keys()),
                len(each.required - value.keys()),
                place,
            )
            for place, each in enumerate(self.members)
        )
        return None if ranking[0][:-1] == ranking[1][:-1] else self.members[ranking[0][-1]].tag


def discriminate(schema: Schema) -> Schema | None:
    """A core schema in which unions of several object types select their member; None if it has no such union."""
    walker = _Walker({each["ref"]: each for each in _definitions(schema)})
    new = walker.convert(schema)
    return _close_definitions(new, walker.closed) if walker.has_unions else None


def json_members(generator: Any, schema: Schema) -> Schema:
    """The JSON schema of a union that `discriminate` made, with its tags still under a separate keyword."""
    union_schema: Schema = {"anyOf": [generator.generate_inner(choice) for choice in schema["choices"].values()]}
    discriminator: Discriminator = schema["metadata"]["agentkit_union"]
    if discriminator.name not in discriminator.members[0].names:
        union_schema[_MEMBERS] = [discriminator.name, [tag or None for tag in schema["choices"]]]
    return union_schema


def with_tags(schema: Schema) -> Schema:
    """Add the tag of each member of a union to its JSON schema."""
    nodes = [node for node in _nodes(schema) if _MEMBERS in node]
    if not nodes:
        return schema
    definitions: Schema = schema.setdefault("$defs", {})
    for node in nodes:
        name, tags = node.pop(_MEMBERS)
        for place, tag in enumerate(tags):
            if tag is not None:
                node["anyOf"][place] = _with_tag(node["anyOf"][place], name, tag, definitions)
    _prune(schema)
    return schema


def _with_tag(node: Schema, name: str, tag: str, definitions: Schema) -> Schema:
    """The JSON schema of a member with its tag. A definition stays one, as it can contain itself."""
    target = str(node.get("$ref", "")).removeprefix("#/$defs/")
    inner = definitions.get(target, node)
    properties = {name: {"const": tag, "type": "string"}, **inner.get("properties", {})}
    new = {**inner, "properties": properties, "required": [name, *inner.get("required", ())]}
    if new.get("additionalProperties") is not True:
        new["additionalProperties"] = False
    if not target:
        return new
    definitions[f"{target}_with_{name}"] = new
    return {**node, "$ref": f"#/$defs/{target}_with_{name}"}


def _prune(schema: Schema) -> None:
    """Remove the definitions that nothing refers to any more."""
    definitions: Schema = schema.pop("$defs")
    used: dict[str, Any] = {}
    pending = [schema]
    for node in pending:
        for name in (str(each.get("$ref", "")).removeprefix("#/$defs/") for each in _nodes(node)):
            if name in definitions and name not in used:
                used[name] = definitions[name]
                pending.append(definitions[name])
    if used:
        schema["$defs"] = {name: used[name] for name in definitions if name in used}


def _nodes(schema: Any) -> Iterator[Schema]:
    """The dictionaries in a JSON schema."""
    if isinstance(schema, dict):
        yield schema
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for each in inner:
        yield from _nodes(each)


class _Walker:
    """Replaces the unions in a core schema; `closed` collects the references to members that refuse unknown fields."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self.has_unions = False
        self.closed: set[str] = set()

    def convert(self, schema: Any) -> Any:
        if isinstance(schema, list | tuple):
            return type(schema)(map(self.convert, schema))
        if not isinstance(schema, dict):
            return schema
        skipped = NO_SCHEMAS if isinstance(schema.get("type"), str) else ()
        new = {key: value if key in skipped else self.convert(value) for key, value in schema.items()}
        return self._union(new) if new.get("type") == "union" else new

    def _union(self, node: Schema) -> Schema:
        """The union as a tagged one, if at least two of its members are objects that can be distinguished."""
        choices = [each[0] if isinstance(each, tuple) else each for each in node["choices"]]
        objects = [(choice, inner) for choice in choices if (inner := self._object_in(choice)) is not None]
        others = [choice for choice in choices if self._object_in(choice) is None]
        if len(objects) < 2 or any(self._unwrap(other)["type"] in _AMBIGUOUS for other in others):
            return node
        self.has_unions = True
        members = _members([self._member(choice, inner) for choice, inner in objects])
        discriminator = Discriminator(_tag_name(members), members, has_other_types=bool(others))
        tagged = {
            member.tag: self._choice(choice, discriminator.name, member)
            for (choice, _), member in zip(objects, members, strict=True)
        }
        if others:
            tagged[_OTHER_TAG] = others[0] if len(others) == 1 else {**node, "choices": others}
        return {
            "type": "tagged-union",
            "choices": tagged,
            "discriminator": discriminator,
            "custom_error_type": "agentkit_union",
            "custom_error_message": "Unclear member",
            "custom_error_context": {
                "discriminator": repr(discriminator.name),
                "agentkit_union": discriminator.expected_tags,
            },
            "metadata": {**node.get("metadata", {}), "agentkit_union": discriminator},
            **{key: node[key] for key in ("ref", "serialization") if key in node},
        }

    def _choice(self, choice: Schema, name: str, member: Member) -> Schema:
        """The core schema of a member that refuses unknown fields, and reads and writes the tag."""
        inner = choice if member.is_open else self.forbid_extra(choice)
        if name in member.names:
            return inner
        serialization = {"type": "function-wrap", "function": _TagWriter(name, member.tag), "info_arg": True}
        function = {"type": "no-info", "function": _TagRemover(name)}
        return {
            "type": "function-before",
            "function": function,
            "schema": inner,
            "serialization": {**serialization, "schema": inner},
        }

    def forbid_extra(self, schema: Schema) -> Schema:
        """The core schema of an object with unknown fields forbidden."""
        if schema["type"] == "definition-ref":
            self.closed.add(schema["schema_ref"])
            return schema
        if schema["type"] in _OBJECTS:
            return {**schema, "extra_behavior": "forbid"} if schema["type"] != "arguments" else schema
        for key in ("schema", "arguments_schema"):
            if key in schema:
                return {**schema, key: self.forbid_extra(schema[key])}
        return schema

    def _unwrap(self, schema: Schema) -> Schema:
        while schema["type"] in _WRAPPERS or schema["type"] in ("definition-ref", "nullable"):
            schema = self._definitions[schema["schema_ref"]] if "schema_ref" in schema else schema["schema"]
        return schema

    def _object_in(self, choice: Schema) -> Schema | None:
        """The core schema with the fields of an object type; None for other types."""
        inner = self._unwrap(choice)
        if inner["type"] in ("model", "dataclass") or (inner["type"] == "call" and "arguments_schema" in inner):
            inner = self._unwrap(inner.get("schema") or inner["arguments_schema"])
        return inner if inner["type"] in _OBJECTS else None

    def _member(self, choice: Schema, inner: Schema) -> Member:
        outer = self._unwrap(choice)
        kind = outer.get("cls") or outer.get("function")
        field_schemas = inner["arguments_schema"] if inner["type"] == "arguments" else inner["fields"]
        named = (
            field_schemas.items()
            if isinstance(field_schemas, Mapping)
            else ((each["name"], each) for each in field_schemas)
        )
        fields = [(name, each, self._unwrap(each["schema"])) for name, each in named if each.get("init", True)]
        total = inner.get("total", True)
        is_open = "allow" in (inner.get("extra_behavior"), _config_of(outer, inner).get("extra_fields_behavior"))
        return Member(
            getattr(kind, "__name__", "object"),
            kind if isinstance(kind, type) and inner["type"] != "typed-dict" else None,
            frozenset(each for name, given, _ in fields for each in (name, *_aliases(given))),
            frozenset(_schema_name(name, given) for name, given, _ in fields if _is_required(given, total=total)),
            {
                _schema_name(name, given): inner_schema["expected"]
                for name, given, inner_schema in fields
                if inner_schema["type"] == "literal"
            },
            is_open=is_open,
        )


class _TagRemover:
    """Removes the tag from an object before its member validates it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, value: Any) -> Any:
        if isinstance(value, Mapping) and self._name in value:
            return {key: each for key, each in value.items() if key != self._name}
        return value


class _TagWriter:
    """Adds the tag to a serialised member, in the context TAGGED."""

    def __init__(self, name: str, tag: str) -> None:
        self._name, self._tag = name, tag

    def __call__(self, value: Any, serialise: Any, info: Any) -> Any:
        data = serialise(value)
        is_tagged = info.context == TAGGED and isinstance(data, dict)
        return {self._name: self._tag, **data} if is_tagged else data


def _members(members: Sequence[Member]) -> list[Member]:
    """The members with distinct tags: those of equal classes are numbered."""
    numbered: list[Member] = []
    for member in members:
        number = sum(each.tag == member.tag or each.tag.startswith(f"{member.tag}_") for each in numbered)
        numbered.append(replace(member, tag=f"{member.tag}_{number + 1}") if number else member)
    return numbered


def _tag_name(members: Sequence[Member]) -> str:
    """The name of a field with distinct fixed values in all members, or of a tag that none of them has as a field."""
    for name in members[0].fixed:
        values = [value for member in members for value in member.fixed.get(name, ())]
        if all(name in member.fixed for member in members) and len(set(map(repr, values))) == len(values):
            return name
    used = frozenset[str]().union(*(member.names for member in members))
    return next((name for name in _TAG_NAMES if name not in used), "_" * (1 + max(map(len, used), default=0)))


def _aliases(field: Schema) -> Iterator[str]:
    """The other names under which a field is accepted."""
    alias = field.get("validation_alias", field.get("alias"))
    for each in alias if isinstance(alias, list) else [alias]:
        path = each[0] if isinstance(each, list) and each else each
        if isinstance(path, str):
            yield path


def _schema_name(name: str, field: Schema) -> str:
    """The name of a field in the JSON schema."""
    return next(_aliases(field), name)


def _is_required(field: Schema, *, total: bool) -> bool:
    return bool(field.get("required", total)) and field["schema"]["type"] != "default"


def _config_of(*nodes: Schema) -> Mapping[str, Any]:
    return {key: value for node in nodes for key, value in (node.get("config") or {}).items()}


def _definitions(schema: Schema) -> Iterable[Schema]:
    definitions: Iterable[Schema] = schema.get("definitions", ()) if schema["type"] == "definitions" else ()
    return definitions


def _close_definitions(schema: Schema, closed: set[str]) -> Schema:
    """The core schema with unknown fields forbidden in the definitions of members."""
    if not closed:
        return schema
    walker = _Walker({})
    definitions = [walker.forbid_extra(each) if each.get("ref") in closed else each for each in schema["definitions"]]
    return {**schema, "definitions": definitions}
