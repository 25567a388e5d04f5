"""What do the words, assignments and redirections of a simple command amount to? (pure)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.safety.shell import files, launchers
from agentkit.safety.shell.control import WORDS, Judge, piped, substituted
from agentkit.safety.shell.scope import A_NAME, ANYTHING, NOTHING, TAME, UNKNOWN, Scope, Value, Word, ask, reads, writes
from agentkit.safety.shell.syntax.words import source

if TYPE_CHECKING:
    from tree_sitter import Node

_REDIRECTS = {"file_redirect", "heredoc_redirect", "herestring_redirect"}
_SETTERS = {"read", "mapfile", "readarray", "getopts", "printf", "let"}
_MAKERS = {"tee", "cp", "mv", "ln", "install", "curl", "wget"}


def command(judge: Judge, node: Node, scope: Scope) -> Value:
    """A simple command: assignments before it, words, redirections."""
    return _command(judge, node, scope, [])


def _command(judge: Judge, node: Node, scope: Scope, extra: list[Word]) -> Value:
    """`extra` are words that the parser has given to a redirection after the command."""
    inner = replace(scope, variables=scope.variables)
    words: list[Word] = []
    following: list[Node] = []
    for child in node.children:
        if child.type == "variable_assignment":
            _assign(judge, child, scope, lasting=False)
        elif child.type in _REDIRECTS:
            more, after = _redirect(judge, child, inner)
            words += more
            following += after
        else:
            parts = child.children if child.type == "command_name" else [child]
            words += [word for part in parts for word in judge.expander(inner).words(part)]
    printed = judge.words([*words, *extra], inner)
    scope.cwd, scope.variables, scope.functions = inner.cwd, inner.variables, inner.functions
    scope.written |= inner.written
    return _followed(judge, following, scope, printed)


def redirected(judge: Judge, node: Node, scope: Scope) -> Value:
    """A statement with redirections; words that follow a target belong to the command."""
    inner = replace(scope, variables=scope.variables)
    extra: list[Word] = []
    following: list[Node] = []
    for child in node.children:
        if child.type in _REDIRECTS:
            words, after = _redirect(judge, child, inner)
            extra += words
            following += after
    printed = _body(judge, node.children[0], inner, extra)
    scope.cwd, scope.functions = inner.cwd, inner.functions
    scope.written |= inner.written
    return _followed(judge, following, scope, printed)


def _body(judge: Judge, body: Node, scope: Scope, extra: list[Word]) -> Value:
    if body.type in _REDIRECTS:
        return judge.words(extra, scope) if extra else scope.stdin or ANYTHING
    return _command(judge, body, scope, extra) if body.type == "command" else judge.visit(body, scope)


def _followed(judge: Judge, following: list[Node], scope: Scope, printed: Value) -> Value:
    """Statements that the parser has hung on a here-document: the rest of a pipeline, or what comes next."""
    for after in following:
        if after.type == "pipeline":
            printed = piped(judge, [child for child in after.children if child.is_named], scope, printed)
        else:
            judge.visit(after, scope)
    return printed


def bare_redirect(judge: Judge, node: Node, scope: Scope) -> Value:
    """A redirection without a command, as in $(<file)."""
    words, following = _redirect(judge, node, scope)
    printed = judge.words(words, scope) if words else Value(UNKNOWN, frozenset({"output"}))
    return _followed(judge, following, scope, printed)


def _redirect(judge: Judge, node: Node, scope: Scope) -> tuple[list[Word], list[Node]]:
    """Judge one redirection; returns the words and the statements that the parser has hung on it."""
    expander = judge.expander(scope)
    if node.type == "herestring_redirect":
        _given(judge, Value.joined([expander.value(child) for child in node.children if child.is_named]), node, scope)
        return [], []
    if node.type == "heredoc_redirect":
        return _heredoc(judge, node, scope)
    operator = next((child.type for child in node.children if not child.is_named), "")
    targets = [child for child in node.children if child.is_named and child.type not in {"file_descriptor", "ERROR"}]
    words = [word for target in targets for word in expander.words(target)]
    if words:
        _target(judge, operator, words[0], scope)
    return words[1:], []


def _heredoc(judge: Judge, node: Node, scope: Scope) -> tuple[list[Word], list[Node]]:
    expander = judge.expander(scope)
    words: list[Word] = []
    following: list[Node] = []
    for child in node.children:
        if child.type == "heredoc_body":
            _given(judge, expander.value(child), node, scope)
        elif child.type in _REDIRECTS:
            words += _redirect(judge, child, scope)[0]
        elif child.type in WORDS:
            words += [] if child.type.startswith(("heredoc", "file_d")) else expander.words(child)
        elif child.is_named:
            following.append(child)
    return words, following


def _given(judge: Judge, value: Value, node: Node, scope: Scope) -> None:
    """What a command reads as its input from the command line itself."""
    scope.stdin = value
    if "environment" in value.origins:
        why = "It would use a variable that could be a key."
        judge.add(ask("shows-environment", source(node), why, "Name the value."))


def _target(judge: Judge, operator: str, word: Word, scope: Scope) -> None:
    """The file that a redirection reads or writes."""
    if operator in {">&", "<&"} and re.fullmatch(r"\d*-?", word.text):
        return
    if operator.startswith("<"):
        for found in (*files.secrets(word, scope), *files.read(word, scope)):
            judge.add(found)
        scope.stdin = scope.pipes.get(word.text, Value(UNKNOWN, word.origins))
        return
    for found in files.write(word, scope):
        judge.add(found)
    path = files.resolve(word.text, scope)
    scope.written |= {path} if path else set()
    if not word.text.startswith("/dev/"):
        judge.add(writes(word.source))


def assignment(judge: Judge, node: Node, scope: Scope) -> Value:
    """An assignment that stands alone."""
    _assign(judge, node, scope, lasting=True)
    judge.add(reads(source(node)))
    return NOTHING


def _assign(judge: Judge, node: Node, scope: Scope, *, lasting: bool) -> None:
    """A variable gets a value, for good or for one command; delicate names are judged."""
    target, *rest = [child for child in node.children if child.is_named]
    substituted(judge, target, scope)
    value = Value("")
    if rest and rest[0].type == "array":
        substituted(judge, rest[0], scope)
        value = ANYTHING
    elif rest:
        value = judge.expander(scope).value(rest[0])
    name, text = source(target), source(node)
    if lasting or name not in {"IFS", "LC_ALL", "LANG"}:
        for found in launchers.environment(name, value, text, scope):
            judge.finding(found, scope)
    if lasting:
        added = text.startswith(name + "+=")
        scope.variables[name] = Value.joined([scope.variables.get(name, ANYTHING), value]) if added else value


def declaration(judge: Judge, node: Node, scope: Scope) -> Value:
    """declare, export, local and the like: assignments, and words as for any command."""
    first, *others = node.children
    words = [Word(source(first), source(first))]
    for child in others:
        if child.type == "variable_assignment":
            _assign(judge, child, scope, lasting=True)
            words.append(Word("name", source(child)))
        elif child.type == "variable_name":
            words.append(Word("name", source(child)))
        else:
            words += judge.expander(scope).words(child)
    judge.words(words, scope)
    return NOTHING


def unset(judge: Judge, node: Node, scope: Scope) -> Value:
    """unset: the variable is not known any more."""
    first, *others = node.children
    for child in others:
        scope.variables[source(child)] = ANYTHING
        substituted(judge, child, scope)
    judge.words([Word(source(child), source(child)) for child in (first, *others)], scope)
    return NOTHING


def take_effect(words: list[Word], scope: Scope) -> None:
    """What a command changes in the shell itself: the folder, variables, files that it made."""
    name = words[0].text
    if name in {"cd", "pushd", "popd"}:
        scope.cwd = _folder(words, scope)
    elif name in scope.functions or name in {"eval", "source", "."}:
        scope.variables = {key: Value(UNKNOWN, value.origins) for key, value in scope.variables.items()}
        scope.cwd = None if name in scope.functions else scope.cwd
    elif name in _SETTERS:
        tame = A_NAME if name == "read" and scope.stdin and scope.stdin.text == TAME else ANYTHING
        scope.variables |= {word.text: tame for word in words[1:] if word.text.isidentifier()}
    elif name in _MAKERS:
        made = {files.resolve(word.text, scope) for word in words[1:] if not word.text.startswith("-")}
        scope.written |= frozenset(path for path in made if path)


def _folder(words: list[Word], scope: Scope) -> str | None:
    target = next((word for word in words[1:] if not word.text.startswith("-") or word.text == "-"), None)
    if target is None:
        return files.resolve("~", scope) if words[0].text == "cd" else None
    return None if target.glob or target.text == "-" or words[0].text == "popd" else files.resolve(target.text, scope)
