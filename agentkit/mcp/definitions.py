"""Tool definitions of servers, their accepted versions, and changes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from pathlib import Path
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.atomic_write import write_whole
from agentkit.errors import ConfigError
from agentkit.event_rendering import visible
from agentkit.messages import digest_of
from agentkit.redaction import written_redactor

_UNNAMEABLE = re.compile(r"[^a-zA-Z0-9_-]+")
_MOST_NAME_CHARS = 64
_MOST_SHOWN_CHARS = 300
_SHOWN_BEFORE_CHARS = 60
_LOOKALIKE = str.maketrans("10i", "lol", "_-")
_DIGEST_CHARS = 8
_HINTS = {
    "readOnlyHint": ("only reads", "changes things"),
    "destructiveHint": ("may destroy", "destroys nothing"),
    "idempotentHint": ("may be repeated", "not to be repeated"),
    "openWorldHint": ("talks to others", "talks to nobody"),
}


@dataclass(frozen=True, slots=True)
class Definition:
    """One tool as its server describes it. `hints` are its annotations, which nobody has to believe."""

    name: str
    description: str
    schema: Mapping[str, Any]
    hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A hash of all that a model or a judge could go by."""
        return digest_of(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The definition, JSON-ready."""
        named = {"name": self.name, "description": self.description}
        return {**named, "schema": dict(self.schema), "hints": dict(self.hints)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Definition:
        """What `to_dict` gave. Raises KeyError, TypeError and ValueError for what it did not give."""
        return cls(str(data["name"]), str(data["description"]), dict(data["schema"]), dict(data["hints"]))

    def said_of_itself(self) -> str:
        """The server's hints in words, empty when it gives none."""
        return ", ".join(
            words[not self.hints[hint]] for hint, words in _HINTS.items() if self.hints.get(hint) is not None
        )


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A tool that is not what was accepted of its server. `before` is None of a new one, `after` of one gone."""

    name: str
    before: Definition | None
    after: Definition | None

    def __str__(self) -> str:
        """What is different, in one or two lines."""
        if self.before is None or self.after is None:
            return (
                f"{self.name} is gone."
                if self.after is None
                else f"{self.name} is new: {_shown(self.after.description)}."
            )
        old, new = self.before.to_dict(), self.after.to_dict()
        parts = [_difference(key, old[key], new[key]) for key in old if old[key] != new[key]]
        return f"{self.name} has changed. {' '.join(parts)}"


def changes(pinned: Mapping[str, Definition], seen: Mapping[str, Definition]) -> tuple[DefinitionChange, ...]:
    """How what a server offers differs from what was accepted of it, by the names of its tools."""
    names = dict.fromkeys((*pinned, *seen))
    both = ((name, pinned.get(name), seen.get(name)) for name in names)
    return tuple(
        DefinitionChange(name, old, new) for name, old, new in both if (old and old.digest) != (new and new.digest)
    )


def local_names(
    names: Iterable[str], server: str, taken: Collection[str] = (), *, prefixed: bool = False
) -> dict[str, str]:
    """What the tools of a server are called here: as there, or with the server's name before it where that is taken.

    So is what looks like a taken name, as `Read_File` and `read_fi1e` do. What no model can be told as a name is put
    right.
    """
    named: dict[str, str] = {}
    looks = set(map(_look, taken))
    for name in names:
        plain = _UNNAMEABLE.sub("_", name) or "tool"
        given = f"{server}_{plain}" if prefixed or _passes_for_ours(plain, looks) else plain
        if len(given) > _MOST_NAME_CHARS or given in named.values() or given in taken:
            mark = hashlib.sha256(f"{server}\0{name}".encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST_CHARS]
            given = f"{given[: _MOST_NAME_CHARS - _DIGEST_CHARS - 1]}_{mark}"
        named[name] = given
    return named


def clashing(servers: Sequence[Collection[str]]) -> set[str]:
    """The names of tools that look like one of another server's."""
    looks = [set(map(_look, names)) for names in servers]
    return {
        name
        for own, names in zip(looks, servers, strict=True)
        for name in names
        if any(_look(name) in other for other in looks if other is not own)
    }


def _passes_for_ours(name: str, looks: Collection[str]) -> bool:
    """Whether a name looks like one that is taken, or like that of a handoff."""
    return _look(name) in looks or _look(name).startswith(_look("hand_off_to_"))


def _look(name: str) -> str:
    """What a name looks like to somebody who does not look closely."""
    return name.lower().translate(_LOOKALIKE)


def _difference(key: str, old: Any, new: Any) -> str:
    """What was and what is, from shortly before where they part."""
    before, after = _text(old), _text(new)
    start = max(
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        - _SHOWN_BEFORE_CHARS,
        0,
    )
    return f"Its {key} was {_shown(before, start)} and is {_shown(after, start)}."


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _shown(text: str, start: int = 0) -> str:
    """Part of a text between quotes, in which nothing is hidden."""
    end = start + _MOST_SHOWN_CHARS
    part = f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"
    return visible(json.dumps(part, ensure_ascii=False))


_VERSION = 1


class Pins:
    """The file about one server, found by a hash of what the server is known by. Only its owner can read it."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._identity = identity
        self.path = folder / f"{hashlib.sha256(identity.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}.json"

    def read(self) -> dict[str, Definition] | None:
        """What was accepted, by name; None when the server is new. Raises ConfigError for a file that is not ours."""
        try:
            data = json.loads(self.path.read_text("utf-8"))
            pinned = [(each["sha256"], Definition.from_dict(each["definition"])) for each in data["tools"]]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"{self._cannot_be_believed()} ({type(error).__name__}: {error}).") from error
        if data.get("version") != _VERSION or any(digest != each.digest for digest, each in pinned):
            raise ConfigError(f"{self._cannot_be_believed()}: the hashes do not fit what they stand by.")
        return {each.name: each for _, each in pinned}

    def write(self, accepted: Mapping[str, Definition]) -> None:
        """Accept these definitions, and no others, from now on. Raises ConfigError when they cannot be kept."""
        tools = [{"sha256": each.digest, "definition": each.to_dict()} for each in accepted.values()]
        document = {"version": _VERSION, "server": written_redactor()(self._identity), "tools": tools}
        try:
            replace_file(self.path, document)
        except OSError as error:
            raise ConfigError(f"What was accepted of an MCP server cannot be kept in {self.path}: {error}.") from error

    def _cannot_be_believed(self) -> str:
        return f"What was accepted of an MCP server, in {self.path}, cannot be believed; look at it and delete it"


def replace_file(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document to a file that only its owner can read, in a folder that is made for that."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, json.dumps(document, indent=1))
