"""Words, assignments and redirections of simple commands (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.decisions import Decision
from agentkit.safety.shell import arithmetic, files, launchers, outputs
from agentkit.safety.shell.control_flow import WORDS, StatementJudge, last_of, piped
from agentkit.safety.shell.parsing import own_text
from agentkit.safety.shell.variables import (
    A_NUMBER,
    A_WORD,
    ANYTHING,
    NOTHING,
    PERHAPS_EMPTY,
    SET_BY_BASH,
    UNKNOWN,
    UNKNOWN_NAME,
    ShellScope,
    Value,
    Word,
    alternatives,
    are_numbers,
    ask,
    composed,
    reads,
)
from agentkit.safety.shell.word_expansion import is_translation_mark, source, word_value

if TYPE_CHECKING:
    from tree_sitter import Node

_REDIRECTS = {"file_redirect", "heredoc_redirect", "herestring_redirect"}
_DECLARES = {"declare", "typeset", "local", "export", "readonly"}
_DECLARED = "1"  # replaces a declared name, because it cannot be a name
_TARGET_FLAGS = {"printf": "-v", "wait": "-p"}
_OPTIONS = {"": set("aAfFgiIlnrtuxp"), "export": set("fnp"), "readonly": set("aAfp")}
"""The options of the builtins that declare variables; with any other they change nothing."""
_ALWAYS_OPENABLE = re.compile(r"/dev/null$|[<>]\(")  # these can always be opened
_DISPLAY_OPTIONS = {"f", "F", "p"}
_FOLDERS = {"PWD", "OLDPWD", "DIRSTACK"}
_SETTINGS = {
    "hash": r"-\w*p.*",
    "shopt": r"lastpipe|autocd|cdable_vars|dotglob|expand_aliases|assoc_expand_once",
    "enable": r"-.*",
    "set": r"[-+][a-zA-Z]*[kH][a-zA-Z]*|keyword|history|histexpand",
}
_WHOLE_LINE_OPTIONS = {"-r", "-d", "-rd", ""}
_NULL = r"$'\0'"
_CREATING_COMMANDS = {"cp", "mv", "ln", "install", "curl", "wget"}


def command(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """A simple command: assignments before it, words, redirections."""
    return _command(judge, node, scope, [])


def _command(
    judge: StatementJudge, node: Node, scope: ShellScope, extra: list[Word], *, redirections_judged: bool = False
) -> Value:
    """Judge a simple command; `extra` are words of it that the parser has attached to a redirection after it."""
    inner = replace(scope, variables=scope.variables)
    words: list[Word] = []
    following: list[Node] = []
    variables: dict[str, Value] = {}
    for child in node.children:
        if child.type == "variable_assignment":
            variables |= _command_variable(judge, child, scope)
        elif child.type in _REDIRECTS:
            more, after = ([], []) if redirections_judged else _redirect(judge, child, inner)
            words += more
            following += after
        else:
            parts = child.children if child.type == "command_name" else [child]
            expander = judge.expander(inner)
            words += [word for part in parts if not is_translation_mark(part) for word in expander.words(part)]
    printed = _with_variables(judge, [*words, *extra], inner, variables)
    scope.adopt(inner)
    return _judge_following(judge, following, scope, printed)


def _with_variables(judge: StatementJudge, words: list[Word], scope: ShellScope, given: dict[str, Value]) -> Value:
    """Judge a command with these variables, which bash sets after the expansion of the words."""
    before = {name: scope.variables.get(name) for name in given}
    for name, value in given.items():
        set_variable(judge, scope, (name, value), name, passing=True)
    before_exported, scope.exported = scope.exported, scope.exported | given.keys()
    printed = judge.words(words, scope)
    scope.exported = before_exported
    for name, value in given.items():
        scope.variables[name] = value if value == before[name] else ANYTHING
    if "IFS" in given:  # the words after this command are split as before
        scope.variables.pop("IFS")
        scope.variables |= {"IFS": before["IFS"]} if before["IFS"] else {}
    return printed


def redirected(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """A statement with redirections; words that follow a target belong to the command."""
    body = judge.resolved(node.children[0])
    part = last_of(body)
    if part.id != body.id:
        printed = judge.around(node, body, part, scope)
        return _judge_following(judge, _following(node), scope, printed)
    before, inner = scope.fork(), replace(scope, variables=scope.variables)
    dropped = own_text(node).replace("\\\n", "").strip()  # the parser drops a - before a here-document
    extra: list[Word] = [Word(dropped, dropped)] if dropped else []
    following: list[Node] = []
    own = body.children if body.type == "command" else []  # of several redirections, the last in the text applies
    for child in [*own, *node.children]:
        if child.type in _REDIRECTS:
            words, after = _redirect(judge, child, inner)
            extra += words
            following += after
    printed = _body(judge, body, inner, extra)
    scope.adopt(inner)
    if any(child.type == "file_redirect" and not _ALWAYS_OPENABLE.search(source(child)) for child in node.children):
        scope.merge_variables(before)  # if the file cannot be opened, nothing is run
    is_part = judge.resolved(body).id == node.id  # the same shell continues after it
    return printed if is_part else _judge_following(judge, following, scope, printed)


def _following(node: Node) -> list[Node]:
    """The statements that the parser has attached to the here-documents of a statement."""
    return [
        inner
        for child in node.children
        if child.type == "heredoc_redirect"
        for inner in child.children
        if inner.is_named and inner.type not in WORDS | _REDIRECTS and not inner.type.startswith(("heredoc", "file_d"))
    ]


def _body(judge: StatementJudge, body: Node, scope: ShellScope, extra: list[Word]) -> Value:
    if body.type in _REDIRECTS:
        return judge.words(extra, scope) if extra else scope.stdin or ANYTHING
    if body.type == "command":
        return _command(judge, body, scope, extra, redirections_judged=True)
    printed = judge.dispatch(body, scope)
    return judge.words(extra, scope) if extra else printed


def _judge_following(judge: StatementJudge, following: list[Node], scope: ShellScope, printed: Value) -> Value:
    """Judge statements that the parser has attached to a here-document: the rest of a pipeline, or later ones."""
    for after in following:
        if after.type == "pipeline":
            printed = piped(judge, [child for child in after.children if child.is_named], scope, printed)
        else:
            judge.visit(after, scope)
    return printed


def bare_redirect(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """A redirection without a command, as in $(<file)."""
    words, following = _redirect(judge, node, scope)
    printed = judge.words(words, scope) if words else Value(UNKNOWN, frozenset({"output"}))
    return _judge_following(judge, following, scope, printed)


def _redirect(judge: StatementJudge, node: Node, scope: ShellScope) -> tuple[list[Word], list[Node]]:
    """Judge one redirection; return the words and the statements that the parser has attached to it."""
    expander = judge.expander(scope)
    if node.type == "herestring_redirect":
        values = [expander.value(child) for child in node.children if child.is_named]
        _set_stdin(judge, values[-1] if values else ANYTHING, node, scope)
        return [], []
    if node.type == "heredoc_redirect":
        return _heredoc(judge, node, scope)
    operator = next((child.type for child in node.children if not child.is_named), "")
    targets = [child for child in node.children if child.is_named and child.type not in {"file_descriptor", "ERROR"}]
    words = [word for target in targets for word in expander.words(target)]
    if words:
        stdin = scope.stdin
        _target(judge, operator, words[0], scope)
        scope.stdin = scope.stdin if _is_input(node) else stdin
    return words[1:], []


def _is_input(node: Node) -> bool:
    """Whether a redirection applies to standard input, not to another descriptor."""
    return all(source(child).strip() == "0" for child in node.children if child.type == "file_descriptor")


def _heredoc(judge: StatementJudge, node: Node, scope: ShellScope) -> tuple[list[Word], list[Node]]:
    expander = judge.expander(scope)
    words: list[Word] = []
    following: list[Node] = []
    for child in node.children:
        if child.type == "heredoc_body":
            _set_stdin(judge, expander.value(child), node, scope)
        elif child.type in _REDIRECTS:
            words += _redirect(judge, child, scope)[0]
        elif child.type in WORDS:
            words += [] if child.type.startswith(("heredoc", "file_d")) else expander.words(child)
        elif child.is_named:
            following.append(child)
    return words, following


def _set_stdin(judge: StatementJudge, value: Value, node: Node, scope: ShellScope) -> None:
    """Set the standard input of a command to a text of the command line."""
    scope.stdin = value if _is_input(node) else scope.stdin
    if "environment" in value.origins:
        why = "It uses an environment variable that could contain a key."
        judge.add(ask("shows-environment", source(node), why, "Write out the value."))


def _target(judge: StatementJudge, operator: str, word: Word, scope: ShellScope) -> None:
    """Judge the file that a redirection reads or writes."""
    if operator in {">&", "<&"} and re.fullmatch(r"\d*-?", word.text):
        scope.stdin = ANYTHING if operator == "<&" else scope.stdin
        return
    if operator in {">&", "<&"} and re.search(r"[$`~{]", word.text):
        judge.add(ask("hidden-code", word.source, "bash expands this name twice, and runs commands in it."))
    linked(judge, [word], scope)
    for possible in scope.possible():
        judged = files.write if not operator.startswith("<") or operator == "<>" else _reads
        for found in judged(word, possible):
            judge.add(found)
    if PERHAPS_EMPTY in word.origins:
        judge.add(ask("unknown-path", word.source, "The file is only known when the command runs.", "Name the file."))
    if operator.startswith("<"):
        scope.stdin = scope.pipes.get(word.text, Value(UNKNOWN, word.origins | files.listed([word], scope)))


def linked(judge: StatementJudge, words: list[Word], scope: ShellScope) -> None:
    """Object to ".." if the command created a link: its target is unknown."""
    for word in words:
        if scope.links and re.search(r"(^|[/=])\.\.(/|$)", word.text):
            why = "It uses '..' below a link that the same command created."
            judge.add(ask("linked", word.source, why, "Use the full path."))


def _reads(word: Word, scope: ShellScope) -> Iterator[Decision]:
    files.record_script(word, scope)  # a program may run its input
    yield from files.secrets(word, scope)
    yield from files.read(word, scope)


def assignment(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """An assignment without a command."""
    _assign(judge, node, scope)
    judge.add(reads(source(node)))
    return NOTHING


def _assigned(judge: StatementJudge, node: Node, scope: ShellScope) -> tuple[str, Value]:
    """The name and the value of an assignment; all expansions in them are judged."""
    target, *rest = [child for child in node.children if child.is_named]
    expander, name = judge.expander(scope), source(target)
    expander.visit(target)
    if rest and rest[0].type == "array":
        judge.reached(rest[0])
        return name, expander.array(rest[0], name)
    return name, expander.value(rest[0]) if rest else NOTHING


def _command_variable(judge: StatementJudge, node: Node, scope: ShellScope) -> dict[str, Value]:
    """The variable that an assignment before a command sets for this command only."""
    name, value = _assigned(judge, node, scope)
    if name in {"LC_ALL", "LANG"}:
        return {}
    if name != "IFS":  # bash does not pass it to other programs
        _environment(judge, scope, (name, value), source(node))
    return {name: value} if name.isidentifier() else {}


def _assign(judge: StatementJudge, node: Node, scope: ShellScope) -> None:
    """Judge an assignment, and store the variable's value."""
    name, value = _assigned(judge, node, scope)
    text = source(node)
    if text.startswith(name + "+="):
        before = scope.value(name) or (NOTHING if name.islower() else ANYTHING)
        if name in scope.integers:
            value = Value.array([before, value])  # each is evaluated separately
        elif value.items is not None:
            first = before.items or (() if before == NOTHING else (before,))
            value = Value.array([*first, *value.items])
        else:
            value = value if before == NOTHING else Value.joined([before, value])
    set_variable(judge, scope, (name, value), text)


def set_variable(
    judge: StatementJudge, scope: ShellScope, given: tuple[str, Value], text: str, *, passing: bool = False
) -> None:
    """Set a variable; every assignment is made here.

    With `passing`, the variable is set for a command only, whose environment is already judged.
    """
    target, value = given
    match = re.match(r"([A-Za-z_]\w*)(\[.*\])?$", target, re.DOTALL)
    if not match:
        if not target.isdigit():
            why = "The name of the variable is only known when the command runs."
            judge.add(ask("hidden-variable", text, why, "Write out its name."))
        scope.forget()
        return
    name, element = match[1], bool(match[2])
    if not passing:
        _environment(judge, scope, (name, value), text)
    if name in scope.readonly:
        judge.add(ask("hidden-variable", text, f"It assigns to {name}, which cannot be changed."))
    if name in scope.integers:
        for objection in arithmetic.objections(value, text, scope):
            judge.add(objection)
        value = A_NUMBER if value.items is None else value
    _record_assignment(scope, name, value, element=element)
    scope.variables[name] = _with_element(scope.variables.get(name), value) if element else value


def _record_assignment(scope: ShellScope, name: str, value: Value, *, element: bool) -> None:
    """Record facts about a variable that remain true even if a later assignment fails."""
    trusted = replace(value, origins=value.origins - {A_WORD})  # the words of a loop are part of the command
    if not scope.defining and not arithmetic.is_harmless(trusted, scope):
        scope.untrusted.add(name)
    if name not in scope.keyed and (element or value.items is not None):
        scope.indexed.add(name)


def _with_element(before: Value | None, value: Value) -> Value:
    """An array in which one element has been assigned."""
    values = [*([] if before is None else before.items or [before]), value]
    if are_numbers(*values):
        return Value(UNKNOWN_NAME, alternatives(values) | {PERHAPS_EMPTY})
    return Value.array([ANYTHING, *[each for each in values if each != ANYTHING]])  # the positions are not tracked


def _environment(judge: StatementJudge, scope: ShellScope, given: tuple[str, Value], text: str) -> None:
    name, value = given
    name = name.partition("[")[0]
    if name in _FOLDERS:
        judge.add(ask("environment", text, f"It changes {name}, the folder that bash assumes.", "Use cd."))
    for found in launchers.environment(name, value, text, scope) if name != "_" else ():
        judge.finding(found, scope)


def declaration(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """declare, export, local and similar builtins: assignments, and words as for any command."""
    first, *others = node.children
    words, options = [Word(source(first), source(first))], set[str]()
    for child in others:
        if child.type == "variable_assignment":
            _check_attributes(judge, scope, (source(first), source(child.children[0])), options)
            _assign(judge, child, scope)
            if options & _DISPLAY_OPTIONS:
                judge.add(
                    ask("hidden-variable", source(child), "With this option the builtin only displays the variable.")
                )
            _apply_attributes(scope, (source(first), source(child.children[0])), options)
            words.append(Word(_DECLARED, source(child)))
        elif child.type == "variable_name":
            words.append(Word(_DECLARED, source(child)))
            _check_attributes(judge, scope, (source(first), source(child)), options)
            _apply_attributes(scope, (source(first), source(child)), options)
            if {"a", "A"} & options:  # an array without elements
                scope.variables.setdefault(source(child), Value(UNKNOWN_NAME, frozenset({PERHAPS_EMPTY})))
        else:
            words += judge.expander(scope).words(child)
            options.update(*(word.text[1:] for word in words[-1:] if word.text.startswith("-")))
    judge.words(words, scope)
    return NOTHING


def _check_attributes(judge: StatementJudge, scope: ShellScope, given: tuple[str, str], options: set[str]) -> None:
    """Judge the options of a declaration: with -i, bash evaluates all assigned values; with -A, keys are plain text."""
    builtin, target = given
    name = target.partition("[")[0]
    if options - _OPTIONS.get(builtin, _OPTIONS[""]) or (builtin == "local" and not scope.in_function):
        judge.add(
            ask("hidden-variable", target, f"{builtin} fails with these options and leaves the variable unchanged.")
        )
    if "i" in options:
        scope.integers.add(name)
        if SET_BY_BASH.fullmatch(name):
            judge.add(ask("hidden-code", target, f"bash would evaluate the values that it assigns to {name} itself."))
    if options & {"u", "l", "c"}:  # bash changes what is assigned, perhaps into the name of another variable
        scope.untrusted.add(name)
        judge.add(ask("hidden-variable", target, f"bash changes the case of what is assigned to {name}."))
    if "A" in options:
        scope.ever_keyed.add(name)
    if "A" in options and not options & {"a", "f", "F", "p"} and name not in scope.indexed | scope.readonly:
        scope.keyed |= {name}
    elif "A" not in options:
        scope.keyed -= {name}
        scope.indexed |= {name} if "a" in options else set()


def _apply_attributes(scope: ShellScope, given: tuple[str, str], options: set[str]) -> None:
    builtin, target = given
    name = target.partition("[")[0]
    if builtin == "readonly" or "r" in options:
        scope.readonly.add(name)
    is_exported = (builtin == "export" or "x" in options) and not options & {"n", "f"}
    scope.exported = scope.exported | {name} if is_exported else scope.exported - {name}


def unset(judge: StatementJudge, node: Node, scope: ShellScope) -> Value:
    """unset: the variable is unknown afterwards."""
    words: list[Word] = []
    end = -1
    for child in node.children:
        found = judge.expander(scope).words(child) if words else [Word(source(child), source(child))]
        if child.start_byte == end and found:  # the parser splits a[i] into two words
            last = words.pop()
            found[0] = replace(found[0], text=last.text + found[0].text, source=last.source + found[0].source)
        words += found
        end = child.end_byte
    judge.words(words, scope)
    return NOTHING


def _unset(judge: StatementJudge, words: list[Word], scope: ShellScope) -> None:
    for word in words[1:] if words[0].text == "unset" else ():
        scope.variables[word.text.partition("[")[0]] = ANYTHING
        scope.functions.pop(word.text, None)
        scope.keyed = scope.keyed - {word.text} if word.known else frozenset()
        scope.exported = scope.exported - {word.text} if word.known else frozenset()
        if word.text in {"IFS", "PATH"}:
            _environment(judge, scope, (word.text, ANYTHING), word.source)


def take_effect(judge: StatementJudge, words: list[Word], scope: ShellScope) -> None:
    """Apply the effects of a command on the shell: folder, variables, created files."""
    name = words[0].text
    if name in {"cd", "pushd", "popd"}:
        folders = {_folder(words, possible) for possible in scope.possible()}
        first, before = _folder(words, scope), scope.folders
        scope.cwd, scope.elsewhere = first, frozenset()
        scope.failed = frozenset() if first in scope.made else before
        scope.may_be_in(frozenset(folders))
    elif name in {"eval", "source", "."}:
        scope.forget()
    elif name == "let":
        for word in words[1:]:
            arithmetic.change(Value(word.text), scope)
    elif name in {*_CREATING_COMMANDS, "mkdir"}:
        _record_created(words, scope)
    scope.reopened |= name == "exec"
    _set_parameters(words, scope)
    _unset(judge, words, scope)
    _settings(judge, words)
    for word, target, value in _set(judge, words, scope):
        set_variable(judge, scope, (target, value), word.source)


def _record_created(words: list[Word], scope: ShellScope) -> None:
    if words[0].text == "ln":
        scope.links.add(words[-1].text)
    resolved = {files.resolve(word.text, scope) for word in words[1:] if not word.text.startswith("-")}
    made = frozenset(path for path in resolved if path)
    if words[0].text == "mkdir":
        scope.made |= made if scope.cwd and not scope.elsewhere and all(word.known for word in words) else frozenset()
    else:
        scope.written |= made


def _settings(judge: StatementJudge, words: list[Word]) -> None:
    pattern = _SETTINGS.get(words[0].text)
    for word in words[1:]:
        if pattern and re.fullmatch(pattern, word.text):
            why = "It changes how names of commands and folders are resolved."
            judge.add(ask("meaning", word.source, why, "Write out the names."))


def _set_parameters(words: list[Word], scope: ShellScope) -> None:
    """Update the positional parameters after set and shift."""
    if words[0].text not in {"set", "shift"}:
        return
    texts = [word.text for word in words]
    known = scope.variables.get("@", ANYTHING).items
    count = int(texts[1]) if re.fullmatch(r"\d{1,3}", "".join(texts[1:])) else 1
    if texts[:2] == ["set", "--"]:
        scope.set_parameters([word_value(word) for word in words[2:]])
    elif texts[0] == "shift" and known and len(texts) < 3 and all(item.known or item.is_number for item in known):
        scope.set_parameters(known[count:] if count <= len(known) else known)
    elif texts[0] == "shift" or not all(re.match(r"[-+]", text) for text in texts[1:]):
        scope.set_parameters(None)


def _set(judge: StatementJudge, words: list[Word], scope: ShellScope) -> Iterator[tuple[Word, str, Value]]:
    """The variables that a builtin sets, with the word that names each and its value."""
    name, rest = words[0].text, words[1:]
    if name in _DECLARES:
        yield from _set_by_declaration(judge, words, scope)
    elif name in _TARGET_FLAGS:
        yield from _target_variable(words, scope)
    elif name in {"read", "mapfile", "readarray"}:
        yield from _read_names(words, scope)
    elif name == "getopts":
        yield from ((word, word.text, ANYTHING) for word in rest[1:2])


def _set_by_declaration(
    judge: StatementJudge, words: list[Word], scope: ShellScope
) -> Iterator[tuple[Word, str, Value]]:
    options = {letter for word in words[1:] if word.text.startswith("-") for letter in word.text[1:]}
    for word in words[1:]:
        target, equals, value = word.text.partition("=")
        if word.text != _DECLARED and not word.text.startswith(("-", "+")):
            _check_attributes(judge, scope, (words[0].text, target.removesuffix("+")), options)
        if equals and options & _DISPLAY_OPTIONS:
            judge.add(ask("hidden-variable", word.source, "With this option the builtin only displays the variable."))
        if equals or UNKNOWN in word.text or UNKNOWN_NAME in target:
            yield word, target.removesuffix("+"), Value(UNKNOWN if target.endswith("+") else value, word.origins)


def _target_variable(words: list[Word], scope: ShellScope) -> Iterator[tuple[Word, str, Value]]:
    """The variable of printf -v or wait -p."""
    flag = _TARGET_FLAGS[words[0].text]
    for index, word in enumerate(words[1:], 1):
        if word.text.startswith(flag) and (index == 1 or words[0].text == "wait"):
            glued = word.text.removeprefix(flag)
            rest = words[index + 1 :] if glued else words[index + 2 :]
            target = glued or "".join(following.text for following in words[index + 1 : index + 2])
            yield word, target, A_NUMBER if words[0].text == "wait" else outputs.prints([words[0], *rest], scope)


def _read_names(words: list[Word], scope: ShellScope) -> Iterator[tuple[Word, str, Value]]:
    """The variables that read and mapfile fill: any word that may be a name, also right after the letters of a flag."""
    value, before = _read(words, scope), ""
    for word in words[1:]:
        flags = word.text.startswith("-")
        if not (flags or word.text.isidentifier() or word.known or re.search(r"-\w*[pdntNuisOcC]$", before)):
            yield word, word.text, value  # an unknown name
        before = word.text
        names = [word.text[start:] for start in range(2, len(word.text))] if flags else [word.text]
        yield from ((word, name, value) for name in names if name.isidentifier() or "[" in name)
        if words[0].text != "read" or any(re.match(r"-\w*a", other.text) for other in words):
            scope.indexed |= set(names)
    names = [word.text for word in words[1:] if word.text != "-t"]
    if words[0].text != "read" and not (len(names) == 1 and names[0].isidentifier()):
        yield words[0], "MAPFILE", ANYTHING if names else value


def _read(words: list[Word], scope: ShellScope) -> Value:
    """The value of each variable that read or mapfile fills."""
    elsewhere = any(re.match(r"-\w*[ut]", word.text) for word in words[1:] if words[0].text == "read")
    stdin = ANYTHING if elsewhere else scope.stdin or ANYTHING
    text, name, rest = stdin.text.removesuffix("\n"), words[0].text, [word.text for word in words[1:]]
    if name != "read":
        is_known = stdin.known and [word for word in rest if not word.isidentifier()] in ([], ["-t"])
        ends = "" if "-t" in rest else "\n"
        return Value.array(Value(line + ends, stdin.origins) for line in text.split("\n")) if is_known else ANYTHING
    splitting = scope.value("IFS") or Value(" ")
    is_plain = splitting.text.strip() == "" or (splitting.known and not {*splitting.text} & {*text})
    is_one = len([word for word in rest if word != "-r"]) == 1
    if stdin.known and is_plain and is_one and re.fullmatch(r"[\w./ ~-]*", text):
        return Value(text.strip(" "), stdin.origins | {PERHAPS_EMPTY})
    origins = stdin.origins if splitting.text.strip() == "" and _reads_lines(words) else composed(stdin.origins)
    names = sum(word.isidentifier() for word in rest) if splitting.text.strip() == "" else 1  # the last takes the rest
    is_word = all(len(line.split()) <= max(names, 1) for line in text.split("\n"))
    if is_word and re.fullmatch(rf"\s*([\w{UNKNOWN_NAME}][\w.{UNKNOWN_NAME}]*[\s,:]*)+", text):
        is_number = re.fullmatch(rf"[\s\d{UNKNOWN_NAME}]+", text)
        return Value(UNKNOWN_NAME, origins | (frozenset() if is_number else {A_WORD}))
    return Value(UNKNOWN, origins - {"environment"})


def _reads_lines(words: list[Word]) -> bool:
    """Whether read fills one variable with a whole line, or with everything up to a null byte."""
    names = [word for word in words[1:] if word.text.isidentifier()]
    others = [word for word in words[1:] if word not in names]
    return len(names) == 1 and all(word.text in _WHOLE_LINE_OPTIONS or word.source == _NULL for word in others)


def _folder(words: list[Word], scope: ShellScope) -> str | None:
    name = words[0].text
    targets = [word for word in words[1:] if not re.fullmatch(r"-[LPe@n]+|--", word.text)]
    if not targets:
        return files.resolve("~", scope) if name == "cd" else None
    target = targets[0]
    is_known = len(targets) == 1 and not target.glob and target.text not in {"", "-"} and name != "popd"
    return files.resolve(target.text, scope) if is_known and not re.match(r"[-+]\d", target.text) else None
