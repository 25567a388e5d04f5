"""What does each part of a command amount to? One pass over its syntax, in bash's own order (pure)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.decisions import Decision
from agentkit.safety.shell import commands, control, outputs, simple
from agentkit.safety.shell.scope import (
    ANYTHING,
    NOTHING,
    TAME,
    UNKNOWN,
    Command,
    Finding,
    Scope,
    Script,
    Value,
    Word,
    ask,
)
from agentkit.safety.shell.syntax import parsing
from agentkit.safety.shell.syntax.words import Expander, source

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_STEPS = 400
_MAX_DEPTH = 2 * parsing.MAX_DEPTH
_BEYOND = {"shell.too-deep", "shell.too-many", "shell.too-long"}


class Walk:
    """Collects a decision for every part of a command."""

    def __init__(self, whole: str, scope: Scope) -> None:
        self._whole, self._scope = whole, scope
        self._span, self._depth, self._steps = whole, 0, 0
        self._found: list[Decision] = []

    def findings(self) -> list[Decision]:
        """All decisions on the parts, in the order of the text."""
        self._script(self._whole, self._whole, self._scope)
        if "\\\n" in self._whole:
            # The parser sees a word's end where bash joins two lines.
            self._script(self._whole.replace("\\\n", ""), self._whole, self._scope.fork())
        return self._found

    def add(self, finding: Decision) -> None:
        """Keep a decision; its evidence must stand in the command itself."""
        if not finding.evidence or finding.evidence not in self._whole:
            finding = replace(finding, evidence=self._span)
        self._found.append(finding)

    def expander(self, scope: Scope) -> Expander:
        """What turns syntax into words in this scope."""
        return Expander(scope, lambda node: self.substitution(node, scope))

    def visit(self, node: Node, scope: Scope) -> Value:
        """Judge a statement; returns what it prints."""
        self._depth += 1
        try:
            if self._exhausted():
                return ANYTHING
            return _STATEMENTS.get(node.type, _strange)(self, node, scope)
        except OverflowError:
            self.add(ask("large-expansion", source(node), "Its braces expand to very many words.", "Use a loop."))
            return ANYTHING
        finally:
            self._depth -= 1

    def substitution(self, node: Node, scope: Scope) -> Value:
        """Judge $(...), `...`, <(...) or >(...); returns the text that takes its place."""
        inner = scope.fork()
        inner.stdin = None
        value = control.sequence(self, node, inner)
        if node.type == "process_substitution":
            name = f"/dev/fd/{63 + len(scope.pipes)}"
            scope.pipes[name] = value
            return Value(name, value.origins)
        told = TAME in value.text or UNKNOWN not in value.text
        return value if told else Value(value.text, value.origins | {"output"})

    def words(self, words: list[Word], scope: Scope) -> Value:
        """Judge a command by its words; returns what it prints."""
        if not words:
            return NOTHING
        if self._exhausted():
            return ANYTHING
        started = None
        for finding in commands.examine(words, scope):
            printed = self.finding(finding, scope)
            started = printed if isinstance(finding, Command) else started
        simple.take_effect(words, scope)
        return started or outputs.prints(words, scope)

    def finding(self, finding: Finding, scope: Scope) -> Value:
        """Keep a decision, or judge what a command would start; returns what that prints."""
        self._depth += 1
        try:
            if isinstance(finding, Decision):
                self.add(finding)
                return ANYTHING
            if isinstance(finding, Script):
                return self._script(finding.text, finding.source, scope.fork())
            return self.words(finding.words, scope)
        finally:
            self._depth -= 1

    def _exhausted(self) -> bool:
        self._steps += 1
        beyond = self._steps > _MAX_STEPS or self._depth > _MAX_DEPTH
        if beyond:
            self.add(ask("too-many", "", "It has too many parts to judge.", "Run it in parts."))
        return beyond

    def _script(self, text: str, span: str, scope: Scope) -> Value:
        before = self._span
        self._span = span if span in self._whole else before
        refused = parsing.refusal(text)
        root = parsing.parse(text)
        troubles = [refused] if refused else parsing.troubles(root)
        for trouble in troubles:
            self.add(trouble)
        value = ANYTHING if _BEYOND & {trouble.rule for trouble in troubles} else self.visit(root, scope)
        self._span = before
        return value


def _strange(walk: Walk, node: Node, scope: Scope) -> Value:
    """A part that has no meaning here."""
    walk.add(ask("unreadable", source(node), "Part of it is not understood.", "Write it more plainly."))
    return control.sequence(walk, node, scope)


_STATEMENTS: dict[str, Callable[[Walk, Node, Scope], Value]] = {
    **dict.fromkeys(("program", "do_group", "negated_command", "variable_assignments", "ERROR"), control.sequence),
    **dict.fromkeys(("if_statement", "elif_clause", "else_clause", "case_item"), control.branch),
    **dict.fromkeys(("while_statement", "c_style_for_statement"), control.loop),
    **dict.fromkeys(("file_redirect", "heredoc_redirect", "herestring_redirect"), simple.bare_redirect),
    "for_statement": control.loop_over_words,
    "compound_statement": control.compound,
    "test_command": control.condition,
    "subshell": control.subshell,
    "list": control.chain,
    "case_statement": control.case,
    "function_definition": control.function,
    "pipeline": control.pipeline,
    "redirected_statement": simple.redirected,
    "command": simple.command,
    "variable_assignment": simple.assignment,
    "declaration_command": simple.declaration,
    "unset_command": simple.unset,
}
