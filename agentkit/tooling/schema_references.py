"""Resolution of `$ref` pointers in JSON schemas (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]

_PREFIX = "#/$defs/"
_PLAIN = re.compile(r"#(?:/\$defs/[a-zA-Z0-9_.-]+)?")
"""References that every provider resolves."""

_UNSAFE = re.compile(r"[^a-zA-Z0-9_.-]+")
_VALUES = frozenset({"default", "const", "enum", "examples", "example"})
"""Keywords that contain values, in which `$ref` is not a reference."""

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that map names, which can be the names of keywords, to schemas."""


def referred(reference: str, root: Any) -> Any:
    """Resolve a reference such as `#/$defs/Name` in the root; None if it does not exist.

    Tokens can be percent-encoded, and contain `~1` for a slash and `~0` for a tilde. A definition whose name contains
    an unescaped slash is found, too.
    """
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    home, _, rest = reference[len("#/") :].partition("/")
    named = root.get(home) if isinstance(root, dict) else None
    if isinstance(named, dict) and home in _NAMED:
        for name in dict.fromkeys((rest, unquote(rest), _unescaped(unquote(rest)))):
            if name in named:
                return named[name]
    for token in reference[len("#/") :].split("/"):
        root = _step(root, _unescaped(unquote(token)))
    return root


def _unescaped(token: str) -> str:
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
        for reference in _references(schema)
        if not _PLAIN.fullmatch(reference) or referred(reference, schema) is None
    }
    if not unusual:
        return schema
    names = _free_names(unusual, schema)
    targets = {name: referred(reference, schema) for reference, name in names.items()}
    known = {name: f"{_PREFIX}{names[name]}" for name in names if targets[names[name]] is not None}
    links = {reference: known.get(reference, "") for reference in unusual}
    definitions = {name: _relinked(target, links) for name, target in targets.items() if target is not None}
    rewritten: Schema = _relinked({key: value for key, value in schema.items() if key != "definitions"}, links)
    shared = {**rewritten.get("$defs", {}), **definitions}
    return {**rewritten, "$defs": _used(shared, rewritten)} if shared else rewritten


def _references(node: Any) -> Iterator[str]:
    """Yield all references in a schema."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if isinstance(each.get("$ref"), str):
                yield each["$ref"]
            waiting += _inside(each)
        elif isinstance(each, list):
            waiting += each


def _inside(node: Schema) -> Iterator[Any]:
    for key, value in node.items():
        if key in _NAMED and isinstance(value, dict):
            yield from value.values()
        elif key not in _VALUES:
            yield value


def _free_names(references: set[str], schema: Schema) -> dict[str, str]:
    """A name for the target of each reference, distinct from the names of other definitions."""
    taken = set(schema["$defs"]) if isinstance(schema.get("$defs"), dict) else set()
    names: dict[str, str] = {}
    for reference in sorted(references):
        last = _UNSAFE.sub("_", _unescaped(unquote(reference.rpartition("/")[2]))).strip("_") or "Definition"
        name, number = last, 2
        while name in taken:
            name, number = f"{last}_{number}", number + 1
        taken.add(name)
        names[reference] = name
    return names


def _relinked(node: Any, links: Mapping[str, str]) -> Any:
    """Replace references according to `links`, where an empty text removes them."""
    if isinstance(node, list):
        return [_relinked(each, links) for each in node]
    if not isinstance(node, dict):
        return node
    new: Schema = {}
    for key, value in node.items():
        if key in _NAMED and isinstance(value, dict):
            new[key] = {name: _relinked(inner, links) for name, inner in value.items()}
        else:
            new[key] = value if key in _VALUES else _relinked(value, links)
    link = links.get(node["$ref"]) if isinstance(node.get("$ref"), str) else None
    if link:
        new["$ref"] = link
    elif link is not None:
        del new["$ref"]
    return new


def _used(definitions: Schema, schema: Schema) -> Schema:
    """The definitions that a schema refers to, directly or through others."""
    used: Schema = {}
    waiting = [{key: value for key, value in schema.items() if key != "$defs"}]
    while waiting:
        for reference in _references(waiting.pop()):
            name = reference.removeprefix(_PREFIX)
            if name in definitions and name not in used:
                used[name] = definitions[name]
                waiting.append(definitions[name])
    return used
