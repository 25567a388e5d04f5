"""Lists, pipelines, loops, conditionals and functions (pure)."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from agentkit.safety.shell import arithmetic, files
from agentkit.safety.shell.tables import tables
from agentkit.safety.shell.variables import (
    A_FILE,
    A_NUMBER,
    A_WORD,
    ANYTHING,
    DASHED,
    FOUND,
    NOTHING,
    PATTERN,
    PERHAPS_EMPTY,
    SUFFIXED,
    UNKNOWN,
    UNKNOWN_NAME,
    UNTRUSTED,
    Finding,
    ShellScope,
    Value,
    Word,
    ask,
    composed,
    deny,
    reads,
)
from agentkit.safety.shell.word_expansion import Expander, source
from agentkit.safety.shell.word_expansion import Judge as ExpansionJudge

if TYPE_CHECKING:
    from tree_sitter import Node

_LOOP_ITEMS = 8
_ENDLESS = re.compile(
    r"\s*(while\s+(true|:|\[{1,2}\s*1\s*\]{1,2}|\(\(\s*1\s*\)\)|echo\b[^;]*)|until\s+(false|\[\s*\]))\s*[;\n]"
    r"|\s*for\s*\(\([^;]*;\s*;"
)
_FILTERS = "(cat|tr|fold|xxd|od|base64|cut|rev|nl|paste|yes|seq)"
_ENDS_IN_HEAD = re.compile(rf"{_FILTERS}\b[^>|]*( \| {_FILTERS}\b[^>|]*)* \| head\b")
_ENDS = re.compile(r"\b(break|wait|exit|return)\b")
_BUILTINS = {
    *("cd", "pushd", "popd", "eval", "source", ".", "alias", "unalias", "trap", "exec", "command", "builtin", "set"),
    *("export", "declare", "local", "typeset", "readonly", "unset", "shift", "return", "exit", "mapfile", "getopts"),
    *("find", "dd", "mv", "sed", "awk", "tar", "xargs", "hash", "enable", "shopt", "kill", "coproc"),
}
WORDS = {
    *(
        *("word", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "number", "regex"),
        *("array",),
    ),
    *("simple_expansion", "expansion", "arithmetic_expansion", "brace_expression", "extglob_pattern", "variable_name"),
    *("heredoc_body", "heredoc_start", "heredoc_end", "comment", "test_operator", "special_variable_name", "subscript"),
    *("binary_expression", "unary_expression", "postfix_expression", "ternary_expression", "parenthesized_expression"),
    *("command_substitution", "process_substitution", "file_descriptor"),
}
"""The kinds of syntax that are not statements."""


class StatementJudge(ExpansionJudge, Protocol):
    """The visitor that judges each statement of the command."""

    def visit(self, node: Node, scope: ShellScope) -> Value:
        """Judge a statement; returns what it prints."""

    def resolved(self, node: Node) -> Node:
        """The statement itself, or the one that replaces it."""

    def dispatch(self, node: Node, scope: ShellScope) -> Value:
        """Judge a statement or its replacement."""

    def around(self, node: Node, body: Node, part: Node, scope: ShellScope) -> Value:
        """Judge the statements of `body`, where what the parser has put around all of it is around `part` alone."""

    def expander(self, scope: ShellScope) -> Expander:
        """The expansion of syntax into words."""

    def words(self, words: list[Word], scope: ShellScope) -> Value:
        """Judge a command by its words; returns what it prints."""

    def finding(self, finding: Finding, scope: ShellScope, name: str = "") -> Value:
        """Keep a decision, or judge what the command `name` would start."""


def sequence(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """The statements in a node, one after the other, and the expansions in the words among them."""
    printed = []
    for child in node.children:
        if child.type in WORDS:
            judge.expander(scope).visit(child)
        elif child.is_named:
            following = child.next_sibling
            is_async = following is not None and following.type == "&"  # then it runs in a subshell
            printed.append(judge.visit(child, scope.fork() if is_async else scope))
    return printed[0] if len(printed) == 1 else Value(UNKNOWN, Value.joined(printed).origins)


def is_known(name: str) -> bool:
    """Whether a program or a builtin of this name is known."""
    known = tables()
    return name in _BUILTINS or any(
        name in table for table in (known.specs, known.launchers, known.languages, known.rules)
    )


def condition(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """A test in brackets, or an arithmetic statement."""
    text = source(node)
    if text.startswith("(("):
        judge.expander(scope).evaluate(node)
    else:
        judge.expander(scope).condition(node)
    judge.add(reads(text))
    return NOTHING


def compound(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """{ ...; } or ((...))."""
    return condition(judge, node, scope) if source(node).startswith("((") else sequence(judge, node, scope)


def subshell(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """( ... ), whose changes do not affect the parent shell."""
    return sequence(judge, node, scope.fork())


def branch(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """Statements that may be skipped: afterwards only what holds in both cases is known."""
    before = scope.fork()
    value = sequence(judge, node, scope)
    scope.merge(before)
    return Value(UNKNOWN, value.origins)


def chain(
    judge: StatementJudge, node: Node, scope: ShellScope, last: Node | None = None, *, begun: bool = False
) -> Value:
    """Commands joined by && and ||: all but the first may be skipped.

    `last` replaces the last of them: it includes the redirections and the pipeline that the parser puts around the
    whole chain. If the chain has `begun`, its first command is already judged.
    """
    operands, operators = _operands(node)
    operators += ["&&"] * (len(operands) - 1 - len(operators))  # where it cannot be read
    statements = [*operands[:-1], last or operands[-1]]
    printed = [ANYTHING if begun else judge.visit(statements[0], scope)]
    before, failures = scope.fork(), scope.failed
    for operand, statement, operator in zip(operands[1:], statements[1:], operators, strict=True):
        leaves = operator == "||" and bool({*source(operand).split()[:1]} & {"exit", "return", "break", "continue"})
        if operator == "&&" or leaves:
            failures |= frozenset() if leaves else scope.failed
            scope.failed = frozenset()
        else:
            skipped = replace(scope.fork(), failed=frozenset())
            scope.merge(before)
            scope.may_be_in(failures)
        printed.append((judge.dispatch if statement is last else judge.visit)(statement, scope))
        if operator == "||" and not leaves:
            scope.merge(skipped)
        if leaves:
            before.failed = failures = scope.failed = frozenset()
    before.failed = frozenset()
    scope.may_be_in(failures)
    certain = scope.failed
    scope.failed = frozenset()
    scope.merge(before)
    scope.failed = certain
    return Value(UNKNOWN, Value.joined(printed).origins)


def leading_chain(node: Node) -> Node | None:
    """The chain that the parser makes the first stage of a pipeline, although only its last command is that stage."""
    while node.type in {"pipeline", "redirected_statement"}:
        node = next(child for child in node.children if child.is_named)
    return node if node.type == "list" else None


def last_of(node: Node) -> Node:
    """The last command of a chain, a pipeline or a negation: the redirections after them belong to it."""
    while node.type in {"list", "pipeline", "negated_command"}:
        node = [child for child in node.children if child.is_named and child.type != "comment"][-1]
    return node


def _operands(node: Node) -> tuple[list[Node], list[str]]:
    """The operands and operators of a chain, regardless of how the parser nests them."""
    operands: list[Node] = []
    operators: list[str] = []
    while node.type == "list":
        first, *others = [child for child in node.children if child.is_named]
        operators.extend(child.type for child in reversed(node.children) if not child.is_named)
        operands.extend(reversed(others))
        node = first
    return [node, *reversed(operands)], operators[::-1]


def loop(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """A loop with while, until and for ((;;))."""
    text, is_async = source(node), any(inner.type == "&" for inner in _descendants(node))
    if _ENDLESS.match(text) and is_async and not _ENDS.search(text):
        judge.add(deny("fork-bomb", text, "it starts an unlimited number of processes.", "Loop over a list."))
    elif _ENDLESS.match(text):
        judge.add(ask("endless", text[:60], "The loop never ends.", "Loop a number of times."))
    elif is_async and not re.match(r"while\s+(IFS=\S*\s+)?read\b", text):
        judge.add(ask("endless", text[:60], "It can start an unlimited number of processes.", "Loop over a list."))
    repeated = _header(node, start=";")
    for part in _header(node):
        judge.expander(scope.fork() if part in repeated else scope).evaluate(part)
    _forget_assigned(node, scope)
    return _repeat(scope, lambda: _loop_round(judge, node, scope))


def _loop_round(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """The condition and the body of a loop; in for ((;;)) the condition and the step are evaluated in each round."""
    if node.type != "c_style_for_statement":
        return sequence(judge, node, scope)
    header, repeated = _header(node), _header(node, start=";")
    for child in node.children:
        if child.is_named and child not in header:
            judge.visit(child, scope)
    for part in repeated:
        judge.expander(scope).evaluate(part)
    return ANYTHING


def _header(node: Node, start: str = "((") -> list[Node]:
    """The expressions of for ((...; ...; ...)): all of them, or those after the first semicolon."""
    if node.type != "c_style_for_statement":
        return []
    kinds = [child.type for child in node.children]
    end = kinds.index("))") if "))" in kinds else len(kinds)
    begin = kinds.index(start) if start in kinds else 0
    return [child for child in node.children[begin:end] if child.is_named]


def _repeat(scope: ShellScope, body: Callable[[], Value]) -> Value:
    """Judge a loop's body, repeatedly while it changes the state in which the next round begins, at most three times.

    The last time, no variable is known.
    """
    before = scope.fork()
    value = body()
    for last in (False, True):
        after = (dict(scope.variables), scope.folders)
        scope.merge(before)
        if after == (before.variables, before.folders):
            break
        if scope.folders != before.folders:
            scope.may_be_in(frozenset({None}))
        if last and scope.variables == before.variables:
            break
        if last:
            scope.forget()
        before = scope.fork()
        value = body()
    scope.merge(before)
    return Value(UNKNOWN, value.origins)


def loop_over_words(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """A loop with for or select: the body is judged for each literal word."""
    name = next(source(child) for child in node.children if child.type == "variable_name")
    expander = judge.expander(scope)
    given = [child for child in node.children if child.type in WORDS - {"variable_name", "comment"}]
    items = [word for child in given for word in expander.words(child)]
    bodies = [child for child in node.children if child.type in {"do_group", "compound_statement"}]
    values = _loop_values(items, scope)

    def body() -> Value:
        for child in bodies:
            for value in values:
                judge.assign(name, value, source(node)[:60], scope)
                _forget_assigned(child, scope)
                judge.visit(child, scope)
        return ANYTHING

    return _repeat(scope, body)


def _loop_values(items: list[Word], scope: ShellScope) -> list[Value]:
    """The values of a loop's variable that must be judged, each different kind once."""
    values: list[Value] = []
    names = frozenset(FOUND + name for word in items for name in _names(word))
    names = names if len(names) == len(set(items)) else frozenset()  # the names of some words are unknown
    for word in items:
        value = _loop_value(word, names, scope)
        if value not in values:
            values.append(value)
    return values[:_LOOP_ITEMS] + ([ANYTHING] if len(values) > _LOOP_ITEMS or not values else [])


def _names(word: Word) -> list[str]:
    """The pattern for the relative paths that a loop's word matches, if known."""
    parts = word.text.removeprefix("./").split("/")
    if not all(parts) or re.search(rf"[{UNKNOWN}{UNKNOWN_NAME}\[]|\*\*", word.text):
        return []
    return ["/".join(files.widen_pattern(part) if word.glob else glob.escape(part) for part in parts)]


def _loop_value(word: Word, names: frozenset[str], scope: ShellScope) -> Value:
    """A value of a loop's variable; plain names and numbers are treated alike."""
    origins = word.origins - {UNTRUSTED}
    odd = re.match(r"[-/~]|\.(?!/)", word.text) or ".." in word.text or UNKNOWN in word.text or origins
    dashed = frozenset(
        {SUFFIXED if word.depends_on_file_names else DASHED} if word.may_be_option or word.may_split else ()
    )
    regular = word.glob or re.fullmatch(rf"(\./)?[\w{UNKNOWN_NAME}][\w.{UNKNOWN_NAME}/+-]*", word.text)
    hidden = files.may_be_secret(word, scope) if word.glob else files.secret(word.text, scope)
    if regular and not odd and not hidden:
        is_number = re.fullmatch(rf"[\d{UNKNOWN_NAME}]+", word.text)
        return Value(
            UNKNOWN_NAME, word.origins | names | (set() if is_number else {A_FILE if word.glob else A_WORD}) | dashed
        )
    if word.glob and not (odd or hidden):
        return Value(UNKNOWN, word.origins)
    return Value(word.text, (word.origins | {PATTERN} if word.glob else word.origins) | dashed)


def _forget_assigned(node: Node, scope: ShellScope) -> None:
    """Forget the variables that a loop's body assigns, except those that are always numbers."""
    given: dict[str, list[Node | None]] = {}
    for inner in _descendants(node):
        if inner.type == "variable_assignment":
            name, *value = [child for child in inner.children if child.is_named]
            if source(name) == "IFS" and inner.parent is not None and inner.parent.type == "command":
                continue  # it applies to that command only
            given.setdefault(source(name), []).append(value[0] if value else None)
    numbers = {name for name in given if arithmetic.is_number(scope.variables.get(name, NOTHING))}
    while others := {
        name for name in numbers if not all(_is_number_assigned(v, given, numbers, scope) for v in given[name])
    }:
        numbers -= others
    scope.variables |= {name: A_NUMBER if name in numbers else ANYTHING for name in given}


_NUMERALS = {"arithmetic_expansion", "number"}


def _is_number_assigned(
    value: Node | None, given: Mapping[str, list[Node | None]], numbers: set[str], scope: ShellScope
) -> bool:
    """Whether the value that a loop assigns is a number: an arithmetic expression, or a variable with a number."""
    if value is None or value.type in _NUMERALS:
        return value is not None
    name = source(value)[1:]
    is_set = (scope.value(name) or NOTHING).text or any(each and each.type in _NUMERALS for each in given.get(name, ()))
    known = is_set and name in numbers if name in given else arithmetic.is_number(scope.value(name) or ANYTHING)
    return value.type == "simple_expansion" and bool(known)


def _descendants(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        yield inner
        waiting.extend(inner.children)


def case(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """A case statement: each branch may run."""
    for child in node.children:
        if child.type == "case_item":
            judge.visit(child, scope)
        elif child.is_named:
            judge.expander(scope).visit(child)
    return ANYTHING


def function(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """A function definition: its body is judged with all variables unknown, and again at each call."""
    name = source(next(child for child in node.children if child.is_named))
    kinds = {"file_redirect", "heredoc_redirect", "herestring_redirect"}
    named = [child for child in node.children if child.is_named and child.type not in WORDS]
    body = next((child for child in named if child.type not in kinds), node)
    for child in named:
        if child.type in kinds:
            judge.visit(child, scope.fork())
            judge.add(ask("function-input", source(child), "Functions with redirections are not analysed."))
    _check_recursion(judge, name, node)
    if is_known(name):
        why = "It redefines the name of a known command."
        judge.add(ask("shadowed-command", source(node)[:60], why, "Choose another name."))
    unknown = dict.fromkeys(scope.variables, ANYTHING)
    judge.visit(body, replace(scope.fork(), variables=unknown, defining=True, in_function=True))
    scope.functions[name] = (body,)
    return NOTHING


def _check_recursion(judge: StatementJudge, name: str, node: Node) -> None:
    """Object to a function that calls itself; in the background or a pipeline it is a fork bomb."""
    for inner in _descendants(node):
        if inner.type == "command_name" and source(inner) == name and inner.parent:
            if _is_concurrent(inner.parent, node):
                why = "a function that starts copies of itself exhausts the machine."
                judge.add(deny("fork-bomb", source(node), why, "Call each command once."))
                return
            judge.add(ask("recursion", source(node)[:60], "A recursive function may never end.", "Use a loop."))


def _is_concurrent(node: Node, end: Node) -> bool:
    """Whether a command runs concurrently with the next one: in a pipeline, or before &."""
    while node.parent and node != end:
        following = node.next_sibling
        if node.type in {"pipeline", "process_substitution"} or (following and following.type == "&"):
            return True
        node = node.parent
    return False


def pipeline(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """A pipeline: each stage reads the output of the previous one."""
    chained = leading_chain(node)
    if chained is not None and judge.resolved(chained) is chained:
        return judge.around(node, chained, _operands(chained)[0][-1], scope)
    return piped(judge, [child for child in node.children if child.is_named], scope, scope.stdin)


def piped(judge: StatementJudge, stages: list[Node], scope: ShellScope, printed: Value | None) -> Value:
    """The stages of a pipeline, the first of which reads `printed`; the output can come from all of them.

    If the parser makes a chain one of the stages, only its first command is a stage; the others run after the pipeline.
    """
    origins: frozenset[str] = frozenset()
    for number, stage in enumerate(stages):
        inner = scope.fork()
        inner.stdin, inner.bounded = printed, _ENDS_IN_HEAD.match(" | ".join(map(source, stages[number:]))) is not None
        printed = judge.visit(_operands(stage)[0][0], inner)
        origins = composed(origins - {A_FILE, A_WORD, PERHAPS_EMPTY}) | printed.origins
    for stage in stages:
        if stage.type == "list":
            printed = chain(judge, stage, scope, begun=True)
    return Value(printed.text if printed else UNKNOWN, origins)
