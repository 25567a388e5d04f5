"""Text extraction from document formats."""

from __future__ import annotations


def text_of(body: bytes, read_seconds: float | None = None) -> str | None:
    """Extract the text of a PDF or an office document; None for any other file.

    The document is parsed in an isolated process, for at most `read_seconds` if given. Raises MissingExtra without
    pypdf, and ToolError if the document is damaged, exceeds a limit, or contains no text.
    """
    from agentkit.documents.parsing import parse_document

    document = parse_document(body, read_seconds)
    if document is None or not document.note:
        return None if document is None else document.text
    return f"[{document.note}]\n\n{document.text}"
