"""Tests for the structure of Markdown and plain text."""

from agentkit.knowledge.chunks import DocumentBlock
from agentkit.knowledge.documents import line_blocks, markdown_blocks, text_blocks


def test_headings_begin_sections():
    """Each block has the headings above it, and a heading ends a section of the same level."""
    text = "Intro\n\n# A #\n\ntext\n\n### C\n\ndeep\n\n## B\nwords"
    assert [(block.text, block.section, block.line) for block in markdown_blocks(text)] == [
        ("Intro", (), 1),
        ("# A #", ("A",), 3),
        ("text", ("A",), 5),
        ("### C", ("A", "C"), 7),
        ("deep", ("A", "C"), 9),
        ("## B", ("A", "B"), 11),
        ("words", ("A", "B"), 12),
    ]


def test_underlined_headings_are_headings():
    """An underlined line is a heading, but a line below two text lines is not an underline."""
    text = "Title\n=====\n\nPart\n----\ntext\n\none\ntwo\n---"
    assert [(block.text, block.section) for block in markdown_blocks(text)] == [
        ("Title\n=====", ("Title",)),
        ("Part\n----", ("Title", "Part")),
        ("text", ("Title", "Part")),
        ("one\ntwo\n---", ("Title", "Part")),
    ]


def test_fenced_code_block_is_a_single_block():
    """A fenced code block is a single block, and an unclosed fence extends to the end."""
    text = "before\n```sh\n# no heading\n\nls\n```\nafter\n~~~\nopen\n\n# still"
    assert list(markdown_blocks(text)) == [
        DocumentBlock("before", (), 1),
        DocumentBlock("```sh\n# no heading\n\nls\n```", (), 2, is_code=True),
        DocumentBlock("after", (), 7),
        DocumentBlock("~~~\nopen\n\n# still", (), 8, is_code=True),
    ]


def test_plain_text_has_paragraphs():
    """Paragraphs are separated by blank lines, and Markdown syntax is ignored."""
    assert list(text_blocks("# one\ntwo\n \nthree\n")) == [
        DocumentBlock("# one\ntwo", (), 1),
        DocumentBlock("three", (), 4),
    ]


def test_data_is_a_single_block():
    """Data is a single block, and blank data has no blocks."""
    assert list(line_blocks("a,b\n1,2")) == [DocumentBlock("a,b\n1,2", (), 1, is_code=True)]
    assert list(line_blocks(" \n")) == []
