"""Tests for reports as one self-contained HTML page, with hostile texts."""

from html.parser import HTMLParser

import pytest

from agentkit import Limits
from agentkit.evals import Case, Suite, contains, tool_calls

ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "footer", "p", "h1", "h2"),
    *("dl", "div", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "figure", "svg", "line", "rect", "text"),
    *("circle", "ul", "li", "span", "b", "details", "summary"),
}


class Reader(HTMLParser):
    """A parser that records the tags and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.texts = set(), {}, []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Record a tag and its attributes."""
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value)

    def handle_data(self, data):
        """Record a text."""
        self.texts.append(data)


@pytest.fixture
def read(mixed):
    """Return the parsed page of a report with hostile text."""
    return Reader(mixed.to_html())


def test_page_contains_no_foreign_content(read):
    """The page contains no foreign tags, loads no resources and runs no scripts."""
    assert read.tags <= ALLOWED
    assert not {"src", "href", "style", "srcset"} & set(read.attributes)
    assert not [name for name in read.attributes if name.startswith("on")]
    policy = next(value for value in read.attributes["content"] if "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_page_contains_all_results(read, hostile):
    """The page contains the figures, the plots, each case with its marks and the failed trials."""
    texts = " ".join(read.texts)
    for text in (
        "33 % (",
        "4 of 12",
        "Success",
        "Seconds to the answer",
        "What did not pass",
        "8 allow by safety-level",
    ):
        assert text in texts
    assert "<script>alert(1)</script>" in texts
    assert "calculator(" in texts
    assert texts.count("✗") > 4


def test_page_of_a_small_report(always):
    """A page shows expected calls, and omits empty sections."""
    suite = Suite(
        "x", [Case("?", tool_calls=["add"]), Case("!", tool_calls=[], expected="yes")], [tool_calls(), contains()]
    )
    page = suite.run(always("no")).to_html()
    assert "tool calls {&quot;tool&quot;: &quot;add&quot;}" in page
    assert "yes; tool calls none" in page
    undone = suite.run(always("no"), limits=Limits(input_tokens=1)).to_html()
    assert "What did not pass" not in undone
    assert "Seconds to the answer" not in undone
    assert "Tool calls" not in undone


def test_long_pages_are_bounded(always):
    """The first failures are shown and the others counted, and long texts are truncated."""
    suite = Suite("x", [Case(f"{number} {'x' * 5_000}", "yes") for number in range(201)], contains())
    page = suite.run(always("no")).to_html()
    assert page.count("<details>") == 200
    assert "1 more are in the JSON of the report." in page
    assert "x" * 4_001 not in page
