"""What does a text say, and what does a file that is none? Its words; one module a format."""

from __future__ import annotations


def text_of(body: bytes, read_seconds: float = 120.0) -> str | None:
    """What stands in a PDF or a document of an office program, as text; None for any other file.

    A PDF is read for at most `read_seconds`. Raises MissingExtra without pypdf, and ToolError for what is damaged, too
    large to be read, or holds no text.
    """
    if body.startswith(b"%PDF-"):
        from agentkit.reading.pdf import pages_of_pdf

        _, pages = pages_of_pdf(body, read_seconds)
        return "\n\n".join(f"[Page {number}]\n{text}" for number, text in enumerate(pages, 1))
    from agentkit.reading.office import text_of_office

    document = text_of_office(body)
    return None if document is None else document[1]
