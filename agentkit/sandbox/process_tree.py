"""The processes below another one: their memory, and their end.

Used by the host and at every start inside the sandbox, so it imports little.
"""

from __future__ import annotations

import os
import time

_KILL = 9
_MAX_ROUNDS, _ROUND_SECONDS = 500, 0.002
_DEAD = (b"Z", b"X")
_STATE, _PARENT, _GROUP, _RESIDENT = 0, 1, 2, 21
"""Indices in /proc/PID/stat, counted from the field after the name: state, parent, group, resident pages."""


def descendants(root: int) -> dict[int, int]:
    """The processes below `root` with their resident pages; empty without /proc."""
    return {process: int(words[_RESIDENT]) for process, words in _below(root).items()}


def process_count() -> int:
    """The number of visible processes."""
    return len(_processes())


def kill_descendants(root: int) -> None:
    """Kill every process below `root`, including those started meanwhile, and wait until they are dead.

    Their parents reap them. Whole groups are killed at once, because a fork bomb would be faster otherwise; `root` and
    its group are spared. Processes that the kernel cannot end within a second are not waited for.
    """
    root_stat = _stat(root)
    spared = {int(root_stat[_GROUP]) if root_stat else 0, os.getpgrp(), 0}
    killed: set[int] = set()
    for _ in range(_MAX_ROUNDS):
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
    """The /proc data of each process below `root`."""
    stats = {process: words for process in _processes() if (words := _stat(process))}
    children: dict[int, list[int]] = {}
    for process, words in stats.items():
        children.setdefault(int(words[_PARENT]), []).append(process)
    found: dict[int, list[bytes]] = {}
    frontier = children.get(root, [])
    while frontier:
        found.update((process, stats[process]) for process in frontier)
        frontier = [child for process in frontier for child in children.get(process, ()) if child not in found]
    return found


def _kill(process: int) -> None:
    try:
        os.kill(process, _KILL)
    except (ProcessLookupError, PermissionError):  # already gone, or with more privileges than this process
        return


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _stat(process: int) -> list[bytes]:
    """The fields of /proc/PID/stat after the name, which can contain anything; empty if the process is gone."""
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
