"""How is a report written?"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from agentkit import keeping
from agentkit.errors import SessionError


def write_whole(path: str | PathLike[str], text: str) -> None:
    """Put the text into the file, readable for its owner only. Raises SessionError when it cannot be written."""
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        keeping.write_whole(place, text)
    except OSError as error:
        raise SessionError(f"{place} cannot be written: {error.strerror}. Is its folder writable?") from error
