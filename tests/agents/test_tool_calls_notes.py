"""Tests for notes that are added to tool results: repeats, changed arguments, and labels."""

from agentkit.agents.tool_calls import Repeats, ResultNotes
from agentkit.decisions import Label
from agentkit.events import ToolCallFinished
from agentkit.messages import ToolCall, ToolResult

CALL = ToolCall("id1", "look", '{"at": "door", "twice": true}')
AGAIN = "[Note: this call with these arguments has already returned this result; do something else, or answer.]"


def result(content="Closed.", status="ok", full_content=None):
    """Return a result of the tool."""
    return ToolResult("look", status, content, full_content=full_content)


def used(content="Closed.", arguments=CALL.arguments, name="look", **options):
    """Return a call with its result."""
    return ToolCallFinished(ToolCall("id0", name, arguments), result(content, **options))


def test_result_without_notes_is_unchanged():
    """A result without notes is unchanged."""
    assert ResultNotes(CALL).amend(result()) == result()
    assert ResultNotes(CALL, {"Closed.": 1}, 3).amend(result()) == result()
    assert ResultNotes(CALL, {"Closed.": 9}, None).amend(result()) == result()


def test_repeated_result_gets_a_note():
    """A repeated result gets a note when the limit is reached."""
    assert ResultNotes(CALL, {"Closed.": 2}, 3).amend(result()).content == f"Closed.\n\n{AGAIN}"


def test_first_result_is_not_reported_as_repeated():
    """The first result is not reported as repeated, however low the limit is."""
    assert ResultNotes(CALL, {}, 1).amend(result()).content == "Closed."
    assert "already returned" in ResultNotes(CALL, {"Closed.": 1}, 1).amend(result()).content


def test_changed_arguments_are_reported_in_a_note():
    """Arguments changed by a person are reported to the model in a note."""
    content = ResultNotes(CALL, {"Closed.": 2}, 3, is_edited=True).amend(result()).content
    assert content.startswith(
        f"Closed.\n\n[Note: a person changed the arguments of this call to {CALL.arguments}; this"
    )


def test_labels_of_the_source_are_added():
    """The labels of the source are added to the result."""
    assert ResultNotes(CALL, labels=frozenset({Label.PRIVATE})).amend(result()).labels == {Label.PRIVATE}


def test_repeats_are_counted_by_call_and_result():
    """Calls with equal arguments in another format are identical; other tools or results differ."""
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


def test_own_notes_are_ignored_in_comparisons():
    """Our notes are ignored when results are compared, but a tool's own notes are not."""
    edited = ResultNotes(CALL, is_edited=True).amend(result()).content
    again = ResultNotes(CALL, {"Closed.": 2}, 3).amend(result()).content
    own = "Closed.\n\n[Note: the key is under the mat.]"
    assert Repeats([used(), used(edited), used(again), used(own)]).of(CALL) == {"Closed.": 3, own: 1}


def test_long_results_are_compared_by_their_full_text():
    """Long results are compared by their full text, not by their handles."""
    full_text = "Closed. " * 1_000
    parts = [
        ResultNotes(ToolCall(f"id{number}", "look", "{}")).amend(result("Closed. …", full_content=full_text))
        for number in (1, 2)
    ]
    assert parts[0].content != parts[1].content
    calls = [ToolCallFinished(ToolCall("id", "look", "{}"), part) for part in parts]
    assert Repeats(calls).of(ToolCall("id3", "look", "{}")) == {full_text: 2}


def test_limit_is_reached_at_twice_its_number():
    """With a limit of three, the run ends at the sixth identical result."""
    calls = []
    repeats = Repeats(calls)
    for time in range(1, 7):
        calls.append(used())
        assert (repeats.exceeded(3) is None) == (time < 6)
        assert (repeats.exceeded(1) is None) == (time < 3)
    assert repeats.exceeded(3) == (6, "look")
    assert repeats.exceeded(None) is None


def test_earlier_calls_count_for_the_note_only():
    """Calls before resuming count for the note, but not for the limit."""
    calls = [used() for _ in range(6)]
    repeats = Repeats(calls)
    assert (repeats.of(CALL), repeats.exceeded(3)) == ({"Closed.": 6}, None)
    calls += [used() for _ in range(6)]
    assert repeats.exceeded(3) == (6, "look")
