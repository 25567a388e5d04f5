"""The decision about a shell command: traversal of its syntax tree, and the strictest judgement of its parts (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, SafetyLevel, strictest
from agentkit.safety.shell import commands, control_flow, files, outputs, parsing, simple_commands
from agentkit.safety.shell.parsing import UNREAD, hidden, own_text, unescaped
from agentkit.safety.shell.tables import tables
from agentkit.safety.shell.variables import (
    ANYTHING,
    NOTHING,
    PARAMETERS,
    PERHAPS_EMPTY,
    UNKNOWN,
    UNKNOWN_NAME,
    Finding,
    ShellScope,
    ShellScript,
    StartedCommand,
    Value,
    Word,
    ask,
    reads,
)
from agentkit.safety.shell.word_expansion import EXPANSIONS, Expander, source, word_value

if TYPE_CHECKING:
    from tree_sitter import Node

_COMMENT = re.compile(r"\s*(#[^\n]*(\n\s*|$))+")
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
    return confirm_judgment(judgment, command, agrees=agrees, unrestorable=unrestorable, ambiguous_name=ambiguous_name)


def confirm_judgment(
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
        is_comment = _COMMENT.fullmatch(command)
        return reads(command) if is_comment else ask("empty", command, "The command is empty.", "Pass a command.")
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
    return f"it cannot be parsed completely, and contains {named}, which can delete files." if named else ""


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
        # Traps and aliases run at any moment after: in each folder, with whatever the variables are then.
        self._scope.forget()
        for script in dict.fromkeys(self._scope.later):
            for folder in sorted(self._folders, key=str):
                inner = replace(self._scope.fork(), cwd=folder, elsewhere=frozenset(), failed=frozenset())
                before = dict(inner.variables)
                self._script(script.text, script.source, inner)
                is_set = any(value is not before.get(name) for name, value in inner.variables.items())
                if script.between and (is_set or before.keys() - inner.variables.keys()):
                    why = "It changes variables between any two commands after it."
                    self.add(ask("meaning", script.source, why, "Assign them where they are needed."))
        return self._found

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
            return self.dispatch(self.resolved(node), scope)
        except OverflowError:
            self.add(ask("large-expansion", source(node), "The braces expand to too many words.", "Use a loop."))
            return ANYTHING
        finally:
            self._depth -= 1

    def resolved(self, node: Node) -> Node:
        """The statement itself, or the one that replaces it."""
        return self._instead.get(node.id, node)

    def dispatch(self, node: Node, scope: ShellScope) -> Value:
        """Judge a statement or its replacement."""
        return _STATEMENTS.get(node.type, _unsupported)(self, node, scope)

    def around(self, node: Node, body: Node, part: Node, scope: ShellScope) -> Value:
        """Judge the statements of `body`, where what the parser has put around all of it is around `part` alone."""
        before = dict(self._instead)
        try:
            if node.type == "pipeline":
                self._instead[body.id] = part
                return control_flow.chain(self, body, scope, node)
            self._instead |= {part.id: node, node.children[0].id: part}
            return self.dispatch(body, scope)
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
        is_known = UNKNOWN_NAME in value.text or UNKNOWN not in value.text
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
                why = "Part of it is not supported by the analysis."
                self.add(ask("unreadable", source(node), why, "Simplify the command."))
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
    if name in {"trap", "alias"}:
        return scope.fork()
    inner = scope.child()
    inner.set_parameters(None if script.arguments is None else [word_value(word) for word in script.arguments])
    return inner


def _versions(words: list[Word]) -> Iterator[list[Word]]:
    """The words, and what they are if the texts in them that may be empty are."""
    yield words
    if any(PERHAPS_EMPTY in word.origins for word in words):
        yield [
            replace(word, text=re.sub(f"[{UNKNOWN}{UNKNOWN_NAME}]", "", word.text))
            if PERHAPS_EMPTY in word.origins
            else word
            for word in words
        ]


def _unsupported(visitor: CommandVisitor, node: Node, scope: ShellScope) -> Value:
    """Ask for approval of a statement that the analysis does not support, and judge the statements in it."""
    reason = "Part of it is not supported by the analysis."
    visitor.add(ask("unreadable", source(node), reason, "Simplify the command."))
    return control_flow.sequence(visitor, node, scope)


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
