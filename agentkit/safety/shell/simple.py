"""What do the words, assignments and redirections of a simple command amount to? (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.decisions import Decision
from agentkit.safety.shell import files, launchers
from agentkit.safety.shell.control import WORDS, Judge, last_of, piped, substituted
from agentkit.safety.shell.scope import (
    A_NAME,
    ANYTHING,
    NOTHING,
    PERHAPS_EMPTY,
    TAME,
    UNKNOWN,
    Scope,
    Value,
    Word,
    are_numbers,
    ask,
    reads,
    unfound,
)
from agentkit.safety.shell.syntax import arithmetic
from agentkit.safety.shell.syntax.words import is_translation_mark, source

if TYPE_CHECKING:
    from tree_sitter import Node

_REDIRECTS = {"file_redirect", "heredoc_redirect", "herestring_redirect"}
_DECLARES = {"declare", "typeset", "local", "export", "readonly"}
_INTO = {"printf": "-v", "wait": "-p"}
_FOLDERS = {"PWD", "OLDPWD", "DIRSTACK"}
_SETTINGS = {
    "hash": r"-\w*p.*",
    "shopt": r"autocd|cdable_vars|dotglob|expand_aliases|assoc_expand_once",
    "enable": r"-.*",
    "set": r"[-+][a-zA-Z]*[kH][a-zA-Z]*|keyword|history|histexpand",
}
_MAKERS = {"cp", "mv", "ln", "install", "curl", "wget"}


def command(judge: Judge, node: Node, scope: Scope) -> Value:
    """A simple command: assignments before it, words, redirections."""
    return _command(judge, node, scope, [])


def _command(judge: Judge, node: Node, scope: Scope, extra: list[Word], *, led: bool = False) -> Value:
    """`extra` are words that the parser has given to a redirection after the command; its own may be judged: `led`."""
    inner = replace(scope, variables=scope.variables)
    words: list[Word] = []
    following: list[Node] = []
    for child in node.children:
        if child.type == "variable_assignment":
            _assign(judge, child, scope, lasting=False)
        elif child.type in _REDIRECTS:
            more, after = ([], []) if led else _redirect(judge, child, inner)
            words += more
            following += after
        else:
            parts = child.children if child.type == "command_name" else [child]
            expander = judge.expander(inner)
            words += [word for part in parts if not is_translation_mark(part) for word in expander.words(part)]
    printed = judge.words([*words, *extra], inner)
    scope.adopt(inner)
    return _followed(judge, following, scope, printed)


def redirected(judge: Judge, node: Node, scope: Scope) -> Value:
    """A statement with redirections; words that follow a target belong to the command."""
    body = judge.meant(node.children[0])
    part = last_of(body)
    if part.id != body.id:
        printed = judge.around(node, body, part, scope)
        return _followed(judge, _following(node), scope, printed)
    inner = replace(scope, variables=scope.variables)
    extra: list[Word] = []
    following: list[Node] = []
    own = body.children if body.type == "command" else []  # bash takes the last of several, as they are written
    for child in [*own, *node.children]:
        if child.type in _REDIRECTS:
            words, after = _redirect(judge, child, inner)
            extra += words
            following += after
    printed = _body(judge, body, inner, extra)
    scope.adopt(inner)
    is_part = judge.meant(body).id == node.id  # then it is no shell of its own that goes on after it
    return printed if is_part else _followed(judge, following, scope, printed)


def _following(node: Node) -> list[Node]:
    """The statements that the parser has hung on the here-documents of a statement."""
    return [
        inner
        for child in node.children
        if child.type == "heredoc_redirect"
        for inner in child.children
        if inner.is_named and inner.type not in WORDS | _REDIRECTS and not inner.type.startswith(("heredoc", "file_d"))
    ]


def _body(judge: Judge, body: Node, scope: Scope, extra: list[Word]) -> Value:
    if body.type in _REDIRECTS:
        return judge.words(extra, scope) if extra else scope.stdin or ANYTHING
    if body.type == "command":
        return _command(judge, body, scope, extra, led=True)
    printed = judge.itself(body, scope)
    return judge.words(extra, scope) if extra else printed


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
    if arithmetic.is_code(value.text):
        judge.add(ask("hidden-code", source(node), "Arithmetic would run what stands in this text."))
    if "environment" in value.origins:
        why = "It would use a variable that could be a key."
        judge.add(ask("shows-environment", source(node), why, "Name the value."))


def _target(judge: Judge, operator: str, word: Word, scope: Scope) -> None:
    """The file that a redirection reads or writes."""
    if operator in {">&", "<&"} and re.fullmatch(r"\d*-?", word.text):
        return
    if operator in {">&", "<&"} and re.search(r"[$`~{]", word.text):
        judge.add(ask("hidden-code", word.source, "bash expands this name twice, and runs what stands in it."))
    linked(judge, [word], scope)
    for possible in scope.possible():
        judged = files.write if not operator.startswith("<") or operator == "<>" else _reads
        for found in judged(word, possible):
            judge.add(found)
    if PERHAPS_EMPTY in word.origins:
        judge.add(ask("unknown-path", word.source, "Which file it is cannot be told before it runs.", "Name the file."))
    if operator.startswith("<"):
        scope.stdin = scope.pipes.get(word.text, Value(UNKNOWN, word.origins | files.listed([word], scope)))


def linked(judge: Judge, words: list[Word], scope: Scope) -> None:
    """After a link was made, where ".." leads cannot be told."""
    for word in words:
        if scope.links and re.search(r"(^|[/=])\.\.(/|$)", word.text):
            judge.add(ask("linked", word.source, "It goes up from a link that it has made.", "Use the full path."))


def _reads(word: Word, scope: Scope) -> Iterator[Decision]:
    files.run(word, scope)  # what a program gets as its input may be its orders
    yield from files.secrets(word, scope)
    yield from files.read(word, scope)


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
    for part in arithmetic.subscripts(node):
        judge.evaluate(part, substituted(judge, part, scope), scope)
    if not lasting:
        if name not in {"IFS", "LC_ALL", "LANG"}:
            _environment(judge, scope, (name, value), text)
        return
    if text.startswith(name + "+="):
        value = Value.joined([scope.variables.get(name, ANYTHING), value])
    set_variable(judge, scope, (name, value), text)


def set_variable(judge: Judge, scope: Scope, given: tuple[str, Value], text: str) -> None:
    """A variable gets a value for good, however that is written: the one place where variables change."""
    target, value = given
    match = re.match(r"([A-Za-z_]\w*)(\[.*\])?$", target, re.DOTALL)
    if not match:
        if not target.isdigit():
            judge.add(ask("hidden-variable", text, "Which variable it sets cannot be told.", "Write out its name."))
        scope.forget()
        return
    name = match[1]
    _environment(judge, scope, (name, value), text)
    unsure = name in scope.integers and not arithmetic.is_number(value) and not scope.defining
    if unsure or arithmetic.is_code(value.text) or arithmetic.is_code(match[2] or ""):
        judge.add(ask("hidden-code", text, "Arithmetic would run what stands in this text."))
    if match[2]:
        numbers = name in scope.variables and are_numbers(scope.variables[name], value)
        value = Value(TAME, value.origins | {PERHAPS_EMPTY}) if numbers else Value(UNKNOWN, value.origins)
    scope.variables[name] = value


def _environment(judge: Judge, scope: Scope, given: tuple[str, Value], text: str) -> None:
    name, value = given
    name = name.partition("[")[0]
    if name in _FOLDERS:
        judge.add(ask("environment", text, f"{name} is where bash believes to be.", "Use cd."))
    for found in launchers.environment(name, value, text, scope) if name != "_" else ():
        judge.finding(found, scope)


def declaration(judge: Judge, node: Node, scope: Scope) -> Value:
    """declare, export, local and the like: assignments, and words as for any command."""
    first, *others = node.children
    words, options = [Word(source(first), source(first))], set[str]()
    for child in others:
        if child.type == "variable_assignment":
            if "i" in options:
                scope.integers.add(source(child.children[0]))
            _assign(judge, child, scope, lasting=True)
            words.append(Word("name", source(child)))
        elif child.type == "variable_name":
            words.append(Word("name", source(child)))
            if "i" in options:
                scope.integers.add(source(child))
            if {"a", "A"} & options:  # an array without elements
                scope.variables.setdefault(source(child), Value(TAME, frozenset({PERHAPS_EMPTY})))
        else:
            words += judge.expander(scope).words(child)
            options.update(*(word.text[1:] for word in words[-1:] if word.text.startswith("-")))
    judge.words(words, scope)
    return NOTHING


def unset(judge: Judge, node: Node, scope: Scope) -> Value:
    """unset: the variable is not known any more."""
    first, *others = node.children
    for child in others:
        name = source(child)
        scope.variables[name] = ANYTHING
        scope.functions.pop(name, None)
        if "[" in name:
            judge.evaluate(child, substituted(judge, child, scope), scope)
        else:
            substituted(judge, child, scope)
        if name in {"IFS", "PATH"}:
            _environment(judge, scope, (name, ANYTHING), name)
    judge.words([Word(source(child), source(child)) for child in (first, *others)], scope)
    return NOTHING


def take_effect(judge: Judge, words: list[Word], scope: Scope) -> None:
    """What a command changes in the shell itself: the folder, variables, files that it made."""
    name = words[0].text
    if name in {"cd", "pushd", "popd"}:
        _move(words, scope)
    elif name in {"eval", "source", "."}:
        scope.forget()
    elif name in {"set", "shift"}:
        scope.variables |= dict.fromkeys("123456789", ANYTHING)
    elif name == "let":
        _let(judge, words, scope)
    elif name in {*_MAKERS, "mkdir"}:
        _made(words, scope)
    _settings(judge, words)
    for word, target, value in _set(words, scope):
        set_variable(judge, scope, (target, value), word.source)


def _made(words: list[Word], scope: Scope) -> None:
    if words[0].text == "ln":
        scope.links.add(words[-1].text)
    resolved = {files.resolve(word.text, scope) for word in words[1:] if not word.text.startswith("-")}
    made = frozenset(path for path in resolved if path)
    if words[0].text == "mkdir":
        scope.made |= made if scope.cwd and not scope.elsewhere and all(word.known for word in words) else frozenset()
    else:
        scope.written |= made


def _settings(judge: Judge, words: list[Word]) -> None:
    pattern = _SETTINGS.get(words[0].text)
    for word in words[1:]:
        if pattern and re.fullmatch(pattern, word.text):
            why = "It changes what the names of commands and folders mean."
            judge.add(ask("meaning", word.source, why, "Write out the names."))


def _let(judge: Judge, words: list[Word], scope: Scope) -> None:
    for word in words[1:]:
        named = re.findall(r"[A-Za-z_]\w*", word.text)
        values = [scope.variables.get(name, NOTHING) for name in named]
        if not all(arithmetic.is_number(value) for value in (*values, Value(word.text))) and not scope.defining:
            judge.add(ask("hidden-code", word.source, "Arithmetic would run what stands in this text."))
        for name in named:
            set_variable(judge, scope, (name, A_NAME), word.source)


def _set(words: list[Word], scope: Scope) -> Iterator[tuple[Word, str, Value]]:
    """The variables that a builtin sets, with the word that says so."""
    name, rest = words[0].text, words[1:]
    if name in _DECLARES:
        for word in rest:
            target, equals, value = word.text.partition("=")
            if equals or UNKNOWN in word.text:
                yield word, target.removesuffix("+"), Value(value, word.origins)
    elif name in _INTO:
        yield from _into(_INTO[name], rest)
    elif name in {"read", "mapfile", "readarray"}:
        yield from _read_names(words, scope)
    elif name == "getopts":
        yield from ((word, word.text, ANYTHING) for word in rest[1:2])


def _into(flag: str, rest: list[Word]) -> Iterator[tuple[Word, str, Value]]:
    """The variable of printf -v or wait -p."""
    if rest and rest[0].text.startswith(flag):
        target = rest[0].text[2:] or "".join(word.text for word in rest[1:2])
        yield rest[0], target, ANYTHING


def _read_names(words: list[Word], scope: Scope) -> Iterator[tuple[Word, str, Value]]:
    """The variables that read and mapfile fill; a word after a flag may be its value or a name."""
    stdin = scope.stdin or ANYTHING
    simple_words = words[0].text == "read" and re.fullmatch(rf"\s*([\w{TAME}][\w.{TAME}]*[\s,:]*)+", stdin.text)
    value = Value(TAME, stdin.origins) if simple_words else Value(UNKNOWN, stdin.origins - {"environment"})
    if sum(word.text.isidentifier() for word in words[1:]) != 1:  # then each has only a part of a line
        value = Value(value.text, unfound(value.origins))
    after = ""
    for word in words[1:]:
        flag = re.match(r"-\w*", word.text)
        if not flag and (word.text.isidentifier() or not re.search(r"-\w*[pdntNuisOcC]$", after)):
            yield word, word.text, value
        after = word.text if flag else ""


def _move(words: list[Word], scope: Scope) -> None:
    """The folder after cd, pushd and popd, if they succeed."""
    folders = {_folder(words, possible) for possible in scope.possible()}
    first, before = _folder(words, scope), scope.folders
    scope.cwd, scope.elsewhere = first, frozenset()
    scope.failed = frozenset() if first in scope.made else before
    scope.may_be_in(frozenset(folders))


def _folder(words: list[Word], scope: Scope) -> str | None:
    name = words[0].text
    targets = [word for word in words[1:] if not re.fullmatch(r"-[LPe@n]+|--", word.text)]
    if not targets:
        return files.resolve("~", scope) if name == "cd" else None
    target = targets[0]
    told = len(targets) == 1 and not target.glob and target.text not in {"", "-"} and name != "popd"
    return files.resolve(target.text, scope) if told and not re.match(r"[-+]\d", target.text) else None
