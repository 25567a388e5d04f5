"""Tests for the splitting of texts into lines."""

import pytest

from agentkit.text_encoding import as_sentence, split_lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\r\nb", ["a", "b"]),
        ("a\n\nb\n", ["a", "", "b"]),
        ("a\rb\u2028c\x85d\x0be\x0cf\n\x1cg", ["a\rb\u2028c\x85d\x0be\x0cf", "\x1cg"]),
    ],
)
def test_lines_end_at_line_feeds(text, lines):
    """A line ends at a line feed, with or without a carriage return, and nowhere else."""
    assert split_lines(text) == lines
    assert "".join(split_lines(text, keepends=True)) == text
    assert len(split_lines(text, keepends=True)) == len(lines)


@pytest.mark.parametrize(
    ("text", "ended"), [("no", "no."), ("No!", "No!"), ("no. ", "no."), ("", ""), ('"no"', '"no"'), ("нет", "нет.")]
)
def test_sentences_end(text, ended):
    """A full stop is added to a text that does not end a sentence."""
    assert as_sentence(text) == ended
