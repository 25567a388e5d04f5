"""What is known about each command? Read once from rules.toml and commands.toml beside this module."""

from __future__ import annotations

import re
import tomllib
from dataclasses import field
from functools import cache
from importlib import resources
from typing import Any, ClassVar

from agentkit.decisions import Verdict
from agentkit.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One objection: commands of these names whose arguments match `when` and not `unless` get the verdict.

    The name "*" stands for every command but those with a "!" before them, "@runs" for each that runs code of the
    workspace.

    Patterns are searched in " a b c ": the arguments between single spaces, where white space inside an argument is
    written as "·". `match` and `not_match` are example commands, checked by `check_examples`.

    What a rule matches that `destroys` must be confirmed by code that calls the shell directly. With the verdict allow
    such a rule leaves the verdict to the others.
    """

    id: str
    verdict: Verdict
    names: frozenset[str]
    reason: str
    when: re.Pattern[str]
    unless: re.Pattern[str] | None
    remedy: str
    egress: bool
    destroys: bool
    match: tuple[str, ...]
    not_match: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spec:
    """How a command treats its arguments.

    `paths` says what its free arguments are (read, list, write, copy, delete, text, run), after `text` of them that
    are text unless a flag of `instead` is given; `effect` what it does beside that (reads, writes, runs, network).
    Each flag with a value stands in the field that says what its value is: any text (`value`), a text that is never
    a path (`pattern`), a text that is never in the next argument (`optional`), a path (`read`, `write`), the folder
    to work in (`cd`), shell text (`script`), a program in the command's own language (`program`), a module's name.
    `flag` are those without a value, of which `active` make it run code or change files of the workspace; `ask` those
    that are not judged; `strict` asks for flags in no field too.
    """

    KINDS: ClassVar = (
        *(
            "ask",
            "write",
            "read",
            "cd",
            "script",
            "program",
            "module",
            "pattern",
            "value",
            "optional",
            "active",
            "flag",
        ),
    )

    paths: str = "text"
    effect: str = "reads"
    text: int = 0
    strict: bool = False
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
    known: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        """Gather all flags."""
        object.__setattr__(self, "known", frozenset().union(*(getattr(self, kind) for kind in self.KINDS)))

    @property
    def valued(self) -> frozenset[str]:
        """The flags that take a value."""
        return self.known - self.flag - self.active - self.ask - self.optional


@dataclass(frozen=True, slots=True)
class Launcher:
    """A command that starts the command in its arguments, after its options and `skip` free arguments.

    `joined` makes one shell text of the arguments, `scripts` one of each; `assignments` may stand before the command.
    """

    options: Spec
    skip: int = 0
    joined: bool = False
    scripts: bool = False
    assignments: bool = False


@dataclass(frozen=True, slots=True)
class Language:
    """An interpreter: its options, the programs among them, and the flags that run tests."""

    name: str
    options: Spec
    run: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProgramRule:
    """A program on the command line in which both patterns are found is denied; one that `destroys` is asked about."""

    id: str
    one: re.Pattern[str]
    other: re.Pattern[str]
    reason: str
    destroys: bool = False


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything that is known, by command name."""

    rules: dict[str, tuple[Rule, ...]]
    every: tuple[Rule, ...]
    destroying: tuple[Rule, ...]
    specs: dict[str, Spec]
    launchers: dict[str, Launcher]
    languages: dict[str, Language]
    runners: frozenset[str]
    groups: dict[str, frozenset[str]]
    programs: tuple[ProgramRule, ...]
    implied: dict[str, frozenset[str]]


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("agentkit.safety.shell.knowledge").joinpath(name).read_text("utf-8"))


def _rule(row: dict[str, Any]) -> Rule:
    return Rule(
        id=row["id"],
        verdict=Verdict(row["verdict"]),
        names=_split(row["names"]),
        reason=row["reason"],
        when=re.compile(row.get("when", "")),
        unless=re.compile(row["unless"]) if "unless" in row else None,
        remedy=row.get("remedy", "Do it in the workspace, or leave it to a person."),
        egress=row.get("egress", False),
        destroys=row.get("destroys", False),
        match=tuple(row["match"]),
        not_match=tuple(row.get("not_match", ())),
    )


def _program_rule(row: dict[str, Any]) -> ProgramRule:
    one, other = re.compile(row["one"]), re.compile(row.get("other", ""))
    return ProgramRule(row["id"], one, other, row["reason"], row.get("destroys", False))


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    plain = {"paths", "effect", "text", "strict", "skip", "joined", "scripts", "assignments", "name"}
    return {key: value if key in plain else _split(value) for key, value in row.items() if key != "names"}


def _with_options(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a launcher or a language, of which those that name options are its `options`."""
    options = {key: value for key, value in fields.items() if key in Spec.KINDS}
    others = {key: value for key, value in fields.items() if key not in Spec.KINDS}
    return {"options": Spec(strict=True, **options), **others}


def _by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The fields of each row under each of its names; names are separated by commas, as some have two words."""
    return {name.strip(): _fields(row) for row in rows for name in row["names"].split(",")}


def _groups_of(name: str, runners: set[str]) -> set[str]:
    """The names by which rules may speak of a command: its own, and "@runs" if it runs code of the workspace."""
    return {name, "@runs"} if name in runners else {name}


@cache
def tables() -> Tables:
    """The tables, loaded once."""
    data, rules = _load("commands.toml"), [_rule(row) for row in _load("rules.toml")["rules"]]
    specs = {name: Spec(**fields) for name, fields in _by_name(data["commands"]).items()}
    runners = {name.split()[0] for name, spec in specs.items() if spec.effect == "runs"}
    names = runners.union(*(rule.names for rule in rules))
    return Tables(
        rules={name: tuple(rule for rule in rules if rule.names & _groups_of(name, runners)) for name in names},
        every=tuple(rule for rule in rules if "*" in rule.names),
        destroying=tuple(rule for rule in rules if rule.destroys),
        specs=specs,
        launchers={name: Launcher(**_with_options(fields)) for name, fields in _by_name(data["launchers"]).items()},
        languages={name: Language(**_with_options(fields)) for name, fields in _by_name(data["languages"]).items()},
        runners=frozenset(name.strip() for name in data["runners"].split(",")),
        groups={name: _split(text) for name, text in data["groups"].items()},
        programs=tuple(_program_rule(row) for row in data["programs"]),
        implied={name.strip(): _split(text) for names, text in data["implied"].items() for name in names.split(",")},
    )
