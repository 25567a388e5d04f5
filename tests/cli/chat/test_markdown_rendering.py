"""Tests for the rendering of Markdown at a terminal, complete or streamed."""

import re

import pytest

from agentkit.cli.chat.markdown import Line, MarkdownBlock, Renderer, blocks, stable_part, text_width, truncate

PLAIN, COLOURED = Renderer(has_colour=False), Renderer(has_colour=True)


def shown(source, width=60, **options):
    """Return the rendered lines of a Markdown text."""
    return [line.text for line in PLAIN.markdown(source, width, **options)]


@pytest.mark.for_each(
    ("source", "lines"),
    [
        ("# Title", ["Title"]),
        ("one\ntwo", ["one", "two"]),
        ("- a\n- b\n  - c", [" • a", " • b", "    • c"]),
        ("3. a", [" 3. a"]),
        ("```python\ndef f():\n    pass\n```", ["  def f():", "      pass"]),
        ("    indented", ["  indented"]),
        ("> said", ["▌ said"]),
        ("---", ["─" * 40]),
        ("", []),
    ],
)
def test_rendered_blocks(source, lines):
    """Headings are left-aligned, code has no box, and line breaks are preserved."""
    assert shown(source) == lines


def test_table_has_columns():
    """A table is drawn with a line below its header, and fits into a narrow terminal."""
    table = "| name | what it is |\n|---|---|\n| Huế | a city on the Perfume River |\n| 漢字 | letters |"
    lines = shown(table)
    assert lines[0].split() == ["name", "what", "it", "is"]
    assert set(lines[1].strip()) == {"─"}
    assert all(line.width <= 20 for line in PLAIN.markdown(table, 20))


@pytest.mark.for_each(
    ("source", "text"),
    [
        ("[a bank](https://evil.example/x)", "a bank (https://evil.example/x)"),
        ("[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)"),
        ("[**bold** `code`](https://evil.example)", "bold code (https://evil.example)"),
        ("<https://a.example>", "https://a.example"),
        ("<me@a.example>", "me@a.example"),
        ("![a cat](https://a.example/cat.png)", "[image: a cat] (https://a.example/cat.png)"),
        ("[![a](http://a.example)](http://b.example)", "[image: a] (http://a.example) (http://b.example)"),
        ("[text][ref]", "[text][ref]"),
        ("[ref]: https://a.example", "[ref]: https://a.example"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("<!-- hidden -->", "<!-- hidden -->"),
    ],
)
def test_no_content_is_hidden(source, text):
    """Links and images are shown with their targets; HTML, comments and definitions are shown unchanged."""
    assert shown(source) == [text]


@pytest.mark.parametrize(
    "source",
    [
        "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07",
        "[click](https://evil.example)",
        "`\x1b[2J`",
        "```\n\x1b[2J\x1b]0;owned\x07\n```",
        "&#x202E;evil &#x1b;[2J &#155;31m",
        "| a |\n|---|\n| \x1b[2J |",
    ],
)
def test_hostile_text_cannot_control_the_terminal(source):
    """The output contains colour sequences only, no link with a hidden target, and no direction mark."""
    text = "\n".join(line.text for line in COLOURED.markdown(source, 60))
    assert re.sub(r"\x1b\[[\d;]*m", "", text).replace("\n", "").isprintable()


def test_widths_of_wide_characters():
    """Wide characters take two columns, and no line exceeds the given width."""
    assert PLAIN.markdown("漢字 Việt", 60) == [Line("漢字 Việt", 9)]
    assert all(line.width <= 10 for line in COLOURED.markdown("漢字" * 30 + "\n\n```\n" + "x" * 50 + "\n```", 10))
    assert text_width("漢字") == 4
    assert (truncate("one  two\nthree", 8), truncate("漢字漢字", 5), truncate("ab", 2)) == ("one two…", "漢字…", "ab")


def test_no_escape_sequences_without_colours():
    """Without colours, the output contains no escape sequences."""
    source = "# T\n\n**b** `c` [l](http://a.example)"
    assert "\x1b" in "".join(line.text for line in COLOURED.markdown(source, 60))
    assert "\x1b" not in "".join(shown(source))
    assert "\x1b" not in PLAIN.apply_style("x", "bold red") + "".join(PLAIN.diff("+a\n-b"))


def test_diff_has_colours():
    """Added lines of a diff are green, removed lines red, and hunk headers cyan."""
    lines = COLOURED.diff("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\x1b[2J\n same")
    assert lines == [
        "\x1b[1m--- a\x1b[0m",
        "\x1b[1m+++ b\x1b[0m",
        "\x1b[36m@@ -1 +1 @@\x1b[0m",
        "\x1b[31m-old\x1b[0m",
        "\x1b[32m+new\x1b[0m",
        " same",
    ]


def test_notes_are_wrapped_between_words():
    """Notes are wrapped between words, and keep their indentation."""
    assert PLAIN.wrap("one two three\n  four", "dim", 8) == ["one two", "three", "  four"]


def test_text_is_split_into_blocks():
    """Text is split into paragraphs, tables, code and list items without losing any of it."""
    source = "para\ngoes on\n\n- a\n  - b\n- c\n\n2. x\n3. y\n```\ncode\n\nmore\n```\n# T\n[r]: http://a.example\n<p>\n"
    found = blocks(source)
    assert [(block.source.strip().split("\n")[0], block.item) for block in found] == [
        ("para", None),
        ("- a", 0),
        ("- c", 0),
        ("2. x", 2),
        ("3. y", 3),
        ("```", None),
        ("# T", None),
        ("[r]: http://a.example", None),
    ]
    assert "\n".join(block.source for block in found) == source
    assert blocks("\n\n") == []
    assert blocks("\n\nx") == [MarkdownBlock("x")]


@pytest.mark.for_each(
    ("written", "steady"),
    [
        ("some **bo", "some **bo**"),
        ("some **bold** and", "some **bold** and"),
        ("some *", "some "),
        ("some `co", "some `co`"),
        ("some `co` and ``", "some `co` and "),
        ("a\n-", "a\n"),
        ("a\n1.", "a\n"),
        ("#", ""),
        ("see [the pa", "see the pa"),
        ("see [the page](https://exam", "see the page"),
        ("see ![pic", "see pic"),
        ("```py\nx = 1\n``", "```py\nx = 1\n"),
        ("```py\nx = `1", "```py\nx = `1"),
        ("| a |", ""),
        ("| a |\n|--", ""),
        ("| a |\n|---|\n| 1", "| a |\n|---|"),
        ("| a |\n|---|\n| 1 |\n", "| a |\n|---|\n| 1 |"),
        ("**bold\n\nplain", "**bold\n\nplain"),
        ("2 ** 3", "2 ** 3**"),
        ("2 ** ", "2 ** "),
    ],
)
def test_incomplete_block_is_stable(written, steady):
    """Open markup of an incomplete block is closed, and ambiguous endings are held back."""
    assert stable_part(written) == steady
