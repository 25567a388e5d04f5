"""Which facts does a manifest state of an agent, what may each be, and which of two values lets it do more? (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from agentkit.capabilities import orders
from agentkit.capabilities.orders import Order, Way
from agentkit.decisions import Label, Verdict
from agentkit.errors import ConfigError
from agentkit.levels import SafetyLevel
from agentkit.safety.rules import Rule
from agentkit.slotted import dataclass
from agentkit.usage import Limits, is_number

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
class Kind:
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


def _of(*values: Any, wanted: str = "", order: Order | None = None) -> Kind:
    """One of a few values, the narrowest first."""
    return Kind(
        lambda value: any(type(value) is type(one) and value == one for one in values),
        wanted or f"one of {', '.join(map(str, values))}",
        order or orders.ranked(*values),
    )


def _code(*, none_is: Way = Way.NARROWER) -> Kind:
    return Kind(_is_text_or_none, "the name of code with its hash, or null", orders.unread(none_is=none_is), False)


_UNKNOWN = Kind(_is_text_or_none, "the name of code with its hash, or null", orders.ranked(), is_read=False)
"""Code that may do more or less than ours does."""

_TEXTS = "a sorted list of texts"
_PLACE = Kind(_is_text_or_none, "a text, or null", orders.named)
_REMARK = Kind(_is_text_or_none, "a text, or null", orders.remarked)
_BOUND = Kind(lambda value: value is None or is_number(value), "a number, or null for no limit", orders.bounded)
_PRICE = Kind(_is_text, "refuse, free, or a price", orders.ranked("refuse"))
_PRESENT = Kind(
    lambda value: value is True or _is_text(value), "true, or the name of code with its hash", orders.remarked
)

LIMITS: Mapping[str, Kind] = {each.name: _PRICE if each.name == "unknown_price" else _BOUND for each in fields(Limits)}

_AGENT: Mapping[str, Kind] = {
    "approver": Kind(_is_text_or_none, "the name of code with its hash, or null", orders.answering, False),
    "ceiling": _of(*LEVELS),
    "class": _UNKNOWN,
    "dry_run": _of(True, False, wanted="true or false"),
    "flow": _of(True, False, wanted="true or false"),
    "model/client": _UNKNOWN,
    "model/host": _PLACE,
    "model/key": _REMARK,
    "model/name": _REMARK,
    "model/price": Kind(_is_text_or_none, "a text, or null", orders.ranked(None)),
    "model/provider": _PLACE,
    "model/settings": _code(),
    "output": Kind(
        lambda value: value is None or (_is_text(value) and bool(_DIGEST.fullmatch(value))),
        "a hash, or null",
        orders.unread(none_is=Way.WIDER),
        False,
    ),
    "policy": _UNKNOWN,
    "secrets": Kind(_is_texts, _TEXTS, orders.more),
    "session": Kind(_is_text, "a text", orders.ranked(IN_MEMORY)),
    "workspace/folder": Kind(_is_text_or_none, "a folder, or null", orders.containing),
    "workspace/journal": _of(None, KEPT, IN_MEMORY, wanted=f"{KEPT!r}, {IN_MEMORY!r} or null"),
    **{f"limits/{name}": kind for name, kind in LIMITS.items()},
}

_TOOL: Mapping[str, Kind] = {
    "definition": Kind(
        lambda value: _is_text(value) and bool(_DIGEST.fullmatch(value)),
        "a hash",
        orders.unread(none_is=Way.NARROWER),
        False,
    ),
    "hosts": Kind(_is_texts, _TEXTS, orders.reaching),
    "isolation": _of(None, "required", "auto", WEAKENED, "off", wanted="required, auto, weakened, off, or null"),
    "judge": _code(none_is=Way.WIDER),
    "labels": Kind(
        lambda value: _is_texts(value) and set(value) <= set(Label), "a sorted list of labels", orders.fewer
    ),
    "level": _of(*LEVELS),
    "made_by": Kind(_is_text, "a text", orders.named),
    "max_chars": Kind(is_number, "a number", orders.bounded),
    "timeout_seconds": _BOUND,
    "verdict": _of(*VERDICTS),
    "writes": _of(None, False, True, wanted="true, false, or null"),
}

_SERVER: Mapping[str, Kind] = {
    "folder": Kind(_is_text_or_none, "a folder, or null", orders.containing),
    "pins": _of(KEPT, IN_MEMORY),
    "reached": Kind(_is_text, "a command or an address", orders.named),
}

SUBJECTS: Mapping[str, Mapping[str, Kind]] = {"": _AGENT, "tools": _TOOL, "servers": _SERVER}
"""The facts of an agent, and those of each of its tools and servers: all of them are stated, always."""

LISTED: Mapping[str, Kind] = {
    "checks": _code(none_is=Way.WIDER),
    "handoffs": _PRESENT,
    "listeners": _code(),
    "rules": Kind(_is_rule, "a rule: verdict, tool, where", orders.remarked),
}
"""The facts of which an agent has any number, by name; rules by number."""


def kind_of(path: Path) -> Kind | None:
    """The kind of the fact at a path; None where there is none."""
    if path == ("agent",):
        return Kind(_is_text, "the name of the agent that is run", orders.remarked)
    if len(path) < 3 or path[0] != "agents" or not all(path):
        return None
    below = path[2:]
    if len(below) == 2 and below[0] in LISTED:
        return LISTED[below[0]]
    if len(below) == 3 and below[0] in ("tools", "servers"):
        return SUBJECTS[below[0]].get(below[2])
    return _AGENT.get("/".join(below))
