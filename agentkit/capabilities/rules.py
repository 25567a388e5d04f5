"""When do rules let more happen? The strictest that fits binds, so that their order says nothing (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

from agentkit.capabilities.orders import Way
from agentkit.decisions import Verdict
from agentkit.safety.paths import inside
from agentkit.safety.rules import Rule, origin

Told = Mapping[str, Any]
"""A rule as a manifest has it: verdict, tool, where, and the code that reads it when that is not ours."""

_STRICTNESS = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


def changed(before: Sequence[Told], after: Sequence[Told]) -> Iterator[tuple[Way, bool, int]]:
    """The rules that differ in meaning: which way, whether the rule is one of those before, and its index there."""
    yield from ((_way_without(rule), True, index) for index, rule in _missing(before, after))
    yield from ((_opposite(_way_without(rule)), False, index) for index, rule in _missing(after, before))


def _missing(rules: Sequence[Told], others: Sequence[Told]) -> Iterator[tuple[int, Told]]:
    """The rules that none of the others makes up for."""
    for index, rule in enumerate(rules):
        if not any(covers(other, rule) for other in others):
            yield index, rule


def _way_without(rule: Told) -> Way:
    return Way.NARROWER if rule["verdict"] == Verdict.ALLOW else Way.WIDER


def _opposite(way: Way) -> Way:
    return Way.NARROWER if way is Way.WIDER else Way.WIDER


def covers(wide: Told, narrow: Told) -> bool:
    """Whether the first rule says at least as much as the second of every call that the second fits."""
    if wide.get("code") != narrow.get("code") or not _is_of_more_tools(wide, narrow) or not _is_as_strict(wide, narrow):
        return False
    fitting = narrow["where"]
    if wide["verdict"] == Verdict.ALLOW and _is_about_words(narrow) and not _lets_leave(wide, fitting.keys()):
        return False
    return all(
        any(_implies((test, operand), (own, given)) for own, given in fitting.get(argument, {}).items())
        for argument, tests in wide["where"].items()
        for test, operand in tests.items()
    )


def _is_of_more_tools(wide: Told, narrow: Told) -> bool:
    """Whether the first is about each tool that the second is about, as far as their patterns tell."""
    if wide["tool"] in (narrow["tool"], "*"):
        return True
    rule = Rule(wide["verdict"], wide["tool"])
    return not Rule(narrow["verdict"], narrow["tool"]).is_pattern and rule.is_about(narrow["tool"])


def _is_about_words(rule: Told) -> bool:
    return any("said" in tests for tests in rule["where"].values())


def _lets_leave(rule: Told, free: Set[str]) -> bool:
    """Whether it allows what was said, also out of a conversation that has read both kinds, and names these arguments.

    What such a rule does not name must have been said.
    """
    return _is_about_words(rule) and free <= rule["where"].keys()


def _is_as_strict(rule: Told, other: Told) -> bool:
    """An `allow` is made up for by an `allow` only, an `ask` by a `deny`, too."""
    if Verdict.ALLOW in (rule["verdict"], other["verdict"]):
        return bool(rule["verdict"] == other["verdict"])
    return _STRICTNESS.index(rule["verdict"]) >= _STRICTNESS.index(other["verdict"])


def _implies(wide: tuple[str, Any], narrow: tuple[str, Any]) -> bool:
    """Whether every value that passes the second test passes the first."""
    (test, operand), (other_test, other) = wide, narrow
    if (test, other_test) == ("one_of", "equals"):
        return other in operand
    if test != other_test:
        return False
    return (type(operand), operand) == (type(other), other) or (test in _WIDER and _WIDER[test](operand, other))


_WIDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "one_of": lambda operand, other: all(value in operand for value in other),
    "words": lambda operand, other: other[: len(operand)] == operand,
    "host": lambda operand, other: other.lower().endswith(f".{operand.lower()}") or other.lower() == operand.lower(),
    "origin": lambda operand, other: origin(operand) == origin(other),
    "below": lambda operand, other: ".." not in (operand + other) and inside(_folder(other), _folder(operand)),
    "at_most": lambda operand, other: other <= operand,
    "at_least": lambda operand, other: other >= operand,
}
"""Of two operands of a test, whether the first lets all through that the second does."""


def _folder(operand: str) -> str:
    return f"/{operand.strip('/')}"
