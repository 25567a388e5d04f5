"""Tests for the labels of earlier answers, which apply when a client sends them back."""

import pytest

from agentkit.decisions import Label
from agentkit.messages import AssistantMessage, UserMessage
from agentkit.server.openai_endpoint import AnswerLabels, StreamedAnswer


def test_labels_of_an_answer_are_found():
    """Labels of an answer are found when the client sends it back, ignoring surrounding whitespace."""
    answers = AnswerLabels()
    answers.add("It is\nsecret. ", [Label.PRIVATE])
    answers.add("It is\nsecret.", [Label.UNTRUSTED])
    assert answers.labels([AssistantMessage(" It is\nsecret.")]) == {Label.PRIVATE, Label.UNTRUSTED}
    assert answers.labels([AssistantMessage("Another."), UserMessage("It is\nsecret.")]) == frozenset()


def test_answers_without_labels_are_not_stored():
    """Answers that are empty or have no labels are not stored."""
    answers = AnswerLabels(maximum=1)
    answers.add("kept", [Label.PRIVATE])
    answers.add("free", [])
    answers.add("  ", [Label.PRIVATE])
    assert answers.labels([AssistantMessage("kept")]) == {Label.PRIVATE}


def test_oldest_are_forgotten():
    """The number of stored answers is limited, and an answer given again counts as new."""
    answers = AnswerLabels(maximum=2)
    for text in "1213":
        answers.add(text, [Label.PRIVATE])
    assert [text for text in "123" if answers.labels([AssistantMessage(text)])] == ["1", "3"]


LONG = "The diary says that the tulips are under the oak, where nobody looks; water them at six, and not before. "


@pytest.mark.for_each(
    ("sent", "is_known"),
    [
        *((LONG[:size], True) for size in (1, 2, 3, 5, 31, 33, 64, 100)),
        (f"  {LONG}\n", True),
        (f"{LONG}And there is more, which another answer has said. " * 4, True),
        (f"{LONG[:70]} and a few words.", True),
        (f"{LONG[:20]} and a few words more than that.", False),
        ("They are under the oak.", False),
    ],
)
def test_parts_of_an_answer_are_recognised(sent, is_known):
    """A truncated or extended answer is recognised by its first half."""
    answers = AnswerLabels()
    answers.add(LONG, [Label.PRIVATE])
    assert answers.labels([AssistantMessage(sent)]) == ({Label.PRIVATE} if is_known else frozenset())


@pytest.mark.parametrize("before", ["", "\n ", "I look. ", LONG])
def test_partial_stream_has_its_labels(before):
    """A stream cut off anywhere after a labelled read carries the label."""
    answers, read = AnswerLabels(), set()
    telling = StreamedAnswer(answers, read)
    telling.record(before)
    read.add(Label.PRIVATE)
    text = before
    for letter in LONG:
        text += letter
        telling.record(letter)
        assert answers.labels([AssistantMessage(text)]) == {Label.PRIVATE}
