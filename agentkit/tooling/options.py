"""What may be said of a tool beside its function?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentkit.decisions import Label
from agentkit.errors import ConfigError
from agentkit.usage import is_number, is_whole

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OTHERS = re.compile(r"[^a-zA-Z0-9_-]+")
_MOST_CHARS = 64
_FEWEST_CHARS = 100


def checked_name(name: object) -> str:
    """The name as it is. Raises ConfigError for one that providers refuse."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    is_near = isinstance(name, str) and name.isascii() and "<" not in name  # which a lambda's has
    usable = _OTHERS.sub("_", str(name)).strip("_")[:_MOST_CHARS] if is_near else ""
    instead = f"Write {usable!r}, say." if usable else "Give name=..."
    raise ConfigError(f"{name!r} is not a name that providers accept: 1 to 64 of a-z A-Z 0-9 _ -. {instead}")


def checked_text(description: object) -> str | None:
    """The description as it is. Raises ConfigError for what is no text."""
    if description is None or isinstance(description, str):
        return description
    raise ConfigError(f"description= takes text, not {description!r}.")


def checked_limit(seconds: object) -> float | None:
    """A tool's time limit as it is. Raises ConfigError for one that limits nothing."""
    if seconds is None:
        return None
    if is_number(seconds) and seconds:
        return seconds
    raise ConfigError(f"timeout_seconds= takes a positive number of seconds, or None for no limit; not {seconds!r}.")


def checked_max_chars(count: object) -> int:
    """The number as it is. Raises ConfigError for one that leaves no room for a sentence."""
    if is_whole(count, _FEWEST_CHARS):
        return count
    raise ConfigError(f"max_chars= takes a whole number of at least {_FEWEST_CHARS}; not {count!r}.")


def checked_labels(labels: Iterable[object]) -> frozenset[Label]:
    """The labels, which may be given as texts. Raises ConfigError for what is no list of them."""
    if not isinstance(labels, str) and isinstance(labels, Iterable):
        given = list(labels)
        if all(each in list(Label) for each in given):
            return frozenset(Label(str(each)) for each in given)
    known = ", ".join(repr(str(each)) for each in Label)
    raise ConfigError(f"labels= takes a list of {known}; not {labels!r}.")


def checked_paths(paths: Iterable[object]) -> tuple[str, ...]:
    """The names of the arguments that are paths. Raises ConfigError for what is no list of names."""
    if not isinstance(paths, str) and isinstance(paths, Iterable):
        given = list(paths)
        if all(isinstance(each, str) for each in given):
            return tuple(map(str, given))
    raise ConfigError(f"paths= takes the names of the arguments that are paths, such as ['source']; not {paths!r}.")


_FUNCTIONS = {
    "judge": "a function from arguments to a Decision",
    "within": "a function from a workspace to a Tool",
    "when_denied": "a function of arguments and decision",
    "asynchronous": "the same function as async def",
}


def checked_functions(**given: object) -> dict[str, object]:
    """The functions a tool may be given, by the names of its attributes. Raises ConfigError for what is none."""
    for name, function in given.items():
        if function is not None and not callable(function):
            raise ConfigError(f"{name}= takes {_FUNCTIONS[name]}, not {function!r}.")
    return {f"_{name}": function for name, function in given.items()}
