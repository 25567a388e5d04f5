"""Adjustments of request bodies, and what a refusal names (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from agentkit._dataclass import dataclass

Body = dict[str, Any]

NESTS = ("tool_calls", "content")
"""Fields of messages and items that contain nested objects."""

_UNSUPPORTED = (
    r"(?i)unsupported|not supported|not support|unrecognized|unrecognised|unknown|unexpected|not permitted|not allowed"
    r"|extra inputs|extra fields|extra_forbidden|no such|cannot be used|incompatible"
)
_WRONG_VALUE = (
    r"(?i)(supported|valid|allowed|permitted) values|(must|should|to) be (one|between|in|less|greater|at)|one of"
    r"|invalid value|invalid_value"
)


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A change to request bodies that a server would reject. `name` describes and identifies it.

    If `keeps_strict` is false, schemas are not sent in strict mode. If `is_lasting` is false, the change applies to one
    request only. If `is_slow` is true, it parses files in a subprocess. `parts` are the digests of the message parts
    that it affects, if it affects only some.
    """

    name: str
    apply: Callable[[Body], Body]
    keeps_strict: bool = True
    is_lasting: bool = True
    is_slow: bool = False
    parts: tuple[str, ...] = ()


def drop(name: str) -> Adjustment:
    """Drop a top-level parameter."""
    return Adjustment(f"{name} is left out", lambda body: without(body, name))


def rename(old: str, new: str) -> Adjustment:
    """Rename a top-level parameter."""
    return Adjustment(
        f"{old} is sent as {new}", lambda body: {(new if key == old else key): value for key, value in body.items()}
    )


def drop_entry_field(entries: str, name: str) -> Adjustment:
    """Drop a field from every message or item, and from its nested objects."""

    def apply(body: Body) -> Body:
        return {**body, entries: [without_inside(entry, name) for entry in body[entries]]}

    return Adjustment(f"{entries} are sent without {name}", apply)


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """A rejected body, the server's message, and the settings that the user made."""

    body: Body
    text: str
    parameter: str
    chosen: Collection[str]

    @property
    def is_unsupported(self) -> bool:
        """Whether something is rejected as unsupported, whatever its value."""
        is_of_value = re.search(_WRONG_VALUE, self.text) and not re.search(r"(?i)unknown field", self.text)
        return bool(re.search(_UNSUPPORTED, self.text)) and not is_of_value

    def names(self, parameter: str) -> bool:
        """Whether the text names the parameter; a short word must be marked as a name, since it could be plain text."""
        word = re.escape(parameter)
        if "_" in parameter or len(parameter) > 7:
            return bool(re.search(rf"\b{word}\b", self.text))
        return bool(re.search(rf"['\"`.]{word}\b|\b(parameter|argument|field|option)s?:? {word}\b", self.text))


def without(fields: Body, name: str) -> Body:
    """The fields without one."""
    return {key: value for key, value in fields.items() if key != name}


def without_inside(entry: Body, name: str) -> Body:
    """A message, item or tool without a field, also one level below."""
    kept = without(entry, name)
    for nest in NESTS:
        if isinstance(kept.get(nest), list):
            kept[nest] = [without(part, name) if isinstance(part, dict) else part for part in kept[nest]]
    if "function" in kept:
        kept["function"] = without(kept["function"], name)
    return kept
