"""Tests for the readers of documents, chosen by their kind."""

import time

import pytest

from agentkit.errors import ToolError
from agentkit.knowledge.chunks import ChunkSize, split_into_chunks
from agentkit.knowledge.documents import read, read_text


@pytest.mark.for_each(
    ("name", "body", "kind", "title"),
    [
        ("a.md", b"# Title\n\ntext", "markdown", "Title"),
        ("a.md", b"text", "markdown", ""),
        ("a.txt", b"# Title", "text", ""),
        ("a.py", b"x = 1", "python", ""),
        ("a.GO", b"package x", "code", ""),
        ("a.json", b"{}", "data", ""),
        ("a", b"words", "text", ""),
        ("a.html", b"<title>T</title><p>words</p>", "html", "T"),
        ("a", b"<!doctype html><title>T</title><p>words</p>", "html", "T"),
    ],
)
def test_kind_of_a_document_is_detected(name, body, kind, title):
    """The kind of a document is detected from its suffix and content."""
    content = read(body, name)
    assert (content.kind, content.title) == (kind, title)
    assert len(content.blocks) == (2 if title == "Title" else 1)


def test_web_page_is_read_as_markdown():
    """A web page is converted to Markdown with absolute links, and a local page without links."""
    page = b"<h1>Title</h1><p>See <a href='/x'>this</a>.</p>"
    online = read(page, "https://example.org/a", "text/html")
    assert "[this](https://example.org/x)" in online.blocks[1].text
    local = read(page, "/a/b.html")
    assert local.blocks[1].text == "See this."
    assert [block.line for block in local.blocks] == [0, 0]
    assert local.blocks[1].section == ("Title",)


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("a.bin", b"\x7fELF\0\0", "it is not text"),
        ("a.pdf", b"no PDF", "it is not text"),
        ("a.md", b"PK\x03\x04rest", "it is not text"),
        ("a.html", b"<script>go()</script>", "JavaScript"),
    ],
)
def test_documents_without_text_are_rejected(name, body, reason):
    """Images, programs, archives and scripted web pages are rejected with the reason."""
    with pytest.raises(ToolError, match=reason):
        read(body, name)


def test_other_encodings_are_read():
    """A byte order mark sets the encoding, and text that is not UTF-8 is read as Western European."""
    assert read("đường".encode("utf-16"), "a.txt").blocks[0].text == "đường"
    assert read("café crème".encode("latin-1"), "a.txt").blocks[0].text == "café crème"


def test_text_is_parsed_as_the_given_kind():
    """A text is parsed as the given kind."""
    assert read_text("def f(): ...", "python").blocks[0].section == ("f",)


def test_pages_and_title(pdf):
    """A PDF has its title and its paragraphs with page numbers."""
    content = read(pdf("Thirty days of leave.", "", "Call before nine."), "handbook.pdf")
    assert (content.kind, content.title) == ("pdf", "The handbook")
    assert [(block.text, block.page, block.line) for block in content.blocks] == [
        ("Thirty days of leave.", 1, 0),
        ("Call before nine.", 3, 0),
    ]


def test_pdf_without_text_is_rejected(pdf):
    """A PDF without text raises a ToolError."""
    with pytest.raises(ToolError, match="no text"):
        read(pdf(""), "pictures.pdf")


HOSTILE = {
    "a heading of blanks": ("x.md", "# " + " " * 200_000 + "a" + " " * 200_000 + "b"),
    "a word without end": ("x.md", "a" * 3_000_000),
    "dots without end": ("x.md", "." * 300_000),
    "dots and quotes": ("x.md", '."' * 300_000),
    "sentences of one letter": ("x.md", "a. " * 100_000),
    "an f-string": ("x.py", 'f"' + "{x}" * 150_000 + '"'),
    "nested tables": ("x.html", "<table><tr><td>" * 50_000),
    "cells of a million columns": ("x.html", "<table><tr>" + "<td colspan=1000000000>x</td>" * 2_000 + "</table>"),
}


@pytest.mark.for_each("name", HOSTILE)
def test_hostile_text_is_read_and_cut_in_linear_time(name):
    """A hostile text is parsed and split in linear time."""
    source, text = HOSTILE[name]
    began = time.process_time()
    split_into_chunks(read(text.encode(), source).blocks, ChunkSize())
    assert time.process_time() - began < 6
