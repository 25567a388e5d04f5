"""Statistics of repeated measurements: medians, quartiles, and ratios of figures from the same round."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The median and quartiles of values; a single value has no spread."""
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)


def ratios(values: Sequence[float], references: Sequence[float]) -> Spread | None:
    """The ratio to the reference, computed per round to cancel noise that affects a whole round."""
    pairs = [value / reference for value, reference in zip(values, references, strict=False) if reference > 0]
    return Spread.of(pairs) if pairs else None


def shown(value: float, unit: str) -> str:
    """Format a value: nanoseconds and bytes with a suitable unit, other values unchanged."""
    if unit == "ns":
        steps = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
    elif unit == "bytes":
        steps = (("MB", 1e6), ("KB", 1e3), ("bytes", 1.0))
    else:
        return f"{number(value)} {unit}".rstrip()
    name, size = next((step for step in steps if abs(value) >= step[1]), steps[-1])
    return f"{number(value / size)} {name}"


def number(value: float) -> str:
    """Format a number with about three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if abs(value) >= 0.001 or not value:
        return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"
    return "< 0.001"
