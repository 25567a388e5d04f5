"""Is it remembered what an answer was made of?"""

import pytest

from agentkit.decisions import Label
from agentkit.messages import AssistantMessage, UserMessage
from agentkit.server.openai_endpoint import AnswerLabels, StreamedAnswer


def test_an_answer_bears_what_was_read_for_it():
    """What was read for an answer is known when a client sends the answer back, with other blanks around it too."""
    answers = AnswerLabels()
    answers.note("It is\nsecret. ", [Label.PRIVATE])
    answers.note("It is\nsecret.", [Label.UNTRUSTED])
    assert answers.labels([AssistantMessage(" It is\nsecret.")]) == {Label.PRIVATE, Label.UNTRUSTED}
    assert answers.labels([AssistantMessage("Another."), UserMessage("It is\nsecret.")]) == frozenset()


def test_what_bears_nothing_is_not_kept():
    """An answer for which nothing was read, and an empty one, take no room."""
    answers = AnswerLabels(most=1)
    answers.note("kept", [Label.PRIVATE])
    answers.note("free", [])
    answers.note("  ", [Label.PRIVATE])
    assert answers.labels([AssistantMessage("kept")]) == {Label.PRIVATE}


def test_the_oldest_are_forgotten():
    """Only so many answers are remembered; one that is given again counts as new."""
    answers = AnswerLabels(most=2)
    for text in "1213":
        answers.note(text, [Label.PRIVATE])
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
def test_parts_of_an_answer_bear_what_was_read_for_it(sent, is_known):
    """A part that a client got of an answer, or one with more behind it, is known by its first half."""
    answers = AnswerLabels()
    answers.note(LONG, [Label.PRIVATE])
    assert answers.labels([AssistantMessage(sent)]) == ({Label.PRIVATE} if is_known else frozenset())


@pytest.mark.parametrize("before", ["", "\n ", "I look. ", LONG])
def test_what_is_told_in_pieces_is_known_from_the_first_one(before):
    """Wherever a client leaves, what it was told after something was read bears that."""
    answers, read = AnswerLabels(), set()
    telling = StreamedAnswer(answers, read)
    telling.tell(before)
    read.add(Label.PRIVATE)
    told = before
    for letter in LONG:
        told += letter
        telling.tell(letter)
        assert answers.labels([AssistantMessage(told)]) == {Label.PRIVATE}
