"""Tests for texts whose pieces become separate paragraphs."""

import pytest

from agentkit.llm.protocols.parsing import ParagraphJoiner

# pieces, with None for other content between them; the text
TEXTS = {
    "nothing": ([], ""),
    "neighbours": (["Par", "is."], "Paris."),
    "apart": (["I look.", None, "# Paris"], "I look.\n\n# Paris"),
    "far apart": (["I look.", None, None, "Paris"], "I look.\n\nParis"),
    "nothing before": ([None, "Paris"], "Paris"),
    "nothing after": (["Paris", None], "Paris"),
    "empty pieces": (["", None, "I look.", "", None, "", "Paris"], "I look.\n\nParis"),
    "a line that ends": (["I look:\n", None, "Paris"], "I look:\nParis"),
    "separate line": (["I look.", None, "\nParis"], "I look.\nParis"),
}


@pytest.mark.for_each(("pieces", "text"), TEXTS.values(), ids=TEXTS)
def test_interrupted_text_becomes_separate_paragraphs(pieces, text):
    """Adjacent pieces are joined, and interrupted ones become separate paragraphs."""
    paragraphs, received = ParagraphJoiner(), []
    for piece in pieces:
        if piece is None:
            paragraphs.interrupt()
        else:
            received.append(paragraphs.add(piece))
    assert "".join(received) == text
