"""Timing functions for the benchmarks of agentkit's own features."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence


def measured(work: Callable[[], object]) -> float:
    """The time of a call, in seconds."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def repeated(work: Callable[[], object], rounds: int, before: Callable[[], object] = lambda: None) -> list[float]:
    """The times of repeated calls, without the time of `before`."""
    times = []
    for _ in range(rounds):
        before()
        times.append(measured(work))
    return times


def median(work: Callable[[], object], rounds: int) -> str:
    """The median of times, as text."""
    return microseconds(statistics.median(repeated(work, rounds)))


def both(times: Sequence[float]) -> str:
    """The median and the minimum of times, as two cells."""
    return f"{microseconds(statistics.median(times))} | {microseconds(min(times))}"


def microseconds(seconds: float) -> str:
    """Seconds as microseconds."""
    return f"{seconds * 1e6:,.0f} µs"
