"""Tests for the approval dialog: questions, previews, answers."""

from dataclasses import replace

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.safety.approval import Approval, ApprovalRequest, CallPreview
from agentkit.safety.terminal_approver import ApprovalDialog

ASK = Decision(Verdict.ASK, "safety-level", "write_file changes files, so it needs approval.")
REQUEST = ApprovalRequest("agentkit", "write_file", {"path": "a", "content": "x\ny"}, ASK)
FLOW = ApprovalRequest(
    "agentkit", "fetch_url", {"url": "https://a.example/x"}, Decision(Verdict.ASK, "flow", "It leaks.")
)


class Person:
    """A person who gives the listed answers, and records the printed lines."""

    def __init__(self, *answers, **options):
        self.answers, self.told, self.styles, self.defaults = list(answers), [], [], []
        options = {"lasting": "in this chat", "in_workspace": "in this chat", **options}
        self.decide = ApprovalDialog(self.tell, self.ask, **options)

    def tell(self, text, style):
        """Store printed lines with their style."""
        self.told.append(text)
        self.styles.append(style)

    @property
    def screen(self):
        """Return all printed text."""
        return "\n".join(self.told)

    def ask(self, _question, default=""):
        """Return the next answer; raise an error in the list."""
        self.defaults.append(default)
        answer = self.answers.pop(0)
        if isinstance(answer, type):
            raise answer
        return answer


@pytest.mark.for_each(
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
def test_letter_answers_the_question(typed, answer):
    """y, r and a approve once, for the run and always; n or nothing denies, and words after n are the reason."""
    person = Person(typed)
    assert person.decide(REQUEST) == answer
    assert person.told[0] == "\nagentkit wants to call write_file"
    assert person.told[2] == "write_file changes files, so it needs your approval."


def test_long_question_repeats_the_call():
    """A long question repeats the name of the call right before the answer prompt."""
    long = ApprovalRequest("agentkit", "write_file", {"path": "a", "content": "\n" * 500}, ASK)
    person = Person("n")
    person.decide(long)
    assert person.told[3] == "agentkit wants to call write_file"


EDIT = CallPreview(
    ("changes a.py (3 lines)",), "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c", frozenset({"content"}), is_confined=True
)
CHANGE = ApprovalRequest("agentkit", "write_file", {"path": "a.py", "content": "x"}, ASK, "/srv", preview=EDIT)


def test_change_is_shown_as_a_coloured_diff():
    """The diff of the file replaces its arguments, and added and removed lines have colours."""
    person = Person("y")
    person.decide(CHANGE)
    lines = list(zip(person.told, person.styles, strict=True))
    assert lines[:7] == [
        ("\nagentkit wants to call write_file", "bold yellow"),
        ("in /srv\n  path: a.py\n  changes a.py (3 lines)", ""),
        ("  │ @@ -1,3 +1,3 @@", "cyan"),
        ("  │  a", ""),
        ("  │ -b", "red"),
        ("  │ +B", "green"),
        ("  │  c", ""),
    ]


def test_long_diff_can_be_paged():
    """A diff is truncated in the middle, and v shows all of it page by page until q or the end."""
    diff = "@@ -0,0 +1,300 @@\n" + "\n".join(f"+line {number}" for number in range(300))
    long = replace(CHANGE, preview=replace(EDIT, diff=diff))
    person = Person("v", *[""] * (306 // 22), "y")
    assert person.decide(long) is Approval.ONCE
    assert "  v  view all 306 lines" in person.screen
    assert all(f"+line {number}" in person.screen for number in range(300))
    quitter = Person("v", "q", "n")
    assert quitter.decide(long) is Approval.NO
    assert "+line 299" in quitter.screen
    assert "+line 150" not in quitter.screen


def test_all_changes_in_the_workspace_can_be_approved():
    """A call that only changes files of the workspace offers w, and a for all changes of its file."""
    person = Person("w")
    assert person.decide(CHANGE) is Approval.WORKSPACE
    assert "  w  all changes in this workspace, in this chat\n  a  always for write_file of 'a.py', in this chat" in (
        person.screen
    )
    protected = replace(CHANGE, decision=replace(ASK, rule="workspace.protected"))
    for request, person in (
        (REQUEST, Person("w", "n")),
        (protected, Person("w", "n")),
        (CHANGE, Person("w", "n", in_workspace="")),
    ):
        assert person.decide(request) is Approval.NO
        assert "  w  " not in person.screen


def test_always_is_offered_only_if_it_can_be_stored():
    """Without a place to store the answer, and for destructive calls, a is not offered."""
    destroys = replace(REQUEST, decision=replace(ASK, destroys="it deletes recursively."))
    for request, person in ((REQUEST, Person("a", "n", lasting="")), (destroys, Person("a", "n"))):
        assert person.decide(request) is Approval.NO
        assert "  a  " not in person.screen


def test_later_is_offered_only_if_the_run_can_wait():
    """With `can_wait`, l postpones the answer; otherwise it is an invalid answer."""
    assert Person("l", can_wait=True).decide(REQUEST) is Approval.LATER
    assert Person("l", "n").decide(REQUEST) is Approval.NO
    words = replace(REQUEST, decision=Decision(Verdict.ASK, "question", "Which?"))
    assert Person("", can_wait=True).decide(words) is Approval.LATER
    assert Person("").decide(words) is Approval.NO


@pytest.mark.parametrize("unclear", ["maybe", "yy", "y please", "always!"])
def test_invalid_input_repeats_the_question(unclear):
    """Other input is neither an approval nor a refusal."""
    person = Person(unclear, "y")
    assert person.decide(REQUEST) is Approval.ONCE
    assert person.told[-1].startswith("Answer with one of the letters")


def test_arguments_are_edited_as_json():
    """With e the arguments can be edited; invalid JSON is reported and can be corrected."""
    person = Person("e", '{"path": ', "[1]", '{"path": "b", "content": "z"}')
    assert person.decide(REQUEST) == {"path": "b", "content": "z"}
    assert person.defaults[1].startswith('{\n "path": "a"')
    assert person.defaults[2:] == ['{"path": ', "[1]"]
    assert any(text.startswith("This is not JSON: ") for text in person.told)
    assert person.told[-1] == 'Arguments are an object: {"name": value}'


def test_ctrl_d_while_editing_denies_the_call():
    """Ctrl-D while the arguments are edited denies the call; Ctrl-C stops the run."""
    assert Person("edit", EOFError).decide(REQUEST) is Approval.NO
    with pytest.raises(KeyboardInterrupt):
        Person(KeyboardInterrupt).decide(REQUEST)


def test_flow_rule_allows_single_approval_only():
    """A call stopped by the flow rule can only be approved once."""
    person = Person("a", "r", "y")
    assert person.decide(FLOW) is Approval.ONCE
    assert "  y  once\n  e  " in person.screen


def test_choices_state_which_calls_are_alike():
    """Calls to the same origin can be approved together."""
    request = ApprovalRequest("agentkit", "fetch_url", {"url": "https://a.example/x"}, ASK)
    for each, text in (
        (request, "r  this call to any address at https://a.example:443"),
        (REQUEST, "r  exactly this call"),
    ):
        person = Person("n")
        person.decide(each)
        assert text in person.screen
