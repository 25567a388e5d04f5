"""Judgement of one command with its expanded arguments (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, pairwise

from agentkit.decisions import Decision, Verdict
from agentkit.safety import paths
from agentkit.safety.shell import arithmetic, files, interpreters, launchers
from agentkit.safety.shell.arguments import Argument, entry, parsed, possible_options, possible_paths, searches_here
from agentkit.safety.shell.tables import CommandRule, CommandSpec, Undo, tables
from agentkit.safety.shell.variables import (
    LISTED,
    UNKNOWN,
    Finding,
    ShellScope,
    ShellScript,
    StartedCommand,
    Value,
    Word,
    ask,
    connects,
    counts,
    deny,
    destruction,
    reads,
    runs,
    undoes,
    writes,
)

_SYSTEM_FOLDERS = re.compile(r"^/(usr/(local/)?)?s?bin/(?=[^/]+$)")
_HIDDEN_SUBSTITUTION = re.compile(r"\$\(|`")
_ANY = re.compile(r"[*?]|[@+!]\(")
_EVALUATING_WITH_OPTION = {"test", "[", "printf", "compgen", "complete"}  # only where an option says so
_INDEX = (
    *("index", "ORIG_HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD"),
)
"""The files in which git stores the staging area and operations in progress."""
_SPLIT_AT = re.compile(r"/.*/([+-]?\d+)?|%.*%([+-]?\d+)?|\{(\d+|\*)\}", re.DOTALL)
_SEDS = ("sed", "gsed")
_FINAL_EVENTS = {"EXIT", "HUP", "INT", "QUIT", "TERM", *("0", "1", "2", "3", "15")}
"""The events after which a shell runs nothing but the trap."""
_MAX_WORDS = 150
_MAX_LINE = 3_000
_EVALUATING = (
    "test [ let declare typeset local export readonly unset read mapfile readarray printf compgen complete wait getopts"
)


def examine(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """All objections to a command, the commands that it would start, and otherwise why it is allowed."""
    first = words[0]
    if len(words) > _MAX_WORDS or sum(len(word.text) for word in words if " " not in word.text) > _MAX_LINE:
        yield ask("too-many", first.source, "It has too many arguments to judge.", "Run it in parts.")
        return
    name = _SYSTEM_FOLDERS.sub("", first.text)
    if not first.known:
        yield from _unknown_program(words, scope)
        return
    if not name.isascii():
        yield ask("look-alike", first.source, "The command's name contains look-alike letters.")
        return
    if name not in tables().groups["talkers"]:
        spec = tables().specs.get(name)
        different = {(word.text, word.glob): word for word in possible_paths(name, words)}
        for word in different.values():
            yield from files.secrets(word, scope, listing=spec is not None and spec.paths == "list")
    known, text = tables(), _line(words, scope)
    for rule in (*known.rules.get(name, ()), *known.every):
        applies = f"!{name}" not in rule.names and not (scope.bounded and rule.id == "unbounded")
        match = rule.found_in(text) if applies else None
        if match:
            rows = tables().undo.get(name, ()) if scope.undoable and rule.verdict is Verdict.ASK else ()
            undo = next((row for row in rows if row.rule == rule.id and row.when.search(text)), None)
            yield from _undoable(undo, words, scope) if undo else [_objection(rule, match, words, scope)]
            yield from launchers.command_texts(words) if rule.id in launchers.RULES_ABOUT_STARTED_COMMANDS else ()
    yield from _possible_options(name, words, scope)
    yield from _shown_values(name, words)
    yield from _by_kind(name, words, scope)


def _possible_options(name: str, words: list[Word], scope: ShellScope) -> Iterator[Decision]:
    """Objections to words that could expand to options."""
    for word in possible_options(name, words):
        if word.depends_on_file_names:
            scope.options.add(word.source)
        else:
            why = f"It could expand to any option of {name}."
            yield ask("option", word.source, why, "Quote it, or put -- or ./ before it.")


def _unknown_program(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    yield from launchers.origin_objections(words[0], words[0].source)
    why = "The program is only known when the command runs."
    yield ask("dynamic-command", words[0].source, why, "Write out the name of the program.")
    text = _line(words, scope)
    if any(rule.destroys and rule.when.search(text) for rule in tables().rules["rm"]):
        why = "The program is only known when it runs, and with these arguments rm would delete files by force."
        yield destruction("dynamic-command", words[0].source, why)
    if any(word.text == "-c" for word in words):
        yield StartedCommand([Word("sh", words[0].source), *words[1:]])


def _shown_values(name: str, words: list[Word]) -> Iterator[Finding]:
    """Objections to printing or sending values of variables and output of other commands."""
    for word in words[1:]:
        if name in tables().groups["fetchers"] and word.origins & {"environment", "output", "setting"}:
            why = "it sends data of this machine to another one."
            yield deny("exfiltration", word.source, why, "Send literal text.")
        elif "environment" in word.origins:
            why = "It uses an environment variable that could contain a key."
            yield ask("shows-environment", word.source, why, "Write out the value.")


def _by_kind(name: str, words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    known = tables()
    two = " ".join(word.text for word in words[:2])
    yield from _started_by_runner(words) if two in known.runners else ()
    if len(words) > 1 and two in known.languages:
        name, words = two, [words[0], Word("-e", words[1].source), *words[2:]]
    elif len(words) > 1 and two in known.launchers:
        name, words = two, [Word(two, words[0].source), *words[2:]]
    yield from _commands_in_arguments(name, words, scope)
    if two == "git mv":
        scope.touched.add("**/*")
    if name in _SPECIAL:
        yield from _SPECIAL[name](words, scope)
    elif name in known.languages:
        yield from interpreters.interpreted(known.languages[name], words, scope)
    elif name in known.launchers:
        yield from launchers.launched(known.launchers[name], words, scope)
    else:
        yield from _by_spec(name, words, scope)


def _commands_in_arguments(name: str, words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """The commands in the arguments or the input of a program, which it may run."""
    groups = tables().groups
    if name in groups["carriers"]:
        yield from launchers.possible_commands(words)
    if name in groups["orders_from_stdin"] and scope.stdin is not None and scope.stdin.known:
        yield from launchers.commands_in_lines(scope.stdin.text, words[0].source)


def _started_by_runner(words: list[Word]) -> Iterator[StartedCommand]:
    """The command that `poetry run` and similar programs start, unless it is a script of the project."""
    known = tables()
    names = known.specs.keys() | known.rules.keys() | known.launchers.keys() | known.languages.keys() | _SPECIAL.keys()
    start = next((i for i, word in enumerate(words) if i > 1 and _SYSTEM_FOLDERS.sub("", word.text) in names), None)
    yield from [StartedCommand(words[start:])] if start else []


def _line(words: list[Word], scope: ShellScope) -> str:
    """The arguments in the form that rules match.

    They are between single spaces, with "·" for white space in an argument, and "." for the workspace.
    """
    texts = (re.sub(rf"^{re.escape(scope.workspace)}(?=/|$)", ".", word.text) for word in words[1:])
    return " " + "".join(re.sub(r"\s", "·", text) + " " for text in texts)


def _undoable(undo: Undo, words: list[Word], scope: ShellScope) -> Iterator[Decision]:
    """Objections to replacing the files in the arguments, or an undoable finding."""
    end = next((index for index, word in enumerate(words) if word.text == "--"), 0)
    for word in words[end + 1 :] if undo.paths else ():
        if not word.text.startswith("-") and not _is_outside(word, scope):
            yield from files.delete(word, scope, "replaces")
    if undo.index:
        place = "" if scope.cwd == scope.workspace and not scope.elsewhere else "**/"
        scope.destroyed.update(f"{place}.git/{name}" for name in _INDEX)
        yield undoes(words[0].source)


def _objection(rule: CommandRule, match: re.Match[str], words: list[Word], scope: ShellScope) -> Decision:
    """The rule's decision; its evidence is the word in which the match begins."""
    begins = match.start() + match[0].startswith(" ")
    index = match.string.count(" ", 0, begins) if match[0].strip() else 0
    source = words[min(index, len(words) - 1)].source
    if rule.verdict is Verdict.DENY:
        return deny(rule.id, source, rule.reason, rule.remedy)
    if rule.id == "network":
        return connects(source, scope)
    if rule.verdict is Verdict.ALLOW:
        return destruction(rule.id, source, rule.reason)
    return ask(rule.id, source, rule.reason, rule.remedy, egress=rule.egress, destroys=rule.destroys)


def _by_spec(name: str, words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    found = entry(name, words)
    asks_version = len(words) == 2 and words[1].text in {"--version", "--help"}
    if found and found[0].effect == "network" and asks_version:
        yield reads(words[0].source)
    elif found:
        yield from _by_arguments(*found, words, scope)
    elif "/" in name:
        yield from _program_by_path(words, scope)
    elif asks_version and re.fullmatch(r"[a-z][\w.+-]*", name):
        yield runs(words[0].source, scope)
    else:
        why = f"{name} is not a known command."
        yield ask("unknown-command", words[0].source, why, "Use a common command, or ask for approval.")
        yield from launchers.possible_commands(words)


def _program_by_path(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    path = files.record_script(words[0], scope)
    name, known = words[0].text.rpartition("/")[2], tables()
    if name in known.languages or name in known.launchers or name in known.rules:
        yield StartedCommand([Word(name, words[0].source), *words[1:]])
    yield from launchers.run_arguments(words[1:], scope)
    if path is None or not paths.inside(path, scope.workspace):
        yield ask("outside-code", words[0].source, "It runs a program outside of the system folders and the workspace.")
    elif path in scope.written:
        scope.scripts |= scope.places  # it may have been created from them
        yield ask("fresh-code", words[0].source, "It runs a file that the same command created.", "Run it later.")
    else:
        yield runs(words[0].source, scope)


def _by_arguments(spec: CommandSpec, rest: list[Word], words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    spec = spec.for_arguments("".join(re.sub(r"\s", "·", word.text) + " " for word in rest))
    arguments = list(parsed(spec, rest))
    _record_scripts(spec, words[0], arguments, scope)
    if spec.unnamed and scope.undoable:
        scope.destroyed.update(files.EVERYTHING)
        yield undoes(words[0].source)
    elif spec.unnamed:
        why = "It can change and delete files that the command does not name."
        yield ask("delete", words[0].source, why, "Edit the files.")
    for argument in arguments:
        yield from _flag(spec, argument, words, scope)
    text = 0 if any(argument.flag in spec.instead for argument in arguments) else spec.text
    everything = spec.paths == "copy" and any(argument.kind == "write" for argument in arguments)
    free = [argument.word for argument in arguments if argument.kind == "free"][text:]
    yield from _free(words[0].text, spec, [*free, free[-1]] if everything and free else free, scope)
    if not free and _reads_current_folder(spec, words[0].text, arguments, scope):
        yield from files.read(Word(".", words[0].source), scope, listing=spec.paths == "list")
    yield _effect(spec, words[0].source, scope)


def _reads_current_folder(spec: CommandSpec, name: str, arguments: list[Argument], scope: ShellScope) -> bool:
    """Whether a command without a path reads the current folder, and that folder must be judged."""
    is_outside = scope.cwd is not None and not paths.inside(scope.cwd, scope.workspace)
    if not (scope.exposed or is_outside):
        return False
    listing = is_outside and spec.paths == "list"
    return listing or searches_here(spec, name, arguments, piped=scope.stdin is not None)


def _record_scripts(spec: CommandSpec, name: Word, arguments: list[Argument], scope: ShellScope) -> None:
    """Record the files that a command runs, if it runs code of the workspace: those it names, and those it implies."""
    if spec.effect == "runs":
        for argument in arguments:
            if argument.kind in {"free", "read"}:
                files.record_script(argument.word, scope)
        for implied in tables().implied.get(name.text, ()):
            files.record_script(Word(implied, name.source), scope)


def _flag(spec: CommandSpec, argument: Argument, words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """Objections to a flag; paths outside are judged even if the flag takes no value."""
    kind, word, flag = argument
    if kind == "active":
        yield runs(word.source, scope)
    if kind == "ask":
        yield ask("option", word.source, "This option makes it run programs or change other things.")
        yield from launchers.command_texts(words)
    elif kind in _PATHS:
        yield from files.secrets(word, scope) if kind == "read" else ()
        yield from _PATHS[kind](word, scope)
    elif kind == "script":
        yield from launchers.script(word, word.source)
    elif kind in {"value", "flag", "active", "optional"} and words[0].text not in tables().groups["talkers"]:
        text = word.text.partition("=")[2] if flag.startswith("--") and word.text.startswith(flag) else word.text
        text = re.sub(r"^-\w+?(?=[/~]|\.\./)", "", text) if kind in {"flag", "active"} else text
        yield from files.outside(Word(text, word.source, word.glob), scope, written=spec.effect == "writes")


def _effect(spec: CommandSpec, source: str, scope: ShellScope) -> Decision:
    match spec.effect:
        case "runs":
            return runs(source, scope)
        case "network":
            return connects(source, scope)
        case "writes":
            return writes(source)
    return reads(source)


_PATHS: dict[str, Callable[[Word, ShellScope], Iterator[Decision]]] = {
    "read": files.read,
    "list": lambda word, scope: files.read(word, scope, listing=True),
    "write": files.write,
    "delete": files.delete,
}


def _free(name: str, spec: CommandSpec, targets: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """Objections to the free arguments that are paths or code."""
    counting = scope.contained and name in tables().groups["counters"]
    if spec.paths == "copy":
        for word in targets[:-1] or targets:
            yield from files.read(word, scope)
        for word in targets[1:][-1:] or [word for word in targets if not word.known]:
            yield from files.write(word, scope)
    elif spec.paths == "run":
        yield from launchers.run_arguments(targets, scope)
    elif spec.paths in _PATHS:
        for word in targets:
            yield from (
                [counts(word.source, scope)] if counting and LISTED in word.origins else _PATHS[spec.paths](word, scope)
            )


def _shell_builtin(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """eval, trap and alias: their arguments are shell text."""
    if not all(word.known for word in words):
        scope.scripts |= scope.places  # one of these files contains the text
    if words[0].text == "eval":
        yield from launchers.script(launchers.joined(words[1:]), words[-1].source) if words[1:] else ()
    elif words[0].text == "trap":
        arguments = [word for word in words[1:] if not word.text.startswith("-")]
        between = not all(word.text.removeprefix("SIG") in _FINAL_EVENTS for word in arguments[1:])
        for finding in launchers.script(arguments[0], arguments[0].source) if len(arguments) > 1 else ():
            yield replace(finding, between=between) if isinstance(finding, ShellScript) else finding
    else:
        for word in words[1:]:
            value = Value(word.text.partition("=")[2], word.origins)
            yield from launchers.script(value, word.source) if value.text else ()
    yield reads(words[0].source)


def _awk_or_sed(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """The programs of awk and sed, and their files: read, written with sed -i, or assignments to variables of awk."""
    is_sed = words[0].text in _SEDS
    in_place = is_sed and any(re.match(r"-[A-Za-z]*i|--i", word.text) for word in words[1:])
    spec = tables().specs["sed" if is_sed else "awk"]
    arguments = list(parsed(spec, words[1:]))
    programs, free = ([each.word for each in arguments if each.kind == kind] for kind in ("program", "free"))
    for word in free if programs else free[1:]:
        if is_sed or not re.match(r"[A-Za-z_]\w*=", word.text):
            yield from files.write(word, scope) if in_place else files.read(word, scope)
    for word in programs or free[:1]:
        yield from interpreters.judge("sed" if is_sed else "awk", word, scope)
    for argument in arguments:
        if argument.kind == "ask":
            _record_options(words, scope)
            yield from _flag(spec, argument, words, scope)
    yield writes(words[0].source) if in_place else reads(words[0].source)


def _record_options(words: list[Word], scope: ShellScope) -> None:
    """Record the words of options that need approval, and the words after them: any of them may name code to run."""
    for before, word in pairwise(words):
        if before.text.startswith("-") or word.text.startswith("-"):
            text = re.sub(r"^--[\w-]+=|^-\w", "", word.text)
            if text:
                files.record_script(replace(word, text=text), scope)


def _tar(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """tar, whose first argument may lack its dash."""
    rest = words[1:]
    if rest and not rest[0].text.startswith("-"):
        rest = [Word("-" + rest[0].text, rest[0].source), *rest[1:]]
    yield from _by_arguments(tables().specs["tar"], rest, words, scope)


def _dd(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    counted = any(word.text.startswith("count=") for word in words)
    for word in words[1:]:
        key, _, value = word.text.partition("=")
        if key == "of":
            yield from files.write(Word(value, word.source), scope)
        elif key == "if":
            yield from files.read(Word(value, word.source), replace(scope, bounded=scope.bounded or counted))
    ends = counted or not any(word.text.startswith("if=/dev/") for word in words)
    into = [Word(word.text[3:], word.source) for word in words[1:] if word.text.startswith("of=")]
    if scope.undoable and ends and len(into) == 1 and not _is_outside(into[0], scope):
        yield from files.delete(into[0], scope, "replaces")
    else:
        yield ask("dd", words[0].source, "dd overwrites files without confirmation.", "Use cp, head or truncate.")


def _mv(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    arguments = list(parsed(tables().specs["mv"], words[1:]))
    free = [word for kind, word, _ in arguments if kind == "free"]
    free += [word for kind, word, _ in arguments if kind == "write"]
    discards = bool(free) and (free[-1].text.startswith("/dev/") or files.is_scratch(free[-1], scope))
    for word in free[:-1]:
        is_removed = not files.is_scratch(word, scope) and (discards or _is_outside(word, scope))
        yield from files.delete(word, scope, "moves away") if is_removed else files.write(word, scope)
    for word in free[-1:]:
        yield from files.write(word, scope)
    yield writes(words[0].source)


def _is_outside(word: Word, scope: ShellScope) -> bool:
    path = files.resolve(word.text, scope)
    return path is not None and not paths.inside(path, scope.workspace)


def _evaluating_builtin(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """Builtins that evaluate subscripts in their arguments."""
    names = words[0].text not in _EVALUATING_WITH_OPTION or any(
        word.text.startswith(("-v", "-R")) for word in words[1:]
    )
    names |= _may_evaluate_names(words)
    for word in words[1:]:
        value = Value(UNKNOWN if word.glob and _ANY.search(word.text) else word.text.lstrip("-"), word.origins)
        evaluated = value if words[0].text == "let" else arithmetic.subscript(value, scope) if names else None
        yield from arithmetic.objections(evaluated, word.source, scope) if evaluated else ()
        expands = words[0].text in {"compgen", "complete"} and ("$" in word.text or not word.known)
        if expands or _HIDDEN_SUBSTITUTION.search(word.text):
            yield ask("hidden-code", word.source, "bash would run commands in this text.")
            yield from (ShellScript(text, word.source) for text in re.findall(r"\$\(([^)]*)\)", word.text))
    spec = tables().specs.get(words[0].text, CommandSpec())
    yield from _by_arguments(spec, words[1:], words, scope)


def _may_evaluate_names(words: list[Word]) -> bool:
    """Whether an unknown word could be the option with which a builtin evaluates the name that follows."""
    name, rest = words[0].text, words[1:]
    if name == "printf":
        return bool(rest) and (rest[0].may_be_option or (rest[0].may_split and UNKNOWN in rest[0].text))
    if name not in {"test", "["}:
        return False
    pairs = pairwise([word for word in rest if word.text != "]"])
    return any(word.may_split or word.glob for word in rest) or any(
        one.may_be_option and not two.known for one, two in pairs
    )


def _head(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """head, which limits the output of an endless device."""
    few = re.fullmatch(
        r"-c ?(\d{1,7}|\d{1,4}[kK]|\d{1,2}M)(i?B)? /dev/(zero|u?random)", " ".join(word.text for word in words[1:])
    )
    yield from [reads(words[0].source)] if few else _by_spec("head", words, scope)


def _jq(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """jq, whose option --arg takes two arguments: a name and a text."""
    starts = [index for index, word in enumerate(words) if word.text in {"--arg", "--argjson"}]
    taken = {index + after for index in starts for after in range(3)}
    yield from _by_spec(words[0].text, [word for index, word in enumerate(words) if index not in taken], scope)


def _command(words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    if words[1:] and words[1].text in {"-v", "-V"}:
        yield reads(words[0].source)
    else:
        yield from launchers.launched(tables().launchers["command"], words, scope)


_SPECIAL: dict[str, Callable[[list[Word], ShellScope], Iterator[Finding]]] = {
    **dict.fromkeys(("eval", "trap", "alias"), _shell_builtin),
    **dict.fromkeys(
        ("source", "."),
        lambda words, scope: interpreters.interpreted(tables().languages["sh"], [words[0], *words[1:2]], scope),
    ),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", *_SEDS), _awk_or_sed),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _tar),
    **dict.fromkeys(_EVALUATING.split(), _evaluating_builtin),
    **dict.fromkeys(("cd", "pushd", "popd"), lambda words, _: iter([reads(words[0].source)])),
    "dd": _dd,
    "mv": _mv,
    **dict.fromkeys(("fd", "fdfind"), lambda words, scope: chain(launchers.fd(words), _by_spec("fd", words, scope))),
    **dict.fromkeys(("jq", "gojq", "jaq"), _jq),
    # Its arguments after the file are patterns between slashes, and repeat counts.
    "csplit": lambda words, scope: _by_spec("csplit", [w for w in words if not _SPLIT_AT.fullmatch(w.text)], scope),
    "find": launchers.find,
    "head": _head,
    "xargs": lambda words, scope: launchers.xargs(tables().launchers["xargs"], words, scope),
    "parallel": launchers.parallel,
    "command": _command,
}
