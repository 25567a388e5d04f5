"""What do the headers of an answer say about waiting? Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """How long a server asks to wait: in milliseconds, in seconds, or until a date; None for a wish without sense."""
    wishes = (_number(headers.get("retry-after-ms", "")) / 1000, _seconds(headers.get("retry-after", "")))
    return next((max(seconds, 0.0) for seconds in wishes if math.isfinite(seconds)), None)


def _seconds(wish: str) -> float:
    seconds = _number(wish)
    if not math.isnan(seconds):
        return seconds
    try:
        return parsedate_to_datetime(wish).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
