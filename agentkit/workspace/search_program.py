"""The search process, which can be killed if a pattern takes too long.

It reads a line of JSON (pattern, most_matches, seconds), then for each file a line with its size, followed by its UTF-8
text; it writes a line of JSON per match, and a final one with the outcome. It imports nothing from the package, so that
it starts quickly and has no access to its state.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

_MAX_SHOWN_CHARS = 300
_MAX_MEMORY_BYTES = 1_000_000_000


def matches(request: dict[str, Any], files: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield each match as file (its index), line (counted from 1) and text; then the outcome: error or complete."""
    try:
        pattern = re.compile(request["pattern"])
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        yield {"error": str(error) or type(error).__name__}
        return
    remaining = request["most_matches"]
    for number, text in enumerate(files):
        for line_number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
            found = pattern.search(line.removesuffix("\r"))
            if found is None:
                continue
            if not remaining:
                yield {"complete": False}
                return
            remaining -= 1
            start = max(found.start() - _MAX_SHOWN_CHARS // 3, 0) if len(line) > _MAX_SHOWN_CHARS else 0
            yield {"file": number, "line": line_number, "text": line[start : start + _MAX_SHOWN_CHARS]}
    yield {"complete": True}


def read_files(stream: BinaryIO) -> Iterator[str]:
    """Yield the texts of the request."""
    while size := stream.readline():
        yield stream.read(int(size)).decode("utf-8", "replace")


def limit_resources(seconds: int) -> None:
    """Limit CPU time and memory, so that the kernel kills this process even if the parent is gone."""
    with contextlib.suppress(ImportError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))


def main(source: BinaryIO, target: BinaryIO) -> None:
    """Handle one request."""
    request = json.loads(source.readline())
    limit_resources(request["seconds"])
    for match in matches(request, read_files(source)):
        target.write(json.dumps(match).encode() + b"\n")
        target.flush()


if __name__ == "__main__":
    with os.fdopen(0, "rb") as source, os.fdopen(1, "wb") as target:
        main(source, target)
