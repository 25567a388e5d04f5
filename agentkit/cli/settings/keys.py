"""Which settings are there, and what may each of them be?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from agentkit.errors import ConfigError
from agentkit.levels import SafetyLevel
from agentkit.usage import Limits
from agentkit.wording import suggestion

LIMIT_NAMES = tuple(each.name for each in fields(Limits))
"""The limits that a run may have."""

_LIMIT_EXAMPLE = "--limit cost=0.10"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"takes a text. Got {value!r:.200}.")
    return value.strip()


def _tools(value: object) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise ConfigError(f'takes names, such as ["core", "web"]. Got {value!r:.200}.')
    return split_names(given)


def _session(value: object) -> str:
    """A session's name; empty when nothing is to be kept."""
    if value is False:
        return ""
    if value is True:
        raise ConfigError("takes a session's name, or false to keep nothing. Got true.")
    return _text(value)


def _limits(value: object) -> dict[str, Any]:
    given = dict(map(limit_of, value.split(","))) if isinstance(value, str) else value
    if not isinstance(given, dict):
        raise ConfigError(f"takes a table, such as {{ cost = 0.10, seconds = 60 }}. Got {value!r:.200}.")
    for name in given:
        if name not in LIMIT_NAMES:
            raise ConfigError(unknown("limit", name, LIMIT_NAMES))
    limits: dict[str, Any] = {name: None if each is False else each for name, each in given.items()}
    Limits(**limits)
    return limits


KEYS: Mapping[str, Callable[[object], Any]] = {
    "model": _text,
    "provider": _text,
    "base_url": _text,
    "tools": _tools,
    "safety": lambda value: SafetyLevel.of(value if isinstance(value, str) else repr(value)),
    "session": _session,
    "limits": _limits,
    "instruction": _text,
    "trace": _text,
}
"""Each setting, and what makes its value of what a file or variable says. Raises ConfigError."""


def limit_of(word: str) -> tuple[str, Any]:
    """Name and value of a limit written as `cost=0.10`; `none` is no limit. Raises ConfigError."""
    name, equals, value = (part.strip() for part in word.partition("="))
    if name not in LIMIT_NAMES:
        raise ConfigError(unknown("limit", name, LIMIT_NAMES))
    if not equals or not value:
        raise ConfigError(f"The limit {name} has no value. Write it as {name}=NUMBER, or {name}=none for no limit.")
    return name, _number(name, value)


def split_names(words: Iterable[str]) -> tuple[str, ...]:
    """The names that stand in words, with commas between them."""
    return tuple(name.strip() for word in words for name in word.split(",") if name.strip())


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """What is said of a name that there is not."""
    known = list(known)
    return f"There is no {kind} {name!r:.80}.{suggestion(name, known)} Known: {', '.join(known)}."


def _number(name: str, value: str) -> Any:
    if name == "unknown_price":
        return value
    if value.lower() == "none":
        return None
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    raise ConfigError(f"The limit {name} takes a number, or none for no limit: {_LIMIT_EXAMPLE}. Got {value!r:.80}.")
