"""What do the headers of an answer say, and which of them cannot be trusted? Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any


def make_readable(response: Any) -> None:
    """Takes out of an answer's headers what the libraries below fail on: JSON is UTF-8 whatever its charset says."""
    response.encoding = "utf-8-sig"
    if "retry-after" in response.headers and retry_after_seconds(response.headers) is None:
        del response.headers["retry-after"]


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """How long a server asks to wait: in milliseconds, in seconds, or until a date."""
    wishes = (_number(headers.get("retry-after-ms", "")) / 1000, _seconds(headers.get("retry-after", "")))
    return next((max(seconds, 0.0) for seconds in wishes if math.isfinite(seconds)), None)


def _seconds(wish: str) -> float:
    seconds = _number(wish)
    return _seconds_until(wish) if math.isnan(seconds) else seconds


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _seconds_until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan
