"""The manifest file: JSON with one fact a line, identical on every machine (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.event_rendering import cut, suggestion
from agentkit.manifest.facts import FORMAT, SUBJECTS, Path, kind_of
from agentkit.safety.rules import Rule

_MOST_SHOWN_CHARS = 80
_MOST_BRACKETS = 200
"""In one fact: what is nested deeper than Python reads, as JSON or as a pattern, would be no error of ours."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an agent may do, with all agents that work with it: each fact by its path, as JSON has it.

    `str` gives the text of the file. `lines` are the lines of the file on which the facts stand.
    """

    MOST_BYTES: ClassVar[int] = 4_000_000
    """How long a file may be that is read as a manifest."""

    facts: Mapping[Path, Any]
    lines: Mapping[Path, int]

    @classmethod
    def of(cls, facts: Mapping[Path, Any]) -> Manifest:
        """The manifest that states these facts, in the order of its file."""
        paths = sorted(facts)
        return cls({path: facts[path] for path in paths}, {path: index + 3 for index, path in enumerate(paths)})

    @classmethod
    def parse(cls, text: str, place: str = "the manifest") -> Manifest:
        """The manifest in a text; `place` is what the text is called in errors. Raises ConfigError, with the line."""
        facts, lines = dict[Path, Any](), dict[Path, int]()
        version: Any = None
        for number, key, value in _entries(text, place):
            if key == "format":
                version = _checked_version(value, place)
                continue
            path = _path(key)
            if path in facts:
                _fail(place, number, f"it states {_shown(key)} for the second time")
            facts[path], lines[path] = value, number
        if version is None:
            raise ConfigError(f"{place} is no manifest: it does not state its format. {_ANEW}")
        for path, number in lines.items():
            _check(path, facts[path], place, number)
        _check_whole(facts, place)
        return cls({path: facts[path] for path in sorted(facts)}, lines)

    def __str__(self) -> str:
        pairs = [("format", FORMAT), *((_key(path), value) for path, value in self.facts.items())]
        return "{\n" + ",\n".join(f"  {_json(key)}: {_json(value)}" for key, value in pairs) + "\n}\n"

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents in it."""
        return tuple(dict.fromkeys(path[1] for path in self.facts if path[0] == "agents"))

    def names(self, agent: str, group: str) -> tuple[str, ...]:
        """What an agent has of a group: `tools`, `servers`, `checks`, `handoffs` or `rules`."""
        own = (path for path in self.facts if path[:3] == ("agents", agent, group))
        return tuple(dict.fromkeys(path[3] for path in own))

    def idle_rules(self) -> Iterator[str]:
        """A warning for each rule that no call can match, as it names a tool that its agent does not have."""
        for agent in self.agents:
            tools = [name.rpartition(".")[2] for name in self.names(agent, "tools")]
            for number in self.names(agent, "rules"):
                rule = self.facts["agents", agent, "rules", number]
                tool = rule["tool"]
                if not any(map(Rule(rule["verdict"], tool).is_about, tools)):
                    meant = suggestion(tool, tools)
                    yield f"Rule {number} of {agent} is about {tool!r}, and it has no such tool.{meant}"

    def follows(self, path: Path) -> int:
        """The line behind which a fact would stand that is not in the file."""
        return max((line for other, line in self.lines.items() if other < path), default=2)


_ANEW = "Write it anew with: agentkit manifest FILE --write MANIFEST"


def _entries(text: str, place: str) -> Iterator[tuple[int, str, Any]]:
    """The facts of a text, one a line, with the number of each. Raises ConfigError for a line that is none."""
    if len(text) > Manifest.MOST_BYTES:
        raise ConfigError(f"{place} is longer than any manifest, {len(text):,} characters. {_ANEW}")
    texts = [line.strip() for line in text.split("\n")]
    while texts and not texts[-1]:
        texts.pop()
    if not texts or texts[0] != "{":
        _fail(place, 1, "a manifest begins with a line that is { and nothing else")
    if texts[-1] != "}":
        _fail(place, len(texts), "the file is cut off; its last line is }")
    for index, line in enumerate(texts[1:-1], 1):
        is_last = index == len(texts) - 2
        if line.endswith(",") is is_last:
            _fail(place, index + 1, "a comma is missing" if not is_last else "there is a comma behind the last fact")
        yield index + 1, *_entry(line.removesuffix(","), place, index + 1)


def _entry(line: str, place: str, number: int) -> tuple[str, Any]:
    try:
        is_flat = sum(map(line.count, "[{(")) <= _MOST_BRACKETS
        pairs = json.loads(f"{{{line}}}", object_pairs_hook=_pairs, parse_constant=_refuse) if is_flat else {}
    except ValueError:
        pairs = {}
    if len(pairs) != 1:
        _fail(place, number, f"this is no fact: {_shown(line)}")
    return next(iter(pairs.items()))


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, unless it says one thing twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _checked_version(value: Any, place: str) -> int:
    if isinstance(value, int) and value > FORMAT:
        raise ConfigError(
            f"{place} is written in format {value}, and this agentkit knows format {FORMAT}. "
            "Upgrade agentkit, or write it anew with: agentkit manifest FILE --write MANIFEST"
        )
    if type(value) is not int or value != FORMAT:
        raise ConfigError(f"{place} is no manifest: its format is {_shown(_json(value))}, not {FORMAT}. {_ANEW}")
    return value


def _check(path: Path, value: Any, place: str, number: int) -> None:
    """Raise ConfigError for a fact that no manifest states, or whose value it cannot have."""
    kind = kind_of(path)
    if kind is None:
        _fail(place, number, f"no manifest states {_shown(_key(path))}")
    if not kind.fits(value):
        _fail(place, number, f"{_shown(_key(path))} is {kind.wanted}, not {_shown(_json(value))}")


def _check_whole(facts: Mapping[Path, Any], place: str) -> None:
    """Raise ConfigError when something is left out that every manifest states."""
    manifest = Manifest(facts, {})
    wanted: list[Path] = [("agent",)]
    for agent in (*manifest.agents, *filter(None, [facts.get(("agent",))])):
        for group, kinds in SUBJECTS.items():
            owners: Iterable[Path] = [(group, name) for name in manifest.names(agent, group)] if group else [()]
            wanted += [("agents", agent, *owner, *key.split("/")) for owner in owners for key in kinds]
    missing = next((path for path in wanted if path not in facts), None)
    if missing:
        raise ConfigError(f"{place} does not state {_shown(_key(missing))}; lines were taken out of it. {_ANEW}")


def _key(path: Path) -> str:
    """A path as a JSON pointer writes it (RFC 6901)."""
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)


def _path(key: str) -> Path:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in key.split("/"))


def _json(value: Any) -> str:
    """JSON in one spelling, in letters that look like nothing else."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True)


def _shown(text: str) -> str:
    return cut(text, _MOST_SHOWN_CHARS)


def _fail(place: str, number: int, what: str) -> NoReturn:
    raise ConfigError(f"{place}, line {number}: {what}. {_ANEW}")
