"""The facts of a manifest, their types, and which of two values allows more (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from ipaddress import ip_network
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.decisions import Label, Verdict
from agentkit.errors import ConfigError
from agentkit.levels import SafetyLevel
from agentkit.safety.rules import Rule
from agentkit.usage import Limits, is_number

ANYTHING = "any"
"""The host that stands for all hosts: what code reaches that nobody has read."""

ALWAYS_YES = "always yes: "
"""What stands before the name of an approver that refuses nothing."""

ENVIRONMENT = "environment"
"""Where the environment decides: it may say anything."""

THEN = ", then "
"""What stands between a place and the one that is turned to when nothing comes from there."""

HERE = "current folder"
"""The workspace of an agent that was given none: wherever its program is started."""


class ChangeDirection(StrEnum):
    """What a change does: it lets an agent do more, less, or neither."""

    WIDER = "wider"
    NARROWER = "narrower"
    OTHER = "other"


Order = Callable[[Any, Any], ChangeDirection]
"""What becomes of an agent when the first value is replaced by the second, which is another one."""


def ranked(*values: Any) -> Order:
    """Values that have this order, the narrowest first; any other value is wider than all."""

    def order(before: Any, after: Any) -> ChangeDirection:
        places = [values.index(value) if value in values else len(values) for value in (before, after)]
        return ChangeDirection.NARROWER if places[1] < places[0] else ChangeDirection.WIDER

    return order


def bounded(before: float | None, after: float | None) -> ChangeDirection:
    """A number that is the most there may be; None is no bound."""
    return (
        ChangeDirection.NARROWER if before is None or (after is not None and after < before) else ChangeDirection.WIDER
    )


def unread(*, none_is: ChangeDirection) -> Order:
    """Code or a schema, by its hash: what another one lets through cannot be told, so that it must be looked at.

    `none_is` says whether having none lets an agent do more or less than any.
    """

    def order(before: str | None, after: str | None) -> ChangeDirection:
        if before is None:
            return ChangeDirection.NARROWER if none_is is ChangeDirection.WIDER else ChangeDirection.WIDER
        return (
            ChangeDirection.NARROWER if after is None and none_is is ChangeDirection.NARROWER else ChangeDirection.WIDER
        )

    return order


def answering(before: str | None, after: str | None) -> ChangeDirection:
    """Who answers questions: nobody is narrowest, as nothing happens then, and an answer that is always yes widest."""
    if after is None or (before is not None and before.startswith(ALWAYS_YES) and not after.startswith(ALWAYS_YES)):
        return ChangeDirection.NARROWER
    return ChangeDirection.WIDER


def named(before: str | None, after: str | None) -> ChangeDirection:
    """Where something is: nowhere is narrowest, another place must be looked at, and the environment may say any."""
    known = set() if before is None else set(before.split(THEN))
    is_known = ENVIRONMENT in known or after is None or known.issuperset(after.split(THEN))
    return ChangeDirection.NARROWER if is_known else ChangeDirection.WIDER


def fewer(before: Collection[str], after: Collection[str]) -> ChangeDirection:
    """What holds an agent back, such as the labels of what its tools read: without one of them it may do more."""
    return ChangeDirection.WIDER if set(before) - set(after) else ChangeDirection.NARROWER


def more(before: Collection[str], after: Collection[str]) -> ChangeDirection:
    """What is open to an agent, such as the variables that it may see."""
    return ChangeDirection.WIDER if set(after) - set(before) else ChangeDirection.NARROWER


def reaching(before: Sequence[str], after: Sequence[str]) -> ChangeDirection:
    """The hosts that may be reached: an entry may cover other hosts, and `any` covers all."""
    is_covered = all(any(_holds(wide, host) for wide in before) for host in after)
    return ChangeDirection.NARROWER if is_covered else ChangeDirection.WIDER


def _holds(wide: str, host: str) -> bool:
    if wide in (ANYTHING, host):
        return True
    try:
        outer, inner = ip_network(wide), ip_network(host)
    except ValueError:
        return False
    return outer.version == inner.version and int(outer.network_address) <= int(inner.network_address) <= int(
        inner.broadcast_address
    ) <= int(outer.broadcast_address)


def containing(before: str | None, after: str | None) -> ChangeDirection:
    """The folder that may be worked in: none is narrowest, and one within another is narrower."""
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
    """What a folder is told from, how many folders up it begins, and the names from there down."""
    parts = [part for part in folder.split("/") if part != "."]
    family = parts.pop(0) if parts and (parts[0] == "~" or " " in parts[0]) else ""
    ups = sum(part == ".." for part in parts)
    return family, ups, parts[ups:]


def remarked(_before: object, _after: object) -> ChangeDirection:
    """What says what an agent is, and not what it may do."""
    return ChangeDirection.OTHER


FORMAT = 1

Path = tuple[str, ...]
"""Where a fact stands: `("agents", "bot", "tools", "run_shell", "level")`."""

LEVELS = tuple(level.name.lower() for level in SafetyLevel)
VERDICTS = (
    str(Verdict.DENY),
    str(Verdict.ASK),
    *(f"by call, up to {level}" for level in LEVELS),
    str(Verdict.ALLOW),
)
"""What happens to calls by default: where a tool's own judge looks at each, what it finds up to a level is allowed."""

IN_MEMORY = "in memory"
WEAKENED = "weakened"
KEPT = "kept on this machine"

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_RULE_KEYS = {"verdict", "tool", "where", "code"}


@dataclass(frozen=True, slots=True)
class FactType:
    """A kind of fact: which values it can have, how they are told to a person, and which of two values is wider.

    `is_read` says that a person can read from two values what has changed; a hash only tells that something has.
    """

    fits: Callable[[Any], bool]
    wanted: str
    order: Order
    is_read: bool = True


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
    except (ConfigError, OverflowError):  # which a pattern raises that repeats something too often
        return False
    return _is_text(value.get("code", "-"))


def _of(*values: Any, wanted: str = "", order: Order | None = None) -> FactType:
    """One of a few values, the narrowest first."""
    return FactType(
        lambda value: any(type(value) is type(one) and value == one for one in values),
        wanted or f"one of {', '.join(map(str, values))}",
        order or ranked(*values),
    )


def _code(*, none_is: ChangeDirection = ChangeDirection.NARROWER) -> FactType:
    return FactType(_is_text_or_none, "the name of code with its hash, or null", unread(none_is=none_is), False)


_UNKNOWN = FactType(_is_text_or_none, "the name of code with its hash, or null", ranked(), is_read=False)
"""Code that may do more or less than ours does."""

_TEXTS = "a sorted list of texts"
_PLACE = FactType(_is_text_or_none, "a text, or null", named)
_REMARK = FactType(_is_text_or_none, "a text, or null", remarked)
_BOUND = FactType(lambda value: value is None or is_number(value), "a number, or null for no limit", bounded)
_PRICE = FactType(_is_text, "refuse, free, or a price", ranked("refuse"))
_PRESENT = FactType(lambda value: value is True or _is_text(value), "true, or the name of code with its hash", remarked)

LIMITS: Mapping[str, FactType] = {
    each.name: _PRICE if each.name == "unknown_price" else _BOUND for each in fields(Limits)
}

_AGENT: Mapping[str, FactType] = {
    "approver": FactType(_is_text_or_none, "the name of code with its hash, or null", answering, False),
    "ceiling": _of(*LEVELS),
    "class": _UNKNOWN,
    "dry_run": _of(True, False, wanted="true or false"),
    "flow": _of(True, False, wanted="true or false"),
    "model/client": _UNKNOWN,
    "model/host": _PLACE,
    "model/key": _REMARK,
    "model/name": _REMARK,
    "model/price": FactType(_is_text_or_none, "a text, or null", ranked(None)),
    "model/provider": _PLACE,
    "model/settings": _code(),
    "output": FactType(
        lambda value: value is None or (_is_text(value) and bool(_DIGEST.fullmatch(value))),
        "a hash, or null",
        unread(none_is=ChangeDirection.WIDER),
        False,
    ),
    "policy": _UNKNOWN,
    "secrets": FactType(_is_texts, _TEXTS, more),
    "session": FactType(_is_text, "a text", ranked(IN_MEMORY)),
    "workspace/folder": FactType(_is_text_or_none, "a folder, or null", containing),
    "workspace/journal": _of(None, KEPT, IN_MEMORY, wanted=f"{KEPT!r}, {IN_MEMORY!r} or null"),
    **{f"limits/{name}": kind for name, kind in LIMITS.items()},
}

_TOOL: Mapping[str, FactType] = {
    "definition": FactType(
        lambda value: _is_text(value) and bool(_DIGEST.fullmatch(value)),
        "a hash",
        unread(none_is=ChangeDirection.NARROWER),
        False,
    ),
    "hosts": FactType(_is_texts, _TEXTS, reaching),
    "isolation": _of(None, "required", "auto", WEAKENED, "off", wanted="required, auto, weakened, off, or null"),
    "judge": _code(none_is=ChangeDirection.WIDER),
    "labels": FactType(lambda value: _is_texts(value) and set(value) <= set(Label), "a sorted list of labels", fewer),
    "level": _of(*LEVELS),
    "made_by": FactType(_is_text, "a text", named),
    "max_chars": FactType(is_number, "a number", bounded),
    "timeout_seconds": _BOUND,
    "verdict": _of(*VERDICTS),
    "writes": _of(None, False, True, wanted="true, false, or null"),
}

_SERVER: Mapping[str, FactType] = {
    "folder": FactType(_is_text_or_none, "a folder, or null", containing),
    "pins": _of(KEPT, IN_MEMORY),
    "reached": FactType(_is_text, "a command or an address", named),
}

SUBJECTS: Mapping[str, Mapping[str, FactType]] = {"": _AGENT, "tools": _TOOL, "servers": _SERVER}
"""The facts of an agent, and those of each of its tools and servers: all of them are stated, always."""

LISTED: Mapping[str, FactType] = {
    "checks": _code(none_is=ChangeDirection.WIDER),
    "handoffs": _PRESENT,
    "listeners": _code(),
    "rules": FactType(_is_rule, "a rule: verdict, tool, where", remarked),
}
"""The facts of which an agent has any number, by name; rules by number."""


def kind_of(path: Path) -> FactType | None:
    """The kind of the fact at a path; None where there is none."""
    if path == ("agent",):
        return FactType(_is_text, "the name of the agent that is run", remarked)
    if len(path) < 3 or path[0] != "agents" or not all(path):
        return None
    below = path[2:]
    if len(below) == 2 and below[0] in LISTED:
        return LISTED[below[0]]
    if len(below) == 3 and below[0] in ("tools", "servers"):
        return SUBJECTS[below[0]].get(below[2])
    return _AGENT.get("/".join(below))
