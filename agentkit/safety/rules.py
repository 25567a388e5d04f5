"""Rules that allow, ask about or deny tool calls, and the values they compare (pure)."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from decimal import Decimal, InvalidOperation
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import SplitResult, urlsplit

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, Verdict
from agentkit.errors import ConfigError
from agentkit.event_rendering import value_text
from agentkit.safety.paths import NO_FACTS, CallFacts, Located, folded, is_below, normal
from agentkit.suggestions import check_unknown_arguments

_TEXTUAL = ("urn", "unicode_string")
"""Types such as UUID and pydantic URLs, whose text is the original input."""


def plain(value: Any) -> Any:
    """The value without what only Python knows of it: an Enum's value, a date's and a path's text, lists, dictionaries.

    A finite Decimal stays, as no float says it exactly; so do other objects.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | Set):
        return [plain(inner) for inner in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    """The same for single values and for objects with fields."""
    match value:
        case str():
            return str.__str__(value)
        case bytes() | bytearray():
            return value.decode("utf-8", "backslashreplace")
        case Decimal():
            return value if value.is_finite() else math.nan if value.is_nan() else float(value)
        case os.PathLike():
            return os.fspath(value)
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    kind = type(value)
    if hasattr(kind, "isoformat"):
        return str(value.isoformat())
    if any(hasattr(kind, name) for name in _TEXTUAL):
        return str(value)
    if dataclasses.is_dataclass(kind):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(kind)}
    return plain(value.model_dump()) if hasattr(kind, "model_dump") else value


def is_same(one: Any, other: Any) -> bool:
    """Whether two plain values are the same JSON: 1 is 1.0, and neither is true."""
    if is_number(one) and is_number(other):
        return bool(one == other)
    if {type(one), type(other)} == {Decimal, str}:
        return bool(_number_in(one) == _number_in(other))
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(inner, other[name]) for name, inner in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def _number_in(written: Decimal | str) -> Decimal | str:
    """The number that a text writes, as JSON may write that of a Decimal; other text unchanged."""
    try:
        return Decimal(written)
    except InvalidOperation:
        return written


def is_number(value: Any) -> bool:
    """Whether it is a number, which true and false are not."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def text_of(value: Any) -> str:
    """The text that a pattern is looked for in: a text itself, anything else as JSON."""
    return str(value) if isinstance(value, Decimal) else value_text(value)


_EVIDENCE_CHARS = 200
_PLAIN_COMMAND = re.compile(r"[\w ./:@%+,-]*")
_ONE_COMMAND = re.compile(r"(?! *\w+=)[\w ./:@%+,='\"-]*")
_PATTERNS = ("matches", "contains")
_SIGNS_OF_PATTERN = frozenset("*?[")
_SAID = "said"
_BELOW = "below"
_EXACT = ("equals", "one_of")
_OF_URLS = ("host", "origin")
_WHERE = 'where={"path": {"below": "notes"}}'

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    r"""A rule: `verdict` for the calls of `tool` whose arguments all fit `where`.

    `tool` is the name of a tool, or a pattern for names: `*` matches any characters, `?` for one, `[ab]` for one of
    these, as in `run_*`. An agent that is made with a rule whose name, or whose argument, is a slip of one that its
    tools have raises ConfigError.

    `where` maps an argument to the value it must equal, or to tests: `{"command": {"words": ["git", "push"]}}`.
    The tests are

    - `equals`, `one_of`: the value itself, or one of a list
    - `matches`, `contains`: a regular expression, for the whole text or for any part of it. A rule that allows commands
      of `run_shell` by one fits none with operators, expansions, escapes or variables before it: these can hide others
    - `words`: the first words of a plain command, one without operators, quotes or expansions
    - `host`: the host of the requested URL, or a domain above it; redirects are not looked at
    - `origin`: scheme, host and port of a URL, such as `https://example.com`
    - `below`: a folder that a path, or each path of a list, lies in: relative to the workspace, or absolute
    - `at_most`, `at_least`: a number
    - `said`: whether the user wrote all texts and numbers of the argument literally, or it has none. A rule that
      allows by `said` matches only if the user also wrote all arguments that it does not name; `{}` names an argument
      that can have any value. Such calls may also leave a conversation that has read private data and untrusted text.

    Tests of a path look at the place that it names and at the real place, all links followed, however the call or the
    rule spells it. A rule that denies or asks fits when either passes, `below`, `equals` and `one_of` whatever the case
    of letters; one that allows, when both pass. A path is what
    a tool declares as one (`Tool(paths=[...])`, the `path` of the file tools), and what a rule tests by `below`.

    `match` and `not_match` are arguments of calls that the rule must and must not fit; they are checked at once, as if
    the person had written what the rule wants. Raises ConfigError for a test that does not exist, and for an example
    that proves the rule wrong.
    """

    verdict: Verdict | str
    tool: str
    where: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    remedy: str = ""
    name: str = ""
    match: Sequence[Arguments] = ()
    not_match: Sequence[Arguments] = ()

    def _refuse_unknown(self, given: Iterable[str]) -> None:
        check_unknown_arguments(Rule, given)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", _checked_verdict(self.verdict))
        if not isinstance(self.tool, str):
            raise ConfigError(f"A rule names its tool by a string, such as 'run_shell'. Got {self.tool!r:.200}.")
        if not isinstance(self.where, Mapping):
            raise ConfigError(f"where= takes tests by argument, as in {_WHERE}. Got {self.where!r:.200}.")
        for test, operand in self._all_tests:
            _check_test(test, operand)
            if (self.verdict, test, operand) == (Verdict.ALLOW, _SAID, False):
                raise ConfigError(f"{self.label!r} would allow values that the person did not write; set said=true.")
        example = "run_shell" if self.is_about("run_shell") else self.tool
        for examples, should in ((self.match, True), (self.not_match, False)):
            for arguments in examples:
                if self._fits(example, arguments, None, NO_FACTS) is not should:
                    found, where = ("does not fit", "match") if should else ("fits", "not_match")
                    raise ConfigError(
                        f"The rule {self.label!r} {found} its own example {arguments!r:.200} in {where}=; "
                        "correct the rule or the example."
                    )

    @property
    def label(self) -> str:
        """The rule's name, or what it is about."""
        where = f" {json.dumps(self.where, default=repr, ensure_ascii=False)}" if self.where else ""
        return self.name or f"{self.verdict} {self.tool}{where}"

    @property
    def is_about_words(self) -> bool:
        """Whether it depends on what the person has written."""
        return any(test == _SAID for test, _ in self._all_tests)

    def is_about(self, tool: str) -> bool:
        """Whether calls of a tool of that name are its matter."""
        return fnmatchcase(tool, self.tool) if self.is_pattern else tool == self.tool

    @property
    def is_pattern(self) -> bool:
        """Whether it is about all tools whose names fit a pattern."""
        return not _SIGNS_OF_PATTERN.isdisjoint(self.tool)

    @property
    def _all_tests(self) -> Iterator[tuple[str, Any]]:
        return ((test, operand) for wanted in self.where.values() for test, operand in _tests(wanted))

    @property
    def tests(self) -> Iterator[tuple[str, str, Any]]:
        """Its tests: for each the argument, the name of the test, and what it takes."""
        return ((argument, *test) for argument, wanted in self.where.items() for test in _tests(wanted))

    @property
    def folders(self) -> dict[str, list[str]]:
        """The folders that it tests by `below`, by argument."""
        return {
            argument: [operand for test, operand in _tests(wanted) if test == _BELOW]
            for argument, wanted in self.where.items()
            if any(test == _BELOW for test, _ in _tests(wanted))
        }

    def named_paths(self, argument: str) -> list[str]:
        """The texts that it compares an argument with as a whole, which are paths where the argument is one."""
        tests = [(test, operand) for test, operand in _tests(self.where.get(argument, {})) if test in _EXACT]
        return [each for test, operand in tests for each in _operands(test, operand) if isinstance(each, str)]

    def fits(
        self, tool: str, arguments: Arguments, said: Collection[str] | None = (), places: CallFacts = NO_FACTS
    ) -> bool:
        """Whether this rule matches a call of `tool` with these validated arguments.

        `said` are the names of arguments that the user wrote; None ignores tests of that. `places` are the real
        locations of paths.
        """
        return self.is_about(tool) and self._fits(tool, arguments, said, places)

    def _fits(self, tool: str, arguments: Arguments, said: Collection[str] | None, places: CallFacts) -> bool:
        """Whether the arguments of a call of a tool that it is about all fit."""
        is_allowed = self.verdict is Verdict.ALLOW
        if is_allowed and (any(map(_is_nan, arguments.values())) or self._may_hide(tool, arguments)):
            return False
        others = arguments.keys() - self.where.keys() if is_allowed and self.is_about_words else ()
        return (said is None or all(argument in said for argument in others)) and all(
            self._passes(arguments, argument, (test, operand), said, places)
            for argument, wanted in self.where.items()
            for test, operand in _tests(wanted)
        )

    def _passes(
        self,
        arguments: Arguments,
        argument: str,
        condition: tuple[str, Any],
        said: Collection[str] | None,
        places: CallFacts,
    ) -> bool:
        """Whether an argument passes a test: in all the ways in which it may be read, or in any where it tightens."""
        test, operand = condition
        if test == _SAID:
            return said is None or (argument not in arguments or argument in said) is operand
        if argument not in arguments:
            return False
        value, located = plain(arguments[argument]), places.arguments.get(argument)
        if self.verdict is Verdict.ALLOW:
            if located is not None and test == _BELOW:
                return (
                    located.is_whole and bool(located.paths) and all(each.is_below(operand) for each in located.places)
                )
            if located is not None and test in _EXACT and not located.is_list:
                wanted = _operands(test, operand)
                is_there = located.is_whole and bool(located.paths)
                return is_there and all(any(map(place.is_at, wanted)) for place in located.places)
            readings = _readings(value, test) if located is None else located.relative()
            return bool(readings) and all(_TESTS[test][0](each, operand) for each in readings or ())
        return any(_passes_any(test, each, value, located) for each in (operand, *_real(test, operand, places)))

    def _may_hide(self, tool: str, arguments: Arguments) -> bool:
        """Whether a pattern is to find a command of the shell in a text in which more than one may stand."""
        command, tests = arguments.get("command"), [test for test, _ in _tests(self.where.get("command"))]
        is_searched = tool == "run_shell" and not set(tests).isdisjoint(_PATTERNS)
        return is_searched and not (isinstance(command, str) and _ONE_COMMAND.fullmatch(command))

    def decision(self, arguments: Arguments) -> Decision:
        """The decision on a matching call."""
        reason = self.reason or f"The rule {self.label!r} applies."
        evidence = next(
            (value_text(arguments[argument])[:_EVIDENCE_CHARS] for argument in self.where if argument in arguments), ""
        )
        return Decision(Verdict(self.verdict), self.label, reason, evidence, self.remedy)


def rules_from(entries: Iterable[Rule | Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Rules from rules or from dictionaries with the fields of Rule, as a JSON or TOML file has them.

    Raises ConfigError for a field that a rule does not have.
    """
    if isinstance(entries, Rule | Mapping | str):
        raise ConfigError(f"rules= takes a list of rules: [Rule(...)]. Got {entries!r:.200}.")
    rules = []
    for entry in entries:
        if not isinstance(entry, Rule | Mapping):
            raise ConfigError(f"{entry!r:.200} is not a rule. Use Rule(...) or a dictionary with its fields.")
        try:
            rules.append(entry if isinstance(entry, Rule) else Rule(**entry))
        except TypeError as error:
            raise ConfigError(
                f"{entry!r:.200} is not a valid rule: {str(error).rstrip('.')}. See agentkit.Rule for the fields."
            ) from None
    return tuple(rules)


def _checked_verdict(verdict: str) -> Verdict:
    try:
        return Verdict(verdict)
    except ValueError:
        raise ConfigError(f"A rule's verdict is allow, ask or deny, not {verdict!r}.") from None


def _tests(wanted: Any) -> Iterable[tuple[str, Any]]:
    return wanted.items() if isinstance(wanted, Mapping) else (("equals", wanted),)


def _operands(test: str, operand: Any) -> list[Any]:
    """The values that a test of `_EXACT` compares with."""
    return [plain(each) for each in operand] if test == "one_of" else [plain(operand)]


def _real(test: str, operand: Any, places: CallFacts) -> list[Any]:
    """The operand with the real places of its paths, where links lead elsewhere."""
    if test not in (_BELOW, *_EXACT):
        return []
    given = _operands(test, operand)
    real = [places.folders[each] for each in given if isinstance(each, str) and each in places.folders]
    return [real] if real and test == "one_of" else real


def _passes_any(test: str, operand: Any, value: Any, located: Located | None) -> bool:
    """Whether a value passes in one of the ways in which it may be read, or one of the places that it leads to."""
    places = [each for place in located.places for each in place.spellings] if located is not None else []
    readings = [*_readings(value, test), *places]
    if test == _BELOW:
        return any(isinstance(each, str) and is_below(folded(each), folded(operand)) for each in readings)
    if located is not None and test in _EXACT:
        wanted = [_as_path(each) for each in _operands(test, operand)]
        readings += located.relative() or ()
        return any(is_same(_as_path(each), other) for each in readings for other in wanted)
    dotted = [f"./{each}" for each in places if not each.startswith("/")]  # a pattern may ask for this spelling
    return any(_TESTS[test][0](each, operand) for each in (*readings, *dotted))


def _as_path(value: Any) -> Any:
    """A path, or each of a list, as it is compared: in normal form, whatever the case of letters."""
    if isinstance(value, list):
        return [_as_path(each) for each in value]
    return folded(normal(value)) if isinstance(value, str) else value


def _readings(value: Any, test: str) -> Sequence[Any]:
    """The readings of a value: variants of a URL in different clients, or each path of a list."""
    if test in _OF_URLS:
        # The variants of a URL in different clients: for some, as for browsers, a backslash ends the host.
        return (value, value.replace("\\", "/")) if isinstance(value, str) and "\\" in value else (value,)
    return value if test == _BELOW and isinstance(value, list) else (value,)


def _check_test(test: str, operand: Any) -> None:
    """Raise ConfigError for a test that does not exist or whose operand it cannot use."""
    if test not in _TESTS:
        raise ConfigError(f"Unknown test {test!r} for an argument; the tests are {', '.join(_TESTS)}.")
    fits, wanted = _TESTS[test][1:]
    if not fits(operand):
        raise ConfigError(f"The test {test!r} takes {wanted}, not {operand!r}.")


def _begins(command: Any, words: Sequence[str]) -> bool:
    """A command that is more than plain words could hide another command behind the allowed one."""
    if not isinstance(command, str) or not _PLAIN_COMMAND.fullmatch(command):
        return False
    return command.split()[: len(words)] == list(words)


def _is_host(url: Any, host: str) -> bool:
    parts = _split(url)
    found = (parts.hostname or "").rstrip(".") if parts else ""
    return found == host.lower() or found.endswith(f".{host.lower()}")


def origin(url: Any) -> str | None:
    """Scheme, host and port of a URL in one spelling; None for what is no URL."""
    parts = _split(url)
    if parts is None or not parts.hostname:
        return None
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{parts.hostname.rstrip('.')}:{port}"


def _split(url: Any) -> SplitResult | None:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        _ = parts and parts.port
    except ValueError:
        return None
    return parts


def _is_folder(value: Any) -> bool:
    """Whether it names a folder by its text alone: nothing expands `~` or variables, and nothing is above the top."""
    if not isinstance(value, str) or not value or re.match(r"~|.*[$`*?\x00]", value, re.DOTALL):
        return False
    return not posixpath.normpath(value).startswith("..")


def _is_nan(value: Any) -> bool:
    return value.is_nan() if isinstance(value, Decimal) else isinstance(value, float) and math.isnan(value)


def _is_pattern(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(re.compile(value))
    except re.error:
        return False


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, str) for item in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


_TESTS: Mapping[str, tuple[Callable[[Any, Any], bool], Callable[[Any], bool], str]] = {
    "equals": (lambda value, other: is_same(value, plain(other)), lambda _: True, "any value"),
    "one_of": (
        lambda value, others: any(is_same(value, plain(other)) for other in others),
        lambda value: isinstance(value, list | tuple) and bool(value),
        "a list of at least one value",
    ),
    "matches": (
        lambda value, pattern: re.fullmatch(pattern, text_of(value), re.DOTALL) is not None,
        _is_pattern,
        "a regular expression",
    ),
    "contains": (
        lambda value, pattern: re.search(pattern, text_of(value), re.DOTALL) is not None,
        _is_pattern,
        "a regular expression",
    ),
    "words": (_begins, _is_texts, "a list of words"),
    "host": (_is_host, _is_text, "a host name"),
    "origin": (lambda url, wanted: origin(url) == origin(wanted), lambda value: origin(value) is not None, "an origin"),
    _BELOW: (
        is_below,
        _is_folder,
        "a folder, relative to the workspace or absolute, without ~, variables and patterns",
    ),
    "at_most": (lambda value, most: is_number(value) and not value > most, is_number, "a number"),
    "at_least": (lambda value, least: is_number(value) and not value < least, is_number, "a number"),
    _SAID: (lambda *_: False, lambda value: isinstance(value, bool), "true or false"),  # see _passes
}
"""Each test of an argument: whether a value passes it, and what its operand must be, as a test and in words."""
