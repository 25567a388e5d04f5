"""Where is a document cut?"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import ConfigError
from agentkit.knowledge.chunks import ChunkDraft, ChunkSize, DocumentBlock, cut
from agentkit.knowledge.documents import blocks_of_markdown, blocks_of_text


def test_sections_that_are_long_enough_stand_alone():
    """A section is a passage of its own, with the headings above it and the lines where it stands."""
    text = "# One\n\n" + "First words. " * 20 + "\n\n# Two\n\n" + "Other words. " * 20
    first, second = cut(blocks_of_markdown(text), ChunkSize(600))
    assert (first.section, first.first_line, first.last_line) == ("One", 1, 3)
    assert (second.section, second.first_line, second.last_line) == ("Two", 5, 7)
    assert second.text.startswith("# Two\n\nOther words.")


def test_small_sections_are_joined():
    """Small sections that follow one another are one passage, under the headings that they share."""
    (piece,) = cut(blocks_of_markdown("# A\n\nIntro.\n\n## B\n\nOne.\n\n## C\n\nTwo."), ChunkSize())
    assert piece == ChunkDraft("# A\n\nIntro.\n\n## B\n\nOne.\n\n## C\n\nTwo.", "A", 1, 11)


def test_a_long_section_is_cut_between_sentences_and_overlaps():
    """A passage ends with a sentence, and the next one tells the last sentences again."""
    sentences = [f"Sentence number {number} is here." for number in range(40)]
    pieces = cut([DocumentBlock(" ".join(sentences), ("S",), 1)], ChunkSize(300, 60))
    assert all(piece.text.startswith("Sentence") and piece.text.endswith("here.") for piece in pieces)
    for one, following in pairwise(pieces):
        assert one.text.rpartition("Sentence")[2] in following.text
    assert max(len(piece.text) for piece in pieces) <= 300


def test_without_an_overlap_nothing_is_told_twice():
    """With overlap_chars=0 each sentence stands in one passage."""
    text = " ".join(f"Sentence number {number} is here." for number in range(40))
    assert " ".join(piece.text for piece in cut([DocumentBlock(text)], ChunkSize(200, 0))) == text


@pytest.mark.parametrize("text", ["See e.g. the report. Dr. Who came.", "今日は。明日は。", "Go on.) Well."])
def test_abbreviations_end_no_sentence(text):
    """An abbreviation ends no sentence; Chinese and Japanese sentences end without a blank."""
    block = DocumentBlock(text * 20, (), 1)
    endings = (".", "。", ")")
    assert all(
        piece.text.endswith(endings) and not piece.text.endswith("Dr.") for piece in cut([block], ChunkSize(100, 0))
    )


def test_lists_and_tables_are_cut_at_their_entries():
    """A long list is cut between its entries."""
    text = "\n".join(f"- entry number {number} of a long list" for number in range(30))
    pieces = cut([DocumentBlock(text, (), 5)], ChunkSize(200, 0))
    assert all(piece.text.startswith("- entry") for piece in pieces)
    assert (pieces[0].first_line, pieces[-1].last_line) == (5, 34)


def test_code_is_cut_at_its_lines():
    """Code keeps its indentation and is cut between lines."""
    text = "\n".join(f"    value_{number} = {number}" for number in range(60))
    pieces = cut([DocumentBlock(text, ("f",), 10, is_code=True)], ChunkSize(300, 50))
    assert all(line.startswith("    value_") for piece in pieces for line in piece.text.split("\n"))
    assert pieces[-1].last_line == 69


def test_sections_that_share_no_heading_are_not_named():
    """Small sections side by side bear the headings that stand above all of them."""
    (piece,) = cut([DocumentBlock("One.", ("A", "B"), 1), DocumentBlock("Two.", ("A", "C"), 2)], ChunkSize())
    assert piece.section == "A"
    (piece,) = cut([DocumentBlock("One.", (), 1), DocumentBlock("Two.", ("C",), 2)], ChunkSize())
    assert piece.section == ""


def test_where_nothing_stands_there_is_no_passage():
    """Blank space is no passage."""
    assert cut([DocumentBlock(" \n", (), 1)], ChunkSize()) == []


def test_pages_are_not_mixed():
    """A passage stands on one page."""
    pieces = cut([DocumentBlock("One.", (), 0, 1), DocumentBlock("Two.", (), 0, 2)], ChunkSize())
    assert pieces == [ChunkDraft("One.", "", None, None, 1), ChunkDraft("Two.", "", None, None, 2)]


def test_a_word_without_end_is_cut_anywhere():
    """What has no sentences and no blanks is cut all the same."""
    assert [len(piece.text) for piece in cut([DocumentBlock("x" * 1000, (), 1)], ChunkSize(400, 0))] == [400, 400, 200]


@given(text=st.text(alphabet="ab .!?\n-#", max_size=600), most=st.integers(100, 300), overlap=st.integers(0, 50))
def test_nothing_is_lost_and_places_are_right(text, most, overlap):
    """Every word of a text stands in a passage, and a passage's lines are where its words are."""
    lines = text.split("\n")
    pieces = cut(blocks_of_text(text), ChunkSize(most, overlap))
    assert {word for piece in pieces for word in piece.text.split()} >= {
        word for word in text.split() if len(word) <= most
    }
    for piece in pieces:
        place = "\n".join(lines[piece.first_line - 1 : piece.last_line])
        assert [word for word in piece.text.split() if word not in place] == []


@pytest.mark.parametrize("lengths", [(50, 0), (200, 101), (200, -1)])
def test_lengths_that_cannot_be_are_refused(lengths):
    """A passage has at least a hundred characters, and an overlap is at most half of it."""
    with pytest.raises(ConfigError):
        ChunkSize(*lengths)
