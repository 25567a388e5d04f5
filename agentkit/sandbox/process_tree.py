"""Which processes descend from this one, and how are they all ended?

Used by the host and inside the sandbox, so it imports little.
"""

from __future__ import annotations

import os
import time

_KILL = 9
_MOST_ROUNDS, _ROUND_SECONDS = 500, 0.002
_DEAD = (b"Z", b"X")
_STATE, _PARENT, _GROUP, _RESIDENT = 0, 1, 2, 21
"""Places in /proc/PID/stat, counted from the word after the name: state, parent, group, resident pages."""


def descendants(root: int) -> dict[int, int]:
    """The processes below `root`, each with its resident pages; empty where there is no /proc."""
    return {process: int(words[_RESIDENT]) for process, words in _below(root).items()}


def process_count() -> int:
    """How many processes there are, as far as can be seen."""
    return len(_processes())


def kill_descendants(root: int) -> None:
    """End every process below `root`, also those that are started meanwhile, and see them dead.

    Their parents reap them. Whole groups are ended at once, or what multiplies would be faster; `root` and
    its group are left alone. What the kernel cannot end within a second is not waited for.
    """
    spared = {_group(root), os.getpgrp(), 0}
    killed: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        below = _below(root)
        living = {process for process, words in below.items() if words[_STATE] not in _DEAD}
        if not living:
            return
        for group in {int(below[process][_GROUP]) for process in living - killed} - spared:
            _kill(-group)
        for process in living - killed:
            _kill(process)
        killed |= living
        time.sleep(_ROUND_SECONDS)


def _below(root: int) -> dict[int, list[bytes]]:
    """What /proc says of each process below `root`."""
    told = {process: words for process in _processes() if (words := _stat(process))}
    children: dict[int, list[int]] = {}
    for process, words in told.items():
        children.setdefault(int(words[_PARENT]), []).append(process)
    found: dict[int, list[bytes]] = {}
    frontier = children.get(root, [])
    while frontier:
        found.update((process, told[process]) for process in frontier)
        frontier = [child for process in frontier for child in children.get(process, ()) if child not in found]
    return found


def _group(process: int) -> int:
    words = _stat(process)
    return int(words[_GROUP]) if words else 0


def _kill(process: int) -> None:
    try:
        os.kill(process, _KILL)
    except (ProcessLookupError, PermissionError):  # gone already, or with more rights than ours
        return


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _stat(process: int) -> list[bytes]:
    """What /proc says of a process after its name, which may contain anything; empty when it is gone."""
    try:
        descriptor = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    except OSError:
        return []
    try:
        return os.read(descriptor, 4096).rpartition(b")")[2].split()
    except OSError:
        return []
    finally:
        os.close(descriptor)
