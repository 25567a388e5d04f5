"""Traversal of the syntax tree of a command (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.decisions import Decision
from agentkit.safety.shell import commands, control_flow, files, outputs, parsing, simple_commands
from agentkit.safety.shell.parsing import UNREAD, hidden, own_text, unescaped
from agentkit.safety.shell.variables import (
    ANYTHING,
    NOTHING,
    PARAMETERS,
    PERHAPS_EMPTY,
    TAME,
    UNKNOWN,
    Finding,
    ShellScope,
    ShellScript,
    StartedCommand,
    Value,
    Word,
    ask,
)
from agentkit.safety.shell.word_expansion import EXPANSIONS, Expander, source, word_value

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_STEPS = 400
_MAX_DEPTH = 2 * parsing.MAX_DEPTH
_HERE = {"eval", "source", "."}  # what they run is run in the same shell
_HARMLESS_WRITERS = {"mkdir", "touch", "chmod", "rmdir", "venv"}  # what they make is empty, or as before
_BUILDERS = {"make", "gmake", "just", "rake", "ant", "gradle", "mvn", "ninja", "task", "docker", "gcc", "cmake"}
_BEYOND = {"shell.too-deep", "shell.too-many", "shell.too-long"}


class CommandVisitor:
    """Collects a decision for every part of a command."""

    def __init__(self, whole: str, scope: ShellScope) -> None:
        self._whole, self._scope = whole, scope
        self._span, self._depth, self._steps = whole, 0, 0
        self._found: list[Decision] = []
        self._folders: set[str | None] = {scope.cwd}
        self._calls: list[str] = []
        self._instead: dict[int, Node] = {}
        self._reached = set[int]()
        self._roots: list[Node] = []

    def findings(self) -> list[Decision]:
        """All decisions on the parts, in the order of the text."""
        self._script(self._whole, self._whole, self._scope)
        if "\\\n" in self._whole:
            # The parser sees a word's end where bash joins two lines.
            self._script(self._whole.replace("\\\n", ""), self._whole, self._scope.fork())
        self._run_later()
        return self._found

    def _run_later(self) -> None:
        """Traps and aliases run at any moment after: in each folder, with whatever the variables are then."""
        self._scope.forget()
        for script in dict.fromkeys(self._scope.later):
            for folder in sorted(self._folders, key=str):
                inner = replace(self._scope.fork(), cwd=folder, elsewhere=frozenset(), failed=frozenset())
                self._script(script.text, script.source, inner)

    def add(self, finding: Decision) -> None:
        """Keep a decision; its evidence must stand in the command itself."""
        if not finding.evidence or finding.evidence not in self._whole:
            finding = replace(finding, evidence=self._span)
        self._found.append(finding)

    def expander(self, scope: ShellScope) -> Expander:
        """The expansion of syntax into words in this scope."""
        return Expander(scope, self)

    def reached(self, node: Node) -> None:
        """Keep in mind that an expansion was judged."""
        self._reached.add(node.id)

    def assign(self, name: str, value: Value, text: str, scope: ShellScope) -> None:
        """Judge and keep a variable's new value."""
        simple_commands.set_variable(self, scope, (name, value), text)

    def visit(self, node: Node, scope: ShellScope) -> Value:
        """Judge a statement; returns what it prints."""
        self._depth += 1
        try:
            if self._exhausted():
                return ANYTHING
            return self.itself(self.resolved(node), scope)
        except OverflowError:
            self.add(ask("large-expansion", source(node), "The braces expand to too many words.", "Use a loop."))
            return ANYTHING
        finally:
            self._depth -= 1

    def resolved(self, node: Node) -> Node:
        """The statement itself, or the one that replaces it."""
        return self._instead.get(node.id, node)

    def itself(self, node: Node, scope: ShellScope) -> Value:
        """Judge a statement or its replacement."""
        return _STATEMENTS.get(node.type, _strange)(self, node, scope)

    def around(self, node: Node, body: Node, part: Node, scope: ShellScope) -> Value:
        """Judge the statements of `body`, where what the parser has put around all of it is around `part` alone."""
        before = dict(self._instead)
        try:
            if node.type == "pipeline":
                self._instead[body.id] = part
                return control_flow.chain(self, body, scope, node)
            self._instead |= {part.id: node, node.children[0].id: part}
            return self.itself(body, scope)
        finally:
            self._instead = before

    def substitution(self, node: Node, scope: ShellScope) -> Value:
        """Judge $(...), `...`, <(...) or >(...); returns the text that takes its place."""
        inner = scope.fork()
        inner.stdin, inner.bounded = None, False
        script = unescaped(node)
        value = (
            control_flow.sequence(self, node, inner) if script is None else self._script(script, source(node), inner)
        )
        if node.type == "process_substitution":
            name = f"/dev/fd/{63 + len(scope.pipes)}"
            scope.pipes[name] = value
            return Value(name, value.origins - {PERHAPS_EMPTY})
        is_known = TAME in value.text or UNKNOWN not in value.text
        return value if is_known else Value(value.text, value.origins | {"output"})

    def words(self, words: list[Word], scope: ShellScope) -> Value:
        """Judge a command by its words, as the function and as the program of that name; returns what it prints."""
        if not words:
            return NOTHING
        if self._exhausted():
            return ANYTHING
        scope.settle()
        bodies = scope.functions.get(words[0].text, ())
        for body in bodies:
            self._call(body, words, scope)
        if bodies and not control_flow.is_known(words[0].text):
            return ANYTHING
        return self._program(words, scope)

    def _call(self, body: Node, words: list[Word], scope: ShellScope) -> None:
        """Judge a function's body where it is called, with its arguments."""
        name = words[0].text
        if name in self._calls:
            self.add(ask("recursion", words[0].source, "A recursive function may never end.", "Use a loop."))
            return
        before = scope.fork()
        scope.set_parameters([word_value(word) for word in words[1:]])
        scope.in_function = True
        self._calls.append(name)
        self.visit(body, scope)
        self._calls.pop()
        scope.merge(before)
        scope.in_function = before.in_function
        for name in PARAMETERS:
            scope.variables.pop(name, None)
        scope.variables |= {name: before.variables[name] for name in PARAMETERS if name in before.variables}

    def _program(self, words: list[Word], scope: ShellScope) -> Value:
        started = None
        before = set(scope.written)
        simple_commands.linked(self, words, scope)
        self._built_from(words, scope)
        for version in _versions(words):
            for possible in list(scope.possible()):
                if possible is not scope and self._exhausted():
                    break
                for finding in commands.examine(version, possible):
                    printed = self.finding(finding, possible, words[0].text)
                    started = printed if isinstance(finding, StartedCommand) else started
                if possible is not scope:
                    scope.may_be_in(possible.folders)
        if words[0].text in _HARMLESS_WRITERS:
            scope.written.intersection_update(before)
        simple_commands.take_effect(self, words, scope)
        self._folders |= scope.folders
        return started or outputs.prints(words, scope)

    def _built_from(self, words: list[Word], scope: ShellScope) -> None:
        """A build that follows a file which the same command wrote."""
        for word in words[1:] if words[0].text in _BUILDERS else ():
            path = files.resolve(word.text, scope)
            if path and path in scope.written:
                self.add(ask("fresh-code", word.source, "It runs a file that the same command created."))

    def finding(self, finding: Finding, scope: ShellScope, name: str = "") -> Value:
        """Keep a decision, or judge what the command `name` would start; returns what that prints."""
        self._depth += 1
        try:
            if isinstance(finding, Decision):
                self.add(finding)
                return ANYTHING
            if isinstance(finding, ShellScript):
                if name in {"trap", "alias"}:
                    scope.later.append(finding)
                return self._script(
                    finding.text, finding.source, scope if name in _HERE else _inner(name, finding, scope)
                )
            return NOTHING if not finding.words or self._exhausted() else self._program(finding.words, scope)
        finally:
            self._depth -= 1

    def _exhausted(self) -> bool:
        self._steps += 1
        beyond = self._steps > _MAX_STEPS or self._depth > _MAX_DEPTH
        if beyond:
            self.add(ask("too-many", "", "It has too many parts to judge.", "Run it in parts."))
        return beyond

    def _script(self, text: str, span: str, scope: ShellScope) -> Value:
        before = self._span
        self._span = span if span in self._whole else before
        refused = parsing.refusal(text)
        root = parsing.parse(text)
        troubles = [refused] if refused else parsing.troubles(root)
        for trouble in troubles:
            self.add(trouble)
        value = ANYTHING
        if not _BEYOND & {trouble.rule for trouble in troubles}:
            self._hidden(root, scope)
            value = self.visit(root, scope)
            self._unreached(root)
        self._span = before
        return value

    def _unreached(self, root: Node) -> None:
        """Ask about expansions that have not been judged, as the parser has put them in a place where none belongs."""
        self._roots.append(root)  # a tree that is freed could lend its nodes' ids to another one
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node.type in EXPANSIONS and node.id not in self._reached:
                self.add(
                    ask(
                        "unreadable",
                        source(node),
                        "Part of it is not supported by the analysis.",
                        "Simplify the command.",
                    )
                )
                return
            waiting.extend(node.children)

    def _hidden(self, root: Node, scope: ShellScope) -> None:
        """Judge what runs in texts that the parser takes for plain."""
        for node, scripts in hidden(root):
            if node.type != "heredoc_body" or "$(" in source(node) or UNREAD.search(own_text(node)):
                self.add(
                    ask("unreadable", source(node), "A command is nested in text.", "Write it as a separate $(...).")
                )
            for script in scripts:
                self.finding(ShellScript(script, source(node)), scope)


def _inner(name: str, script: ShellScript, scope: ShellScope) -> ShellScope:
    """The shell that runs a script: this one later, or a child with a separate environment."""
    inner = scope.fork()
    if name not in {"trap", "alias"}:
        inner.foreign, inner.keyed = True, frozenset()
        inner.set_parameters(None if script.arguments is None else [word_value(word) for word in script.arguments])
    return inner


def _versions(words: list[Word]) -> Iterator[list[Word]]:
    """The words, and what they are if the texts in them that may be empty are."""
    yield words
    if any(PERHAPS_EMPTY in word.origins for word in words):
        yield [
            replace(word, text=re.sub(f"[{UNKNOWN}{TAME}]", "", word.text)) if PERHAPS_EMPTY in word.origins else word
            for word in words
        ]


def _strange(walk: CommandVisitor, node: Node, scope: ShellScope) -> Value:
    """A part that has no meaning here."""
    walk.add(ask("unreadable", source(node), "Part of it is not supported by the analysis.", "Simplify the command."))
    return control_flow.sequence(walk, node, scope)


_STATEMENTS: dict[str, Callable[[CommandVisitor, Node, ShellScope], Value]] = {
    **dict.fromkeys(("program", "do_group", "negated_command", "variable_assignments", "ERROR"), control_flow.sequence),
    **dict.fromkeys(("if_statement", "elif_clause", "else_clause", "case_item"), control_flow.branch),
    **dict.fromkeys(("while_statement", "c_style_for_statement"), control_flow.loop),
    **dict.fromkeys(("file_redirect", "heredoc_redirect", "herestring_redirect"), simple_commands.bare_redirect),
    "for_statement": control_flow.loop_over_words,
    "compound_statement": control_flow.compound,
    "test_command": control_flow.condition,
    "subshell": control_flow.subshell,
    "list": control_flow.chain,
    "case_statement": control_flow.case,
    "function_definition": control_flow.function,
    "pipeline": control_flow.pipeline,
    "redirected_statement": simple_commands.redirected,
    "command": simple_commands.command,
    "variable_assignment": simple_commands.assignment,
    "declaration_command": simple_commands.declaration,
    "unset_command": simple_commands.unset,
}
