"""Detection of objects that a command deleted from a repository."""

from __future__ import annotations

import contextlib
import os
import re

from agentkit._dataclass import dataclass
from agentkit.git.repository import Repository

_FOLDER = re.compile(r"[0-9a-f]{2}")
_MAX_OBJECTS = 200_000


@dataclass(frozen=True, slots=True)
class Objects:
    """The names of the loose objects of a repository, and of its packs."""

    loose: frozenset[str]
    packs: frozenset[str]


def read(repository: Repository) -> Objects:
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
