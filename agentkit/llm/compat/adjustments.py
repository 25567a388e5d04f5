"""Adjustments of request bodies, and what a refusal names (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
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
    that it affects, if it affects only some; `of_parts` makes the same adjustment for other parts. `rules` are rules of
    the receiver, fields of `Receiver`, under which the request is converted again.
    """

    name: str
    apply: Callable[[Body], Body]
    keeps_strict: bool = True
    is_lasting: bool = True
    is_slow: bool = False
    parts: tuple[str, ...] = ()
    of_parts: Callable[[Iterable[str]], Adjustment] | None = None
    rules: Mapping[str, Any] = field(default_factory=dict)


def joined(adjustment: Adjustment, earlier: Adjustment | None) -> Adjustment:
    """Merge an adjustment with an earlier one of the same name for other parts of messages."""
    if earlier is None or adjustment.of_parts is None:
        return adjustment
    return adjustment.of_parts((*earlier.parts, *adjustment.parts))


def rule(name: str, **rules: Any) -> Adjustment:
    """An adjustment that adds rules of the receiver."""
    return Adjustment(name, lambda body: body, rules=rules)


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
        """Whether the text names the parameter, in snake case or camel case.

        A short word must be marked as a name, since it could be plain text.
        """
        word = re.escape(parameter)
        if "_" in parameter:
            word = rf"(?:{word}|{re.escape(camel_case(parameter))})"
        if "_" in parameter or len(parameter) > 7:
            return bool(re.search(rf"\b{word}\b", self.text))
        return bool(re.search(rf"['\"`.]{word}\b|\b(parameter|argument|field|option)s?:? {word}\b", self.text))


def camel_case(name: str) -> str:
    """A parameter's name as servers written in other languages spell it: `reasoningEffort`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


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
