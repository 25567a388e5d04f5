"""Tests for the escaping of text in HTML pages."""

import base64
import hashlib
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.safety.html import Markup, element, page


class Reader(HTMLParser):
    """A parser that records the tags and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Record a tag with its attributes."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        """Record a text."""
        self.texts.append(data)


@given(st.text(), st.text())
def test_text_is_escaped(text, value):
    """Whatever a text or attribute contains, the page has only the intended elements."""
    found = Reader(element("p", text, title=value))
    assert [(tag, list(attributes)) for tag, attributes in found.tags] == [("p", ["title"])]


@pytest.mark.parametrize("text", ["<b>", "&amp;", "\"'", "</p><script>alert(1)</script>", "<!--", "]]>", "&#60;"])
def test_text_is_preserved(text):
    """Text content is preserved exactly, character by character."""
    assert "".join(Reader(element("p", text)).texts) == text


def test_invisible_characters_are_escaped():
    """Invisible characters and direction marks are shown as escapes."""
    assert element("p", "a\u202eb\x1b\x00\ud800\r\nc") == "<p>a\\u{202e}b\\u{1b}\\u{0}\\u{d800}\nc</p>"


def test_elements_nest():
    """An element may contain elements, strings, lists of them and `None`."""
    made = element("ul", [element("li", "a"), None, ["<", element("b", "c")]], class_="x", aria_label="y", id=None)
    assert made == '<ul class="x" aria-label="y"><li>a</li>&lt;<b>c</b></ul>'
    assert isinstance(made, Markup)


def test_elements_without_content():
    """Void elements are closed as required by HTML and SVG."""
    assert element("meta", name="a", content=1) == '<meta name="a" content="1">'
    assert element("rect", x=1.5) == '<rect x="1.5"/>'


def test_page_header():
    """A page starts with a doctype, and its policy allows only its own style sheet."""
    style = "a > b {}"
    made = page("<name>", style, element("p", "text"))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert made.startswith('<!doctype html>\n<html lang="en">')
    assert f"default-src &#x27;none&#x27;; style-src &#x27;sha256-{digest}&#x27;" in made
    assert "<title>&lt;name&gt;</title><style>a > b {}</style></head><body><p>text</p></body></html>" in made
