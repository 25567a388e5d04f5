"""What does an interpreter run: code in an argument, a module, a file, or its standard input? (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from agentkit.safety import paths
from agentkit.safety.shell import files
from agentkit.safety.shell.knowledge.arguments import Argument, leading
from agentkit.safety.shell.knowledge.tables import Language, tables
from agentkit.safety.shell.launchers import origin, run_arguments, script
from agentkit.safety.shell.programs import inline, python
from agentkit.safety.shell.scope import Command, Finding, Scope, Script, Word, ask, reads, runs

_TOOLS = {"runs", "network"}
"""The effects of commands that are Python tools too; a module with the name of another command is another program."""
_VERSION = {"--version", "-version", "-V", "--help", "-h", "-v", "version"}
_CODES = {"-c", "-Command", "-command", "--command"}
_LETTERS = frozenset("abefhmnptuvxBCEPTilsrcoOD")
_LONG = {"--norc", "--noprofile", "--posix", "--login", "--restricted", "--verbose", "-NoProfile", "-noprofile"}
_MODES = re.compile(
    r"allexport|err(exit|trace|return)|functrace|ignoreeof|no(clobber|exec|glob|unset|tify)|physical|pipefail|posix|verbose"
    r"|xtrace|extglob|globstar|nullglob|failglob|inherit_errexit|nocaseglob|nocasematch|expand_aliases"
)
_LOADED = re.compile(r"[a-z]\w*(/[\w-]+)*|@[a-z]\w*/[\w/-]+|\./(?!.*\.\.)[\w./-]+")
_NAMED = re.compile(
    r"(strict|warnings|utf8|bytes|integer|bigint|feature|POSIX|List::Util|Scalar::Util|Data::Dumper|JSON::PP|Time::HiRes"
    r"|json|set|time|date|yaml|csv|pp|bigdecimal|securerandom|digest|prime|matrix|Time::Local|Text::Wrap|Digest::(MD5|SHA)|MIME::Base64)(=[\w,:]*)?"
)


def interpreted(language: Language, words: list[Word], scope: Scope) -> Iterator[Finding]:
    """What an interpreter runs, and what objects to its options and arguments."""
    if words[1:] and all(word.text in _VERSION for word in words[1:]):
        yield reads(words[0].source)
    elif language.name == "shell":
        yield from _shell(language, words, scope)
    else:
        yield from _by_options(language, words, scope)


def _by_options(language: Language, words: list[Word], scope: Scope) -> Iterator[Finding]:
    rest, ran = words[1:], False
    for argument in leading(language.options, rest):
        if argument.kind == "module" and language.name == "python":
            yield from _module(words[0], argument.word, rest, scope)
            return
        yield from _option(language, argument, scope)
        ran |= argument.kind == "program"
        if ran and language.name == "python":
            break
    if any(word.text in language.run for word in words):
        yield from run_arguments(rest, scope)
        yield runs(words[0].source, scope)
        return
    rest = rest[1:] if rest and rest[0].text == "--" else rest
    if ran:
        yield from _data(language, rest, scope)
    elif rest and rest[0].text not in {"-", "-s", "/dev/stdin"}:
        yield from _file(language, rest, scope)
    else:
        yield from _stdin(language, words[0], scope)


def _option(language: Language, argument: Argument, scope: Scope) -> Iterator[Finding]:
    kind, word, _ = argument
    if kind == "ask" or (kind in {"program", "module"} and word.text.startswith("-")):
        yield ask("option", word.source, "What this option does is not known here.")
    elif kind == "program":
        yield from _program(language, word, scope)
    elif kind == "module":
        loaded = _NAMED if language.name in {"perl", "ruby"} else _LOADED
        if not loaded.fullmatch(word.text):
            yield ask("option", word.source, "It loads other code first.")
            yield from inline.judge(language.name, word, scope)
        elif language.name not in {"perl", "ruby"}:
            yield runs(word.source, scope)
    elif kind in {"read", "cd"}:
        yield from files.read(word, scope)
    elif kind == "value":
        yield from run_arguments([word], scope)


def _program(language: Language, code: Word, scope: Scope) -> Iterator[Finding]:
    yield from origin(code, code.source)
    yield from inline.judge(language.name, code, scope)


def _data(language: Language, rest: list[Word], scope: Scope) -> Iterator[Finding]:
    """The arguments after a program: perl and ruby read them as files, and run or write where a sign says so."""
    if language.name not in {"perl", "ruby"}:
        yield from run_arguments(rest, scope)
        return
    for word in rest:
        text = word.text.strip()
        if text[:1] == ">" or text[:2] == "+<":
            yield from files.write(Word(text.lstrip("+<> "), word.source), scope)
        elif "|" in (text[:1], text[-1:]):
            yield from script(Word(text.strip("| "), word.source, origins=word.origins), word.source)
        else:
            yield from files.read(word, scope)
        if not word.known:
            yield runs(word.source, scope)


def _shell(language: Language, words: list[Word], scope: Scope) -> Iterator[Finding]:
    """A shell: options, then with -c a script, else a file or its input."""
    rest, code, stdin = words[1:], False, False
    while rest and len(rest[0].text) > 1 and rest[0].text[0] in "-+":
        word = rest.pop(0)
        if word.text == "--":
            break
        if word.text.startswith("--command="):
            word, rest = Word("-c", word.source), [Word(word.text[10:], word.source), *rest]
        letters = "c" if word.text in _CODES else "" if word.text in _LONG else word.text[1:]
        code, stdin = code or "c" in letters, stdin or "s" in letters
        modes = [rest.pop(0) for letter in letters if letter in "oO" and rest]
        if not _LETTERS.issuperset(letters) or not all(_MODES.fullmatch(mode.text) for mode in modes):
            yield ask("option", word.source, "What this option does is not known here.")
    if code and rest:
        for finding in script(rest[0], rest[0].source):
            yield replace(finding, arguments=tuple(rest[2:])) if isinstance(finding, Script) else finding
    elif rest and not stdin and rest[0].text not in {"-", "/dev/stdin"}:
        yield from _file(language, rest, scope)
    else:
        yield from _stdin(language, words[0], scope)


def _module(interpreter: Word, module: Word, rest: list[Word], scope: Scope) -> Iterator[Finding]:
    """What python -m runs: a command of the same name, the timing of a program, or a tool that is known."""
    name, known = module.text.partition(".")[0], tables()
    yield from (Command([interpreter, *rest[i:]]) for i, word in enumerate(rest) if word.text.startswith("-m"))
    if name == "timeit":
        for word in rest:
            if not re.fullmatch(r"-[nrpvhsu]+|\d+|[num]?sec|--\w+(=\d+)?", word.text):
                yield from inline.judge("python", Word(re.sub("^--?s(etup=)?", "", word.text), word.source), scope)
        yield runs(module.source, scope)
    elif name in known.specs and (known.specs[name].effect in _TOOLS or known.specs[name].paths == "subcommand"):
        yield Command([Word(name, module.source), *rest])
    elif name in known.groups["python_modules"] or python.is_own_module(module.text):
        _note_module(module, scope)
        yield from run_arguments(rest, scope)
        yield runs(module.source, scope)
    else:
        _note_module(module, scope)
        yield ask("module", module.source, "It runs a Python module that is not one of the usual tools.")


def _note_module(module: Word, scope: Scope) -> None:
    """Note the files of the workspace that hold a module which is run."""
    path = module.text.replace(".", "/")
    for place in (f"{path}.py", f"{path}/__main__.py"):
        files.run(Word(place, module.source), scope)


def _file(language: Language, rest: list[Word], scope: Scope) -> Iterator[Finding]:
    path = files.run(rest[0], scope)
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
    if scope.stdin is not None and not scope.stdin.known:
        scope.scripts |= scope.places  # the code is in one of the files that were read for it
    if scope.stdin is None:
        yield ask(
            "interactive", word.source, "It starts an interpreter that waits for input.", "Give it a file to run."
        )
    elif language.name == "shell":
        yield from script(scope.stdin, word.source)
    else:
        yield from origin(scope.stdin, word.source)
        yield from inline.judge(language.name, Word(scope.stdin.text, word.source), scope)
