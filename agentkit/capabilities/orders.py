"""Of two values of a fact, which one lets an agent do more? (pure)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from ipaddress import ip_network
from typing import Any

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


class Way(StrEnum):
    """What a change does: it lets an agent do more, less, or neither."""

    WIDER = "wider"
    NARROWER = "narrower"
    OTHER = "other"


Order = Callable[[Any, Any], Way]
"""What becomes of an agent when the first value is replaced by the second, which is another one."""


def ranked(*values: Any) -> Order:
    """Values that have this order, the narrowest first; any other value is wider than all."""

    def order(before: Any, after: Any) -> Way:
        places = [values.index(value) if value in values else len(values) for value in (before, after)]
        return Way.NARROWER if places[1] < places[0] else Way.WIDER

    return order


def bounded(before: float | None, after: float | None) -> Way:
    """A number that is the most there may be; None is no bound."""
    return Way.NARROWER if before is None or (after is not None and after < before) else Way.WIDER


def unread(*, none_is: Way) -> Order:
    """Code or a schema, by its hash: what another one lets through cannot be told, so that it must be looked at.

    `none_is` says whether having none lets an agent do more or less than any.
    """

    def order(before: str | None, after: str | None) -> Way:
        if before is None:
            return Way.NARROWER if none_is is Way.WIDER else Way.WIDER
        return Way.NARROWER if after is None and none_is is Way.NARROWER else Way.WIDER

    return order


def answering(before: str | None, after: str | None) -> Way:
    """Who answers questions: nobody is narrowest, as nothing happens then, and an answer that is always yes widest."""
    if after is None or (before is not None and before.startswith(ALWAYS_YES) and not after.startswith(ALWAYS_YES)):
        return Way.NARROWER
    return Way.WIDER


def named(before: str | None, after: str | None) -> Way:
    """Where something is: nowhere is narrowest, another place must be looked at, and the environment may say any."""
    known = set() if before is None else set(before.split(THEN))
    is_known = ENVIRONMENT in known or after is None or known.issuperset(after.split(THEN))
    return Way.NARROWER if is_known else Way.WIDER


def fewer(before: Collection[str], after: Collection[str]) -> Way:
    """What holds an agent back, such as the labels of what its tools read: without one of them it may do more."""
    return Way.WIDER if set(before) - set(after) else Way.NARROWER


def more(before: Collection[str], after: Collection[str]) -> Way:
    """What is open to an agent, such as the variables that it may see."""
    return Way.WIDER if set(after) - set(before) else Way.NARROWER


def reaching(before: Sequence[str], after: Sequence[str]) -> Way:
    """The hosts that may be reached: an entry may cover other hosts, and `any` covers all."""
    is_covered = all(any(_holds(wide, host) for wide in before) for host in after)
    return Way.NARROWER if is_covered else Way.WIDER


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


def containing(before: str | None, after: str | None) -> Way:
    """The folder that may be worked in: none is narrowest, and one within another is narrower."""
    is_within = after is None or (before is not None and _is_within(after, before))
    return Way.NARROWER if is_within else Way.WIDER


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


def remarked(_before: object, _after: object) -> Way:
    """What says what an agent is, and not what it may do."""
    return Way.OTHER
