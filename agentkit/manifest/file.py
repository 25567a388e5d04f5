"""The manifest file: JSON with one fact per line, identical on every machine (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.event_rendering import suggestion, truncate
from agentkit.manifest.schema import FORMAT, SUBJECTS, Path, fact_type
from agentkit.safety.rules import Rule

_MAX_SHOWN_CHARS = 80
_MAX_BRACKETS = 200
"""Maximum number of brackets in one fact: deeper nesting would exceed Python's limits for JSON and patterns."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The permissions of an agent and of all agents that work with it: each fact by its path, as JSON.

    `str` renders the file. `lines` maps each fact to its line in the file.
    """

    MAX_BYTES: ClassVar[int] = 4_000_000
    """Maximum size of a manifest file."""

    facts: Mapping[Path, Any]
    lines: Mapping[Path, int]

    @classmethod
    def of(cls, facts: Mapping[Path, Any]) -> Manifest:
        """A manifest of these facts, in file order."""
        paths = sorted(facts)
        return cls({path: facts[path] for path in paths}, {path: index + 3 for index, path in enumerate(paths)})

    @classmethod
    def parse(cls, text: str, place: str = "the manifest") -> Manifest:
        """Parse a manifest; `place` names the text in errors. Raises ConfigError with the line."""
        facts, lines = dict[Path, Any](), dict[Path, int]()
        version: Any = None
        for number, key, value in _entries(text, place):
            if key == "format":
                version = _checked_version(value, place)
                continue
            path = _decode_path(key)
            if path in facts:
                _fail(place, number, f"the key {_shorten(key)} occurs twice")
            facts[path], lines[path] = value, number
        if version is None:
            raise ConfigError(f"{place} is not a manifest: it does not state its format. {_REWRITE}")
        for path, number in lines.items():
            _check(path, facts[path], place, number)
        _check_completeness(facts, place)
        return cls({path: facts[path] for path in sorted(facts)}, lines)

    def __str__(self) -> str:
        pairs = [("format", FORMAT), *((_encode_path(path), value) for path, value in self.facts.items())]
        return "{\n" + ",\n".join(f"  {_json(key)}: {_json(value)}" for key, value in pairs) + "\n}\n"

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents."""
        return tuple(dict.fromkeys(path[1] for path in self.facts if path[0] == "agents"))

    def names(self, agent: str, group: str) -> tuple[str, ...]:
        """The names in a group of an agent: `tools`, `servers`, `checks`, `handoffs` or `rules`."""
        own = (path for path in self.facts if path[:3] == ("agents", agent, group))
        return tuple(dict.fromkeys(path[3] for path in own))

    def idle_rules(self) -> Iterator[str]:
        """A warning for each rule that cannot match, because its agent does not have the tool."""
        for agent in self.agents:
            tools = [name.rpartition(".")[2] for name in self.names(agent, "tools")]
            for number in self.names(agent, "rules"):
                rule = self.facts["agents", agent, "rules", number]
                tool = rule["tool"]
                if not any(map(Rule(rule["verdict"], tool).is_about, tools)):
                    hint = suggestion(tool, tools)
                    yield f"Rule {number} of {agent} names {tool!r}, but the agent has no such tool.{hint}"

    def line_before(self, path: Path) -> int:
        """The line after which a missing fact would be inserted."""
        return max((line for other, line in self.lines.items() if other < path), default=2)


_REWRITE = "Write it again with: agentkit manifest FILE --write MANIFEST"


def _entries(text: str, place: str) -> Iterator[tuple[int, str, Any]]:
    """The facts of a text with their line numbers. Raises ConfigError for an invalid line."""
    if len(text) > Manifest.MAX_BYTES:
        raise ConfigError(f"{place} is too long for a manifest: {len(text):,} characters. {_REWRITE}")
    texts = [line.strip() for line in text.split("\n")]
    while texts and not texts[-1]:
        texts.pop()
    if not texts or texts[0] != "{":
        _fail(place, 1, "the first line of a manifest must be {")
    if texts[-1] != "}":
        _fail(place, len(texts), "the file is cut off: its last line must be }")
    for index, line in enumerate(texts[1:-1], 1):
        is_last = index == len(texts) - 2
        if line.endswith(",") is is_last:
            _fail(place, index + 1, "a comma is missing" if not is_last else "there is a comma after the last fact")
        yield index + 1, *_entry(line.removesuffix(","), place, index + 1)


def _entry(line: str, place: str, number: int) -> tuple[str, Any]:
    try:
        is_flat = sum(map(line.count, "[{(")) <= _MAX_BRACKETS
        pairs = json.loads(f"{{{line}}}", object_pairs_hook=_pairs, parse_constant=_refuse) if is_flat else {}
    except ValueError:
        pairs = {}
    if len(pairs) != 1:
        _fail(place, number, f"this is not a fact: {_shorten(line)}")
    return next(iter(pairs.items()))


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; raises ValueError for a duplicate key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _checked_version(value: Any, place: str) -> int:
    if isinstance(value, int) and value > FORMAT:
        raise ConfigError(
            f"{place} is written in format {value}, and this agentkit knows format {FORMAT}. "
            "Upgrade agentkit, or write it again with: agentkit manifest FILE --write MANIFEST"
        )
    if type(value) is not int or value != FORMAT:
        raise ConfigError(
            f"{place} is not a manifest: its format is {_shorten(_json(value))}, not {FORMAT}. {_REWRITE}"
        )
    return value


def _check(path: Path, value: Any, place: str, number: int) -> None:
    """Raise ConfigError for an unknown fact or an invalid value."""
    kind = fact_type(path)
    if kind is None:
        _fail(place, number, f"no manifest states {_shorten(_encode_path(path))}")
    if not kind.fits(value):
        _fail(place, number, f"{_shorten(_encode_path(path))} is {kind.description}, not {_shorten(_json(value))}")


def _check_completeness(facts: Mapping[Path, Any], place: str) -> None:
    """Raise ConfigError if a required fact is missing."""
    manifest = Manifest(facts, {})
    required: list[Path] = [("agent",)]
    for agent in (*manifest.agents, *filter(None, [facts.get(("agent",))])):
        for group, kinds in SUBJECTS.items():
            owners: Iterable[Path] = [(group, name) for name in manifest.names(agent, group)] if group else [()]
            required += [("agents", agent, *owner, *key.split("/")) for owner in owners for key in kinds]
    missing = next((path for path in required if path not in facts), None)
    if missing:
        raise ConfigError(f"{place} does not state {_shorten(_encode_path(missing))}; lines are missing. {_REWRITE}")


def _encode_path(path: Path) -> str:
    """Encode a path as a JSON pointer (RFC 6901)."""
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)


def _decode_path(key: str) -> Path:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in key.split("/"))


def _json(value: Any) -> str:
    """Canonical JSON in ASCII, which avoids characters that look alike."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True)


def _shorten(text: str) -> str:
    return truncate(text, _MAX_SHOWN_CHARS)


def _fail(place: str, number: int, what: str) -> NoReturn:
    raise ConfigError(f"{place}, line {number}: {what}. {_REWRITE}")
