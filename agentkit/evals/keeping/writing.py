"""How is a whole file put in its place? Beside it first, so that a crash leaves the old one; for its owner alone."""

from __future__ import annotations

import contextlib
import os
import tempfile
from os import PathLike
from pathlib import Path

from agentkit.errors import SessionError


def write_whole(path: str | PathLike[str], text: str) -> None:
    """Put the text into the file, readable for its owner only. Raises SessionError when it cannot be written."""
    place = Path(path)
    part = place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
        part = Path(name)
        os.close(descriptor)
        part.write_text(text, "utf-8", "surrogatepass")
        part.replace(place)
    except OSError as error:
        if part != place:
            with contextlib.suppress(OSError):
                part.unlink()
        why = error.strerror or error
        raise SessionError(f"{place} cannot be written: {why}. Is its folder writable?") from error
