"""What stands on the pages of a PDF? Read in a process of its own, which a hostile file cannot keep busy for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentkit.errors import MissingExtra, ToolError

MAX_PDF_BYTES = 50_000_000
READ_SECONDS = 120.0
MAX_MEMORY_BYTES = 1_500_000_000
MAX_TEXT_CHARS = 20_000_000

_MISSING = 3
_START = "import json, sys; sys.path[:0] = json.loads(sys.argv[1]); from {} import main; main()"


def pages_of_pdf(
    body: bytes, read_seconds: float = READ_SECONDS, executable: str = sys.executable
) -> tuple[str, list[str]]:
    """The title of a PDF, and the text of each page.

    Raises MissingExtra without pypdf, ToolError for a file that cannot be read within the limits or holds no text.
    """
    if len(body) > MAX_PDF_BYTES:
        raise ToolError(f"it has {len(body):,} bytes; of a PDF at most {MAX_PDF_BYTES:,} are read")
    command = [
        executable,
        "-I",
        "-c",
        _START.format(__name__),
        json.dumps([str(Path(entry).absolute()) for entry in sys.path]),
    ]
    try:
        done = subprocess.run(  # noqa: S603 the command is this interpreter and code of our own
            command, input=body, capture_output=True, timeout=read_seconds, check=False, env={}
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"the PDF could not be read in {read_seconds:g} seconds") from None
    if done.returncode == _MISSING:
        raise MissingExtra("pdf", "Reading a PDF")
    if done.returncode:
        raise ToolError("the PDF is damaged, encrypted, or too large to be read")
    told = json.loads(done.stdout)
    pages: list[str] = told["pages"]
    if not any(page.strip() for page in pages):
        raise ToolError("the PDF holds no text: its pages may be pictures, which are not read")
    return told["title"], pages


def main() -> None:
    """In the process of its own: a PDF on standard input, its title and pages as JSON on standard output."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    try:
        import pypdf
    except ImportError:
        sys.exit(_MISSING)
    told = _read(pypdf)
    with os.fdopen(1, "wb") as out:
        out.write(json.dumps(told).encode())


def _read(pypdf: Any) -> dict[str, Any]:
    import io
    import logging

    logging.disable()
    with os.fdopen(0, "rb") as given:
        reader = pypdf.PdfReader(io.BytesIO(given.read()))
    pages, room = [], MAX_TEXT_CHARS
    for page in reader.pages:
        text = page.extract_text()[:room]
        room -= len(text)
        pages.append(text)
    title = (reader.metadata.title if reader.metadata else None) or ""
    return {"title": str(title)[:300], "pages": pages}
