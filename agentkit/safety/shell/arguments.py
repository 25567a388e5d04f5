"""Classification of arguments: flags, values and paths (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from agentkit.safety.shell.tables import CommandSpec, Launcher, tables
from agentkit.safety.shell.variables import A_FILE, A_WORD, UNKNOWN, UNKNOWN_NAME, Word

_FULL_NAME = {"-V", "--version", "--help"}
_WITH_FILE = {"-L"}  # the value can contain a file's name
_FILE_FILTERS = {"--include", "-g", "--glob", "--iglob"}
_RECURSIVE = {"-r", "-R", "--recursive", "--dereference-recursive"}
_RECURSIVE_BY_DEFAULT = {"rg", "ripgrep", "ack", "ag", "ugrep", "git"}
_PATTERN_FLAGS = {"-e", "--regexp"}
_LONG_OPTION = re.compile(r"--[^=]+")
_NAME = re.compile(r"(?i)secrets?|credentials?")  # the name of a task, a test or a file
_TASK = re.compile(
    r"((poetry|uv|pdm|hatch|pipenv|rye|pixi) run |bundle exec )?"
    r"(g?make( -[jBksni]+\d*)*|just|task|rake|(npm|pnpm|yarn|bun) (run|run-script)|cargo (test|t|bench)"
    r"|py\.?test( -[qvxsl]+)* -[km]|tox -e|nox -[es]|go test( -v)? -(run|bench))"
)
_MAX_CHARS = 80
EXECUTING = re.compile(r"-(exec|ok)(dir)?")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)


class Argument(NamedTuple):
    """The kind of an argument (free, or a kind of flag in `Spec`), its word, and its flag."""

    kind: str
    word: Word
    flag: str = ""


def parsed(spec: CommandSpec, rest: list[Word]) -> Iterator[Argument]:
    """The arguments, each with its kind."""
    rest = list(rest)
    while rest:
        yield from leading_options(spec, rest)
        if rest and rest[0].text == "--":
            yield from (Argument("free", free) for free in rest[1:])
            return
        if rest:
            yield Argument("free", rest.pop(0))


def leading_options(spec: CommandSpec, rest: list[Word]) -> Iterator[Argument]:
    """The options before the first free argument or "--"; they are removed from `rest`."""
    while rest and rest[0].text.startswith("-") and rest[0].text not in {"-", "--"}:
        word = rest.pop(0)
        yield from (_long if word.text.startswith("--") else _short)(spec, word, rest)


def _kind(spec: CommandSpec, flag: str) -> str:
    return spec.kinds.get(flag) or ("ask" if spec.strict else "flag")


def _long(spec: CommandSpec, word: Word, rest: list[Word]) -> Iterator[Argument]:
    name, equals, value = word.text.partition("=")
    full = name if name in spec.kinds else _completed(spec, name)
    kind = _kind(spec, full)
    if kind in {"ask", "active", "flag"}:
        yield Argument(kind, word, full)
    elif equals:
        yield Argument(kind, _part(word, value), full)
    elif kind == "optional" or not rest:
        yield Argument("flag", word, full)
    else:
        yield Argument(kind, rest.pop(0), full)


def _completed(spec: CommandSpec, name: str) -> str:
    """The full form of an abbreviated long option; of several matches, one that is not harmless."""
    possible = sorted(flag for flag in spec.kinds if flag.startswith(name)) if len(name) > 2 else []
    return next((flag for flag in possible if flag not in spec.flag), possible[0] if possible else name)


def _short(spec: CommandSpec, word: Word, rest: list[Word]) -> Iterator[Argument]:
    """Single letters after one dash, the last with its value; or one long word after one dash, as in -exec."""
    whole = word.text.partition("=")[0]
    if len(whole) > 2 and whole in spec.kinds:
        yield from _long(spec, word, rest)
        return
    seen = set[str]()
    for index, letter in enumerate(word.text[1:], 2):
        flag = f"-{letter}"
        if flag in seen:
            continue
        kind = _kind(spec, flag)
        if kind not in {"ask", "active", "flag"}:
            value = _part(word, word.text[index:])
            yield Argument(kind, value if value.text or kind == "optional" or not rest else rest.pop(0), flag)
            return
        seen.add(flag)
        yield Argument(kind, word, flag)


def _part(word: Word, text: str) -> Word:
    return Word(text, word.source, word.glob, word.origins)


def entry(name: str, words: list[Word]) -> tuple[CommandSpec, list[Word]] | None:
    """The most specific entry for a command and the words after its name: "git stash list" before "git stash"."""
    specs = tables().specs
    general = specs.get(name)
    rest = words[1:]
    if general is None or general.paths != "subcommand":
        return (general, rest) if general else None
    while rest and rest[0].text.startswith("-"):
        rest = rest[2:] if rest[0].text in general.valued else rest[1:]
    for count in (2, 1):
        two = " ".join([name, *(word.text for word in rest[:count])])
        found = specs.get(two) or specs.get(two.partition(":")[0])  # a script of a project may be "test:unit"
        if found and len(rest) >= count:
            return found, rest[count:]
    return (CommandSpec(), []) if all(word.text in _FULL_NAME for word in words[1:]) else None


def possible_options(name: str, words: list[Word]) -> Iterator[Word]:
    """The arguments that could expand to any option, if options of the command can run, write or delete something.

    Such a word may be split into several, may begin with a dash in the place of an option, or is an option with unknown
    letters.
    """
    spec, rest = _before_others(name, words)
    if {name, "-".join(word.text for word in words[:2])} & tables().groups["inert"]:
        if spec.paths in {"copy", "write"}:  # any word can be the target
            yield from (word for word in rest if word.may_split and UNKNOWN in word.text)
    elif _is_delicate(name, spec):
        yield from _possible_options_of(name, spec, rest)


def _before_others(name: str, words: list[Word]) -> tuple[CommandSpec, list[Word]]:
    """The specification of a command, and the arguments that can contain its own options."""
    known = tables()
    spec, rest = entry(name, words) or (CommandSpec(strict=True), words[1:])
    if name in known.launchers:
        _, started = _before_command(known.launchers[name], words[1:])
        spec, rest = known.launchers[name].options, words[1 : len(words) - len(started)]
    elif name in known.languages:
        spec, rest = known.languages[name].options, _up_to_free(known.languages[name].options, words[1:])
    elif name in known.groups["leading_options"]:
        rest = _up_to_free(spec, rest)
    end = next((index for index, word in enumerate(rest) if word.text == "--" and name != "find"), len(rest))
    return spec, rest[:end]


def _possible_options_of(name: str, spec: CommandSpec, rest: list[Word]) -> Iterator[Word]:
    if name == "find":  # `launchers.find` judges its tests
        yield from (word for word in rest if word.may_split)
        rest = rest[: next((i for i, word in enumerate(rest) if re.match(r"[-(!]", word.text)), len(rest))]
    runs, packs = spec.effect == "runs", name in tables().groups["packers"]
    for argument in parsed(spec, rest):
        word = argument.word
        splits = word.may_split and (UNKNOWN in word.text or not runs) and not packs
        begins = argument.kind == "free" and word.may_be_option and not (runs or packs)
        letters = argument.flag.startswith("-") and (
            UNKNOWN in argument.flag or (UNKNOWN_NAME in argument.flag and bool(word.origins & {A_FILE, A_WORD}))
        )
        if splits or begins or letters:
            yield word


def _is_delicate(name: str, spec: CommandSpec) -> bool:
    """Whether an option of the command can have effects that its other arguments do not have."""
    changing = spec.ask | spec.write | spec.script | spec.program | spec.module | spec.active
    return bool(changing) or spec.strict or spec.effect != "reads" or name in tables().rules


def _up_to_free(spec: CommandSpec, words: list[Word]) -> list[Word]:
    """The words up to and including the first that is not an option."""
    left = list(words)
    for _ in leading_options(spec, left):
        pass
    return words[: len(words) - len(left) + 1]


def searches_here(spec: CommandSpec, name: str, arguments: list[Argument], *, piped: bool) -> bool:
    """Whether a search without a path searches the current folder."""
    through = name in _RECURSIVE_BY_DEFAULT and not piped
    return spec.text > 0 and (through or any(argument.flag in _RECURSIVE for argument in arguments))


def possible_paths(name: str, words: list[Word]) -> list[Word]:
    """The arguments that could name a file to read; files that are only written are judged separately."""
    known, rest = tables(), words[1:]
    if name in known.groups["writers"] or _only_unstages(words):
        return []
    if name in known.groups["copiers"]:
        return rest[:-1]
    if name == "find":
        return list(_without_searches(rest))
    if name in known.launchers and name not in known.groups["carriers"]:
        return _before_search(known.launchers[name], rest)
    found = entry(name, words) if rest else None
    searching = name in known.groups["searchers"] or [word.text for word in words[:2]] == ["git", "grep"]
    has_texts = found and (searching or found[0].paths == "run")
    if not found or not has_texts:
        return rest
    texts = [*(_searched_texts if searching else _plain_texts)(*found), *_task_names(words)]
    chosen = _file_filters(*found) if searching else ()
    return [*(word for word in rest if not (word.known and any(word is text for text in texts))), *chosen]


def _only_unstages(words: list[Word]) -> bool:
    """Whether the command is `git rm --cached`, which neither changes nor shows the files that it names."""
    texts = [word.text for word in words]
    return texts[:2] == ["git", "rm"] and "--cached" in texts and not any(text.startswith("--pa") for text in texts)


def _without_searches(rest: list[Word]) -> Iterator[Word]:
    """The words of find without those of a search that it starts with -exec, which is judged separately."""
    searchers, inside = tables().groups["searchers"], False
    for index, word in enumerate(rest):
        if not inside:
            yield word
        inside = inside and word.text not in {";", "+"}
        following = rest[index + 1].text if index + 1 < len(rest) else ""
        inside |= bool(EXECUTING.fullmatch(word.text)) and following in searchers


def _before_search(launcher: Launcher, rest: list[Word]) -> list[Word]:
    """The words of a launcher before a command that searches or starts another, which is judged separately."""
    known = tables()
    options, left = _before_command(launcher, rest)
    inner = left[0].text if left else ""
    unsure = any(kind in {"ask", "program"} or (word.text and word.text in inner) for kind, word, _ in options)
    judged = inner in known.groups["searchers"] or inner in known.launchers
    return rest if launcher.joined or launcher.scripts or unsure or not judged else rest[: len(rest) - len(left)]


def _before_command(launcher: Launcher, rest: list[Word]) -> tuple[list[Argument], list[Word]]:
    """The options of a launcher, and the words of the command that it starts."""
    left, skip = list(rest), launcher.skip
    options: list[Argument] = []
    while left:
        options += leading_options(launcher.options, left)
        if left and launcher.assignments and ASSIGNMENT.fullmatch(left[0].text):
            pass
        elif left and skip > 0 and left[0].text != "--":
            skip -= 1
        elif not left or left[0].text not in {"-", "--"}:
            break
        left = left[1:]
    return options, left


def _file_filters(spec: CommandSpec, rest: list[Word]) -> Iterator[Word]:
    """The patterns for the names of the searched files; they count as globs."""
    for argument in parsed(spec, rest):
        if argument.flag in _FILE_FILTERS and not argument.word.text.startswith("!"):
            yield replace(argument.word, glob=True)


def _searched_texts(spec: CommandSpec, rest: list[Word]) -> Iterator[Word]:
    """The text that a search looks for, and excluded files; empty if versions differ in the options."""
    arguments = list(parsed(spec, rest))
    unsure = any(kind == "ask" or (flag == "-C" and not word.text.isdigit()) for kind, word, flag in arguments)
    if unsure or _has_abbreviated_option(spec, rest) or any(word.text == "--context" for word in rest):
        return
    free = [word for kind, word, _ in arguments if kind == "free"]
    if not any(argument.flag in spec.instead for argument in arguments):
        uncertain = _possible_options(rest)
        yield from (
            word for word in free[: spec.text] if not uncertain or (_NAME.fullmatch(word.text) and uncertain != UNKNOWN)
        )
    yield from (word for _, word, flag in arguments if flag in _FILE_FILTERS and word.text.startswith("!"))
    end = next((index for index, word in enumerate(rest) if word in free), len(rest))
    yield from _values(spec, rest[:end], spec.pattern & _PATTERN_FLAGS)


def _possible_options(rest: list[Word]) -> str:
    """The first character of a word that could be an option with which the first word names a file."""
    end = next((index for index, word in enumerate(rest) if word.text == "--"), len(rest))
    begins = [
        word.text[:1] for word in rest[:end] if not word.known and word.text[:1] in {UNKNOWN, UNKNOWN_NAME, *"*?["}
    ]
    return min(begins, default="")


def _plain_texts(spec: CommandSpec, rest: list[Word]) -> Iterator[Word]:
    """Messages, authors and other texts that name no file."""
    end = next((index for index, word in enumerate(rest) if word.text == "--"), len(rest))
    if not _has_abbreviated_option(spec, rest[:end]):
        yield from _values(spec, rest[:end], spec.pattern - _WITH_FILE)


def _values(spec: CommandSpec, rest: list[Word], flags: frozenset[str]) -> Iterator[Word]:
    """The values of these flags, unless the flag could be the value of an unknown option."""
    places = enumerate(pairwise(rest), 2)
    uncertain = {
        after
        for after, (one, two) in places
        if _LONG_OPTION.fullmatch(one.text) and one.text not in spec.kinds and two.text.startswith("-")
    }
    values = [argument.word for argument in parsed(spec, rest) if argument.flag in flags]
    for index, word in enumerate(rest):
        name, equals, _ = word.text.partition("=")
        if (equals and name in flags) or (index not in uncertain and any(word is value for value in values)):
            yield word


def _has_abbreviated_option(spec: CommandSpec, rest: list[Word]) -> bool:
    """Whether a long option may be abbreviated: another version may not know its full form."""
    names = {word.text.partition("=")[0] for word in rest if word.text.startswith("--")} - spec.kinds.keys()
    return any(_completed(spec, name) != name for name in names)


def _task_names(words: list[Word]) -> Iterator[Word]:
    """The names of tasks and tests that could also be names of files with keys."""
    before = ""
    for word in words:
        if _NAME.fullmatch(word.text) and _TASK.fullmatch(before):
            yield word
        before += f" {word.text}" if before else word.text
        if len(before) > _MAX_CHARS:
            return
