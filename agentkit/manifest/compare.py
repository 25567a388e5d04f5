"""Comparison of two manifests: which changes widen and which narrow permissions (pure)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.decisions import Verdict
from agentkit.event_rendering import truncate
from agentkit.manifest.file import Manifest
from agentkit.manifest.schema import SUBJECTS, ChangeDirection, Path
from agentkit.safety.paths import inside
from agentkit.safety.rules import Rule, origin

RuleData = Mapping[str, Any]
"""A rule as in a manifest: verdict, tool, where, and the rule's own class if it is not the built-in one."""

_STRICTNESS = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


def rule_changes(before: Sequence[RuleData], after: Sequence[RuleData]) -> Iterator[tuple[ChangeDirection, bool, int]]:
    """The rules that differ in meaning: direction, whether the rule is from `before`, and its index."""
    yield from ((_removal_direction(rule), True, index) for index, rule in _missing(before, after))
    yield from ((_opposite(_removal_direction(rule)), False, index) for index, rule in _missing(after, before))


def _missing(rules: Sequence[RuleData], others: Sequence[RuleData]) -> Iterator[tuple[int, RuleData]]:
    """The rules that none of the others covers."""
    for index, rule in enumerate(rules):
        if not any(covers(other, rule) for other in others):
            yield index, rule


def _removal_direction(rule: RuleData) -> ChangeDirection:
    return ChangeDirection.NARROWER if rule["verdict"] == Verdict.ALLOW else ChangeDirection.WIDER


def _opposite(way: ChangeDirection) -> ChangeDirection:
    return ChangeDirection.NARROWER if way is ChangeDirection.WIDER else ChangeDirection.WIDER


def covers(wide: RuleData, narrow: RuleData) -> bool:
    """Whether the first rule decides every call that the second matches at least as far."""
    if wide.get("code") != narrow.get("code") or not _covers_tools(wide, narrow) or not _is_as_strict(wide, narrow):
        return False
    fitting = narrow["where"]
    if wide["verdict"] == Verdict.ALLOW and _tests_user_text(narrow) and not _allows_egress(wide, fitting.keys()):
        return False
    return all(
        any(_implies((test, operand), (own, given)) for own, given in fitting.get(argument, {}).items())
        for argument, tests in wide["where"].items()
        for test, operand in tests.items()
    )


def _covers_tools(wide: RuleData, narrow: RuleData) -> bool:
    """Whether the first rule matches every tool that the second matches, as far as their patterns show."""
    if wide["tool"] in (narrow["tool"], "*"):
        return True
    rule = Rule(wide["verdict"], wide["tool"])
    return not Rule(narrow["verdict"], narrow["tool"]).is_pattern and rule.is_about(narrow["tool"])


def _tests_user_text(rule: RuleData) -> bool:
    return any("from_user" in tests for tests in rule["where"].values())


def _allows_egress(rule: RuleData, free: Set[str]) -> bool:
    """Whether the rule allows what a person wrote, even with both labels read, and names these arguments.

    Arguments that such a rule does not name must have been written by the person.
    """
    return _tests_user_text(rule) and free <= rule["where"].keys()


def _is_as_strict(rule: RuleData, other: RuleData) -> bool:
    """Whether a rule is as strict: only `allow` covers `allow`, and `deny` also covers `ask`."""
    if Verdict.ALLOW in (rule["verdict"], other["verdict"]):
        return bool(rule["verdict"] == other["verdict"])
    return _STRICTNESS.index(rule["verdict"]) >= _STRICTNESS.index(other["verdict"])


def _implies(wide: tuple[str, Any], narrow: tuple[str, Any]) -> bool:
    """Whether every value that passes the second test also passes the first."""
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
"""For each test, whether the first operand accepts every value that the second accepts."""


def _folder(operand: str) -> str:
    return f"/{operand.strip('/')}"


_GROUP_NAMES = {
    "tools": "tool",
    "servers": "MCP server",
    "guardrails": "guardrail",
    "handoffs": "agent to hand over to",
    "listeners": "listener",
}
_RESTRICTING_GROUPS = {"guardrails"}
"""Groups in which an additional entry narrows the permissions."""

_REVIEW = "its effect cannot be compared: review it"
_DIGEST_CHARS = 8
_MAX_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Difference:
    """One changed fact: its direction, its line in the file, and a description.

    For a new fact, `line` is the line after which it would be inserted.
    """

    way: ChangeDirection
    line: int
    text: str
    is_new: bool = False

    def __str__(self) -> str:
        return f"{'after line' if self.is_new else 'line'} {self.line}: {self.text}"


def differences(before: Manifest, after: Manifest) -> tuple[Difference, ...]:
    """The differences in permissions between two manifests, in the order of the file's lines."""
    comparison = _Comparison(before, after)
    found = [*comparison.main_agent(), *comparison.agents()]
    return tuple(sorted(found, key=lambda each: (each.line, each.is_new)))


@dataclass(frozen=True, slots=True)
class _Comparison:
    before: Manifest
    after: Manifest

    def main_agent(self) -> Iterator[Difference]:
        """Report a different main agent as wider; its facts are compared as well if it was in the file."""
        path = ("agent",)
        if self.before.facts[path] != self.after.facts[path]:
            yield self._changed(ChangeDirection.WIDER, path, f"another agent is run: {self._change(path)}")

    def agents(self) -> Iterator[Difference]:
        old, new = self.before.agents, self.after.agents
        for name in dict.fromkeys((*old, *new)):
            path = ("agents", name)
            if name not in new:
                yield self._removed(ChangeDirection.NARROWER, path, f"the agent {name} is gone")
            elif name not in old:
                yield self._new(ChangeDirection.WIDER, path, f"a new agent, {name}: {self._summary(name)}")
            else:
                yield from self._compare_agent(name)

    def _compare_agent(self, agent: str) -> Iterator[Difference]:
        yield from self._compare_facts(("agents", agent), "")
        for group in ("tools", "servers", "guardrails", "handoffs", "listeners"):
            yield from self._compare_group(agent, group)
        yield from self._compare_rules(agent)

    def _compare_group(self, agent: str, group: str) -> Iterator[Difference]:
        """Compare a group of an agent by name: new, removed and changed entries."""
        old, new = self.before.names(agent, group), self.after.names(agent, group)
        for name in dict.fromkeys((*old, *new)):
            path = ("agents", agent, group, name)
            if name not in new:
                way = ChangeDirection.WIDER if group in _RESTRICTING_GROUPS else ChangeDirection.NARROWER
                yield self._removed(way, path, f"the {_GROUP_NAMES[group]} {name} is gone")
            elif name not in old:
                way = ChangeDirection.NARROWER if group in _RESTRICTING_GROUPS else ChangeDirection.WIDER
                yield self._new(way, path, f"a new {_GROUP_NAMES[group]}, {name}{self._key_facts(path)}")
            elif group in SUBJECTS:
                yield from self._compare_facts(path, group)
            elif self.before.facts[path] != self.after.facts[path]:
                yield self._changed(
                    ChangeDirection.WIDER, path, f"the {_GROUP_NAMES[group]} {name} has changed: {_REVIEW}"
                )

    def _compare_facts(self, subject: Path, group: str) -> Iterator[Difference]:
        for key, kind in SUBJECTS[group].items():
            path = (*subject, *key.split("/"))
            old, new = self.before.facts[path], self.after.facts[path]
            if old != new:
                name = f"{subject[3]}: " if group else ""
                change = self._change(path) if kind.is_readable else _hash_change(old, new)
                yield self._changed(kind.order(old, new), path, f"{name}{key.replace('/', ': ')} {change}")

    def _compare_rules(self, agent: str) -> Iterator[Difference]:
        old, new = self._rules(self.before, agent), self._rules(self.after, agent)
        changes = list(rule_changes([rule for _, rule in old], [rule for _, rule in new]))
        for way, is_removal, index in changes:
            if is_removal:
                path, rule = old[index]
                yield self._removed(way, path, f"the rule {_format_rule(rule)} was removed, or applies to fewer calls")
            else:
                path, rule = new[index]
                yield self._new(way, path, f"a new rule, or one that applies to more calls: {_format_rule(rule)}")
        if not changes and [rule for _, rule in old] != [rule for _, rule in new]:
            path = old[0][0] if old else new[0][0]
            text = "the rules are written differently, with the same meaning"
            yield (
                self._removed(ChangeDirection.OTHER, path, text)
                if old
                else self._new(ChangeDirection.OTHER, path, text)
            )

    def _rules(self, manifest: Manifest, agent: str) -> list[tuple[Path, Any]]:
        paths = [("agents", agent, "rules", number) for number in manifest.names(agent, "rules")]
        return [(path, manifest.facts[path]) for path in paths]

    def _summary(self, agent: str) -> str:
        tools = self.after.names(agent, "tools")
        return f"{self.after.facts['agents', agent, 'ceiling']} unasked, with {', '.join(tools) or 'no tools'}"

    def _key_facts(self, path: Path) -> str:
        """The most important facts of a new entry."""
        facts = self.after.facts
        if path[2] == "tools":
            return f": {facts[*path, 'level']}, {facts[*path, 'verdict']}, made by {facts[*path, 'made_by']}"
        return f": {facts[*path, 'reached']}" if path[2] == "servers" else ""

    def _change(self, path: Path) -> str:
        return f"{_format_value(self.before.facts[path])} -> {_format_value(self.after.facts[path])}"

    def _changed(self, way: ChangeDirection, path: Path, text: str) -> Difference:
        return Difference(way, self.before.lines[path], self._with_agent_name(path, text))

    def _removed(self, way: ChangeDirection, path: Path, text: str) -> Difference:
        line = min(line for other, line in self.before.lines.items() if other[: len(path)] == path)
        return Difference(way, line, self._with_agent_name(path, text))

    def _new(self, way: ChangeDirection, path: Path, text: str) -> Difference:
        return Difference(way, self.before.line_before(path), self._with_agent_name(path, text), is_new=True)

    def _with_agent_name(self, path: Path, text: str) -> str:
        """Prefix the text with the agent's name if there are several agents."""
        is_one = len({*self.before.agents, *self.after.agents}) == 1
        return text if is_one or len(path) < 3 else f"{path[1]}: {text}"


def _hash_change(old: str | None, new: str | None) -> str:
    """Describe a change of a hash, whose effect is unknown."""
    text = f"{_shorten(old)} -> {_shorten(new)}"
    return text if old is None or new is None else f"has changed, {text}; {_REVIEW}"


def _shorten(value: str | None) -> str:
    """A name with the beginning of its hash."""
    if value is None:
        return "none"
    name, mark, digest = value.rpartition("sha256:")
    return f"{name}{mark}{digest[:_DIGEST_CHARS]}" if mark else value


def _format_rule(rule: Any) -> str:
    where = f" {_format_value(rule['where'])}" if rule["where"] else ""
    return f"{rule['verdict']} {rule['tool']}{where}"


def _format_value(value: Any) -> str:
    """A value as text of limited length."""
    if value is None:
        return "none"
    return truncate(value if isinstance(value, str) else json.dumps(value, sort_keys=True), _MAX_SHOWN_CHARS)
