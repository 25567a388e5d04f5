"""The facts of a manifest, their types, and which of two values is wider (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from ipaddress import ip_network
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.decisions import Label, SafetyLevel, Verdict
from agentkit.errors import ConfigError
from agentkit.safety.rules import Rule
from agentkit.usage import Limits, is_number

ANYTHING = "any"
"""Host entry for all hosts, used for code whose hosts are unknown."""

ALWAYS_YES = "always yes: "
"""Prefix of an approver that approves everything."""

ENVIRONMENT = "environment"
"""Value of a setting that the environment decides."""

THEN = ", then "
"""Separator between a value and its fallback."""

HERE = "current folder"
"""The workspace of an agent without a configured one: the current folder of the program."""


class ChangeDirection(StrEnum):
    """The effect of a change on what an agent can do: wider, narrower, or neither."""

    WIDER = "wider"
    NARROWER = "narrower"
    OTHER = "other"


Order = Callable[[Any, Any], ChangeDirection]
"""Compares two different values: the direction of the change from the first to the second."""


def ranked(*values: Any) -> Order:
    """Order by position, narrowest first; any other value is widest."""

    def order(before: Any, after: Any) -> ChangeDirection:
        places = [values.index(value) if value in values else len(values) for value in (before, after)]
        return ChangeDirection.NARROWER if places[1] < places[0] else ChangeDirection.WIDER

    return order


def maximum(before: float | None, after: float | None) -> ChangeDirection:
    """Order of a maximum; None is unlimited."""
    return (
        ChangeDirection.NARROWER if before is None or (after is not None and after < before) else ChangeDirection.WIDER
    )


def hashed(*, none_is: ChangeDirection) -> Order:
    """Order of code or a schema given as a hash: a different hash is wider, as its effect must be reviewed.

    `none_is` is the direction of having none compared to any.
    """

    def order(before: str | None, after: str | None) -> ChangeDirection:
        if before is None:
            return ChangeDirection.NARROWER if none_is is ChangeDirection.WIDER else ChangeDirection.WIDER
        return (
            ChangeDirection.NARROWER if after is None and none_is is ChangeDirection.NARROWER else ChangeDirection.WIDER
        )

    return order


def approver(before: str | None, after: str | None) -> ChangeDirection:
    """Order of approvers: none is narrowest, as nothing is approved then, and one that always approves is widest."""
    if after is None or (before is not None and before.startswith(ALWAYS_YES) and not after.startswith(ALWAYS_YES)):
        return ChangeDirection.NARROWER
    return ChangeDirection.WIDER


def location(before: str | None, after: str | None) -> ChangeDirection:
    """Order of locations: None is narrowest, a new location is wider, and the environment covers any location."""
    known = set() if before is None else set(before.split(THEN))
    is_known = ENVIRONMENT in known or after is None or known.issuperset(after.split(THEN))
    return ChangeDirection.NARROWER if is_known else ChangeDirection.WIDER


def restrictions(before: Collection[str], after: Collection[str]) -> ChangeDirection:
    """Order of restrictions, such as the labels of a tool's results: removing one is wider."""
    return ChangeDirection.WIDER if set(before) - set(after) else ChangeDirection.NARROWER


def permissions(before: Collection[str], after: Collection[str]) -> ChangeDirection:
    """Order of permissions, such as visible environment variables: adding one is wider."""
    return ChangeDirection.WIDER if set(after) - set(before) else ChangeDirection.NARROWER


def hosts(before: Sequence[str], after: Sequence[str]) -> ChangeDirection:
    """Order of reachable hosts: an entry can cover other hosts, and `any` covers all."""
    is_covered = all(any(_covers_host(wide, host) for wide in before) for host in after)
    return ChangeDirection.NARROWER if is_covered else ChangeDirection.WIDER


def _covers_host(wide: str, host: str) -> bool:
    if wide in (ANYTHING, host):
        return True
    try:
        outer, inner = ip_network(wide), ip_network(host)
    except ValueError:
        return False
    return outer.version == inner.version and int(outer.network_address) <= int(inner.network_address) <= int(
        inner.broadcast_address
    ) <= int(outer.broadcast_address)


def folders(before: str | None, after: str | None) -> ChangeDirection:
    """Order of folders: None is narrowest, and a subfolder is narrower."""
    is_within = after is None or (before is not None and _is_within(after, before))
    return ChangeDirection.NARROWER if is_within else ChangeDirection.WIDER


def _is_within(folder: str, other: str) -> bool:
    (family, ups, parts), (of_other, ups_of_other, parts_of_other) = _read(folder), _read(other)
    if family != of_other or ups > ups_of_other:
        return False
    if ups < ups_of_other:
        return not parts_of_other
    return parts[: len(parts_of_other)] == parts_of_other


def _read(folder: str) -> tuple[str, int, list[str]]:
    """Parse a folder: its base, the number of parent steps, and the names below."""
    parts = [part for part in folder.split("/") if part != "."]
    family = parts.pop(0) if parts and (parts[0] == "~" or " " in parts[0]) else ""
    ups = sum(part == ".." for part in parts)
    return family, ups, parts[ups:]


def description(_before: object, _after: object) -> ChangeDirection:
    """Order of facts that describe an agent without affecting its permissions."""
    return ChangeDirection.OTHER


FORMAT = 1

Path = tuple[str, ...]
"""The path of a fact: `("agents", "bot", "tools", "run_shell", "level")`."""

LEVELS = tuple(level.name.lower() for level in SafetyLevel)
VERDICTS = (
    str(Verdict.DENY),
    str(Verdict.ASK),
    *(f"by call, up to {level}" for level in LEVELS),
    str(Verdict.ALLOW),
)
"""Default verdicts of calls; with a tool's own judge, calls are allowed up to a level."""

IN_MEMORY = "in memory"
WEAKENED = "weakened"
ON_THIS_MACHINE = "kept on this machine"

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_RULE_KEYS = {"verdict", "tool", "where", "code"}


@dataclass(frozen=True, slots=True)
class FactType:
    """The type of a fact: its valid values, their description, and their order.

    `is_readable` is True if the change can be read from the values; a hash only shows that something changed.
    """

    fits: Callable[[Any], bool]
    description: str
    order: Order
    is_readable: bool = True


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_text_or_none(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and value == sorted(set(value))


def _is_rule(value: Any) -> bool:
    if not isinstance(value, dict) or not {"verdict", "tool", "where"} <= set(value) <= _RULE_KEYS:
        return False
    tests = value["where"]
    if not isinstance(tests, dict) or not all(isinstance(each, dict) for each in tests.values()):
        return False
    try:
        Rule(value["verdict"], value["tool"], tests)
    except (ConfigError, OverflowError):  # raised by a pattern with too many repetitions
        return False
    return _is_text(value.get("code", "-"))


def _one_of(*values: Any, description: str = "", order: Order | None = None) -> FactType:
    """One of a few values, narrowest first."""
    return FactType(
        lambda value: any(type(value) is type(one) and value == one for one in values),
        description or f"one of {', '.join(map(str, values))}",
        order or ranked(*values),
    )


def _code(*, none_is: ChangeDirection = ChangeDirection.NARROWER) -> FactType:
    return FactType(_is_text_or_none, "the name of code with its hash, or null", hashed(none_is=none_is), False)


_UNKNOWN = FactType(_is_text_or_none, "the name of code with its hash, or null", ranked(), is_readable=False)
"""Custom code whose permissions are unknown."""

_TEXTS = "a sorted list of texts"
_LOCATION = FactType(_is_text_or_none, "a text, or null", location)
_DESCRIPTION = FactType(_is_text_or_none, "a text, or null", description)
_MAXIMUM = FactType(lambda value: value is None or is_number(value), "a number, or null for no limit", maximum)
_PRICE = FactType(_is_text, "refuse, free, or a price", ranked("refuse"))
_PRESENT = FactType(
    lambda value: value is True or _is_text(value), "true, or the name of code with its hash", description
)

LIMITS: Mapping[str, FactType] = {
    "iterations": _MAXIMUM,
    **{each.name: _PRICE if each.name == "unknown_price" else _MAXIMUM for each in fields(Limits)},
}

_AGENT: Mapping[str, FactType] = {
    "approver": FactType(_is_text_or_none, "the name of code with its hash, or null", approver, False),
    "ceiling": _one_of(*LEVELS),
    "class": _UNKNOWN,
    "dry_run": _one_of(True, False, description="true or false"),
    "flow": _one_of(True, False, description="true or false"),
    "model/client": _UNKNOWN,
    "model/host": _LOCATION,
    "model/key": _DESCRIPTION,
    "model/name": _DESCRIPTION,
    "model/price": FactType(_is_text_or_none, "a text, or null", ranked(None)),
    "model/provider": _LOCATION,
    "model/settings": _code(),
    "output": FactType(
        lambda value: value is None or (_is_text(value) and bool(_DIGEST.fullmatch(value))),
        "a hash, or null",
        hashed(none_is=ChangeDirection.WIDER),
        False,
    ),
    "policy": _UNKNOWN,
    "secrets": FactType(_is_texts, _TEXTS, permissions),
    "session": FactType(_is_text, "a text", ranked(IN_MEMORY)),
    "workspace/folder": FactType(_is_text_or_none, "a folder, or null", folders),
    "workspace/journal": _one_of(
        None, ON_THIS_MACHINE, IN_MEMORY, description=f"{ON_THIS_MACHINE!r}, {IN_MEMORY!r} or null"
    ),
    **{f"limits/{name}": kind for name, kind in LIMITS.items()},
}

_TOOL: Mapping[str, FactType] = {
    "definition": FactType(
        lambda value: _is_text(value) and bool(_DIGEST.fullmatch(value)),
        "a hash",
        hashed(none_is=ChangeDirection.NARROWER),
        False,
    ),
    "hosts": FactType(_is_texts, _TEXTS, hosts),
    "isolation": _one_of(
        None, "required", "auto", WEAKENED, "off", description="required, auto, weakened, off, or null"
    ),
    "judge": _code(none_is=ChangeDirection.WIDER),
    "labels": FactType(
        lambda value: _is_texts(value) and set(value) <= set(Label), "a sorted list of labels", restrictions
    ),
    "level": _one_of(*LEVELS),
    "made_by": FactType(_is_text, "a text", location),
    "max_chars": FactType(is_number, "a number", maximum),
    "timeout_seconds": _MAXIMUM,
    "verdict": _one_of(*VERDICTS),
    "writes": _one_of(None, False, True, description="true, false, or null"),
}

_SERVER: Mapping[str, FactType] = {
    "folder": FactType(_is_text_or_none, "a folder, or null", folders),
    "pins": _one_of(ON_THIS_MACHINE, IN_MEMORY),
    "reached": FactType(_is_text, "a command or an address", location),
}

SUBJECTS: Mapping[str, Mapping[str, FactType]] = {"": _AGENT, "tools": _TOOL, "servers": _SERVER}
"""The facts of an agent, and of each of its tools and servers; all of them are required."""

NAMED_FACTS: Mapping[str, FactType] = {
    "guardrails": _code(none_is=ChangeDirection.WIDER),
    "handoffs": _PRESENT,
    "listeners": _code(),
    "rules": FactType(_is_rule, "a rule: verdict, tool, where", description),
    "unlabelled": _PRESENT,
}
"""The facts with any number of entries per agent, by name; rules by number."""


def fact_type(path: Path) -> FactType | None:
    """The type of the fact at a path; None for an unknown path."""
    if path == ("agent",):
        return FactType(_is_text, "the name of the agent that is run", description)
    if len(path) < 3 or path[0] != "agents" or not all(path):
        return None
    below = path[2:]
    if len(below) == 2 and below[0] in NAMED_FACTS:
        return NAMED_FACTS[below[0]]
    if len(below) == 3 and below[0] in ("tools", "servers"):
        return SUBJECTS[below[0]].get(below[2])
    return _AGENT.get("/".join(below))
