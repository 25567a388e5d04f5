"""Commands that start other commands: sudo, env, xargs, find -exec, sh -c (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from agentkit.safety import paths
from agentkit.safety.shell import files
from agentkit.safety.shell.arguments import ASSIGNMENT, EXECUTING, Argument, leading_options, parsed
from agentkit.safety.shell.tables import Launcher, tables
from agentkit.safety.shell.variables import (
    ANYTHING,
    BELOW,
    DASHED,
    SPLIT,
    UNKNOWN,
    UNKNOWN_NAME,
    Finding,
    ShellScope,
    ShellScript,
    StartedCommand,
    Value,
    Word,
    ask,
    deny,
    reads,
    undoes,
)
from agentkit.text_encoding import split_lines

_SEPARATING = {"-d", "--delimiter", "-0", "--null"}
_BATCH_FLAGS = {"-n", "-L", "-l", "--max-args", "--max-lines", "-s", "--max-chars"}
"""The options with which xargs starts a command several times, each with a part of the arguments."""
_MAX_ITEMS = 20
_MAX_POSSIBLE_COMMANDS = 3
_EMPTY_FOUND = re.compile(
    r"(-(type [fd]|depth|m(in|ax)depth \d+|print) )*-empty (-(type [fd]|depth|print) )*-delete( -print)?"
)
"""Tests of find with which -delete deletes empty files and folders only."""
_MAX_COMMAND_WORDS = 16
_NAME_TESTS = {"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex"}
_VALUED_TESTS = re.compile(
    r"-(i?(name|path|wholename|regex|lname)|newer\w*|[acm](time|min)|size|x?type|user|group|uid|gid|(max|min)depth|perm|links"
    r"|inum|samefile|printf|fstype|regextype|used|fprint(0|f)?|fls)"
)
_COMMAND_PREFIX = re.compile(
    r"\s*(:?\+?:?(call\s+)?\\?!|([.:\\]|:?\+)?(shell|system|spawn|exec|execute|run-shell)\s)\s*"
)
_STARTED = re.compile(
    r"\b(?:system|exec\w*|spawn\w*|shell[\w-]*|cmd|popen|syscmd|write18|callCommand)\b\W{1,4}([^'\"`)}]+)"
)
_SETTING = re.compile(r"-\w(?=\w+\s)|[\w.:-]+=+['\"]?")
RULES_ABOUT_STARTED_COMMANDS = {
    "option",
    "interactive",
    "database",
    "package",
    "git-destructive",
    "service",
    "persistence",
    "outside-code",
}
"""The rules about commands that may run other commands: a text among their arguments may be one."""
_ENVIRONMENT_REMOVAL = re.compile(r"-$|-[a-z0]*[iu]|--(ignore-environment|unset)")
"""The options with which a launcher removes variables from the environment."""
_ENVIRONMENT_RESETTERS = {"sudo", "doas", "su", "runuser", "pkexec"}
_MESSAGE = re.compile(r"-\w*m$|--(message|title|body|description|notes?|grep|search|query)$")
_CHOICE = re.compile(r"(?<!^!\n)(?<!^-not\n)^[(]\n((?:-i?name\n[^\n]+\n-or?\n)*-i?name\n[^\n]+\n)[)]$", re.MULTILINE)
_NEGATIONS = {"!", "-not"}
_UNRESTRICTED_OPTIONS = {"-o", "-or", ",", "(", ")", "-L", "-follow"}
"""Options with which find also acts on files that its other tests exclude, or on other folders."""
_EXEC_FLAGS = {"-x", "-X", "--exec", "--exec-batch"}


def environment(name: str, value: Value, source: str, scope: ShellScope) -> Iterator[Finding]:
    """Objections to setting a variable of this name for a command."""
    variables = tables().variables
    if variables["loads"].fullmatch(name):
        yield deny("environment", source, f"{name} makes programs run other code.", "Run the command without it.")
        if name == "PROMPT_COMMAND":
            yield from script(value, source)
    elif variables["traces"].fullmatch(name):
        yield deny("traces", source, "it hides its traces.", "Run the command without it.")
    elif variables["changes"].fullmatch(name) and not _is_harmless_value(name, value.text, scope):
        yield ask("environment", source, f"{name} changes what programs do or run.", "Run the command without it.")
        yield from command_texts([Word("--", source), Word("--", source), Word(value.text, source)])
        if variables["prompts"].fullmatch(name):
            yield from (ShellScript(text, source) for text in re.findall(r"(?:\$\(|`)([^)`]*)[)`]", value.text))


def _is_harmless_value(name: str, text: str, scope: ShellScope) -> bool:
    """Whether a variable that changes programs gets a harmless value."""
    if name in {"PYTHONPATH", "NODE_PATH"} and _within(text, scope):
        return True
    is_harmless = any(
        re.fullmatch(names, name) and each.fullmatch(text) for names, each in tables().harmless_variables.items()
    )
    is_harmless |= not name.endswith("PATH") and text in {"cat", "less", "true", ""}
    return is_harmless or bool(tables().variables["fine"].fullmatch(name))


def _within(text: str, scope: ShellScope) -> bool:
    found = [files.resolve(part or ".", scope) for part in text.split(":")]
    return all(path is not None and paths.inside(path, scope.workspace) for path in found)


def script(value: Value | Word, source: str) -> Iterator[Finding]:
    """The script of a text that a shell will run, and objections to its origin."""
    yield from origin_objections(value, source)
    named = isinstance(value, Word) and value.contains_file_name
    if not (UNKNOWN in value.text or UNKNOWN_NAME in value.text or named):
        yield ShellScript(value.text, source)
        return
    yield ask(
        "dynamic-code", source, "It runs text that is only known when the command runs.", "Write the command itself."
    )
    yield ShellScript(re.sub(f"[{UNKNOWN}{UNKNOWN_NAME}]", "$_unknown", value.text), source)


def origin_objections(value: Value | Word, source: str) -> Iterator[Finding]:
    """Objections to running a text that was downloaded or decoded."""
    if "fetch" in value.origins:
        why = "it downloads and runs unreviewed code."
        yield deny("remote-code", source, why, "Download it to a file, read it, then run it.")
    if "decode" in value.origins:
        yield deny("obfuscated", source, "it decodes and runs hidden text.", "Write the command itself.")


def launched(launcher: Launcher, words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """The command that a launcher starts, and objections to its options."""
    before = scope.exported
    clears = launcher.assignments and any(_ENVIRONMENT_REMOVAL.match(word.text) for word in words[1:])
    scope.exported = frozenset() if clears or words[0].text in _ENVIRONMENT_RESETTERS else scope.exported
    yield from _launched(launcher, words, scope)
    scope.exported = before


def _launched(launcher: Launcher, words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    rest, skip, before, moved = words[1:], launcher.skip, scope.cwd, False
    while rest:
        for argument in leading_options(launcher.options, rest):
            if argument.kind == "program":
                text = " ".join([argument.word.text, *(word.text for word in rest)]).strip() or ":"
                split = ShellScript(text, argument.word.source)
                yield split if launcher.assignments else _program(argument.word, rest)
                return
            moved |= argument.kind == "cd"
            yield from _option(argument, rest, scope)
        match = ASSIGNMENT.fullmatch(rest[0].text) if rest and launcher.assignments else None
        if match:
            scope.exported |= {match[1]}
            yield from environment(match[1], Value(match[2]), rest[0].source, scope)
            if scope.variables.get(match[1]) != Value(match[2], rest[0].origins):
                scope.variables[match[1]] = ANYTHING
                scope.untrusted.add(match[1])
        elif rest and skip > 0 and rest[0].text != "--":
            skip -= 1
            yield from files.write(rest[0], scope) if "/" in rest[0].text else ()
        elif not rest or rest[0].text not in {"-", "--"}:
            break
        rest = rest[1:]
    yield from _start(launcher, words, rest)
    scope.cwd = before if moved else scope.cwd


def _option(argument: Argument, rest: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """Objections to an option of a launcher, and the commands that it runs."""
    kind, word, _ = argument
    if kind == "ask":
        yield ask("option", word.source, "The option is not known.")
        yield from _command_after_value(rest)
    elif kind == "cd":
        yield from files.read(word, scope)
        scope.cwd = files.resolve(word.text, scope)
    elif kind == "write":
        yield from files.write(word, scope)
    elif kind == "read":
        yield from files.read(word, scope)
    elif kind == "script":
        yield from script(word, word.source)
    elif kind == "value":
        yield from files.outside(word, scope)
        yield from _command_after_value([word, *rest])


def _command_after_value(rest: list[Word]) -> Iterator[Finding]:
    """The command that begins with a flag's value: a version without the flag would run it."""
    known = tables()
    if len(rest) > 1 and any(rest[0].text in names for names in (known.rules, known.launchers, known.languages)):
        yield StartedCommand(list(rest))


def _start(launcher: Launcher, words: list[Word], rest: list[Word]) -> Iterator[Finding]:
    if not rest:
        yield reads(words[0].source)
    elif launcher.joined:
        yield from script(joined(rest), words[0].source)
    elif launcher.scripts:
        for word in rest:
            yield from script(word, word.source)
    else:
        yield StartedCommand(rest)


def _program(program: Word, rest: list[Word]) -> StartedCommand:
    """The command of a launcher that has the program in an option, and the program's arguments after `--`."""
    start = next((i + 1 for i, word in enumerate(rest) if word.text == "--"), 0)
    return StartedCommand([program, *rest[start:]])


def joined(words: list[Word]) -> Value:
    """The words joined to one text, as eval and ssh do."""
    parts = [Value((UNKNOWN if word.glob else word.text) + " ", word.origins) for word in words]
    value = Value.joined(parts)
    return Value(value.text.strip(" "), value.origins)


def xargs(launcher: Launcher, words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """The command that xargs starts, with the arguments that it reads."""
    options = {flag: word.text for _, word, flag in leading_options(launcher.options, words[1:])}
    elsewhere = options.keys() & {"-a", "--arg-file"}
    listing = [Word(options[flag], words[0].source) for flag in elsewhere]
    for word in listing:  # the started command may run their content
        files.record_script(word, scope)
    stdin = Value(UNKNOWN, files.listed(listing, scope)) if elsewhere else scope.stdin or ANYTHING
    marks = [options[flag] for flag in ("-I", "-J", "-i", "--replace") if flag in options]
    marker = "" if not marks else "{}" if marks[0].startswith("--") else marks[0] or "{}"
    given = list(_xargs_arguments(stdin, words[0].source, options, by_line=bool(marker)))
    for finding in launched(launcher, words, scope):
        if not isinstance(finding, StartedCommand):
            yield finding
        elif not marker:
            yield from (StartedCommand([*finding.words, *way]) for way in given)
        else:
            yield from (StartedCommand(_filled(finding.words, marker, item)) for way in given for item in way)


def parallel(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """GNU parallel's command with each list of arguments after :::."""
    end = next((i for i, word in enumerate(words) if word.text.startswith(":::")), len(words))
    given = [word for word in words[end:] if not word.text.startswith(":::")] or [Word(UNKNOWN, words[0].source)]
    for finding in launched(tables().launchers["xargs"], words[:end], scope):
        yield StartedCommand([*finding.words, *given]) if isinstance(finding, StartedCommand) else finding
        if isinstance(finding, StartedCommand) and " " in finding.words[0].text:
            text = " ".join(word.text for word in finding.words)
            yield from (ShellScript(text.replace("{}", item.text), item.source) for item in given if item.known)
    yield ask("parallel", words[0].source, "It starts many processes at once.", "Use a loop.")


def _xargs_arguments(stdin: Value, source: str, options: dict[str, str], *, by_line: bool) -> Iterator[list[Word]]:
    """The arguments that xargs makes of its input, in each possible way if the way is uncertain."""
    if not stdin.known:
        plain = stdin.text == UNKNOWN_NAME or stdin.text.startswith(("/", ".."))
        is_one = by_line or (
            stdin.text == UNKNOWN_NAME and DASHED not in stdin.origins and options.keys() & {"-0", "--null"}
        )
        origins = stdin.origins if is_one else stdin.origins | {SPLIT}
        yield [Word(stdin.text if plain else UNKNOWN, source, origins=origins)]
        return
    odd = bool(options.keys() & _SEPARATING or re.search(r"['\"\\]", stdin.text))
    mark = options.get("-d") or options.get("--delimiter") or ""
    whole = stdin.text.replace(mark, "\n") if mark else stdin.text.replace("\0", "\n")
    text = re.sub(r"['\"\\]", "", whole)
    ways = [_lines(text) if by_line else text.split()]
    ways += [_lines(text), [text.strip()], _lines(whole), [whole.strip()]] if odd else []
    unknown = Word(UNKNOWN, source, origins=stdin.origins | {SPLIT})
    for way in ways:
        known = [Word(item, source, origins=stdin.origins) for item in way[:_MAX_ITEMS]]
        yield [*known, unknown] if odd or len(way) > _MAX_ITEMS else known
        yield from ([word] for word in known if options.keys() & _BATCH_FLAGS)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in split_lines(text)]


def _filled(words: list[Word], marker: str, item: Word) -> list[Word]:
    """The words, with the item in place of the marker."""
    return [
        Word(word.text.replace(marker, item.text), word.source, word.glob, word.origins | item.origins)
        if marker in word.text
        else word
        for word in words
    ]


def find(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """The folders that find searches, and its actions."""
    begin = 1
    while begin < len(words) and re.fullmatch(r"-[HLP]|-O\S*|-D|--", words[begin].text):
        begin += 2 if words[begin].text == "-D" else 1
    start = next((i for i, word in enumerate(words) if i >= begin and re.match(r"[-(!]", word.text)), len(words))
    roots = words[begin:start] or [Word(".", words[0].source)]
    for root in roots:
        yield from files.read(root, replace(scope, exposed=frozenset()))
        if any(word.text == "-delete" for word in words[start:]):
            yield from _deleted(root, words, start, scope)
    yield from _secret_patterns(words[start:], scope)
    for index, word in _tests(words, start):
        following = words[index + 1 : index + 2]
        yield from _unknown_test(words[index - 1], word)
        if re.fullmatch(r"-(fprint0?|fls|fprintf)", word.text) and following:
            yield from files.write(following[0], scope)
        elif EXECUTING.fullmatch(word.text):
            yield from _executed(words[index + 1 :], roots, matched_names(words))
        elif word.text.startswith("-files0"):
            yield ask("unknown-path", word.source, "It reads the folders to search from a file.")
    yield reads(words[0].source)


def _deleted(root: Word, words: list[Word], start: int, scope: ShellScope) -> Iterator[Finding]:
    """Objections to the deletions of find; empty files and folders can be restored regardless of their names."""
    below = _below(root, matched_names(words))
    folder, tests = files.resolve(root.text, scope), " ".join(word.text for word in words[start:])
    is_inside = folder is not None and paths.inside(folder, scope.workspace)
    if scope.undoable and not scope.links and is_inside and _EMPTY_FOUND.fullmatch(tests):
        scope.destroyed.update(files.EVERYTHING)
        yield undoes(root.source)
    else:
        yield from files.delete(below, scope)


def _unknown_test(before: Word, word: Word) -> Iterator[Finding]:
    """Objections to an unknown test of find, which could be -delete."""
    if UNKNOWN in word.text and (word.text[0] == "-" or not _VALUED_TESTS.fullmatch(before.text)):
        yield ask("option", word.source, "The test of find is only known when the command runs.", "Write out the test.")


def _tests(words: list[Word], start: int) -> Iterator[tuple[int, Word]]:
    """The words of find from `start` on, with their positions, without those of the commands that it starts."""
    inside = False
    for index, word in enumerate(words[start:], start):
        if not inside:
            yield index, word
        inside = word.text not in {";", "+"} and (inside or bool(EXECUTING.fullmatch(word.text)))


def possible_commands(words: list[Word]) -> Iterator[Finding]:
    """The commands that an unknown command could start, found in its arguments."""
    seen = set[str]()
    for index, word in enumerate(words[1:], 1):
        plain = not re.search(r"\s", word.text) and word.text.rpartition("/")[2] in tables().groups["suspects"]
        if plain and word.text not in seen and len(seen) < _MAX_POSSIBLE_COMMANDS:
            seen.add(word.text)
            yield StartedCommand(words[index : index + _MAX_COMMAND_WORDS])
    yield from command_texts(words)


def command_texts(words: list[Word]) -> Iterator[ShellScript]:
    """The first texts in the arguments that look like commands: values of options, and texts after `!` or `exec`."""
    names, seen = tables().groups["suspects"], set[str]()
    for before, word in pairwise(words):
        is_value = before.text.startswith("-") and not _MESSAGE.match(before.text)
        values = [word.text] if is_value else []
        values += [
            word.text[match.end() :]
            for match in [_SETTING.match(word.text)]
            if match and not _MESSAGE.match(word.text.partition("=")[0])
        ]
        texts = [text for text in values for text in (text, _COMMAND_PREFIX.sub("", text, count=1))]
        texts += [_COMMAND_PREFIX.sub("", word.text, count=1)] if _COMMAND_PREFIX.match(word.text) else []
        texts += _STARTED.findall(word.text) if is_value else []
        for text in texts:
            first = (text.split(None, 1) or [""])[0].rpartition("/")[2]
            if first in names and text not in seen and re.search(r"\s", text) and len(seen) < _MAX_POSSIBLE_COMMANDS:
                seen.add(text)
                yield ShellScript(text, word.source)


def commands_in_lines(text: str, source: str) -> Iterator[ShellScript]:
    """The lines that look like commands in a text that a program runs, such as a makefile or a script for ed."""
    for part in re.split(r"[\n;]", text):
        yield from command_texts([Word("--", source), Word("--", source), Word(part.strip(" \t@"), source)])


def fd(words: list[Word]) -> Iterator[Finding]:
    """The command that fd starts for each path, from the words before and after its -x or -X."""
    start = next((i for i, word in enumerate(words) if word.text in _EXEC_FLAGS), len(words))
    spec = tables().specs["fd"]
    roots = [argument.word for argument in parsed(spec, words[1:start]) if argument.kind == "free"][spec.text :]
    command = [replace(word, text=re.sub(r"\{(//?|/?\.)?\}", "{}", word.text)) for word in words[start + 1 :]]
    given = [] if any("{}" in word.text for word in command) else [Word("{}", words[0].source)]
    yield from _executed([*command, *given], roots or [Word(".", words[0].source)], ["*"]) if command else ()


def _secret_patterns(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """Objections to the patterns with which find selects arguments of a command."""
    if any(word.text.startswith(("-exec", "-ok")) for word in words):
        for word in name_patterns(words):
            if files.may_be_secret(word, scope):
                yield ask("secret", word.source, "The pattern could match files that contain keys.", "Name the files.")


def matched_names(words: list[Word]) -> list[str]:
    """Patterns that match the names of all files that find acts on; "*" if its tests do not determine them.

    The tests determine them if all tests must hold, and one before the first action is a name, or alternative names in
    parentheses.
    """
    tests = [word.text for _, word in _tests(words, 1)]
    end = next((i for i, text in enumerate(tests) if text == "-delete" or EXECUTING.fullmatch(text)), len(tests))
    choice = _CHOICE.search("\n".join(tests[:end]))
    if choice:
        names = choice[1].split("\n")[1::3]
        tests[:end] = (choice.string[: choice.start()] + choice.string[choice.end() :]).split("\n")
    else:
        before = zip(["", *tests[:end]], tests[:end], tests[1:end], strict=False)
        names = [value for sign, test, value in before if test in {"-name", "-iname"} and sign not in _NEGATIONS][:1]
    uncertain = _UNRESTRICTED_OPTIONS.intersection(tests) or any(
        re.search(rf"[\n{UNKNOWN}]", word.text) for word in words
    )
    return [files.widen_pattern(name) for name in names] if names and not uncertain else ["*"]


def _below(root: Word, names: list[str]) -> Word:
    return replace(root, origins=root.origins | {BELOW + name for name in names})


def name_patterns(words: list[Word]) -> Iterator[Word]:
    """The patterns with which find selects files."""
    for test, word in pairwise(words):
        if test.text in _NAME_TESTS:
            yield word


def _executed(words: list[Word], roots: list[Word], names: list[str]) -> Iterator[Finding]:
    """The command that is started for the files below the roots whose names match."""
    end = next((i for i, word in enumerate(words) if word.text in {";", "+"}), len(words))
    for root in roots:
        command = [_placed(word, root, names) for word in words[:end]]
        if command:
            yield StartedCommand(command)


def _placed(word: Word, root: Word, names: list[str]) -> Word:
    """A word of a command that find starts, with the found file in place of {}."""
    placed = Word(word.text.replace("{}", root.text), word.source, word.glob or root.glob)
    if "{}" not in word.text:
        return placed
    return _below(placed, names if word.text == "{}" else ["*"])


def run_arguments(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """Objections to arguments of a program that are paths outside of the workspace."""
    for word in words:
        text = word.text.partition("=")[2] if word.text.startswith("-") else word.text
        if re.match(r"[/~]|\.\.(/|$)|.*/\.\.(/|$)", text):
            yield from files.read(Word(text, word.source, word.glob), scope)
