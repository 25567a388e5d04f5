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
    wish = headers.get("retry-after", "")
    try:
        in_milliseconds = headers.get("retry-after-ms")
        seconds = float(in_milliseconds) / 1000 if in_milliseconds else float(wish)
    except ValueError:
        seconds = _seconds_until(wish)
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _seconds_until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan
