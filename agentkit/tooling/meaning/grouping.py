"""Which arguments were meant by an object around them, or by the fields of the only one?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit.tooling.meaning.spelling import read_json
from agentkit.tooling.meaning.values import names_in, nodes_at
from agentkit.tooling.strict import Schema

_AROUND = frozenset({"arguments", "args", "input", "kwargs", "parameters", "params"})
"""Names of an object that models put around the arguments."""


def regrouped(given: dict[str, Any], schema: Schema) -> dict[str, Any] | None:
    """The arguments without an object around all of them, or as the fields of the only parameter; None otherwise.

    Models write `{"arguments": {"city": "Rome"}}`, and leave out the name of an only parameter.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    if not given or given.keys() & properties.keys():
        return None
    inner = inside_all(given)
    is_closed = schema.get("additionalProperties") is False
    if inner is not None and inner.keys() <= properties.keys() and (inner or is_closed):
        return dict(inner)
    if len(properties) != 1:
        return None
    (only,) = properties
    return {only: given} if given.keys() <= {*names_in(nodes_at(schema, [only]))} else None


def inside_all(given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The arguments that an object around all of them holds; None where there is none such."""
    name, inner = next(iter(given.items()), ("", None))
    if len(given) > 1 or name.lower() not in _AROUND:
        return None
    try:
        inner = read_json(inner) if isinstance(inner, str) else inner
    except (ValueError, RecursionError):
        return None
    return inner if isinstance(inner, Mapping) else None
