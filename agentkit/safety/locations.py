"""Comparison of paths in rules with spellings and real locations (pure)."""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.safety.paths import inside, resolve


@dataclass(frozen=True, slots=True)
class Place:
    """A location: the path relative to the base folder, None outside of it, and each absolute spelling."""

    relative: str | None
    absolute: tuple[str, ...]

    def is_below(self, folder: str) -> bool:
        """Whether the place is the folder or in it; an absolute folder is compared with the absolute spellings."""
        if folder.startswith("/"):
            return any(is_below(each, folder) for each in self.absolute)
        return self.relative is not None and is_below(self.relative, folder)

    def is_at(self, path: Any) -> bool:
        """Whether this is the place that a path names; an absolute path is compared with the absolute spellings."""
        if not isinstance(path, str):
            return False
        return normal(path) in (self.absolute if path.startswith("/") else (self.relative,))

    @property
    def spellings(self) -> Iterator[str]:
        """Every spelling of the place."""
        if self.relative is not None:
            yield self.relative
        yield from self.absolute


@dataclass(frozen=True, slots=True)
class Located:
    """The paths in one argument: for each the place that it names and the real place, all links followed.

    `is_list` says that the argument is a list of paths, `is_whole` that each of them could be found out.
    """

    paths: tuple[tuple[Place, ...], ...]
    is_list: bool = False
    is_whole: bool = True

    @property
    def places(self) -> list[Place]:
        """All places of all paths."""
        return [place for path in self.paths for place in path]

    def relative(self) -> Sequence[Any] | None:
        """The argument with each path as it is named, and as it really is; None where one has no such spelling."""
        if not self.is_whole or any(place.relative is None for place in self.places):
            return None
        columns = list(zip(*[[place.relative for place in path] for path in self.paths], strict=True))
        return [list(column) for column in columns] if self.is_list else [column[0] for column in columns]


@dataclass(frozen=True, slots=True)
class CallFacts:
    """Facts about a call that rules need: real locations of its paths and of folders in rules, quoted arguments.

    `said` are the names of the arguments whose values the person wrote.
    """

    arguments: Mapping[str, Located] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    said: Collection[str] = ()


NO_FACTS = CallFacts()
"""The facts of a call without paths, none of whose arguments the person wrote."""


def is_below(path: Any, folder: str) -> bool:
    """Whether a path is a folder or in it, by their text alone; a relative path is compared as if it began at `/`."""
    resolved = resolve(path, "/") if isinstance(path, str) else None
    return resolved is not None and inside(resolved, f"/{folder.strip('/')}")


def normal(path: str) -> str:
    """A path without `.`, `..` and repeated or trailing slashes, judged by its text alone."""
    return "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") else posixpath.normpath(path)


def folded(path: str) -> str:
    """A path as compared by a file system that ignores case and Unicode composition."""
    return unicodedata.normalize("NFC", path).casefold()
