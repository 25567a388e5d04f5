"""References in JSON schemas, and their conversion to the strict form that providers enforce (pure)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

_PREFIX = "#/$defs/"
_PLAIN = re.compile(r"#(?:/\$defs/[a-zA-Z0-9_.-]+)?")
"""References that every provider resolves."""

_UNSAFE = re.compile(r"[^a-zA-Z0-9_.-]+")
_VALUE_KEYWORDS = frozenset({"default", "const", "enum", "examples", "example"})
"""Keywords that contain values, in which `$ref` is not a reference."""

_NAME_KEYWORDS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that map names, which can be the names of keywords, to schemas."""


def resolve_reference(reference: str, root: Any) -> Any:
    """Resolve a reference such as `#/$defs/Name` in the root; None if it does not exist.

    Tokens can be percent-encoded, and contain `~1` for a slash and `~0` for a tilde. A definition whose name contains
    an unescaped slash is found, too.
    """
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    section, _, rest = reference[len("#/") :].partition("/")
    named = root.get(section) if isinstance(root, dict) else None
    if isinstance(named, dict) and section in _NAME_KEYWORDS:
        for name in dict.fromkeys((rest, unquote(rest), _unescape(unquote(rest)))):
            if name in named:
                return named[name]
    for token in reference[len("#/") :].split("/"):
        root = _step(root, _unescape(unquote(token)))
    return root


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")


def _step(node: Any, token: str) -> Any:
    """The value of a key, or the entry at an index; None if it does not exist."""
    if isinstance(node, dict):
        return node.get(token)
    is_entry = isinstance(node, list) and token.isdecimal() and len(token) < len("1000") and int(token) < len(node)
    return node[int(token)] if is_entry else None


def with_plain_references(schema: Schema) -> Schema:
    """Rewrite references to the form `#/$defs/Name`, with a name of letters, digits, `_`, `.` and `-`.

    The targets of other references, such as `#/properties/a` or `#/definitions/x~1y`, are added to `$defs`. A
    reference without a target is removed: it allows any value. The schema itself is returned if nothing has to change.
    """
    unusual = {
        reference
        for reference in _references_in(schema)
        if not _PLAIN.fullmatch(reference) or resolve_reference(reference, schema) is None
    }
    if not unusual:
        return schema
    names = _free_names(unusual, schema)
    targets = {name: resolve_reference(reference, schema) for reference, name in names.items()}
    known = {name: f"{_PREFIX}{names[name]}" for name in names if targets[names[name]] is not None}
    replacements = {reference: known.get(reference, "") for reference in unusual}
    definitions = {
        name: _replace_references(target, replacements) for name, target in targets.items() if target is not None
    }
    rewritten: Schema = _replace_references(
        {key: value for key, value in schema.items() if key != "definitions"}, replacements
    )
    shared = {**rewritten.get("$defs", {}), **definitions}
    return {**rewritten, "$defs": _used_definitions(shared, rewritten)} if shared else rewritten


def _references_in(node: Any) -> Iterator[str]:
    """Yield all references in a schema."""
    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            if isinstance(each.get("$ref"), str):
                yield each["$ref"]
            pending += _subschemas(each)
        elif isinstance(each, list):
            pending += each


def _subschemas(node: Schema) -> Iterator[Any]:
    for key, value in node.items():
        if key in _NAME_KEYWORDS and isinstance(value, dict):
            yield from value.values()
        elif key not in _VALUE_KEYWORDS:
            yield value


def _free_names(references: set[str], schema: Schema) -> dict[str, str]:
    """A name for the target of each reference, distinct from the names of other definitions."""
    taken = set(schema["$defs"]) if isinstance(schema.get("$defs"), dict) else set()
    names: dict[str, str] = {}
    for reference in sorted(references):
        last = _UNSAFE.sub("_", _unescape(unquote(reference.rpartition("/")[2]))).strip("_") or "Definition"
        name, number = last, 2
        while name in taken:
            name, number = f"{last}_{number}", number + 1
        taken.add(name)
        names[reference] = name
    return names


def _replace_references(node: Any, links: Mapping[str, str]) -> Any:
    """Replace references according to `links`, where an empty text removes them."""
    if isinstance(node, list):
        return [_replace_references(each, links) for each in node]
    if not isinstance(node, dict):
        return node
    new: Schema = {}
    for key, value in node.items():
        if key in _NAME_KEYWORDS and isinstance(value, dict):
            new[key] = {name: _replace_references(inner, links) for name, inner in value.items()}
        else:
            new[key] = value if key in _VALUE_KEYWORDS else _replace_references(value, links)
    link = links.get(node["$ref"]) if isinstance(node.get("$ref"), str) else None
    if link:
        new["$ref"] = link
    elif link is not None:
        del new["$ref"]
    return new


def _used_definitions(definitions: Schema, schema: Schema) -> Schema:
    """The definitions that a schema refers to, directly or through others."""
    used: Schema = {}
    pending = [{key: value for key, value in schema.items() if key != "$defs"}]
    while pending:
        for reference in _references_in(pending.pop()):
            name = reference.removeprefix(_PREFIX)
            if name in definitions and name not in used:
                used[name] = definitions[name]
                pending.append(definitions[name])
    return used


Schema = dict[str, Any]

PYTHON = "agentkit-python"
"""The keyword under which a schema stores the name and Python value of each choice until it is tidied."""

FLAGS = "agentkit-summed"
"""The keyword that marks choices as combinable flags until the schema is tidied."""

MAP_KEYWORDS = ("properties", "$defs", "patternProperties")
LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
SCHEMA_KEYWORDS = ("items", "additionalProperties", "not", "contains", "propertyNames")
_REFERENCE = "#/$defs/"
_MAX_INLINED, _MAX_NODES = 500, 5_000
"""Limits on how many references are inlined, and on the number of schemas that this produces."""
_MAX_LEVELS = 100
_MAX_NAMED = 50

# Limits of strict mode, documented by OpenAI under "Structured outputs: supported schemas".
_MAX_DEPTH = 10
_MAX_PROPERTIES = 5_000
_MAX_NAME_CHARS = 120_000
"""Maximum total length of the names of properties and definitions and of the values of choices."""

_MAX_CHOICES = 1_000
"""Maximum number of choices in the whole schema."""

_MANY_CHOICES, _MAX_CHOICE_CHARS = 250, 15_000
"""For more text choices than the first number, the maximum of their total length."""

KEYWORD_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(MAP_KEYWORDS, dict),
    **dict.fromkeys((*LIST_KEYWORDS, "required", "enum"), list),
    **dict.fromkeys(("description", "pattern", "format", "$ref"), str),
    **dict.fromkeys((PYTHON, FLAGS), ()),  # keywords used only by agentkit
    "type": (str, list),
}
_INTERNAL_KEYWORDS = {"title", "discriminator", PYTHON, FLAGS}
_STRICT_KEYWORDS = {
    *("type", "description", "enum", "properties", "items", "anyOf", "pattern"),
    *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
}
_REMOVED_KEYWORDS = {"default", "examples", "minLength", "maxLength", "deprecated", "readOnly", "writeOnly", "required"}
_CONVERTED_KEYWORDS = {"format", "const", "oneOf", "additionalProperties", "$defs", "$ref", "$schema"}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
"""The types of JSON schema."""


class _NotStrict(Exception):
    """Raised if a schema has no strict form."""


def tidy(schema: Schema) -> Schema:
    """Remove titles, discriminators and numbers that JSON cannot represent, and inline definitions.

    Only recursive definitions stay in `$defs`.
    """
    return _inline(_rebuild(schema, _tidy_node))


def check_schema(schema: Any) -> None:
    """Raise TypeError, naming the location, if the schema violates JSON schema.

    Schemas that it refers to internally are checked wherever they are.
    """
    _check_depth(schema)
    known: set[int] = set()
    pending = [("the schema", schema)]
    while pending:
        location, node = pending.pop()
        if id(node) not in known:
            known.add(id(node))
            pending += _parts(node, location, schema)


def _check_depth(schema: Any) -> None:
    """Raise TypeError if the schema is nested too deeply to traverse."""
    level = [schema]
    for _ in range(_MAX_LEVELS):
        containers = (each.values() if isinstance(each, dict) else each for each in level)
        level = [inner for values in containers for inner in values if isinstance(inner, dict | list)]
        if not level:
            return
    raise TypeError(f"it is nested more than {_MAX_LEVELS} levels deep")


def _parts(schema: Any, location: str, root: Any) -> list[tuple[str, Any]]:
    """Return the named subschemas of a node, including its reference target. Raises TypeError."""
    if isinstance(schema, bool):
        return []
    if not isinstance(schema, dict):
        raise TypeError(f"{location} must be an object, not a {type(schema).__name__}")
    for keyword in schema.keys() & KEYWORD_TYPES.keys():
        if not isinstance(schema[keyword], KEYWORD_TYPES[keyword]):
            raise TypeError(f"{keyword!r} of {location} must not be a {type(schema[keyword]).__name__}")
    if not all(isinstance(name, str) for name in schema.get("required", ())):
        raise TypeError(f"'required' of {location} must list names")
    kinds = schema.get("type", "null")
    for kind in [kinds] if isinstance(kinds, str) else kinds or [kinds]:
        if not isinstance(kind, str) or kind not in JSON_TYPES:
            raise TypeError(
                f"{kind!r} is not a valid type of {location}; use one of {', '.join(JSON_TYPES)}, or leave 'type' out"
            )
    target = resolve_reference(schema.get("$ref", ""), root)
    return [
        *((repr(name), inner) for name, inner in _inner_schemas(schema)),
        *([] if target is None else [(repr(schema["$ref"]), target)]),
    ]


def strict(schema: Schema, *, nested_nulls: bool = True) -> Schema | None:
    """Convert the schema to strict mode, or return None if it has no strict form.

    Every object is closed and requires all its properties; optional properties become nullable. With
    `nested_nulls=False` that applies to the outermost object only, and a nested optional property yields None.
    """
    try:
        closed = _close(schema, 0, nested_nulls=nested_nulls)
        definitions = schema.get("$defs", {}).items()
        if definitions:
            closed["$defs"] = {name: _close(inner, 1, nested_nulls=nested_nulls) for name, inner in definitions}
    except _NotStrict:
        return None
    return closed if _is_within_limits(closed) else None


def _is_within_limits(schema: Schema) -> bool:
    """Whether a schema is within the size limits of strict mode."""
    properties = choices = chars = 0
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        text_choices = [each for each in node.get("enum", ()) if isinstance(each, str)]
        length = sum(map(len, text_choices))
        if len(text_choices) > _MANY_CHOICES and length > _MAX_CHOICE_CHARS:
            return False
        properties += len(node.get("properties", ()))
        choices += len(node.get("enum", ()))
        chars += length + sum(len(name) for key in ("properties", "$defs") for name in node.get(key, ()))
        pending += [inner for _, inner in _inner_schemas(node) if isinstance(inner, dict)]
    return properties <= _MAX_PROPERTIES and choices <= _MAX_CHOICES and chars <= _MAX_NAME_CHARS


def admits_null(schema: object) -> bool:
    """Whether the schema accepts null, judged by its own keywords."""
    if not isinstance(schema, dict):
        return schema is True
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    if "enum" in schema or "const" in schema:
        return None in schema.get("enum", [schema.get("const")])
    choices = schema.get("anyOf", schema.get("oneOf"))
    if choices is not None:
        return any(map(admits_null, choices))
    return not schema.keys() & {"type", "$ref", "allOf"}


def has_unions(schema: Any) -> bool:
    """Whether the schema contains a union of several types other than null."""
    if isinstance(schema, dict):
        types = [each for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())) if each != {"type": "null"}]
        return len(types) > 1 or any(map(has_unions, schema.values()))
    return isinstance(schema, list) and any(map(has_unions, schema))


def _inner_schemas(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Yield each direct subschema with its name or keyword."""
    for key in schema.keys() & {*MAP_KEYWORDS}:
        yield from schema[key].items()
    for key in schema.keys() & {*LIST_KEYWORDS}:
        yield from ((key, inner) for inner in schema[key])
    yield from ((key, schema[key]) for key in schema.keys() & {*SCHEMA_KEYWORDS} if not isinstance(schema[key], list))


def _rebuild(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    if not isinstance(schema, dict):
        return schema
    new = dict(schema)
    for key in schema.keys() & {*MAP_KEYWORDS}:
        new[key] = {name: _rebuild(inner, change) for name, inner in schema[key].items()}
    for key in schema.keys() & {*LIST_KEYWORDS}:
        new[key] = [_rebuild(inner, change) for inner in schema[key]]
    for key in schema.keys() & {*SCHEMA_KEYWORDS}:
        new[key] = _rebuild(schema[key], change)
    return change(new)


def _tidy_node(schema: Schema) -> Schema:
    cleaned = {key: value for key, value in schema.items() if key not in _INTERNAL_KEYWORDS and _is_json_value(value)}
    names = _names_of_choices(schema)
    return {**cleaned, "description": f"{cleaned.get('description', '')} {names}".strip()} if names else cleaned


def _names_of_choices(schema: Schema) -> str:
    """Describe the meaning of enum values that are not texts, or of combinable flags."""
    python = schema.get(PYTHON, [])
    if FLAGS in schema:
        return ", ".join(f"{flag.value} = {name}" for name, flag in python[:_MAX_NAMED]) + "; or a sum of these"
    text_choices = schema.get("enum", [schema.get("const")])
    if not python or all(isinstance(each, str) for each in text_choices):
        return ""
    named = [f"{each} = {name}" for each, (name, _) in zip(text_choices, python, strict=True) if name]
    return ", ".join(named[:_MAX_NAMED])


def _is_json_value(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_json_value, value.values()))
    if isinstance(value, list):
        return all(map(_is_json_value, value))
    return not isinstance(value, float) or math.isfinite(value)


def _inline(schema: Schema) -> Schema:
    definitions = schema.get("$defs")
    if not definitions or len(definitions) > _MAX_INLINED:
        return schema
    uses = {name: set(_references(definition)) for name, definition in definitions.items()}
    reachable = {name: _reachable(name, uses) for name in definitions}
    recursive = {name for name in definitions if name in reachable[name]}
    sizes = {name: _size(definition) for name, definition in definitions.items()}
    inlined = nodes = 0

    def inline_references(node: Schema) -> Schema:
        nonlocal inlined, nodes
        name = node.get("$ref", "").removeprefix(_REFERENCE)
        if name not in definitions or name in recursive or inlined >= _MAX_INLINED or nodes > _MAX_NODES:
            return node
        inlined, nodes = inlined + 1, nodes + sizes[name]
        if nodes > _MAX_NODES:
            return node
        return {**_rebuild(definitions[name], inline_references), **{key: node[key] for key in node if key != "$ref"}}

    body = _rebuild({key: value for key, value in schema.items() if key != "$defs"}, inline_references)
    if inlined >= _MAX_INLINED or nodes > _MAX_NODES:
        return schema
    recursive_definitions = {
        name: _rebuild(definitions[name], inline_references) for name in definitions if name in recursive
    }
    return {**body, "$defs": recursive_definitions} if recursive_definitions else body


def _size(schema: Any) -> int:
    """Return the number of schemas in a schema, itself included."""
    return 1 + sum(_size(inner) for _, inner in _inner_schemas(schema)) if isinstance(schema, dict) else 1


def _reachable(start: str, uses: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [start]
    while pending:
        new = uses.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_REFERENCE)
        for _, inner in _inner_schemas(schema):
            yield from _references(inner)


def _close(schema: Any, depth: int, *, nested_nulls: bool) -> Schema:
    if (
        not isinstance(schema, dict)
        or depth > _MAX_DEPTH
        or schema.keys() - _STRICT_KEYWORDS - _REMOVED_KEYWORDS - _CONVERTED_KEYWORDS
    ):
        raise _NotStrict
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    new = {key: value for key, value in schema.items() if key in _STRICT_KEYWORDS}
    new.update(_choices(schema))
    if "(?" in new.get("pattern", ""):
        del new["pattern"]
    if schema.get("format", "date") not in _FORMATS or not new.keys() & {"type", "anyOf"}:
        raise _NotStrict
    if "format" in schema:
        new["format"] = schema["format"]
    if "anyOf" in new:
        new["anyOf"] = [_close(choice, depth, nested_nulls=nested_nulls) for choice in new["anyOf"]]
    if _has_type(schema, "array"):
        new["items"] = _close(schema.get("items"), depth + 1, nested_nulls=nested_nulls)
    return _close_object(schema, new, depth, nested_nulls=nested_nulls) if _has_type(schema, "object") else new


def _close_object(schema: Schema, new: Schema, depth: int, *, nested_nulls: bool) -> Schema:
    properties = schema.get("properties", {})
    open_ended = schema.get("additionalProperties", not properties)
    required = {*schema.get("required", ())}
    optional = properties.keys() - required
    if required - properties.keys():  # a closed object could never contain it
        raise _NotStrict
    if open_ended not in (False, None) or (depth and optional and not nested_nulls):
        raise _NotStrict
    new["properties"] = {}
    for name, inner in properties.items():
        closed = _close(inner, depth + 1, nested_nulls=nested_nulls)
        new["properties"][name] = _nullable(closed) if name in optional else closed
    return {**new, "required": list(properties), "additionalProperties": False}


def _choices(schema: Schema) -> Schema:
    if "const" in schema:
        return {"enum": [schema["const"]]}
    return {"anyOf": schema["oneOf"]} if "oneOf" in schema else {}


def _has_type(schema: Schema, kind: str) -> bool:
    return kind in (schema.get("type"), *(schema["type"] if isinstance(schema.get("type"), list) else ()))


def _nullable(schema: Schema) -> Schema:
    if admits_null(schema):
        return schema
    inner = {key: value for key, value in schema.items() if key != "description"}
    outer = {"description": schema["description"]} if "description" in schema else {}
    return {"anyOf": [inner, {"type": "null"}], **outer}
