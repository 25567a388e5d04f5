"""How are the pages of a PDF built? As paragraphs."""

from __future__ import annotations

from collections.abc import Iterator

from agentkit.knowledge.passages import Block
from agentkit.knowledge.reading.prose import blocks_of_text
from agentkit.reading.pdf import pages_of_pdf


def blocks_of_pdf(body: bytes) -> tuple[str, list[Block]]:
    """The title of a PDF, and the paragraphs of its pages, which count from 1.

    Raises MissingExtra without pypdf, ToolError for a file that cannot be read within the limits or holds no text.
    """
    title, pages = pages_of_pdf(body)
    return title, [block for number, text in enumerate(pages, 1) for block in _on_page(text, number)]


def _on_page(text: str, page: int) -> Iterator[Block]:
    for block in blocks_of_text(text):
        yield Block(block.text, (), 0, page)
