"""Text extraction from document formats."""

from __future__ import annotations


def text_of(body: bytes, read_seconds: float | None = None) -> str | None:
    """The text of a PDF or a document of an office program; None for any other file.

    The document is parsed in an isolated process, for at most `read_seconds` where given. Raises MissingExtra without
    pypdf, and ToolError for a document that is damaged, exceeds a limit, or holds no text.
    """
    from agentkit.documents.parsing import parse_document

    document = parse_document(body, read_seconds)
    if document is None:
        return None
    if document.kind == "office":
        return document.pages[0]
    return "\n\n".join(f"[Page {number}]\n{text}" for number, text in enumerate(document.pages, 1))
