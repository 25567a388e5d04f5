"""Which command does this command start: sudo, env, xargs, find -exec, sh -c, and the like? (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from agentkit.safety import paths
from agentkit.safety.shell import files, programs
from agentkit.safety.shell.knowledge.tables import Language, Launcher, tables
from agentkit.safety.shell.scope import (
    ANYTHING,
    TAME,
    UNKNOWN,
    Command,
    Finding,
    Scope,
    Script,
    Value,
    Word,
    ask,
    deny,
    reads,
    runs,
)

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
_VERSION = {"--version", "-version", "-V", "--help", "-h", "-v", "version"}
_TRACES = re.compile(r"HISTFILE|HISTSIZE|HISTFILESIZE|HISTCONTROL|HISTIGNORE")
_LOADERS = re.compile(r"LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES|BASH_ENV|PROMPT_COMMAND|BASH_FUNC.*")
_DELICATE = re.compile(
    r"(LD|DYLD|GIT|PERL|RUBY|JAVA|JDK|NODE|NPM|npm|PIP|UV|CARGO|RUSTC|SSH|SUDO|GCONV|GCC|MAKE|DOCKER|KUBE|AWS)_?.*"
    r"|PYTHON.*|PATH|IFS|ENV|SHELLOPTS|BASHOPTS|PS4|CDPATH|GLOBIGNORE|EXECIGNORE|EDITOR|VISUAL|.*PAGER|BROWSER|LESS\w*|MAIL"
    r"|HOSTALIASES|TERMINFO\w*|TERMCAP|HOME|SHELL|BASH_\w*|INPUTRC|HIST\w*|\w*_PROXY|\w*_proxy|CC|CXX|LDFLAGS|TMPDIR|_"
)
_FINE = re.compile(
    r"PYTHON(DONTWRITEBYTECODE|UNBUFFERED|HASHSEED|UTF8|IOENCODING|OPTIMIZE|FAULTHANDLER|DEVMODE|ASYNCIODEBUG)|NODE_ENV"
    r"|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|GIT_TERMINAL_PROMPT|CARGO_TERM_COLOR|PIP_NO_INPUT|MAKEFLAGS"
    r"|GIT_OPTIONAL_LOCKS|NPM_CONFIG_LOGLEVEL|UV_OFFLINE|LESSCHARSET"
)


def environment(name: str, value: Value, source: str, scope: Scope) -> Iterator[Finding]:
    """What objects to setting a variable of this name for a command."""
    if _LOADERS.fullmatch(name):
        yield deny("environment", source, f"{name} makes programs run other code.", "Run the command without it.")
        if name == "PROMPT_COMMAND":
            yield from script(value, source)
    elif _TRACES.fullmatch(name):
        yield deny("traces", source, "it hides what is done.", "Run the command without it.")
    elif name in {"PYTHONPATH", "NODE_PATH"} and _within(value.text, scope):
        return
    elif _DELICATE.fullmatch(name) and not _FINE.fullmatch(name) and value.text not in {"cat", "less", "true", ""}:
        yield ask("environment", source, f"{name} changes what programs do or run.", "Run the command without it.")


def _within(text: str, scope: Scope) -> bool:
    found = [files.resolve(part or ".", scope) for part in text.split(":")]
    return all(path is not None and paths.inside(path, scope.workspace) for path in found)


def script(value: Value | Word, source: str) -> Iterator[Finding]:
    """A text that a shell will run, and what objects to where it comes from."""
    yield from origin(value, source)
    if not (UNKNOWN in value.text or TAME in value.text):
        yield Script(value.text, source)
        return
    yield ask("dynamic-code", source, "It runs a text that is made when it runs.", "Write the command itself.")
    yield Script(re.sub(f"[{UNKNOWN}{TAME}]", "$_unknown", value.text), source)


def origin(value: Value | Word, source: str) -> Iterator[Finding]:
    """What objects to running a text that was downloaded or decoded."""
    if "fetch" in value.origins:
        why = "it downloads code and runs it unseen."
        yield deny("remote-code", source, why, "Download it to a file, read it, then run it.")
    if "decode" in value.origins:
        yield deny("obfuscated", source, "it decodes a hidden text and runs it.", "Write the command itself.")


def launched(launcher: Launcher, words: list[Word], scope: Scope) -> Iterator[Finding]:
    """The command that a launcher starts."""
    rest, skip = words[1:], launcher.skip
    while rest:
        text = rest[0].text
        match = _ASSIGNMENT.fullmatch(text) if launcher.assignments else None
        if match:
            yield from environment(match[1], Value(match[2]), rest[0].source, scope)
        elif re.fullmatch(r"-S.*|--split-string.*", text, re.DOTALL) and launcher.assignments:
            yield from _split_string(rest)
            return
        elif text.startswith("-") and text != "-":
            if text in launcher.value:
                rest = rest[1:]
                yield from _mistaken(rest)
        elif skip > 0:
            skip -= 1
        elif text != "-":
            break
        rest = rest[1:]
    yield from _start(launcher, words, rest)


def _mistaken(rest: list[Word]) -> Iterator[Finding]:
    """A flag's value that is a dangerous command's name may be the command: not every version has the flag."""
    if len(rest) > 1 and rest[0].text in tables().rules:
        yield Command(rest)


def _start(launcher: Launcher, words: list[Word], rest: list[Word]) -> Iterator[Finding]:
    if not rest:
        yield reads(words[0].source)
    elif launcher.joined:
        yield from script(joined(rest), words[0].source)
    else:
        yield Command(rest)


def _split_string(rest: list[Word]) -> Iterator[Finding]:
    text = re.sub(r"^(-S|--split-string=?)", "", rest[0].text)
    yield Script(" ".join([text, *(word.text for word in rest[1:])]).strip() or ":", rest[0].source)


def joined(words: list[Word]) -> Value:
    """The words as one text, as eval and ssh make it."""
    parts = [Value((UNKNOWN if word.glob else word.text) + " ", word.origins) for word in words]
    value = Value.joined(parts)
    return Value(value.text.strip(" "), value.origins)


def xargs(launcher: Launcher, words: list[Word], scope: Scope) -> Iterator[Finding]:
    """The command that xargs starts, with what it reads as further arguments."""
    given = _given(scope.stdin or ANYTHING, words[0].source)
    marker = next(
        (_marker(words, index) for index, word in enumerate(words) if word.text.startswith(("-I", "-i", "-J"))), ""
    )
    if any(re.match(r"-a|--arg-file", word.text) for word in words):
        given = _given(ANYTHING, words[0].source)
    for finding in launched(launcher, words, scope):
        if isinstance(finding, Command):
            yield Command(_filled(finding.words, marker, given))
        else:
            yield finding


def _marker(words: list[Word], index: int) -> str:
    return words[index].text[2:] or (words[index + 1].text if index + 1 < len(words) else "{}")


def _given(stdin: Value, source: str) -> list[Word]:
    if stdin.text == TAME:
        return [Word(TAME, source, origins=stdin.origins)]
    if not stdin.known:
        return [Word(stdin.text if stdin.text.startswith(("/", "..")) else UNKNOWN, source, origins=stdin.origins)]
    return [Word(text, source) for text in stdin.text.split()[:20]]


def _filled(words: list[Word], marker: str, given: list[Word]) -> list[Word]:
    if not marker:
        return [*words, *given]
    return [
        Word(word.text.replace(marker, item.text), word.source, word.glob)
        for word in words
        for item in (given[:1] if marker in word.text else [word])
    ]


def find(words: list[Word], scope: Scope) -> Iterator[Finding]:
    """What find looks at, and what it does with what it finds."""
    start = next((i for i, word in enumerate(words) if i and re.match(r"[-(!]", word.text)), len(words))
    roots = [word for word in words[1:start] if word.text not in {"-H", "-L", "-P"}] or [Word(".", words[0].source)]
    actions = {word.text: index for index, word in enumerate(words[start:], start)}
    for root in roots:
        yield from files.read(root, scope)
        if "-delete" in actions:
            yield from files.delete(root, scope)
    for index, word in enumerate(words[start:], start):
        following = words[index + 1 : index + 2]
        if re.fullmatch(r"-(fprint0?|fls|fprintf)", word.text) and following:
            yield from files.write(following[0], scope)
        elif re.fullmatch(r"-(exec|ok)(dir)?", word.text):
            yield from _executed(words[index + 1 :], roots)
        elif word.text.startswith("-files0"):
            yield ask("unknown-path", word.source, "It looks where a file tells it to.")
    yield reads(words[0].source)


def _executed(words: list[Word], roots: list[Word]) -> Iterator[Finding]:
    end = next((i for i, word in enumerate(words) if word.text in {";", "+"}), len(words))
    for root in roots:
        command = [Word(w.text.replace("{}", root.text), w.source, w.glob or root.glob) for w in words[:end]]
        if command:
            yield Command(command)


def interpreted(language: Language, words: list[Word], scope: Scope) -> Iterator[Finding]:
    """What an interpreter runs: code in an argument, a file, or its standard input."""
    rest = words[1:]
    if rest and all(word.text in _VERSION for word in rest):
        yield reads(words[0].source)
        return
    while rest and rest[0].text.startswith(("-", "+")) and rest[0].text not in {"-", "-s", "--"}:
        code = _code(language, rest)
        if code:
            yield from _program(language, code, scope)
            return
        if language.name == "python" and rest[0].text == "-m" and len(rest) > 1:
            yield from _module(rest[1:], scope)
            return
        if rest[0].text in language.value:
            yield from run_arguments(rest[1:2], scope)
            rest = rest[1:]
        rest = rest[1:]
    if any(word.text in language.run for word in words):
        yield runs(words[0].source, scope)
        return
    rest = rest[1:] if rest and rest[0].text == "--" else rest
    if rest and rest[0].text not in {"-", "-s", "/dev/stdin"}:
        yield from _file(language, rest, scope)
    else:
        yield from _stdin(language, words[0], scope)


def _code(language: Language, rest: list[Word]) -> Word | None:
    """The code that the first word introduces or contains."""
    flag = rest[0].text
    for known in language.code:
        attached = (
            flag[len(known) :] if flag.startswith(known + "=") or (len(known) == 2 and flag.startswith(known)) else ""
        )
        cluster = len(known) == 2 and re.fullmatch(rf"-[A-Za-z0-9.]*{known[1]}", flag)
        if flag == known or cluster:
            return rest[1] if len(rest) > 1 else Word("", rest[0].source)
        if attached:
            return Word(attached.lstrip("="), rest[0].source, origins=rest[0].origins)
    return None


def _program(language: Language, code: Word, scope: Scope) -> Iterator[Finding]:
    if language.name == "shell":
        yield from script(code, code.source)
    else:
        yield from origin(code, code.source)
        yield from programs.judge(language.name, code, scope)


def _module(rest: list[Word], scope: Scope) -> Iterator[Finding]:
    name = rest[0].text
    if name == "pip":
        yield Command([Word("pip", rest[0].source), *rest[1:]])
    elif programs.modules_are_installed(name):
        yield from run_arguments(rest[1:], scope)
        yield runs(rest[0].source, scope)
    else:
        yield ask("module", rest[0].source, "It runs a Python module that is not one of the usual tools.")


def run_arguments(words: list[Word], scope: Scope) -> Iterator[Finding]:
    """What objects to the arguments of a program that is run: they must not lead outside the workspace."""
    for word in words:
        text = word.text.partition("=")[2] if word.text.startswith("-") else word.text
        if re.match(r"[/~]|\.\.(/|$)|.*/\.\.(/|$)", text):
            yield from files.read(Word(text, word.source, word.glob), scope)


def _file(language: Language, rest: list[Word], scope: Scope) -> Iterator[Finding]:
    path = files.resolve(rest[0].text, scope)
    given = scope.pipes.get(rest[0].text)
    if given:
        yield from _stdin(language, rest[0], replace(scope, stdin=given))
        return
    yield from run_arguments(rest[1:], scope)
    if path is None or not paths.inside(path, scope.workspace):
        yield ask(
            "outside-code", rest[0].source, "It runs code from outside the workspace.", "Run files of the workspace."
        )
    elif path in scope.written or rest[0].glob:
        yield ask(
            "fresh-code", rest[0].source, "It runs a file that this command has just made.", "Run it in a later call."
        )
    else:
        yield runs(rest[0].source, scope)


def _stdin(language: Language, word: Word, scope: Scope) -> Iterator[Finding]:
    if scope.stdin is None:
        yield ask(
            "interactive", word.source, "It starts an interpreter that waits for input.", "Give it a file to run."
        )
    elif language.name == "shell":
        yield from script(scope.stdin, word.source)
    else:
        yield from origin(scope.stdin, word.source)
        yield from programs.judge(language.name, Word(scope.stdin.text, word.source), scope)
