"""What does a server say of its tools, what are they called here, what has changed? (pure)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any

from agentkit.messages import digest_of
from agentkit.slotted import dataclass

_UNNAMEABLE = re.compile(r"[^a-zA-Z0-9_-]+")
_MOST_NAME_CHARS = 64
_MOST_SHOWN_CHARS = 300
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
class Change:
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


def changes(pinned: Mapping[str, Definition], seen: Mapping[str, Definition]) -> tuple[Change, ...]:
    """How what a server offers differs from what was accepted of it, by the names of its tools."""
    names = dict.fromkeys((*pinned, *seen))
    both = ((name, pinned.get(name), seen.get(name)) for name in names)
    return tuple(Change(name, old, new) for name, old, new in both if (old and old.digest) != (new and new.digest))


def local_names(
    names: Iterable[str], server: str, taken: Collection[str] = (), *, prefixed: bool = False
) -> dict[str, str]:
    """What the tools of a server are called here: as there, or with the server's name before it where that is taken.

    What no model can be told as a name is put right.
    """
    named: dict[str, str] = {}
    for name in names:
        plain = _UNNAMEABLE.sub("_", name) or "tool"
        given = f"{server}_{plain}" if prefixed or plain in taken else plain
        if len(given) > _MOST_NAME_CHARS or given in named.values() or given in taken:
            mark = hashlib.sha256(f"{server}\0{name}".encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST_CHARS]
            given = f"{given[: _MOST_NAME_CHARS - _DIGEST_CHARS - 1]}_{mark}"
        named[name] = given
    return named


def _difference(key: str, old: Any, new: Any) -> str:
    return f"Its {key} was {_shown(old)} and is {_shown(new)}."


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return json.dumps(text if len(text) <= _MOST_SHOWN_CHARS else f"{text[:_MOST_SHOWN_CHARS]}…", ensure_ascii=False)
