"""Tests for passages and their citations."""

import pytest

from agentkit.knowledge import AddResult, Chunk


@pytest.mark.parametrize(
    ("place", "position", "citation"),
    [
        ({}, "", "a.md"),
        ({"page": 3}, "page 3", "a.md, page 3"),
        ({"first_line": 3, "last_line": 3}, "line 3", "a.md:3"),
        ({"first_line": 3, "last_line": 5}, "lines 3-5", "a.md:3-5"),
    ],
)
def test_citation_contains_the_position(place, position, citation):
    """A citation contains the page, the lines or only the source."""
    passage = Chunk("text", "a.md", **place)
    assert (passage.position, passage.citation) == (position, citation)


def test_reports_are_added():
    """Reports of several sources can be added."""
    both = AddResult(added=("a",), skipped={"x": "why"}, passages=2) + AddResult(updated=("b",), passages=1)
    assert both.counts == "1 added, 1 updated, 0 unchanged, 0 removed, 1 skipped; 3 passages made"
    assert str(AddResult(passages=1)).endswith("; 1 passage made")


def test_report_lists_skipped_sources():
    """A report lists the first skipped sources with their reasons and the number of the others."""
    one = str(AddResult(skipped={"a\n.pdf": "it needs a package"}))
    assert one.splitlines()[1:] == ["skipped a\\n.pdf: it needs a package"]
    many = str(AddResult(skipped={f"{number}.png": "a picture" for number in range(30)}))
    assert many.splitlines()[10:] == ["skipped 9.png: a picture", "and 20 more"]
