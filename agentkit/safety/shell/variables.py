"""The scope of a shell: variables, functions and current folder (pure)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, SafetyLevel, Verdict

if TYPE_CHECKING:
    from tree_sitter import Node

UNKNOWN = "\x00"
"""Placeholder for text that is unknown until the command runs."""
UNKNOWN_NAME = "\x01"
"""Placeholder for an unknown number, date or name in the workspace: without leading dash, slash and dots."""
PERHAPS_EMPTY = "perhaps-empty"
"""The origin of a text that may also be empty."""
A_WORD = "word"
"""The origin of an UNKNOWN_NAME that may be a word, not a number: arithmetic takes it for a variable's name."""
UNTRUSTED = "untrusted"
"""The origin of a text from a variable that once had an untrusted value: later assignments may have failed."""
PATTERN = "pattern"
"""The origin of a text that represents each of the files that it matches, as in a loop."""
A_FILE = "file"
"""The origin of a text that is the name of a file, which can contain any characters."""
FOUND = "found:"
"""Prefix of the origin of an UNKNOWN_NAME that is a relative path matching the pattern after the colon."""
BELOW = "below:"
"""Prefix of the origin of a word that represents the files below it whose names match the pattern after the colon."""
A_REF = "ref"
"""The origin of a text that names a branch, a tag or a commit, in which git allows no white space."""
DASHED = "dashed"
"""The origin of an UNKNOWN_NAME that may begin with a dash, like a file name without a folder."""
SUFFIXED = "suffixed"
"""The origin of a DASHED text that a pattern with a suffix matches, such as *.py."""
SPLIT = "split"
"""The origin of a word that bash may split into several, any of which may begin with a dash."""
LISTED = "listed"
"""The origin of a text that is the content of a file of the workspace."""
_MAX_FOLDERS = 4
_MAX_ITEMS = 64
_INTEGERS = ("RANDOM", "SRANDOM", "SECONDS", "LINENO", "OPTIND", "HISTCMD", "EPOCHSECONDS")
SET_BY_BASH = re.compile(
    r"_|REPLY|OPTARG|COPROC|COMP\w+|READLINE_\w+|FUNCNAME|DIRSTACK|GROUPS|HISTCMD"
    r"|BASH_(REMATCH|ARG\w*|COMMAND|LINENO|SOURCE|CMDS|ALIASES)"
)
"""The names of the variables to which bash assigns texts."""
_PERHAPS_DASHED = re.compile(r"(?!\S*\.[\w-]*\w$)([*?\[]|[@+!]\()")
"""Patterns that may match names which begin with a dash. One that ends in a suffix is taken to match ordinary files."""
_OPEN_START = re.compile(r"[*?\[]|[@+!]\(")
_NUMBER = re.compile(rf"\d+|{UNKNOWN_NAME}")
_CODE = re.compile(
    r"(?i).*\.(py|pyi|sh|bash|js|mjs|cjs|ts|tsx|jsx|rb|pl|php|lua|rs|go|c|h|cc|cpp|hpp|java|kt|cs|mk|cmake|gradle"
    r"|toml|cfg|ini|json|ya?ml|xml)|.*/(GNU)?(make|just|rake|gem|docker|pip|vagrant|proc)file"
)


@dataclass(frozen=True, slots=True)
class Value:
    """A text as far as it is known, and its origins, such as the kind of command that printed it: "fetch", "decode".

    `items` are the elements of an array, if they are known separately; `text` is then the first of them.
    """

    text: str
    origins: frozenset[str] = frozenset()
    items: tuple[Value, ...] | None = None

    @property
    def known(self) -> bool:
        """Whether the whole text is known."""
        return UNKNOWN not in self.text and UNKNOWN_NAME not in self.text

    @property
    def is_number(self) -> bool:
        """Whether the value is certainly a single, unknown number."""
        return self.text == UNKNOWN_NAME and not composed(self.origins)

    @classmethod
    def array(cls, items: Iterable[Value]) -> Value:
        """An array of these elements."""
        elements = tuple(items)
        if len(elements) > _MAX_ITEMS:
            origins = alternatives(elements) | {PERHAPS_EMPTY}
            return cls(UNKNOWN_NAME, origins) if are_numbers(*elements) else one_of(elements, origins)
        first = next(iter(elements), cls(""))
        shaky = PERHAPS_EMPTY in first.origins and len(elements) > 1
        return cls(UNKNOWN if shaky else first.text, alternatives(elements), elements)

    @classmethod
    def joined(cls, values: list[Value]) -> Value:
        """The concatenation of values."""
        return cls("".join(v.text for v in values), frozenset().union(*(v.origins for v in values)))


def alternatives(values: Sequence[Value]) -> frozenset[str]:
    """The origins of a text that is one of these; it is a file found by a command only if each of them is."""
    origins = Value.joined(list(values)).origins
    named = (value.text == UNKNOWN_NAME and any(each.startswith(FOUND) for each in value.origins) for value in values)
    return origins if all(named) else composed(origins)


def one_of(elements: Iterable[Value], origins: frozenset[str]) -> Value:
    """A value that is one of several texts; it begins like one that leads outside the workspace, if any does."""
    begin = next((value.text for value in elements if re.match(r"[/~]|\.\.", value.text)), "")
    return Value(begin + UNKNOWN, origins)


NOTHING = Value("")
ANYTHING = Value(UNKNOWN)
A_NUMBER = Value(UNKNOWN_NAME)
A_NAME = Value(UNKNOWN_NAME, frozenset({A_WORD}))
PARAMETERS = (*"123456789@*",)
"""The names of the positional parameters."""


@dataclass(frozen=True, slots=True)
class Word:
    """An argument after all expansions: its text, its source, and whether it contains a glob pattern."""

    text: str
    source: str
    glob: bool = False
    origins: frozenset[str] = frozenset()

    @property
    def known(self) -> bool:
        """Whether the argument is fully known from its text."""
        return not self.glob and UNKNOWN not in self.text and UNKNOWN_NAME not in self.text

    @property
    def may_be_option(self) -> bool:
        """Whether an expansion in the text may produce a leading dash."""
        if self.text.startswith(UNKNOWN_NAME):
            return bool(self.origins & {DASHED, SUFFIXED})
        return self.text.startswith(UNKNOWN) or (self.glob and bool(_OPEN_START.match(self.text)))

    @property
    def contains_file_name(self) -> bool:
        """Whether the text contains an unknown file name."""
        return self.glob or bool(self.origins & {A_FILE, PATTERN}) or any(o.startswith(BELOW) for o in self.origins)

    @property
    def may_split(self) -> bool:
        """Whether the text may be split into several words, any of which may begin with a dash."""
        return SPLIT in self.origins

    @property
    def depends_on_file_names(self) -> bool:
        """Whether the word is an option only if a file's name has a dash at its start or after white space.

        That is the case for names that match a pattern with a suffix, and for paths that begin with a folder.
        """
        if self.glob:
            return UNKNOWN not in self.text and not _PERHAPS_DASHED.match(self.text)
        return UNKNOWN not in self.text and A_FILE in self.origins and DASHED not in self.origins


@dataclass(frozen=True, slots=True)
class ShellScript:
    """A text that a command passes to a shell, and its positional parameters, if they are known.

    It is judged like a typed command. With `between`, it may run between any two later commands.
    """

    text: str
    source: str
    arguments: tuple[Word, ...] | None = None
    between: bool = False


@dataclass(frozen=True, slots=True)
class StartedCommand:
    """The words of a command that another command starts; it is judged like a typed command."""

    words: list[Word]


Finding = Decision | ShellScript | StartedCommand


class WrittenPaths(set[str]):
    """The paths that a command has written; a folder includes everything below it."""

    def __contains__(self, path: object) -> bool:
        """Whether the path, or a folder that contains it, was written."""
        folder = path if isinstance(path, str) else ""
        while folder not in {"", "/"}:
            if super().__contains__(folder):
                return True
            folder = posixpath.dirname(folder)
        return False


@dataclass(slots=True)
class ShellScope:
    """The state of a shell; `fork` creates that of a subshell.

    Per shell:
    - `exposed`: files with keys in the workspace that commands can read
    - `keyed`: variables that are certainly associative arrays
    - `exported`: variables that are certainly exported
    - `is_child`: whether this is a child shell, whose environment is set by another command
    - `reopened`: whether `exec` may have replaced the standard input
    - `elsewhere`: folders that the shell may be in instead of `cwd`; `failed`: those if the last command failed
    - `made`: folders that certainly exist
    - `bounded`: whether `head` limits endless output
    - `undoable`: whether a journal restores deleted files, as far as it can

    Shared by all forks:
    - `destroyed`: patterns of paths that the journal must be able to restore (see `agentkit.workspace.restorable`)
    - `touched`: patterns of other written paths; `written`: the paths
    - `integers`: variables declared as numbers; `readonly`: variables that cannot be changed
    - `ever_keyed`: variables that may be associative arrays; `indexed`: arrays that are not
    - `untrusted`: variables that once had an untrusted value
    - `links`: created links; `later`: scripts that run later
    - `places`: paths that the command reads, writes or deletes; `scripts`: files whose content it runs
    - `options`: words that are options only if a file's name looks like one
    """

    workspace: str
    cwd: str | None
    contained: bool = True
    network: bool = False
    exposed: frozenset[str] = frozenset()
    variables: dict[str, Value] = field(default_factory=dict)
    functions: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    elsewhere: frozenset[str | None] = frozenset()
    failed: frozenset[str | None] = frozenset()
    made: frozenset[str] = frozenset()
    keyed: frozenset[str] = frozenset({"BASH_ALIASES", "BASH_CMDS"})
    ever_keyed: set[str] = field(default_factory=lambda: {"BASH_ALIASES", "BASH_CMDS"})
    indexed: set[str] = field(default_factory=set)
    readonly: set[str] = field(default_factory=set)
    untrusted: set[str] = field(default_factory=set)
    exported: frozenset[str] = frozenset()
    is_child: bool = False
    in_function: bool = False
    defining: bool = False
    written: WrittenPaths = field(default_factory=WrittenPaths)
    integers: set[str] = field(default_factory=lambda: set(_INTEGERS))
    links: set[str] = field(default_factory=set)
    later: list[ShellScript] = field(default_factory=list)
    places: set[str] = field(default_factory=set)
    scripts: set[str] = field(default_factory=set)
    pipes: dict[str, Value] = field(default_factory=dict)
    stdin: Value | None = None
    reopened: bool = False
    bounded: bool = False
    undoable: bool = False
    destroyed: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    options: set[str] = field(default_factory=set)

    def fork(self) -> ShellScope:
        """A copy whose changes do not affect this scope."""
        return replace(self, variables=dict(self.variables), functions=dict(self.functions))

    @property
    def folders(self) -> frozenset[str | None]:
        """Every possible working folder; None is an unknown one."""
        return frozenset({self.cwd}) | self.elsewhere | self.failed

    def value(self, name: str) -> Value | None:
        """The value that a command has assigned to a variable; unknown if bash may have assigned another."""
        value = ANYTHING if SET_BY_BASH.fullmatch(name) else self.variables.get(name)
        return replace(value, origins=value.origins | {UNTRUSTED}) if value and name in self.untrusted else value

    def set_parameters(self, values: Sequence[Value] | None) -> None:
        """Set the positional parameters; None if they are unknown."""
        for index in range(1, 10):
            given = (values or ())[:index]
            # An unquoted word, such as the output of a command, may be several words.
            is_split = any(
                (UNKNOWN in value.text or bool(value.origins & {A_FILE, PERHAPS_EMPTY})) for value in given[: index - 1]
            )
            may_vanish = len(values or ()) > index and any(PERHAPS_EMPTY in value.origins for value in given)
            is_known = values is not None and not is_split and not may_vanish
            self.variables[str(index)] = (given[-1] if len(given) == index else NOTHING) if is_known else ANYTHING
        everything = ANYTHING if values is None else Value.array(values)
        self.variables |= {"@": everything, "*": everything}

    def child(self) -> ShellScope:
        """The scope of a child shell: it has no arrays, and only the variables that are exported."""
        inner = self.fork()
        inner.is_child, inner.keyed = True, frozenset()
        passed = self.variables.keys() & self.exported - {"IFS"}
        inner.variables = {name: self.variables[name] for name in passed if self.variables[name].items is None}
        return inner

    def may_be_in(self, folders: frozenset[str | None]) -> None:
        """Add possible working folders; too many are treated as unknown."""
        others = (self.elsewhere | folders) - {self.cwd}
        self.elsewhere = others if len(others) <= _MAX_FOLDERS else frozenset({None, *sorted(filter(None, others))[:2]})

    def settle(self) -> None:
        """Continue after a command whether or not it failed."""
        self.may_be_in(self.failed)
        self.failed = frozenset()

    def adopt(self, other: ShellScope) -> None:
        """Apply the changes of another command in the same shell."""
        self.cwd, self.elsewhere, self.failed = other.cwd, other.elsewhere, other.failed
        self.variables, self.functions = other.variables, other.functions
        self.made, self.keyed, self.exported = other.made, other.keyed, other.exported
        if other.reopened:
            self.reopened, self.stdin = True, ANYTHING

    def merge(self, other: ShellScope) -> None:
        """Keep only facts that hold in both scopes; the folder may be that of either."""
        self.merge_variables(other)
        self.made &= other.made
        both = self.functions.keys() & other.functions.keys()
        self.functions = {name: tuple(dict.fromkeys(self.functions[name] + other.functions[name])) for name in both}
        self.settle()
        self.may_be_in(other.folders)

    def merge_variables(self, other: ShellScope) -> None:
        """Keep only the values that are the same in both."""
        self.keyed &= other.keyed
        self.exported &= other.exported
        for name in self.variables.keys() | other.variables.keys():
            one, two = self.variables.get(name), other.variables.get(name)
            if one != two:
                values = [value for value in (one, two) if value]
                is_number = are_numbers(*values) and (len(values) == 2 or name.islower())
                origins = alternatives(values) | (frozenset() if len(values) == 2 else {PERHAPS_EMPTY})
                self.variables[name] = Value(UNKNOWN_NAME if is_number else UNKNOWN, origins)

    def forget(self) -> None:
        """Make all variables unknown."""
        for name, value in self.variables.items():
            self.variables[name] = Value(UNKNOWN, value.origins)
        self.keyed = frozenset()

    def possible(self) -> Iterator[ShellScope]:
        """This scope in each folder that it may be in."""
        yield self
        for folder in sorted((self.elsewhere | self.failed) - {self.cwd}, key=str):
            yield replace(self, cwd=folder)


def composed(origins: frozenset[str]) -> frozenset[str]:
    """The origins of a text composed of others, which is not one of the files that a command found."""
    return frozenset(origin for origin in origins if not origin.startswith((FOUND, BELOW)))


def are_numbers(*values: Value) -> bool:
    """Whether all are numbers or unknown names, so that any one of them is, too."""
    return all(_NUMBER.fullmatch(item.text) for value in values for item in value.items or (value,))


def deny(
    rule: str, evidence: str, why: str, remedy: str = "Work inside the workspace, or ask the user to do it."
) -> Decision:
    """A denial; `why` continues the sentence "Command blocked for safety: "."""
    return Decision(Verdict.DENY, f"shell.{rule}", f"Command blocked for safety: {why}", evidence, remedy)


def ask(
    rule: str,
    evidence: str,
    why: str,
    remedy: str = "Use a simpler command, or ask for approval.",
    *,
    egress: bool = False,
    destroys: bool = False,
) -> Decision:
    """A request for approval; `why` is a sentence. If it `destroys`, code that calls the shell must confirm it."""
    what = _continued(why) if destroys else ""
    return Decision(Verdict.ASK, f"shell.{rule}", why, evidence, remedy, SafetyLevel.SYSTEM, egress, what)


def destruction(rule: str, evidence: str, why: str) -> Decision:
    """A finding that has no effect in a run, but that code calling the shell directly must confirm."""
    what = _continued(why)
    return Decision(Verdict.ALLOW, f"shell.{rule}", why, evidence, level=SafetyLevel.SYSTEM, destroys=what)


def _continued(sentence: str) -> str:
    """A sentence in the form that continues "Command blocked for safety: "."""
    return sentence[:1].lower() + sentence[1:]


def reads(evidence: str) -> Decision:
    """Allowed: it changes nothing."""
    return Decision(Verdict.ALLOW, "shell.reads", "It only reads.", evidence, level=SafetyLevel.NETWORK)


def writes(evidence: str) -> Decision:
    """Allowed: it changes files of the workspace only."""
    return Decision(
        Verdict.ALLOW, "shell.writes", "It writes inside the workspace.", evidence, level=SafetyLevel.SYSTEM
    )


def undoes(evidence: str) -> Decision:
    """Allowed: it deletes or empties files of the workspace that can be restored."""
    why = "It deletes or replaces files inside the workspace; this can be undone."
    return Decision(Verdict.ALLOW, "shell.undoable", why, evidence, level=SafetyLevel.SYSTEM)


def counts(evidence: str, scope: ShellScope) -> Decision:
    """Allowed in a sandbox: it shows sizes or checksums of files listed in the workspace, but no contents."""
    why = "It measures files that are listed in a file of the workspace, inside the sandbox."
    return Decision(Verdict.ALLOW, "shell.listed", why, evidence, level=SafetyLevel.SYSTEM, egress=scope.network)


def runs(evidence: str, scope: ShellScope) -> Decision:
    """Allowed in a sandbox: it runs code of the workspace, which could send data if the network was granted."""
    made = next((path for path in sorted(scope.written) if _CODE.fullmatch(path)), None)
    if made:
        why = "It runs code of the workspace that the same command wrote in part."
        return ask("fresh-code", evidence, why, "Run it in a later call.")
    if scope.contained:
        why = "It runs the workspace's own code inside the sandbox."
        return Decision(Verdict.ALLOW, "shell.runs", why, evidence, level=SafetyLevel.SYSTEM, egress=scope.network)
    return ask("uncontained", evidence, "It runs code of the workspace, and no sandbox confines it here.", egress=True)


def connects(evidence: str, scope: ShellScope) -> Decision:
    """Allowed if the network was granted; it could carry data out."""
    if scope.network:
        why = "It uses the network, which was granted."
        return Decision(Verdict.ALLOW, "shell.network", why, evidence, level=SafetyLevel.SYSTEM, egress=True)
    remedy = "Grant the network for this command, or fetch pages with the web tools."
    return ask("network", evidence, "It needs the network, which the sandbox does not have.", remedy, egress=True)
