"""What do lists, loops, branches, functions and pipelines make of the commands in them? (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from agentkit.decisions import Decision
from agentkit.safety.shell import files
from agentkit.safety.shell.scope import (
    A_NAME,
    ANYTHING,
    NOTHING,
    UNKNOWN,
    Finding,
    Scope,
    Value,
    Word,
    ask,
    deny,
    reads,
)
from agentkit.safety.shell.syntax.words import SUBSTITUTIONS, Expander, source, substitutions

if TYPE_CHECKING:
    from tree_sitter import Node

_LOOP_ITEMS = 8
_ENDLESS = re.compile(
    r"\s*(while\s+(true|:|\[\s*1\s*\]|\(\(\s*1\s*\)\))|until\s+(false|\[\s*\]))\s*[;\n]|\s*for\s*\(\(\s*;\s*;"
)
WORDS = {
    *(
        "word",
        "string",
        "raw_string",
        "ansi_c_string",
        "translated_string",
        "concatenation",
        "number",
        "regex",
        "array",
    ),
    *("simple_expansion", "expansion", "arithmetic_expansion", "brace_expression", "extglob_pattern", "variable_name"),
    *("heredoc_body", "heredoc_start", "heredoc_end", "comment", "test_operator", "special_variable_name", "subscript"),
    *("binary_expression", "unary_expression", "postfix_expression", "ternary_expression", "parenthesized_expression"),
    *("command_substitution", "process_substitution", "file_descriptor"),
}
"""The kinds of syntax that are no statements."""


class Judge(Protocol):
    """What walks over the command and judges each statement."""

    def add(self, finding: Decision) -> None:
        """Keep a decision."""

    def visit(self, node: Node, scope: Scope) -> Value:
        """Judge a statement; returns what it prints."""

    def substitution(self, node: Node, scope: Scope) -> Value:
        """Judge a substitution; returns its text."""

    def expander(self, scope: Scope) -> Expander:
        """What turns syntax into words."""

    def words(self, words: list[Word], scope: Scope) -> Value:
        """Judge a command by its words; returns what it prints."""

    def finding(self, finding: Finding, scope: Scope) -> Value:
        """Keep a decision, or judge what a command would start."""


def sequence(judge: Judge, node: Node, scope: Scope) -> Value:
    """The statements in a node, one after the other, and the substitutions in conditions among them."""
    printed = []
    for child in node.children:
        if child.type in WORDS:
            substituted(judge, child, scope)
        elif child.is_named:
            printed.append(judge.visit(child, scope))
    return printed[0] if len(printed) == 1 else Value(UNKNOWN, Value.joined(printed).origins)


def substituted(judge: Judge, node: Node, scope: Scope) -> None:
    """Judge the substitutions in a word or an expression."""
    for inner in [node] if node.type in SUBSTITUTIONS else substitutions(node):
        judge.substitution(inner, scope)


def condition(judge: Judge, node: Node, scope: Scope) -> Value:
    """A condition or an arithmetic statement: nothing in it runs but its substitutions."""
    substituted(judge, node, scope)
    text = source(node)
    if re.search(r"'[^']*(\$\(|`)", text) or re.search(r"-v\s+\S*[\[$]", text):
        judge.add(ask("hidden-code", text, "bash would run what stands in this text."))
    judge.add(reads(text))
    return NOTHING


def compound(judge: Judge, node: Node, scope: Scope) -> Value:
    """{ ...; } or ((...))."""
    arithmetic = source(node).startswith("((")
    return condition(judge, node, scope) if arithmetic else sequence(judge, node, scope)


def subshell(judge: Judge, node: Node, scope: Scope) -> Value:
    """( ... ): what it changes stays inside."""
    inner = scope.fork()
    value = sequence(judge, node, inner)
    scope.written |= inner.written
    return value


def branch(judge: Judge, node: Node, scope: Scope) -> Value:
    """Statements that may or may not happen: afterwards only what is true either way is known."""
    before = scope.fork()
    value = sequence(judge, node, scope)
    _merge(scope, before)
    return Value(UNKNOWN, value.origins)


def chain(judge: Judge, node: Node, scope: Scope) -> Value:
    """Commands joined by && and ||: all but the first may not happen."""
    operands, operators = _operands(node)
    printed = [judge.visit(operands[0], scope)]
    before = scope.fork()
    for operand, operator in zip(operands[1:], operators, strict=True):
        if operator == "||":
            _merge(scope, before)
        printed.append(judge.visit(operand, scope))
    _merge(scope, before)
    return Value(UNKNOWN, Value.joined(printed).origins)


def _operands(node: Node) -> tuple[list[Node], list[str]]:
    """A chain, however the parser has nested it, as operands and operators."""
    operands: list[Node] = []
    operators: list[str] = []
    while node.type == "list":
        first, *others = [child for child in node.children if child.is_named]
        operators.extend(child.type for child in reversed(node.children) if not child.is_named)
        operands.extend(reversed(others))
        node = first
    return [node, *reversed(operands)], operators[::-1]


def _merge(scope: Scope, other: Scope) -> None:
    """Keep only what is the same in both."""
    for name in scope.variables.keys() | other.variables.keys():
        one, two = scope.variables.get(name), other.variables.get(name)
        if one != two:
            scope.variables[name] = Value(UNKNOWN, Value.joined([v for v in (one, two) if v]).origins)
    if scope.cwd != other.cwd:
        scope.cwd = None


def loop(judge: Judge, node: Node, scope: Scope) -> Value:
    """A loop with while, until and for ((;;))."""
    if _ENDLESS.match(source(node)):
        judge.add(ask("endless", source(node)[:60], "It loops without end.", "Loop a number of times."))
    _forget(node, scope)
    return branch(judge, node, scope)


def loop_over_words(judge: Judge, node: Node, scope: Scope) -> Value:
    """A loop with for or select: the body is judged for each word that is written out."""
    name = next(source(child) for child in node.children if child.type == "variable_name")
    expander = judge.expander(scope)
    given = [child for child in node.children if child.type in WORDS - {"variable_name", "comment"}]
    items = [word for child in given for word in expander.words(child)]
    before = scope.fork()
    for child in node.children:
        if child.type in {"do_group", "compound_statement"}:
            _forget(child, scope)
            for value in _loop_values(items, scope):
                scope.variables[name] = value
                judge.visit(child, scope)
    _merge(scope, before)
    return ANYTHING


def _loop_values(items: list[Word], scope: Scope) -> list[Value]:
    """The values of a loop's variable that must be judged, each different kind once."""
    values: list[Value] = []
    for word in items:
        odd = re.match(r"[-/~]", word.text) or ".." in word.text or UNKNOWN in word.text or word.origins
        plain = (
            not odd and not files.secret(word.text, scope) and (word.glob or re.fullmatch(r"[\w.\x01/-]*", word.text))
        )
        value = A_NAME if plain else Value(UNKNOWN if word.glob and not odd else word.text, word.origins)
        if value not in values:
            values.append(value)
    return values[:_LOOP_ITEMS] + ([ANYTHING] if len(values) > _LOOP_ITEMS or not values else [])


def _forget(node: Node, scope: Scope) -> None:
    """Before a loop: what its body changes is not known, but for numbers."""
    for inner in _descendants(node):
        if inner.type == "variable_assignment":
            name, *value = [child for child in inner.children if child.is_named]
            number = value and value[0].type in {"arithmetic_expansion", "number"}
            scope.variables[source(name)] = A_NAME if number else ANYTHING


def _descendants(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        yield inner
        waiting.extend(inner.children)


def case(judge: Judge, node: Node, scope: Scope) -> Value:
    """Each branch of a case may happen."""
    for child in node.children:
        if child.type == "case_item":
            judge.visit(child, scope)
        else:
            substituted(judge, child, scope)
    return ANYTHING


def function(judge: Judge, node: Node, scope: Scope) -> Value:
    """A definition: its body is judged with no variable known, as it runs later."""
    name = source(next(child for child in node.children if child.is_named))
    body = next((child for child in node.children if child.type not in WORDS and child.is_named), node)
    if re.search(rf"(?<![\w-]){re.escape(name)}\s*(\||&)", source(body)):
        why = "a function that starts itself again and again fills the machine."
        judge.add(deny("fork-bomb", source(node), why, "Call each command once."))
    scope.functions |= {name}
    judge.visit(body, replace(scope.fork(), variables=dict.fromkeys(scope.variables, ANYTHING), cwd=scope.cwd))
    return NOTHING


def pipeline(judge: Judge, node: Node, scope: Scope) -> Value:
    """Each stage reads what the one before prints."""
    return piped(judge, [child for child in node.children if child.is_named], scope, scope.stdin)


def piped(judge: Judge, stages: list[Node], scope: Scope, printed: Value | None) -> Value:
    """The stages of a pipeline, the first of which reads `printed`; what they print comes from all of them."""
    origins: frozenset[str] = frozenset()
    for stage in stages:
        inner = scope.fork()
        inner.stdin = printed
        printed = judge.visit(stage, inner)
        origins |= printed.origins
        scope.written |= inner.written
    return Value(printed.text if printed else UNKNOWN, origins)
