"""Text extraction from PDF files, in a separate process."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator

with contextlib.suppress(ImportError):  # not needed for other documents
    import pypdf

MAX_TEXT_CHARS = 20_000_000
_TITLE_CHARS = 300


def pages_of_pdf(body: bytes) -> Iterator[str]:
    """Yield the title, then the text of each page, truncated to `MAX_TEXT_CHARS` in total.

    Raises whatever pypdf raises for a file that is damaged or encrypted.
    """
    logging.disable()
    reader = pypdf.PdfReader(io.BytesIO(body))
    yield str((reader.metadata.title if reader.metadata else None) or "")[:_TITLE_CHARS]
    room = MAX_TEXT_CHARS
    for page in reader.pages:
        text = page.extract_text()[:room]
        room -= len(text)
        yield text
