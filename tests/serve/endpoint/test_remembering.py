"""Is it remembered what an answer was made of?"""

from agentkit.decisions import Label
from agentkit.messages import AssistantMessage, UserMessage
from agentkit.serve.endpoint.remembering import Answers


def test_an_answer_bears_what_was_read_for_it():
    """What was read for an answer is known when a client sends the answer back, with other blanks around it too."""
    answers = Answers()
    answers.note("It is\nsecret. ", [Label.PRIVATE])
    answers.note("It is\nsecret.", [Label.UNTRUSTED])
    assert answers.labels([AssistantMessage(" It is\nsecret.")]) == {Label.PRIVATE, Label.UNTRUSTED}
    assert answers.labels([AssistantMessage("Another."), UserMessage("It is\nsecret.")]) == frozenset()


def test_what_bears_nothing_is_not_kept():
    """An answer for which nothing was read, and an empty one, take no room."""
    answers = Answers(most=1)
    answers.note("kept", [Label.PRIVATE])
    answers.note("free", [])
    answers.note("  ", [Label.PRIVATE])
    assert answers.labels([AssistantMessage("kept")]) == {Label.PRIVATE}


def test_the_oldest_are_forgotten():
    """Only so many answers are remembered; one that is given again counts as new."""
    answers = Answers(most=2)
    for text in ("one", "two", "one", "three"):
        answers.note(text, [Label.PRIVATE])
    kept = [text for text in ("one", "two", "three") if answers.labels([AssistantMessage(text)])]
    assert kept == ["one", "three"]
