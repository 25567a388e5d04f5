"""How are Markdown and plain text built?"""

from agentkit.knowledge.chunks import DocumentBlock
from agentkit.knowledge.documents import blocks_of_lines, blocks_of_markdown, blocks_of_text


def test_headings_begin_sections():
    """Each block knows the headings above it; one of the same level ends the section before."""
    text = "Intro\n\n# A #\n\ntext\n\n### C\n\ndeep\n\n## B\nwords"
    assert [(block.text, block.section, block.line) for block in blocks_of_markdown(text)] == [
        ("Intro", (), 1),
        ("# A #", ("A",), 3),
        ("text", ("A",), 5),
        ("### C", ("A", "C"), 7),
        ("deep", ("A", "C"), 9),
        ("## B", ("A", "B"), 11),
        ("words", ("A", "B"), 12),
    ]


def test_underlined_headings_are_headings():
    """A line that is underlined is a heading; a line below two others is none."""
    text = "Title\n=====\n\nPart\n----\ntext\n\none\ntwo\n---"
    assert [(block.text, block.section) for block in blocks_of_markdown(text)] == [
        ("Title\n=====", ("Title",)),
        ("Part\n----", ("Title", "Part")),
        ("text", ("Title", "Part")),
        ("one\ntwo\n---", ("Title", "Part")),
    ]


def test_code_between_fences_stays_together():
    """Between fences there are no headings, paragraphs or sentences; a fence that is never closed goes to the end."""
    text = "before\n```sh\n# no heading\n\nls\n```\nafter\n~~~\nopen\n\n# still"
    assert list(blocks_of_markdown(text)) == [
        DocumentBlock("before", (), 1),
        DocumentBlock("```sh\n# no heading\n\nls\n```", (), 2, is_code=True),
        DocumentBlock("after", (), 7),
        DocumentBlock("~~~\nopen\n\n# still", (), 8, is_code=True),
    ]


def test_plain_text_has_paragraphs():
    """Paragraphs are parted by blank lines; a sign at their beginning means nothing."""
    assert list(blocks_of_text("# one\ntwo\n \nthree\n")) == [
        DocumentBlock("# one\ntwo", (), 1),
        DocumentBlock("three", (), 4),
    ]


def test_data_is_one_block():
    """Data are cut at their lines, wherever; where there is nothing, there is no block."""
    assert list(blocks_of_lines("a,b\n1,2")) == [DocumentBlock("a,b\n1,2", (), 1, is_code=True)]
    assert list(blocks_of_lines(" \n")) == []
