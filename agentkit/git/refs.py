"""Branches, tags and objects of a repository, compared with their state before a command."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping

from agentkit._dataclass import dataclass
from agentkit.git.repository import Repository

_PROTECTED = ("refs/heads/", "refs/tags/", "refs/remotes/")
_PACKED = re.compile(r"([0-9a-f]{40,64}) (refs/\S+)")
_OID = re.compile(r"[0-9a-f]{40,64}")
_MAX_REFS, _MAX_BYTES, _MAX_REF_BYTES = 50_000, 50_000_000, 1_000


@dataclass(frozen=True, slots=True)
class Refs:
    """Every branch and tag with the object it names, and the branches that this work tree is at work on."""

    values: Mapping[str, str]
    current: frozenset[str]


def read_refs(repository: Repository) -> Refs:
    """The branches and tags at this moment."""
    common = repository.common_dir
    found = {name: oid for oid, name in _PACKED.findall(_text(f"{common}/packed-refs", _MAX_BYTES))}
    for folder, folders, files in os.walk(f"{common}/refs"):
        folders[:] = [name for name in folders if not os.path.islink(f"{folder}/{name}")]
        for name in files:
            path = f"{folder}/{name}"
            value = _text(path, _MAX_REF_BYTES).strip()
            if value and not name.endswith(".lock"):
                found[os.path.relpath(path, common)] = value
        if len(found) > _MAX_REFS:
            break
    current = {_text(f"{repository.git_dir}/HEAD", _MAX_REF_BYTES).strip().removeprefix("ref: ")}
    for state in ("rebase-merge", "rebase-apply"):  # a branch that is being rebased is not checked out meanwhile
        current.add(_text(f"{repository.git_dir}/{state}/head-name", _MAX_REF_BYTES).strip())
    return Refs(found, frozenset(name for name in current if name.startswith("refs/")))


def moved(before: Refs, after: Refs) -> dict[str, tuple[str, str | None]]:
    """Branches and tags that existed before and name another object now, or none: what they named, and what they do.

    Left out are the branches that the work tree was at work on before or is now.
    """
    free = before.current | after.current
    return {
        name: (value, after.values.get(name))
        for name, value in before.values.items()
        if name.startswith(_PROTECTED) and name not in free and after.values.get(name) != value
    }


def is_object(value: str | None) -> bool:
    """Whether a branch names an object, and not another branch."""
    return value is not None and bool(_OID.fullmatch(value))


def _text(path: str, most_bytes: int) -> str:
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as stream:
            return os.fsdecode(stream.read(most_bytes))
    return ""


_FOLDER = re.compile(r"[0-9a-f]{2}")
_MAX_OBJECTS = 200_000


@dataclass(frozen=True, slots=True)
class Objects:
    """The names of the loose objects of a repository, and of its packs."""

    loose: frozenset[str]
    packs: frozenset[str]


def read_objects(repository: Repository) -> Objects:
    """The objects at this moment, as far as file names tell; of more than 200,000 loose ones the rest is left out."""
    place = f"{repository.common_dir}/objects"
    loose: set[str] = set()
    for folder in sorted(filter(_FOLDER.fullmatch, _names(place))):
        loose.update(f"{folder}{name}" for name in _names(f"{place}/{folder}") if not name.startswith("tmp_obj_"))
        if len(loose) > _MAX_OBJECTS:
            break
    packs = frozenset(name for name in _names(f"{place}/pack") if name.endswith(".pack"))
    return Objects(frozenset(loose), packs)


def count_lost(before: Objects, after: Objects) -> int:
    """The number of deleted objects and packs. If a new pack was written, repacked objects do not count as lost."""
    if after.packs - before.packs:
        return 0
    return len(before.loose - after.loose) + len(before.packs - after.packs)


def _names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []
