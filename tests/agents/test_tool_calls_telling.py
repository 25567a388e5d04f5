"""What is a model told of a tool's result, beyond the result itself?"""

from agentkit.agents.tool_calls import Repeats, ResultNotes
from agentkit.decisions import Label
from agentkit.events import ToolCallFinished
from agentkit.messages import ToolCall, ToolResult

CALL = ToolCall("id1", "look", '{"at": "door", "twice": true}')
AGAIN = "[Note: this call with these arguments has already returned this result; do something else, or answer.]"


def result(content="Closed.", status="ok", whole=None):
    """A result of the tool."""
    return ToolResult("look", status, content, whole=whole)


def used(content="Closed.", arguments=CALL.arguments, name="look", **options):
    """A call that has its result."""
    return ToolCallFinished(ToolCall("id0", name, arguments), result(content, **options))


def test_result_is_told_as_it_is():
    """A result of which nothing else is to be said stays the same."""
    assert ResultNotes(CALL).amend(result()) == result()
    assert ResultNotes(CALL, {"Closed.": 1}, 3).amend(result()) == result()
    assert ResultNotes(CALL, {"Closed.": 9}, None).amend(result()) == result()


def test_repetition_is_told():
    """At the time that the limit names, the model is told that nothing has changed."""
    assert ResultNotes(CALL, {"Closed.": 2}, 3).amend(result()).content == f"Closed.\n\n{AGAIN}"


def test_first_time_is_no_repetition():
    """However low the limit is, a result that comes for the first time is not called a repetition."""
    assert ResultNotes(CALL, {}, 1).amend(result()).content == "Closed."
    assert "before" in ResultNotes(CALL, {"Closed.": 1}, 1).amend(result()).content


def test_change_by_a_person_is_told():
    """The model is told what a person has made of its arguments; a repetition is told beside it."""
    told = ResultNotes(CALL, {"Closed.": 2}, 3, is_edited=True).amend(result()).content
    assert told.startswith(f"Closed.\n\n[Note: a person changed the arguments of this call to {CALL.arguments}; this")


def test_labels_of_what_is_read_on_in_are_kept():
    """A result holds what the older output may hold from which it is taken."""
    assert ResultNotes(CALL, labels=frozenset({Label.PRIVATE})).amend(result()).labels == {Label.PRIVATE}


def test_repeats_are_counted_by_call_and_result():
    """The spelling of the arguments does not tell calls apart; another tool, argument or result does."""
    calls = [
        used(),
        used(arguments='{"twice":true,"at":"door"}'),
        used("Open."),
        used(arguments="{}"),
        used(name="touch"),
        used(arguments='{"at": "door", "twice": tr'),
        used(status="interrupted"),
    ]
    assert Repeats(calls).of(CALL) == {"Closed.": 2, "Open.": 1}
    assert Repeats(calls).of(ToolCall("id", "look", '{"at": "door", "twice": tr')) == {"Closed.": 1}
    assert Repeats(calls).of(ToolCall("id", "smell", "{}")) == {}


def test_our_own_notes_do_not_tell_results_apart():
    """A result is the same with and without our notes; a note that the tool itself wrote belongs to it."""
    edited = ResultNotes(CALL, is_edited=True).amend(result()).content
    again = ResultNotes(CALL, {"Closed.": 2}, 3).amend(result()).content
    own = "Closed.\n\n[Note: the key is under the mat.]"
    assert Repeats([used(), used(edited), used(again), used(own)]).of(CALL) == {"Closed.": 3, own: 1}


def test_handles_do_not_tell_results_apart():
    """A long result is known by its whole text, of which each call shows a part under a handle of its own."""
    whole = "Closed. " * 1_000
    parts = [
        ResultNotes(ToolCall(f"id{number}", "look", "{}")).amend(result("Closed. …", whole=whole)) for number in (1, 2)
    ]
    assert parts[0].content != parts[1].content
    calls = [ToolCallFinished(ToolCall("id", "look", "{}"), part) for part in parts]
    assert Repeats(calls).of(ToolCall("id3", "look", "{}")) == {whole: 2}


def test_limit_is_broken_as_many_times_after_the_note():
    """With a limit of three the model is told at the third time, and the run ends at the sixth."""
    calls = []
    repeats = Repeats(calls)
    for time in range(1, 7):
        calls.append(used())
        assert (repeats.broken(3) is None) == (time < 6)
        assert (repeats.broken(1) is None) == (time < 3)
    assert repeats.broken(3) == (6, "look")
    assert repeats.broken(None) is None


def test_what_was_before_counts_for_the_note_only():
    """When a run goes on, the model is told of what came before, and the limit counts from there."""
    calls = [used() for _ in range(6)]
    repeats = Repeats(calls)
    assert (repeats.of(CALL), repeats.broken(3)) == ({"Closed.": 6}, None)
    calls += [used() for _ in range(6)]
    assert repeats.broken(3) == (6, "look")
