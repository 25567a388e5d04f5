"""Tests for the parsing of questions for the offline model."""

import pytest

from agentkit.llm.providers.offline.question_parser import Question


@pytest.mark.parametrize(
    ("text", "first_concept"),
    [
        ("Please save notes.txt", "save"),
        ("Hello, what time is it?", "time"),
        ("Delete the file a.txt", "delet"),
        ("Hi there", ""),
    ],
)
def test_lead_is_the_first_content_word(text, first_concept):
    """Greetings, politeness and question words are skipped; a question without content words has no lead."""
    assert Question(text).first_concept == first_concept
