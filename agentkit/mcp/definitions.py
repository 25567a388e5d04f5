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
from agentkit.event_rendering import escape_invisible
from agentkit.messages import digest_of
from agentkit.redaction import stored_text_redactor

_UNNAMEABLE = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_NAME_CHARS = 64
_MAX_SHOWN_CHARS = 300
_SHOWN_BEFORE_CHARS = 60
_LOOKALIKE = str.maketrans("10i", "lol", "_-")
_DIGEST_CHARS = 8
_HINTS = {
    "readOnlyHint": ("only reads", "changes things"),
    "destructiveHint": ("may destroy", "destroys nothing"),
    "idempotentHint": ("may be repeated", "not to be repeated"),
    "openWorldHint": ("open world", "closed world"),
}


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool definition from a server. `hints` are its annotations, which are not trustworthy."""

    name: str
    description: str
    schema: Mapping[str, Any]
    hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A hash of all data that a model or a judge uses."""
        return digest_of(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as JSON data."""
        named = {"name": self.name, "description": self.description}
        return {**named, "schema": dict(self.schema), "hints": dict(self.hints)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Definition:
        """Restore a definition from `to_dict`. Raises KeyError, TypeError and ValueError for invalid data."""
        return cls(str(data["name"]), str(data["description"]), dict(data["schema"]), dict(data["hints"]))

    def hints_text(self) -> str:
        """Describe the server's hints in words; empty without hints."""
        return ", ".join(
            words[not self.hints[hint]] for hint, words in _HINTS.items() if self.hints.get(hint) is not None
        )


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A difference from the accepted definition. `protect` is None for a new tool, `after` for a removed one."""

    name: str
    protect: Definition | None
    after: Definition | None

    def __str__(self) -> str:
        """Describe the difference in one or two lines."""
        if self.protect is None or self.after is None:
            return (
                f"{self.name} is gone."
                if self.after is None
                else f"{self.name} is new: {_excerpt(self.after.description)}."
            )
        old, new = self.protect.to_dict(), self.after.to_dict()
        parts = [_difference(key, old[key], new[key]) for key in old if old[key] != new[key]]
        return f"{self.name} has changed. {' '.join(parts)}"


def changes(accepted: Mapping[str, Definition], current: Mapping[str, Definition]) -> tuple[DefinitionChange, ...]:
    """Compare the definitions that a server offers with the accepted ones, by tool name."""
    names = dict.fromkeys((*accepted, *current))
    both = ((name, accepted.get(name), current.get(name)) for name in names)
    return tuple(
        DefinitionChange(name, old, new) for name, old, new in both if (old and old.digest) != (new and new.digest)
    )


def local_names(
    names: Iterable[str], server: str, taken: Collection[str] = (), *, prefixed: bool = False
) -> dict[str, str]:
    """Map remote tool names to local ones: unchanged, or prefixed with the server's name if taken.

    Lookalikes of a taken name, such as `Read_File` and `read_fi1e`, are prefixed, too. Names that models cannot use are
    normalised.
    """
    named: dict[str, str] = {}
    taken_keys = set(map(_lookalike_key, taken))
    for name in names:
        plain = _UNNAMEABLE.sub("_", name) or "tool"
        key = _lookalike_key(plain)
        is_taken = key in taken_keys or key.startswith(_lookalike_key("hand_off_to_"))
        local_name = f"{server}_{plain}" if prefixed or is_taken else plain
        if len(local_name) > _MAX_NAME_CHARS or local_name in named.values() or local_name in taken:
            mark = hashlib.sha256(f"{server}\0{name}".encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST_CHARS]
            local_name = f"{local_name[: _MAX_NAME_CHARS - _DIGEST_CHARS - 1]}_{mark}"
        named[name] = local_name
    return named


def clashing(servers: Sequence[Collection[str]]) -> set[str]:
    """Return the tool names that look like a name of another server's tool."""
    keys = [set(map(_lookalike_key, names)) for names in servers]
    return {
        name
        for own, names in zip(keys, servers, strict=True)
        for name in names
        if any(_lookalike_key(name) in other for other in keys if other is not own)
    }


def _lookalike_key(name: str) -> str:
    """Normalise a name so that lookalikes become equal."""
    return name.lower().translate(_LOOKALIKE)


def _difference(key: str, old: Any, new: Any) -> str:
    """Show the old and the new text, starting shortly before they differ."""
    before, after = _text(old), _text(new)
    start = max(
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        - _SHOWN_BEFORE_CHARS,
        0,
    )
    return f"Its {key} was {_excerpt(before, start)} and is {_excerpt(after, start)}."


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _excerpt(text: str, start: int = 0) -> str:
    """Quote a part of a text, with hidden characters made visible."""
    end = start + _MAX_SHOWN_CHARS
    part = f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"
    return escape_invisible(json.dumps(part, ensure_ascii=False))


_VERSION = 1


class Pins:
    """The file of accepted definitions of one server, named by a hash of its identity and private to its owner."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._identity = identity
        self.path = folder / f"{hashlib.sha256(identity.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}.json"

    def read(self) -> dict[str, Definition] | None:
        """Return the accepted definitions by name; None for a new server. Raises ConfigError for an invalid file."""
        try:
            data = json.loads(self.path.read_text("utf-8"))
            accepted = [(each["sha256"], Definition.from_dict(each["definition"])) for each in data["tools"]]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"{self._cannot_be_believed()} ({type(error).__name__}: {error}).") from error
        if data.get("version") != _VERSION or any(digest != each.digest for digest, each in accepted):
            raise ConfigError(f"{self._cannot_be_believed()}: the hashes do not match the definitions.")
        return {each.name: each for _, each in accepted}

    def write(self, accepted: Mapping[str, Definition]) -> None:
        """Replace the accepted definitions. Raises ConfigError if they cannot be stored."""
        tools = [{"sha256": each.digest, "definition": each.to_dict()} for each in accepted.values()]
        document = {"version": _VERSION, "server": stored_text_redactor()(self._identity), "tools": tools}
        try:
            replace_file(self.path, document)
        except OSError as error:
            raise ConfigError(
                f"The accepted tool definitions of an MCP server cannot be stored in {self.path}: {error}."
            ) from error

    def _cannot_be_believed(self) -> str:
        return (
            f"The accepted tool definitions of an MCP server in {self.path} are invalid; check the file and delete it"
        )


def replace_file(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document to a file that only its owner can read, creating its folder."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, json.dumps(document, indent=1))
