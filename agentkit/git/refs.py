"""Reading the branches and tags of a repository, and comparing them with what they were before a command."""

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


def read(repository: Repository) -> Refs:
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
