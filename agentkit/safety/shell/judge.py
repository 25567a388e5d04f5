"""The decision about a shell command: the strictest judgement of its parts (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Required, TypedDict, Unpack

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, Verdict, strictest
from agentkit.levels import SafetyLevel
from agentkit.safety.shell import files, parsing
from agentkit.safety.shell.tables import CommandRule, tables
from agentkit.safety.shell.variables import ShellScope, ask, reads
from agentkit.safety.shell.visitor import CommandVisitor

_COMMENT = re.compile(r"\s*(#[^\n]*(\n\s*|$))+")
_STRICTNESS = ("allow", "ask", "deny")
_WORD = re.compile(r"[\w.-]+")
_UNREAD = frozenset(f"shell.{rule}" for rule in ("unreadable", "too-many", "too-deep", "too-long", "large-expansion"))
"""The rules of findings after which a part of the command was not judged."""


@dataclass(frozen=True, slots=True)
class Judgment:
    """The decision on a command, and patterns of what the workspace's journal must be able to restore for it to hold.

    Where it cannot restore all that is `destroyed`, the decision is `otherwise`. It should restore what is `touched`
    too. `agentkit.workspace.restorable` describes the patterns. `places` are the absolute paths that the command names
    as files, with `/home/~` for the home folder, and `scripts` those whose content it runs; they are
    empty for a command that is too long. `options` are words that are options only if a file name begins with a dash,
    or contains one after white space; the decision is valid if no file of the workspace has such a name.
    """

    decision: Decision
    destroyed: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    scripts: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()

    def otherwise(self, why: str) -> Decision:
        """The decision when the journal cannot restore what is deleted, and why it cannot."""
        reason = f"The deletion could not be undone: {why}."
        remedy = "Delete fewer files at once, or move them aside."
        asked = ask("delete", self.decision.evidence, reason, remedy, egress=self.decision.egress)
        return replace(asked, destroys=self.decision.destroys)


def examine_command(
    command: str,
    *,
    workspace: str,
    contained: bool = True,
    network: bool = False,
    exposed: Iterable[str] = (),
    undoable: bool = False,
) -> Judgment:
    """Judge a bash command that would run in the folder `workspace` (absolute), without running anything.

    `contained` says that a sandbox will confine it, `network` that the caller granted the network. `exposed` are files
    with keys in the workspace (absolute) that nothing would hide: what may read them unnamed is asked about. `undoable`
    says that a journal records what it changes in the workspace. The strictest part binds.
    """
    refused = parsing.refusal(command)
    if refused is not None:
        return Judgment(replace(refused, destroys=_destroyed([refused], command)))
    scope = ShellScope(
        workspace, workspace, contained, network, frozenset(exposed), undoable=undoable and contained and not exposed
    )
    decision = _concluded(CommandVisitor(command, scope).findings(), command, contained=contained)
    # What a command writes may hold what it has moved or packed before, and deletes afterwards.
    touched = frozenset(scope.destroyed | scope.touched)
    destroyed = touched if decision.allowed and scope.destroyed else frozenset()
    known = frozenset(each for each in touched if not files.is_all(each))
    return Judgment(
        decision, destroyed, known, frozenset(scope.places), frozenset(scope.scripts), frozenset(scope.options)
    )


class Facts(TypedDict, total=False):
    """The arguments of `examine_command` about the environment of a command."""

    workspace: Required[str]
    contained: bool
    network: bool
    exposed: Iterable[str]


def judge_command(
    command: str,
    *,
    agrees: Callable[[str], bool] | None = None,
    unrestorable: Callable[[frozenset[str]], str] | None = None,
    ambiguous_name: Callable[[], str] | None = None,
    **facts: Unpack[Facts],
) -> Decision:
    """The decision on a bash command, as `examine_command` judges it.

    `agrees` checks whether bash parses an allowed command. `unrestorable` returns why the journal could not restore
    what the command deletes in the workspace, or ""; without it nothing counts as restorable. `ambiguous_name` returns
    why a file name in the workspace could be read as an option, or ""; without it ordinary names are assumed.
    """
    judgment = examine_command(command, undoable=unrestorable is not None, **facts)
    return settled(judgment, command, agrees=agrees, unrestorable=unrestorable, ambiguous_name=ambiguous_name)


def settled(
    judgment: Judgment,
    command: str,
    *,
    agrees: Callable[[str], bool] | None = None,
    unrestorable: Callable[[frozenset[str]], str] | None = None,
    ambiguous_name: Callable[[], str] | None = None,
) -> Decision:
    """The decision of a judgment after bash and the journal were asked, as `judge_command` describes."""
    decision = judgment.decision
    if decision.allowed and agrees is not None and not agrees(command):
        asked = ask("unreadable", command, "bash cannot parse it.", "Simplify the command.")
        return replace(asked, destroys=decision.destroys or _destroyed([asked], command))
    odd = ambiguous_name() if decision.allowed and judgment.options and ambiguous_name is not None else ""
    if odd:
        asked = ask(
            "option", min(judgment.options), f"A file name could be read as an option: {odd}.", "Name the files."
        )
        return replace(asked, egress=decision.egress, destroys=decision.destroys)
    if judgment.destroyed:
        why = unrestorable(judgment.destroyed) if unrestorable is not None else "no journal records it"
        return judgment.otherwise(why) if why else decision
    return decision


def _concluded(findings: list[Decision], command: str, *, contained: bool) -> Decision:
    """The strictest finding; of allowed ones, the one with the greatest harm, for all of them together."""
    if not findings:
        only_said = _COMMENT.fullmatch(command)
        return reads(command) if only_said else ask("empty", command, "The command is empty.", "Pass a command.")
    decision, destroys = strictest(findings), _destroyed(findings, command)
    if not decision.allowed:
        return replace(decision, egress=any(found.egress for found in findings), destroys=destroys)
    greatest = max(findings, key=_harm)
    if not contained and greatest.level is SafetyLevel.SYSTEM:
        why = "It changes files or runs code, and no sandbox confines it here."
        greatest = ask("uncontained", greatest.evidence, why, egress=greatest.egress)
    return greatest if greatest.destroys == destroys else replace(greatest, destroys=destroys)


def _harm(found: Decision) -> tuple[bool, SafetyLevel, bool, bool]:
    """The sort key of an allowed finding; among equal ones, a decision precedes a mere destruction."""
    return found.egress, found.level or SafetyLevel.SAFE, found.rule == "shell.runs", not found.destroys


def _destroyed(findings: list[Decision], command: str) -> str:
    """The destruction by the command, as the rest of a sentence, or "".

    A command that was not read to its end may destroy if it names a program that can.
    """
    reason = next((found.destroys for found in findings if found.destroys), "")
    if reason or not any(found.rule in _UNREAD for found in findings):
        return reason
    named = next((word for word in _WORD.findall(command) if word in tables().destroying), "")
    return f"it cannot be read to its end, and names {named}, which can delete files." if named else ""


def check_examples() -> list[str]:
    """The examples in rules.toml that are judged otherwise than they say, each in one line; none when all is well.

    A `match` must get the rule's verdict or a stricter one, and one of them must be decided by this very rule; a
    `not_match` must not be.
    """
    known = tables()
    rules = {id(rule): rule for group in (*known.rules.values(), known.every) for rule in group}
    return [line for rule in rules.values() for line in (*_mistakes(rule), *_undestroyed(rule))]


def _undestroyed(rule: CommandRule) -> list[str]:
    """Examples of a rule that destroys whose decisions do not say so, and the other way round."""
    if not rule.destroys:
        return []
    wanted = [(command, True) for command in rule.match] + [(command, False) for command in rule.not_match]
    judged = [(command, judge_command(command, workspace="/workspace"), is_one) for command, is_one in wanted]
    return [f"{rule.id}: {c!r} destroys {d.destroys!r}" for c, d, is_one in judged if bool(d.destroys) is not is_one]


def _mistakes(rule: CommandRule) -> list[str]:
    matching = [(command, judge_command(command, workspace="/workspace")) for command in rule.match]
    others = [(command, judge_command(command, workspace="/workspace")) for command in rule.not_match]
    least = _STRICTNESS.index(rule.verdict)
    missed = [(c, d) for c, d in matching if _STRICTNESS.index(d.verdict) < least]
    caught = [(c, d) for c, d in others if (d.rule, d.verdict) == (f"shell.{rule.id}", rule.verdict)]
    lines = [f"{rule.id}: {command!r} is judged {decision}" for command, decision in missed + caught]
    _, _, reason = rule.reason.partition(" ")  # whose first word may be the variable that it is about
    decides = [d for _, d in matching if d.rule == f"shell.{rule.id}" and d.reason.endswith(reason)]
    if rule.match and rule.verdict is not Verdict.ALLOW and not decides:
        lines.append(f"{rule.id}: another table decides each of {rule.match}; put this one before it")
    return lines
