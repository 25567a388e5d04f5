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
    """Convert a value to JSON types: an Enum to its value, dates and paths to text, collections to lists.

    A finite Decimal is unchanged, because a float could not represent it exactly; other objects are unchanged too.
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
    """Convert a single value or an object with fields."""
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
        return bool(_parse_number(one) == _parse_number(other))
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(inner, other[name]) for name, inner in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def _parse_number(written: Decimal | str) -> Decimal | str:
    """Parse a number in a text, as a Decimal can be a text in JSON; return other text unchanged."""
    try:
        return Decimal(written)
    except InvalidOperation:
        return written


def is_number(value: Any) -> bool:
    """Whether it is a number; booleans are not."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def text_of(value: Any) -> str:
    """The text that patterns are matched against: a text unchanged, any other value as JSON."""
    return str(value) if isinstance(value, Decimal) else value_text(value)


_EVIDENCE_CHARS = 200
_PLAIN_COMMAND = re.compile(r"[\w ./:@%+,-]*")
_ONE_COMMAND = re.compile(r"(?! *\w+=)[\w ./:@%+,='\"-]*")
_PATTERNS = ("matches", "contains")
_PATTERN_CHARACTERS = frozenset("*?[")
_FROM_USER = "from_user"
_BELOW = "below"
_EXACT = ("equals", "one_of")
_URL_TESTS = ("host", "origin")
_WHERE = 'where={"path": {"below": "notes"}}'

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    r"""A rule: `verdict` for the calls of `tool` whose arguments all fit `where`.

    `tool` is the name of a tool, or a pattern for names, such as `run_*`: `*` matches any characters, `?` one
    character, `[ab]` one of these. An agent raises ConfigError if a tool or argument of a rule looks like a misspelt
    name.

    `where` maps an argument to the value it must equal, or to tests: `{"command": {"words": ["git", "push"]}}`.
    The tests are

    - `equals`, `one_of`: the value itself, or one of a list
    - `matches`, `contains`: a regular expression, for the whole text or for any part of it. With it, an allow rule for
      `run_shell` fits no command with operators, expansions, escapes or leading variables: these can hide others
    - `words`: the first words of a plain command, one without operators, quotes or expansions
    - `host`: the host of the requested URL, or a domain above it; redirects are not examined
    - `origin`: scheme, host and port of a URL, such as `https://example.com`
    - `below`: a folder that contains the path, or each path of a list; relative to the workspace, or absolute
    - `at_most`, `at_least`: a number
    - `from_user`: whether the user wrote all texts and numbers of the argument literally, or it has none. A rule that
      allows by `from_user` matches only if the user also wrote all arguments that it does not name; `{}` names an
      argument that can have any value. Calls allowed by it need no approval for data flow, even if the conversation
      has read private data and untrusted text.

    A path is tested in normal form, both as written and with all links followed. A rule that denies or asks fits if
    either passes, where `below`, `equals` and `one_of` ignore case; a rule that allows fits if both pass. Paths are the
    arguments that a tool declares (`Tool(paths=[...])`, the `path` of the file tools) or that a rule tests by `below`.

    `match` and `not_match` are arguments of calls that the rule must and must not fit. They are checked on creation, as
    if each `from_user` test passed. Raises ConfigError for an unknown test, and for an example with the wrong result.
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
        object.__setattr__(self, "verdict", _parse_verdict(self.verdict))
        if not isinstance(self.tool, str):
            raise ConfigError(f"A rule names its tool by a string, such as 'run_shell'. Got {self.tool!r:.200}.")
        if not isinstance(self.where, Mapping):
            raise ConfigError(f"where= takes tests by argument, as in {_WHERE}. Got {self.where!r:.200}.")
        for test, operand in self._all_tests:
            _check_test(test, operand)
            if (self.verdict, test, operand) == (Verdict.ALLOW, _FROM_USER, False):
                raise ConfigError(
                    f"{self.label!r} would allow values that the person did not write; set from_user=true."
                )
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
        """The rule's name, or its verdict, tool and tests."""
        where = f" {json.dumps(self.where, default=repr, ensure_ascii=False)}" if self.where else ""
        return self.name or f"{self.verdict} {self.tool}{where}"

    @property
    def checks_user_text(self) -> bool:
        """Whether it depends on the texts written by the user."""
        return any(test == _FROM_USER for test, _ in self._all_tests)

    def is_about(self, tool: str) -> bool:
        """Whether it applies to calls of a tool of that name."""
        return fnmatchcase(tool, self.tool) if self.is_pattern else tool == self.tool

    @property
    def is_pattern(self) -> bool:
        """Whether its tool name is a pattern."""
        return not _PATTERN_CHARACTERS.isdisjoint(self.tool)

    @property
    def _all_tests(self) -> Iterator[tuple[str, Any]]:
        return ((test, operand) for wanted in self.where.values() for test, operand in _tests(wanted))

    @property
    def tests(self) -> Iterator[tuple[str, str, Any]]:
        """Its tests: for each the argument, the name of the test, and the operand."""
        return ((argument, *test) for argument, wanted in self.where.items() for test in _tests(wanted))

    @property
    def folders(self) -> dict[str, list[str]]:
        """The folders in its `below` tests, by argument."""
        return {
            argument: [operand for test, operand in _tests(wanted) if test == _BELOW]
            for argument, wanted in self.where.items()
            if any(test == _BELOW for test, _ in _tests(wanted))
        }

    def named_paths(self, argument: str) -> list[str]:
        """The texts that a whole argument is compared with; paths if the argument is a path."""
        tests = [(test, operand) for test, operand in _tests(self.where.get(argument, {})) if test in _EXACT]
        return [each for test, operand in tests for each in _operands(test, operand) if isinstance(each, str)]

    def fits(
        self, tool: str, arguments: Arguments, user_written: Collection[str] | None = (), places: CallFacts = NO_FACTS
    ) -> bool:
        """Whether this rule matches a call of `tool` with these validated arguments.

        `user_written` are the names of the arguments that the user wrote; None ignores `from_user` tests. `places` are
        the real locations of paths.
        """
        return self.is_about(tool) and self._fits(tool, arguments, user_written, places)

    def _fits(self, tool: str, arguments: Arguments, user_written: Collection[str] | None, places: CallFacts) -> bool:
        """Whether all arguments of a call pass the tests; the tool matches already."""
        is_allowed = self.verdict is Verdict.ALLOW
        if is_allowed and (any(map(_is_nan, arguments.values())) or self._may_hide(tool, arguments)):
            return False
        others = arguments.keys() - self.where.keys() if is_allowed and self.checks_user_text else ()
        return (user_written is None or all(argument in user_written for argument in others)) and all(
            self._passes(arguments, argument, (test, operand), user_written, places)
            for argument, wanted in self.where.items()
            for test, operand in _tests(wanted)
        )

    def _passes(
        self,
        arguments: Arguments,
        argument: str,
        condition: tuple[str, Any],
        user_written: Collection[str] | None,
        places: CallFacts,
    ) -> bool:
        """Whether an argument passes a test: in all interpretations if the rule allows, otherwise in any of them."""
        test, operand = condition
        if test == _FROM_USER:
            return user_written is None or (argument not in arguments or argument in user_written) is operand
        if argument not in arguments:
            return False
        value, located = plain(arguments[argument]), places.arguments.get(argument)
        if self.verdict is Verdict.ALLOW:
            if located is not None and test == _BELOW:
                return (
                    located.is_complete
                    and bool(located.paths)
                    and all(each.is_below(operand) for each in located.places)
                )
            if located is not None and test in _EXACT and not located.is_list:
                wanted = _operands(test, operand)
                is_there = located.is_complete and bool(located.paths)
                return is_there and all(any(map(place.is_at, wanted)) for place in located.places)
            readings = _interpretations(value, test) if located is None else located.relative()
            return bool(readings) and all(_TESTS[test][0](each, operand) for each in readings or ())
        return any(
            _passes_any(test, each, value, located) for each in (operand, *_real_operands(test, operand, places))
        )

    def _may_hide(self, tool: str, arguments: Arguments) -> bool:
        """Whether a shell command that is matched by a pattern could contain further commands."""
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
    """Create rules from rules or dictionaries with the fields of Rule, as in JSON and TOML files.

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


def _parse_verdict(verdict: str) -> Verdict:
    try:
        return Verdict(verdict)
    except ValueError:
        raise ConfigError(f"A rule's verdict is allow, ask or deny, not {verdict!r}.") from None


def _tests(wanted: Any) -> Iterable[tuple[str, Any]]:
    return wanted.items() if isinstance(wanted, Mapping) else (("equals", wanted),)


def _operands(test: str, operand: Any) -> list[Any]:
    """The values that a test of `_EXACT` compares with."""
    return [plain(each) for each in operand] if test == "one_of" else [plain(operand)]


def _real_operands(test: str, operand: Any, places: CallFacts) -> list[Any]:
    """The operand with the real locations of its paths, if links lead elsewhere."""
    if test not in (_BELOW, *_EXACT):
        return []
    given = _operands(test, operand)
    real = [places.folders[each] for each in given if isinstance(each, str) and each in places.folders]
    return [real] if real and test == "one_of" else real


def _passes_any(test: str, operand: Any, value: Any, located: Located | None) -> bool:
    """Whether a value passes in one of its interpretations, or one of the locations that it leads to."""
    places = [each for place in located.places for each in place.spellings] if located is not None else []
    readings = [*_interpretations(value, test), *places]
    if test == _BELOW:
        return any(isinstance(each, str) and is_below(folded(each), folded(operand)) for each in readings)
    if located is not None and test in _EXACT:
        wanted = [_as_path(each) for each in _operands(test, operand)]
        readings += located.relative() or ()
        return any(is_same(_as_path(each), other) for each in readings for other in wanted)
    dotted = [f"./{each}" for each in places if not each.startswith("/")]  # a pattern may ask for this spelling
    return any(_TESTS[test][0](each, operand) for each in (*readings, *dotted))


def _as_path(value: Any) -> Any:
    """Normalise a path, or each path of a list, for comparison, ignoring case."""
    if isinstance(value, list):
        return [_as_path(each) for each in value]
    return folded(normal(value)) if isinstance(value, str) else value


def _interpretations(value: Any, test: str) -> Sequence[Any]:
    """The readings of a value: variants of a URL in different clients, or each path of a list."""
    if test in _URL_TESTS:
        # The variants of a URL in different clients: for some, as for browsers, a backslash ends the host.
        return (value, value.replace("\\", "/")) if isinstance(value, str) and "\\" in value else (value,)
    return value if test == _BELOW and isinstance(value, list) else (value,)


def _check_test(test: str, operand: Any) -> None:
    """Raise ConfigError for an unknown test or an invalid operand."""
    if test not in _TESTS:
        raise ConfigError(f"Unknown test {test!r} for an argument; the tests are {', '.join(_TESTS)}.")
    fits, expected = _TESTS[test][1:]
    if not fits(operand):
        raise ConfigError(f"The test {test!r} takes {expected}, not {operand!r}.")


def _has_first_words(command: Any, words: Sequence[str]) -> bool:
    """Whether a plain command starts with these words. Other commands could hide another one, so they fail."""
    if not isinstance(command, str) or not _PLAIN_COMMAND.fullmatch(command):
        return False
    return command.split()[: len(words)] == list(words)


def _is_host(url: Any, host: str) -> bool:
    parts = _split(url)
    found = (parts.hostname or "").rstrip(".") if parts else ""
    return found == host.lower() or found.endswith(f".{host.lower()}")


def origin(url: Any) -> str | None:
    """Scheme, host and port of a URL in normal form; None for any other text."""
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
    """Whether it is a folder without `~`, variables and patterns that does not lead above the workspace."""
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
    "words": (_has_first_words, _is_texts, "a list of words"),
    "host": (_is_host, _is_text, "a host name"),
    "origin": (lambda url, wanted: origin(url) == origin(wanted), lambda value: origin(value) is not None, "an origin"),
    _BELOW: (
        is_below,
        _is_folder,
        "a folder, relative to the workspace or absolute, without ~, variables and patterns",
    ),
    "at_most": (lambda value, most: is_number(value) and not value > most, is_number, "a number"),
    "at_least": (lambda value, least: is_number(value) and not value < least, is_number, "a number"),
    _FROM_USER: (lambda *_: False, lambda value: isinstance(value, bool), "true or false"),  # see _passes
}
"""Each test of an argument: whether a value passes it, whether an operand is valid, and a description of operands."""
