"""Tables of known commands, read from rules.toml and commands.toml.

Both files are indexed once. A row is parsed, and its patterns are compiled, when one of its commands is first looked
up: parsing all of them would take longer than most commands take to run.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from agentkit._dataclass import dataclass
from agentkit.decisions import Verdict

T = TypeVar("T")
_ROW = re.compile(r"""^\[\[(\w+)\]\]\n(?:(?!names)\w.*\n)*(?:names = ["'](.*)["']$)?""", re.MULTILINE)
_RUNS = re.compile(r'^effect = "runs"$', re.MULTILINE)
_DESTROYS = re.compile(r"^destroys = true$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CommandRule:
    """A rule: commands with these names whose arguments match `when` and not `unless` get the verdict.

    The name "*" means every command except those with a "!" before them, "@runs" each command that runs code of the
    workspace.

    Patterns are searched in " a b c ": the arguments between single spaces, where white space inside an argument is
    written as "·". `match` and `not_match` are example commands, which a test checks.

    If a rule `destroys`, code that calls the shell directly must confirm the matching commands. With the verdict allow,
    such a rule does not affect the verdict.
    """

    id: str
    verdict: Verdict
    names: frozenset[str]
    reason: str
    when: re.Pattern[str]
    unless: str
    remedy: str
    egress: bool
    destroys: bool
    match: tuple[str, ...]
    not_match: tuple[str, ...]

    def found_in(self, text: str) -> re.Match[str] | None:
        """The match of `when`, or None where the rule does not apply; `unless` is compiled when it is first needed."""
        match = self.when.search(text)
        return None if match and self.unless and _compiled(self.unless).search(text) else match


@dataclass(frozen=True, slots=True)
class Undo:
    """Commands matching `when` whose changes a journal can undo, although the rule with the id `rule` objects to them.

    With `paths`, they change the files in their arguments; with `index`, git's staging area.
    """

    rule: str
    when: re.Pattern[str]
    paths: bool
    index: bool


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """The treatment of arguments by a command.

    `paths` is the kind of its free arguments: read, list, write, copy, delete, text or run. The first `text` of them
    are text, unless a flag of `instead` is given. `effect` is its other effect: reads, writes, runs or network.

    Each flag with a value is listed in the field for the kind of its value: any text (`value`), a text that is never
    a path (`pattern`), a text that is never in the next argument (`optional`), a path (`read`, `write`), the folder
    to work in (`cd`), shell text (`script`), a program in the command's own language (`program`), a module's name.
    `flag` lists those without a value; of these, `active` ones make it run code or change files of the workspace.
    Those in `ask` need approval; with `strict`, flags in no field need it, too.

    With arguments that match `reading`, each followed by a space, the command only reads the files that it otherwise
    writes. An `unnamed` command changes and deletes files that its arguments do not name.
    """

    KINDS: ClassVar = (
        *("ask", "write", "read", "cd", "script", "program", "module", "pattern", "value", "optional", "active"),
        "flag",
    )

    paths: str = "text"
    effect: str = "reads"
    text: int = 0
    strict: bool = False
    unnamed: bool = False
    reading: str = ""
    instead: frozenset[str] = frozenset()
    value: frozenset[str] = frozenset()
    pattern: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    cd: frozenset[str] = frozenset()
    script: frozenset[str] = frozenset()
    program: frozenset[str] = frozenset()
    module: frozenset[str] = frozenset()
    active: frozenset[str] = frozenset()
    flag: frozenset[str] = frozenset()
    ask: frozenset[str] = frozenset()
    kinds: dict[str, str] = field(init=False, default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Gather all flags, each with its kind: the first field that lists it."""
        self.kinds.update((flag, kind) for kind in reversed(self.KINDS) for flag in getattr(self, kind))

    def for_arguments(self, text: str) -> CommandSpec:
        """The specification for these arguments."""
        if not self.reading or not re.fullmatch(self.reading, text):
            return self
        paths = "read" if self.paths in {"write", "copy"} else self.paths
        return replace(
            self, effect="reads", paths=paths, read=self.read | self.write, write=frozenset(), reading="", unnamed=False
        )

    @property
    def valued(self) -> set[str]:
        """The flags that take a value."""
        return self.kinds.keys() - self.flag - self.active - self.ask - self.optional


@dataclass(frozen=True, slots=True)
class Launcher:
    """A command that starts the command in its arguments, after its options and `skip` free arguments.

    With `joined`, the arguments together are one shell text; with `scripts`, each is one. With `assignments`,
    assignments can precede the command.
    """

    options: CommandSpec
    skip: int = 0
    joined: bool = False
    scripts: bool = False
    assignments: bool = False


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter: its options, the programs among them, and the flags that run tests."""

    name: str
    options: CommandSpec
    run: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProgramRule:
    """A rule about a program on the command line in which both patterns are found.

    The program is denied, or needs approval if the rule `destroys`.
    """

    id: str
    one: re.Pattern[str]
    other: re.Pattern[str]
    reason: str
    destroys: bool = False


class Lookup(Mapping[str, T]):
    """A mapping that creates each value on first access, from the rows that name its key."""

    def __init__(self, rows: Mapping[str, Any], make: Callable[[Any], T]) -> None:
        self._rows, self._make = rows, make
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        try:
            return self._made[name]
        except KeyError:
            return self._made.setdefault(name, self._make(self._rows[name]))

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or the default; faster than catching an exception."""
        return self[name] if name in self._rows else default

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@dataclass(frozen=True, slots=True)
class CommandTables:
    """The known commands, by name.

    `every` has the rules about all commands, and `destroying` the names of the commands with a rule that `destroys`.
    """

    rules: Lookup[tuple[CommandRule, ...]]
    every: tuple[CommandRule, ...]
    undo: Lookup[tuple[Undo, ...]]
    destroying: frozenset[str]
    specs: Lookup[CommandSpec]
    launchers: Lookup[Launcher]
    languages: Lookup[Interpreter]
    runners: frozenset[str]
    groups: dict[str, frozenset[str]]
    implied: dict[str, frozenset[str]]
    prints_names: Lookup[re.Pattern[str]]
    prints_numbers: Lookup[re.Pattern[str]]
    filters: Lookup[re.Pattern[str]]
    variables: Lookup[re.Pattern[str]]
    harmless_variables: Lookup[re.Pattern[str]]

    @property
    def programs(self) -> tuple[ProgramRule, ...]:
        """The rules about programs on the command line, made when the first such program is judged."""
        return _programs()


class _Row(NamedTuple):
    """A [[kind]] table of a file before parsing: the text of its `names`, and its whole text."""

    kind: str
    names: str
    text: str


_compiled = cache(re.compile)


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


@cache
def _rows(name: str) -> tuple[dict[str, Any], list[_Row]]:
    """The part of a file before its first [[kind]] table, parsed, and those tables."""
    text = Path(__file__).with_name(name).read_text("utf-8")
    found = list(_ROW.finditer(text))
    starts = [match.start() for match in found]
    spans = zip(found, [*starts[1:], len(text)], strict=True)
    rows = [_Row(match[1], match[2] or "", text[match.end(1) + 3 : end]) for match, end in spans]
    return tomllib.loads(text[: starts[0]]), rows


@cache
def _rule(row: _Row) -> CommandRule:
    fields = tomllib.loads(row.text)
    return CommandRule(
        id=fields["id"],
        verdict=Verdict(fields["verdict"]),
        names=_split(fields["names"]),
        reason=fields["reason"],
        when=re.compile(fields.get("when", "")),
        unless=fields.get("unless", ""),
        remedy=fields.get("remedy", "Work inside the workspace, or ask the user to do it."),
        egress=fields.get("egress", False),
        destroys=fields.get("destroys", False),
        match=tuple(fields["match"]),
        not_match=tuple(fields.get("not_match", ())),
    )


def _undo(row: _Row) -> Undo:
    fields = tomllib.loads(row.text)
    return Undo(
        fields["rule"], re.compile(fields.get("when", "")), fields.get("paths", False), fields.get("index", False)
    )


def _program_rule(row: _Row) -> ProgramRule:
    fields = tomllib.loads(row.text)
    one, other = re.compile(fields["one"]), re.compile(fields.get("other", ""))
    return ProgramRule(fields["id"], one, other, fields["reason"], fields.get("destroys", False))


@cache
def _programs() -> tuple[ProgramRule, ...]:
    return tuple(_program_rule(row) for row in _rows("commands.toml")[1] if row.kind == "programs")


_PLAIN_FIELDS = {
    *("paths", "effect", "text", "strict", "unnamed", "reading", "skip", "joined", "scripts", "assignments", "name")
}


@cache
def _fields(row: _Row) -> dict[str, Any]:
    return {
        key: value if key in _PLAIN_FIELDS else _split(value)
        for key, value in tomllib.loads(row.text).items()
        if key != "names"
    }


def _with_options(row: _Row) -> dict[str, Any]:
    """The fields of a launcher or a language; those that list options are combined to `options`."""
    options = {key: value for key, value in _fields(row).items() if key in CommandSpec.KINDS}
    others = {key: value for key, value in _fields(row).items() if key not in CommandSpec.KINDS}
    return {"options": CommandSpec(strict=True, **options), **others}


def _of_last_row(make: Callable[[_Row], T]) -> Callable[[tuple[_Row, ...]], T]:
    return lambda rows: make(rows[-1])


def _by_name(rows: list[_Row], kind: str) -> dict[str, tuple[_Row, ...]]:
    """The rows of a kind, under each of their names; names are separated by commas, since some have two words."""
    found: dict[str, tuple[_Row, ...]] = {}
    for row in rows:
        for name in row.names.split(",") if row.kind == kind else ():
            found[name.strip()] = (*found.get(name.strip(), ()), row)
    return found


def _rules_by_name(rows: list[_Row], runners: set[str]) -> dict[str, tuple[int, ...]]:
    """The indices of the rules, in order, under each name; those about "@runs" under every name of `runners`."""
    found: dict[str, tuple[int, ...]] = {}
    for index, row in enumerate(rows):
        for name in row.names.split():
            found[name] = (*found.get(name, ()), index)
    of_runners = found.get("@runs", ())
    both = {name: tuple(sorted({*found[name], *of_runners})) for name in runners & found.keys()}
    return dict.fromkeys(runners, of_runners) | found | both


@cache
def tables() -> CommandTables:
    """The tables, indexed once."""
    header, rows = _rows("commands.toml")
    _, objections = _rows("rules.toml")
    rules = [row for row in objections if row.kind == "rules"]
    running = [row.names for row in rows if row.kind == "commands" and _RUNS.search(row.text)]
    runners = {name.split()[0] for names in running for name in names.split(",")}
    by_name = _rules_by_name(rules, runners)
    patterns = ("prints_names", "prints_numbers", "filters", "variables", "harmless_variables")
    return CommandTables(
        rules=Lookup(by_name, lambda indices: tuple(_rule(rules[index]) for index in indices)),
        every=tuple(_rule(rules[index]) for index in by_name["*"]),
        undo=Lookup(_by_name(objections, "undo"), lambda rows: tuple(map(_undo, rows))),
        destroying=frozenset(name for row in rules if _DESTROYS.search(row.text) for name in row.names.split()),
        specs=Lookup(_by_name(rows, "commands"), _of_last_row(lambda row: CommandSpec(**_fields(row)))),
        launchers=Lookup(_by_name(rows, "launchers"), _of_last_row(lambda row: Launcher(**_with_options(row)))),
        languages=Lookup(_by_name(rows, "languages"), _of_last_row(lambda row: Interpreter(**_with_options(row)))),
        runners=frozenset(name.strip() for name in header["runners"].split(",")),
        groups={name: _split(text) for name, text in header["groups"].items()},
        implied={name.strip(): _split(text) for names, text in header["implied"].items() for name in names.split(",")},
        **{name: Lookup(header[name], re.compile) for name in patterns},
    )
