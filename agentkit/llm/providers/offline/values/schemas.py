"""What does a schema say plainly: references followed, `or null` left out?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plain_schema(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its references into `root` followed and `or null` left out. One that is no mapping says nothing."""
    for _ in range(8):
        if not isinstance(schema, Mapping):
            return {}
        options = [each for each in schema.get("anyOf") or schema.get("oneOf") or () if isinstance(each, Mapping)]
        variants = [each for each in options if each.get("type") != "null"]
        if isinstance(reference := schema.get("$ref"), str):
            schema = _target(reference, root)
        elif len(variants) == 1:
            schema = {**variants[0], **{key: schema[key] for key in ("default", "description") if key in schema}}
        else:
            break
    types = [kind for kind in schema["type"] if kind != "null"] if isinstance(schema.get("type"), list) else []
    return {**schema, "type": types[0]} if len(types) == 1 else schema


def definitions_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a schema holds for others to refer to, under the names that drafts have for it."""
    return {key: schema[key] for key in ("$defs", "definitions") if key in schema}


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    target: Any = root
    for part in filter(None, reference.removeprefix("#").split("/")):
        target = target.get(part, {}) if isinstance(target, Mapping) else {}
    return target
