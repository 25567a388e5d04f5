"""Tests for the splitting of documents into passages."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import ConfigError
from agentkit.knowledge.chunks import ChunkDraft, ChunkSize, DocumentBlock, split_into_chunks
from agentkit.knowledge.documents import markdown_blocks, text_blocks


def test_long_sections_are_separate_passages():
    """A long section is a separate passage with its heading and lines."""
    text = "# One\n\n" + "First words. " * 20 + "\n\n# Two\n\n" + "Other words. " * 20
    first, second = split_into_chunks(markdown_blocks(text), ChunkSize(600))
    assert (first.section, first.first_line, first.last_line) == ("One", 1, 3)
    assert (second.section, second.first_line, second.last_line) == ("Two", 5, 7)
    assert second.text.startswith("# Two\n\nOther words.")


def test_small_sections_are_merged():
    """Consecutive small sections are merged under their shared headings."""
    (piece,) = split_into_chunks(markdown_blocks("# A\n\nIntro.\n\n## B\n\nOne.\n\n## C\n\nTwo."), ChunkSize())
    assert piece == ChunkDraft("# A\n\nIntro.\n\n## B\n\nOne.\n\n## C\n\nTwo.", "A", 1, 11)


def test_long_section_is_cut_between_sentences_and_overlaps():
    """A passage ends with a sentence, and the next one repeats the last sentence."""
    sentences = [f"Sentence number {number} is here." for number in range(40)]
    pieces = split_into_chunks([DocumentBlock(" ".join(sentences), ("S",), 1)], ChunkSize(300, 60))
    assert all(piece.text.startswith("Sentence") and piece.text.endswith("here.") for piece in pieces)
    for one, following in pairwise(pieces):
        assert one.text.rpartition("Sentence")[2] in following.text
    assert max(len(piece.text) for piece in pieces) <= 300


def test_passages_without_overlap_repeat_nothing():
    """With `overlap_chars=0` no sentence is repeated."""
    text = " ".join(f"Sentence number {number} is here." for number in range(40))
    assert " ".join(piece.text for piece in split_into_chunks([DocumentBlock(text)], ChunkSize(200, 0))) == text


@pytest.mark.parametrize("text", ["See e.g. the report. Dr. Who came.", "今日は。明日は。", "Go on.) Well."])
def test_abbreviations_do_not_end_a_sentence(text):
    """Abbreviations do not end a sentence, and Chinese and Japanese sentences need no space."""
    block = DocumentBlock(text * 20, (), 1)
    endings = (".", "。", ")")
    assert all(
        piece.text.endswith(endings) and not piece.text.endswith("Dr.")
        for piece in split_into_chunks([block], ChunkSize(100, 0))
    )


def test_lists_are_split_between_entries():
    """A long list is split between its entries."""
    text = "\n".join(f"- entry number {number} of a long list" for number in range(30))
    pieces = split_into_chunks([DocumentBlock(text, (), 5)], ChunkSize(200, 0))
    assert all(piece.text.startswith("- entry") for piece in pieces)
    assert (pieces[0].first_line, pieces[-1].last_line) == (5, 34)


def test_code_is_split_between_lines():
    """Code is split between lines and its indentation is preserved."""
    text = "\n".join(f"    value_{number} = {number}" for number in range(60))
    pieces = split_into_chunks([DocumentBlock(text, ("f",), 10, is_code=True)], ChunkSize(300, 50))
    assert all(line.startswith("    value_") for piece in pieces for line in piece.text.split("\n"))
    assert pieces[-1].last_line == 69


def test_merged_sections_are_named_by_shared_headings():
    """A passage of several small sections is named by the headings they share."""
    (piece,) = split_into_chunks(
        [DocumentBlock("One.", ("A", "B"), 1), DocumentBlock("Two.", ("A", "C"), 2)], ChunkSize()
    )
    assert piece.section == "A"
    (piece,) = split_into_chunks([DocumentBlock("One.", (), 1), DocumentBlock("Two.", ("C",), 2)], ChunkSize())
    assert piece.section == ""


def test_blank_text_produces_no_passages():
    """Blank text produces no passages."""
    assert split_into_chunks([DocumentBlock(" \n", (), 1)], ChunkSize()) == []


def test_passage_does_not_span_pages():
    """A passage never spans two pages."""
    pieces = split_into_chunks([DocumentBlock("One.", (), 0, 1), DocumentBlock("Two.", (), 0, 2)], ChunkSize())
    assert pieces == [ChunkDraft("One.", "", None, None, 1), ChunkDraft("Two.", "", None, None, 2)]


def test_text_without_spaces_is_split_anywhere():
    """Text without sentences or spaces is split at the maximum length."""
    assert [len(piece.text) for piece in split_into_chunks([DocumentBlock("x" * 1000, (), 1)], ChunkSize(400, 0))] == [
        400,
        400,
        200,
    ]


@given(text=st.text(alphabet="ab .!?\n-#", max_size=600), most=st.integers(100, 300), overlap=st.integers(0, 50))
def test_every_word_is_in_a_passage_with_its_lines(text, most, overlap):
    """Every word of a text is in a passage whose line numbers contain it."""
    lines = text.split("\n")
    pieces = split_into_chunks(text_blocks(text), ChunkSize(most, overlap))
    assert {word for piece in pieces for word in piece.text.split()} >= {
        word for word in text.split() if len(word) <= most
    }
    for piece in pieces:
        place = "\n".join(lines[piece.first_line - 1 : piece.last_line])
        assert [word for word in piece.text.split() if word not in place] == []


@pytest.mark.parametrize("lengths", [(50, 0), (200, 101), (200, -1)])
def test_invalid_chunk_sizes_are_rejected(lengths):
    """A chunk size below 100 or an overlap above half of it raises an error."""
    with pytest.raises(ConfigError):
        ChunkSize(*lengths)
