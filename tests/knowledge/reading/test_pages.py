"""How are the pages of a PDF built?"""

import pytest

from agentkit.errors import ToolError
from agentkit.knowledge.reading.pages import blocks_of_pdf


def test_pages_and_title(pdf):
    """A PDF gives its title, and its paragraphs with their pages."""
    title, blocks = blocks_of_pdf(pdf("Thirty days of leave.", "", "Call before nine."))
    assert title == "The handbook"
    assert [(block.text, block.page, block.line) for block in blocks] == [
        ("Thirty days of leave.", 1, 0),
        ("Call before nine.", 3, 0),
    ]


def test_a_pdf_without_text_is_told_to_knowledge(pdf):
    """A PDF of pictures is refused, because pictures are not read."""
    with pytest.raises(ToolError, match="no text"):
        blocks_of_pdf(pdf(""))
