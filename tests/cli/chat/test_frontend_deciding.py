"""What does a person answer in a conversation, and what is it taken for?"""

import pytest

from agentkit.cli.chat.frontend import ApprovalPrompt, choices
from agentkit.decisions import Decision, Verdict
from agentkit.safety.approval import Approval, ApprovalRequest

ASK = Decision(Verdict.ASK, "safety-level", "It changes files.")
REQUEST = ApprovalRequest("agentkit", "write_file", {"path": "a", "content": "x\ny"}, ASK)
FLOW = ApprovalRequest(
    "agentkit", "fetch_url", {"url": "https://a.example/x"}, Decision(Verdict.ASK, "flow", "It leaks.")
)


class Person:
    """Somebody who answers as a list says, and what they were told."""

    def __init__(self, *answers):
        self.answers, self.told, self.defaults = list(answers), [], []
        self.decide = ApprovalPrompt(lambda text, _style: self.told.append(text), self.ask)

    def ask(self, _question, default=""):
        """The next answer; an error in the list is raised."""
        self.defaults.append(default)
        answer = self.answers.pop(0)
        if isinstance(answer, type):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", Approval.ONCE),
        (" Yes ", Approval.ONCE),
        ("r", Approval.RUN),
        ("a", Approval.ALWAYS),
        ("n", Approval.NO),
        ("", Approval.NO),
        (EOFError, Approval.NO),
        ("n because it is late", "because it is late"),
        ("no: too late", "too late"),
    ],
)
def test_a_letter_answers(typed, answer):
    """A letter approves once, for the run or always; n and nothing are a no, and words behind n say why."""
    person = Person(typed)
    assert person.decide(REQUEST) == answer
    assert person.told[0] == "\nagentkit wants to call write_file"
    assert "Reason: It changes files." in person.told[1]


def test_a_long_question_says_what_it_is_about_once_more():
    """When its beginning may have left the screen, the call is named again, right before the answer."""
    long = ApprovalRequest("agentkit", "write_file", {"path": "a", "content": "\n" * 500}, ASK)
    person = Person("n")
    person.decide(long)
    assert person.told[2].startswith("agentkit wants to call write_file: 4")


@pytest.mark.parametrize("unclear", ["maybe", "yy", "y please", "always!"])
def test_what_is_not_understood_is_asked_again(unclear):
    """Anything else is no answer, neither a yes nor a no."""
    person = Person(unclear, "y")
    assert person.decide(REQUEST) is Approval.ONCE
    assert person.told[-1].startswith("Not understood.")


def test_always_is_for_the_whole_conversation():
    """What was approved for always is not asked again, whichever agent asks; another call is."""
    person = Person("a", "n")
    assert person.decide(REQUEST) is Approval.ALWAYS
    assert person.decide(REQUEST) is Approval.ONCE
    other = ApprovalRequest("agentkit", "write_file", {"path": "b", "content": "x\ny"}, ASK)
    assert person.decide(other) is Approval.NO


def test_for_the_run_is_the_runs_to_remember():
    """An approval for the run is not remembered here, where runs come and go."""
    person = Person("r", "n")
    assert person.decide(REQUEST) is Approval.RUN
    assert person.decide(REQUEST) is Approval.NO


def test_arguments_are_edited_as_json():
    """With e the arguments can be changed; what is no JSON object is said and asked again, as it was typed."""
    person = Person("e", '{"path": ', "[1]", '{"path": "b", "content": "z"}')
    assert person.decide(REQUEST) == {"path": "b", "content": "z"}
    assert person.defaults[1].startswith('{\n "path": "a"')
    assert person.defaults[2:] == ['{"path": ', "[1]"]
    assert any(told.startswith("That is no JSON: ") for told in person.told)
    assert person.told[-1] == 'Arguments are an object: {"name": value}'


def test_leaving_the_arguments_is_a_no():
    """Ctrl-D while the arguments are edited is a no; Ctrl-C stops the run."""
    assert Person("edit", EOFError).decide(REQUEST) is Approval.NO
    with pytest.raises(KeyboardInterrupt):
        Person(KeyboardInterrupt).decide(REQUEST)


def test_what_leaves_the_machine_is_approved_once_only():
    """What the flow rule asks about cannot be approved for more than one call."""
    person = Person("a", "r", "y")
    assert person.decide(FLOW) is Approval.ONCE
    assert choices(FLOW).splitlines()[1].startswith("e  ")


def test_choices_say_what_is_alike():
    """Calls to the same origin can be approved together."""
    request = ApprovalRequest("agentkit", "fetch_url", {"url": "https://a.example/x"}, ASK)
    assert "this call to any address at https://a.example:443" in choices(request)
    assert "exactly this call" in choices(REQUEST)
