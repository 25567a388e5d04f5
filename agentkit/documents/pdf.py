"""Text extraction from PDF files, in a separate process."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator

from agentkit.errors import ToolError

with contextlib.suppress(ImportError):  # not needed for other documents
    import pypdf
    import pypdf.errors

MAX_TEXT_CHARS = 20_000_000
_TITLE_CHARS = 300
_MAX_PREFIX_BYTES = 1_024
_BROKEN_WORD = re.compile(r"(\w+)[-\u00ad\u2010][ \t]*\n[ \t]*(\w+)")
_COMPOUND = re.compile(r"\w+(?:[-\u2010]\w+)+")


def pages_of_pdf(body: bytes) -> Iterator[str]:
    """Yield the title, then the text of each page, truncated to `MAX_TEXT_CHARS` in total.

    Words that are divided at the ends of lines are joined. Raises ToolError for a file that is encrypted or damaged.
    """
    logging.disable()
    start = body.find(b"%PDF-", 0, _MAX_PREFIX_BYTES)
    try:
        reader = pypdf.PdfReader(io.BytesIO(body[max(start, 0) :]))
        if reader.is_encrypted and not _opens_without_password(reader):
            raise ToolError("the PDF is encrypted with a password; remove the password and try again")
        yield str((reader.metadata.title if reader.metadata else None) or "")[:_TITLE_CHARS]
        yield from _pages(reader)
    except pypdf.errors.DependencyError as error:
        raise ToolError("the PDF is encrypted with AES; save it without encryption") from error
    except pypdf.errors.PyPdfError as error:
        raise ToolError(f"the PDF is damaged: {str(error)[:200] or type(error).__name__}") from error


def _opens_without_password(reader: pypdf.PdfReader) -> bool:
    """Whether only changes of the document need a password."""
    return bool(reader.decrypt(""))


def _pages(reader: pypdf.PdfReader) -> Iterator[str]:
    room = MAX_TEXT_CHARS
    texts = []
    for page in reader.pages:
        texts.append(page.extract_text()[:room])
        room -= len(texts[-1])
    compounds = {word.replace("\u2010", "-").lower() for text in texts for word in _COMPOUND.findall(text)}

    def joined(found: re.Match[str]) -> str:
        """Join the parts of a word; with their hyphen, if they are written with one elsewhere."""
        first, second = found[1], found[2]
        keeps = not second[0].islower() or not first[-1].isalpha() or f"{first}-{second}".lower() in compounds
        is_soft = found[0][len(first)] == "\u00ad"
        return f"{first}-{second}\n" if keeps and not is_soft else f"{first}{second}\n"

    for text in texts:
        yield re.sub(r"\n[ \t]+", "\n", _BROKEN_WORD.sub(joined, text)).replace("\u00ad", "")
